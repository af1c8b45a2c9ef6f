/** Asks services that have nothing left to do what they say about themselves, as monitoring does. */

import type { HttpReply } from '../../src/client/connection.ts';
import type { Machine, MachineJournal } from './machine.ts';
import type { Network } from './network.ts';
import { countOpen } from './oracle/letters-view.ts';
import type { Oracle } from './oracle/oracle.ts';
import { Incarnation, type World } from './world.ts';

interface Parts {
  readonly world: World;
  readonly network: Network;
  readonly oracle: Oracle;
  readonly machines: readonly Machine[];
}

interface ListedSource {
  readonly id: string;
  readonly last_seq: number;
  readonly lag_events: number | null;
}

/** Asks each service once, and breaks the life if what one says is not so. */
export async function askServices({ world, network, oracle, machines }: Parts): Promise<void> {
  const client = network.clientOf(new Incarnation(world, 'monitor', { offsetMs: 0 }), 'monitor');
  let left = 0;
  for (const machine of machines) {
    const ask = (path: string, problemOf: (reply: HttpReply) => string | undefined) => {
      left += 1;
      const call = client.call(new URL(`http://${machine.name}${path}`), { method: 'GET', timeoutMs: 30_000 });
      const problem = call.then(
        (reply) => (reply.status === 200 ? problemOf(reply) : `answers ${reply.status}`),
        (error: Error) => error.message,
      );
      void problem.then((found) => {
        left -= 1;
        if (found !== undefined) oracle.breaks(`${machine.name} at rest: ${path} ${found}`);
      });
    };
    ask('/readyz', () => undefined);
    if (machine.config.deployments !== '') continue; // these need tokens
    const [journal] = machine.journals as [MachineJournal];
    ask('/metrics', ({ body }) => wrongMetrics(journal, [...oracle.destinationsOf(journal).keys()], body));
    ask('/sources', ({ body }) => wrongSources(oracle.lastAt(journal), body));
  }
  await world.run(() => left === 0 || oracle.broken !== undefined);
}

/** How far destinations are, and their dead letters, are as in the folder. */
function wrongMetrics({ disk }: MachineJournal, destinations: readonly string[], text: string): string | undefined {
  for (const name of destinations) {
    const open = countOpen(disk.bytes(`dead-${name}.jsonl`));
    const right = { lag_events: 0, dead_letters: open };
    for (const [metric, value] of Object.entries(right)) {
      const [, shown] =
        new RegExp(`^assetlog_forward_${metric}\\{.*destination="${name}".*\\} (.*)$`, 'm').exec(text) ?? [];
      if (Number(shown) !== value) return `says ${shown} as ${metric} of ${name}, and it is ${value}`;
    }
  }
  return undefined;
}

/**
 * Each journal is listed at its last event or later ones that are lost, and is not behind.
 * @param last by the id of a journal: its last event that is there
 */
function wrongSources(last: ReadonlyMap<string, number>, body: string): string | undefined {
  const { sources }: { readonly sources: readonly ListedSource[] } = JSON.parse(body);
  for (const [id, seq] of last) {
    const listed = sources.find((source) => source.id === id);
    if (listed === undefined) return `lacks ${id}`;
    if (listed.last_seq < seq || (listed.lag_events ?? 0) > 0)
      return `says ${JSON.stringify(listed)}, and event ${seq} of it is there`;
  }
  return undefined;
}
