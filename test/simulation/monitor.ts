/** Asks services that have nothing left to do what they say about themselves, as monitoring does. */

import type { HttpReply } from '../../src/client/connection.ts';
import type { Machine, MachineJournal } from './machine.ts';
import type { Network } from './network.ts';
import { sourceOf } from './oracle/destinations.ts';
import type { JournalView } from './oracle/journal-view.ts';
import { lettersIn } from './oracle/letters-view.ts';
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
  const ids = machines.flatMap(({ journals }) => journals.map(sourceOf));
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
    const view = oracle.viewOf(journal);
    // What a restore or a repair has taken is missing for good if no journal has the id any more.
    if (!oracle.history.wasRestored && !view.wasBroken)
      ask('/sources', ({ body }) => wrongSources(view, new Set(ids), body));
  }
  await world.run(() => left === 0 || oracle.broken !== undefined);
}

/** How far destinations are, and their dead letters, are as in the folder. */
function wrongMetrics({ disk }: MachineJournal, destinations: readonly string[], text: string): string | undefined {
  for (const name of destinations) {
    const { open } = lettersIn(disk.bytes(`dead-${name}.jsonl`));
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
 * Each journal that it has events of is listed, at its last event or later ones that are lost, and is not behind.
 * @param ids that journals have now: one with a new id is silent under the old one
 */
function wrongSources(view: JournalView, ids: ReadonlySet<string | undefined>, body: string): string | undefined {
  const { sources }: { readonly sources: readonly ListedSource[] } = JSON.parse(body);
  for (const id of view.sources()) {
    const [...lines] = [...view.lines.values()].filter(({ from }) => from?.[0] === id);
    const last = Math.max(...lines.map(({ from }) => from![1]));
    const listed = sources.find((source) => source.id === id);
    if (listed === undefined) return `lacks ${id}`;
    if (listed.last_seq < last || (ids.has(id) && (listed.lag_events ?? 0) > 0))
      return `says ${JSON.stringify(listed)}, and event ${last} of it is there`;
  }
  return undefined;
}
