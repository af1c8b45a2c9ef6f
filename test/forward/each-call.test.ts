/**
 * Engines whose senders lose any one call: to the disk, or a message of either side. The calls are those that a run makes: a start,
 * a batch and a stop, then the same with the cursor that they left. Each of them fails once, or is the last one before a crash or a
 * power cut, after which a new start finds the folder.
 */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openClickhouse } from '../../src/forward/destinations/clickhouse/clickhouse.ts';
import type { AskableDestination } from '../../src/forward/destinations/destination.ts';
import { openNats } from '../../src/forward/destinations/nats/nats.ts';
import { readCursor } from '../../src/forward/ledger/cursor.ts';
import { SOURCE } from '../support/forwarding.ts';
import { sampledCalls } from '../support/long.ts';
import { diskWith, FIRST } from '../support/segments.ts';
import { linesOf } from '../support/sent-lines.ts';
import { Table } from '../world/clickhouse.ts';
import { startScripted } from '../world/http-server.ts';
import { type NatsStub, startNatsStub } from '../world/nats-server.ts';
import { type SimulatedDisk, systemError } from '../world/simulated-disk.ts';
import { lettersOf, limits, startPipe, UPSTREAM } from './scripted.ts';

const NEVER = new Promise<never>(() => {});
const NOTHING_MORE = { entries: 'none', share: 0, behind: 'nothing' } as const;
const EVENTS = linesOf(
  Array.from({ length: 5 }, (_, at) => ({
    type: 'AssetObservation' as const,
    assetKey: ['orders'],
    partition: `${at + 1}`,
  })),
);
/** How many events the journal has at each start. */
const STARTS = [2, 5];

type How = 'fails' | 'crash' | 'power cut';

/** The calls of a run, one of which fails or is the last. */
class Calls {
  readonly made: string[] = [];
  readonly #at: number;
  readonly #how: How;
  #end: () => void = () => {};
  readonly ended = new Promise<void>((resolve) => {
    this.#end = resolve;
  });
  isOver = false;

  /** @param at the number of the call, from 1; 0 for none */
  constructor(at = 0, how: How = 'fails') {
    this.#at = at;
    this.#how = how;
  }

  /** @returns whether the call is made */
  passes(call: string): boolean {
    if (this.isOver) return false;
    this.made.push(call);
    if (this.#at === 0 || this.made.length < this.#at) return true;
    if (this.#how === 'fails') return this.made.length > this.#at;
    if (this.made.length === this.#at) return true;
    this.isOver = true;
    this.#end();
    return false;
  }

  /** What a process that is gone does with a destination. */
  destination(destination: AskableDestination): AskableDestination {
    const unlessOver = async <Found>(promise: Promise<Found>): Promise<Found> => {
      const found = await promise;
      return this.isOver ? NEVER : found;
    };
    return {
      ask: (signal) => unlessOver(destination.ask(signal)),
      send: (batch, signal) => unlessOver(destination.send(batch, signal)),
      haveFilesChanged: (signal) => destination.haveFilesChanged(signal),
      close: () => destination.close(),
    };
  }
}

interface Engine {
  readonly to: string;
  readonly open: () => AskableDestination;
  /** Partitions of the events, in the order in which they were stored. */
  readonly stored: () => string[];
  /** The calls of the process that runs. */
  calls: Calls;
}

const destination = { source: SOURCE, tokenHeader: 'Authorization', stamp: false, limits };

async function startNats(t: TestContext): Promise<Engine> {
  const stub: NatsStub = await startNatsStub(t, { passes: (message) => engine.calls.passes(message) });
  const engine: Engine = {
    to: stub.to,
    open: () => openNats({ ...destination, to: stub.to }),
    stored: () => stub.stored.map(({ payload }) => JSON.parse(`${payload}`).partition),
    calls: new Calls(),
  };
  return engine;
}

async function startClickhouse(t: TestContext): Promise<Engine> {
  const table = new Table();
  const { url } = await startScripted(t, (got) => {
    if (!engine.calls.passes(`request ${got.url}`)) return undefined;
    const answer = table.answer(got);
    return engine.calls.passes(`reply ${answer[0]}`) ? answer : undefined;
  });
  const to = `${url.replace('http:', 'clickhouse+http:')}/assets.events`;
  const engine: Engine = {
    to,
    open: () => openClickhouse({ ...destination, to }),
    stored: () => table.stored,
    calls: new Calls(),
  };
  return engine;
}

/** Sends the events of a journal that ends with one of them, and stops; or until the calls are over. */
async function live(engine: Engine, disk: SimulatedDisk, lastSeq: number): Promise<void> {
  const { calls, to } = engine;
  const [{ bytes }] = EVENTS as [(typeof EVENTS)[0]];
  disk.put(FIRST, bytes.subarray(0, EVENTS[lastSeq - 1]!.end + 1));
  disk.fault = (call, name) => {
    if (calls.passes(`${call} ${name}`)) return undefined;
    return calls.isOver ? NEVER : systemError('EIO', name);
  };
  const opened: AskableDestination[] = [];
  const open = () => {
    const one = calls.destination(engine.open());
    opened.push(one);
    return one;
  };
  const { pipe, ledger } = startPipe(disk, lastSeq, open, { destination: { to, ratePerSecond: 1_000_000 } });
  const isSettled = () => pipe.status.state === 'idle' && ledger.value.seq === lastSeq;
  for (let left = 10_000; !calls.isOver && !isSettled(); left -= 1) {
    assert.ok(left > 0, JSON.stringify(pipe.status));
    await sleep(1);
  }
  await Promise.race([calls.ended, pipe.close()]);
  for (const one of opened) one.close();
}

/** @returns the calls that were made, of which call `at` failed or was the last */
async function run(engine: Engine, at: number, how: How): Promise<readonly string[]> {
  const calls = new Calls(at, how);
  engine.calls = calls;
  let disk = diskWith({});
  for (const lastSeq of STARTS) if (!calls.isOver) await live(engine, disk, lastSeq);
  if (calls.isOver) disk = how === 'crash' ? disk.afterCrash() : disk.afterPowerCut(NOTHING_MORE);
  disk.fault = () => undefined;
  engine.calls = new Calls();
  const expected = EVENTS.map(({ event }) => event.partition);
  const about = `${how} at call ${at}, ${calls.made[at - 1]}`;
  const found = await readCursor(disk, UPSTREAM.name);
  const has = engine.stored().length;
  assert.ok(
    found.kind !== 'found' || found.value.seq <= has,
    `${about}: cursor ${JSON.stringify(found)}, ${has} stored`,
  );
  await live(engine, disk, EVENTS.length);
  assert.deepEqual([engine.stored(), await lettersOf(disk)], [expected, []], about);
  const last = await readCursor(disk.afterPowerCut(NOTHING_MORE), UPSTREAM.name);
  assert.equal(last.kind === 'found' && last.value.seq, EVENTS.length, about);
  return calls.made;
}

async function tryEachCall(start: () => Promise<Engine>): Promise<void> {
  const { length } = await run(await start(), 0, 'fails');
  const { first, step } = sampledCalls(6);
  for (const [index, how] of (['fails', 'crash', 'power cut'] as const).entries()) {
    for (let at = 1 + ((first + 2 * index) % step); at <= length; at += step) await run(await start(), at, how);
  }
}

test('if any call of a start, a batch or a stop with NATS fails or is the last, each event is stored once [each-call-1]', async (t) => {
  await tryEachCall(() => startNats(t));
});

test('if any call of a start, a batch or a stop with ClickHouse fails or is the last, each event is stored once', async (t) => {
  await tryEachCall(() => startClickhouse(t));
});
