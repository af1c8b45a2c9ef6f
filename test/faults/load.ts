/** Clients that report without a pause, and a comparison of the journal with their replies. */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Load } from '../support/load.ts';
import { ask, post, Wire } from '../support/wire.ts';

const TARGET = '/report_asset_materialization/';

export interface LoadOptions {
  readonly clients: number;
  /** The prefix of every key, so that loads on one journal can be distinguished. */
  readonly name: string;
  /** The size of the metadata in each report. */
  readonly bodyBytes?: number;
  /** The pause of a client after any reply but 200. */
  readonly pauseMs?: number;
  /** The pause of a client after a 200. */
  readonly restMs?: number;
  /** Builds the request for a key, by default a materialization. */
  readonly requestFor?: (key: string) => string;
}

export function startLoad(port: number, options: LoadOptions): Load {
  const { clients, name, bodyBytes = 0, pauseMs = 20, restMs = 0 } = options;
  const body = bodyBytes === 0 ? undefined : JSON.stringify({ metadata: { filling: 'x'.repeat(bodyBytes) } });
  const requestFor = options.requestFor ?? ((key) => post(TARGET + key, body));

  return new Load(clients, async (client, load) => {
    let wire: Wire | undefined;
    for (let count = 0; load.isRunning; count += 1) {
      const key = `${name}.${client}.${count}`;
      let status = 0;
      try {
        wire ??= await Wire.open(port);
        wire.send(requestFor(key));
        status = (await wire.reply())?.status ?? 0;
      } catch {
        // no process listens
      }
      load.add(key, status);
      if (status === 200) {
        if (restMs > 0) await sleep(restMs);
        continue;
      }
      if (status === 0 || wire?.ended) {
        wire?.close();
        wire = undefined;
      }
      await sleep(pauseMs);
    }
    wire?.close();
  });
}

/** Sends one report. @returns its status, 0 if the connection ended without a reply */
export async function report(port: number, key: string): Promise<number> {
  return ask(port, post(TARGET + key)).then(
    ({ status }) => status,
    () => 0,
  );
}

export interface Comparison {
  readonly events: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** The first place where `seq` does not count up by one from 1. */
  readonly gapAt: number | undefined;
}

/** @param events of the whole journal, in order, from `eventsIn` or `eachEvent` */
export function compare(events: Iterable<Record<string, unknown>>, acknowledged: Iterable<string>): Comparison {
  const times = new Map<string, number>();
  let count = 0;
  let gapAt: number | undefined;
  for (const event of events) {
    const key = (event['asset_key'] as string[]).join('/');
    times.set(key, (times.get(key) ?? 0) + 1);
    count += 1;
    if (event['seq'] !== count) gapAt ??= count;
  }
  return {
    events: count,
    lost: [...acknowledged].filter((key) => !times.has(key)),
    doubled: [...times].filter(([, seen]) => seen > 1).map(([key]) => key),
    gapAt,
  };
}

/** Asserts that each acknowledged event is there once, and no seq is missing; other events can be there. */
export function assertOnce(events: Iterable<Record<string, unknown>>, acknowledged: Iterable<string>): void {
  const { lost, doubled, gapAt } = compare(events, acknowledged);
  assert.deepEqual({ lost, doubled, gapAt }, { lost: [], doubled: [], gapAt: undefined });
}

/** Asserts that exactly the acknowledged events are there, once each. */
export function assertOnly(events: Iterable<Record<string, unknown>>, acknowledged: Iterable<string>): void {
  const all = [...acknowledged];
  assert.deepEqual(compare(events, all), { events: all.length, lost: [], doubled: [], gapAt: undefined });
}
