/** Events gather after a request to a hub, and a stop, a by-hand action or a full request ends that. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sent, Shipment } from '../../../src/forward/destinations/destination.ts';
import { diskWith, FIRST, makeLines } from '../../support/segments.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import { SimulatedDisk } from '../../world/simulated-disk.ts';
import { type Bench, startPipe } from '../scripted.ts';

/** Longer than any test takes. */
const LONG_MS = 60_000;
const { lines } = makeLines(500);

/** Records events: the journal ends with one of them. */
function record({ disk, progress }: Pick<Bench, 'disk' | 'progress'>, seq: number): void {
  disk.put(FIRST, Buffer.concat(lines.slice(0, seq)));
  progress.recorded(disk.folder, seq + 1);
}

/** A hub that has the first event, a moment ago. */
async function startAfterOne(more: Parameters<typeof startPipe>[3] = {}, hub = new Model('hub')) {
  const disk = diskWith({ [FIRST]: Buffer.concat(lines.slice(0, 1)) });
  const { limits, ...options } = more;
  const bench = startPipe(disk, 1, () => hub, { ...options, limits: { forwardLingerMs: LONG_MS, ...limits } });
  await bench.untilDone();
  assert.deepEqual(hub.requests, [1], 'the first event after a pause is sent at once');
  return { ...bench, hub };
}

/** Waits until an event lingers. */
async function untilItLingers({ pipe }: Pick<Bench, 'pipe'>): Promise<void> {
  await eventually('it lingers', () => pipe.status.state === 'sending' && pipe.status.lag_events! > 0);
  await new Promise((resolve) => setTimeout(resolve, 30));
}

test('events that arrive during the pause after a request are sent together, and count as being sent', async () => {
  const bench = await startAfterOne({ limits: { forwardLingerMs: 600 } });
  const sentMs = performance.now();
  for (let seq = 2; seq <= 6; seq += 1) {
    record(bench, seq);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.deepEqual(bench.hub.requests, [1]);
  const { state, reason, seq, lag_events } = bench.pipe.status;
  assert.deepEqual([state, reason, seq, lag_events], ['sending', null, 1, 5]);
  await bench.untilDone();
  assert.ok(performance.now() - sentMs > 300);
  assert.deepEqual(
    [bench.hub.requests, bench.hub.ends],
    [
      [1, 2],
      [1, 6],
    ],
  );
  await new Promise((resolve) => setTimeout(resolve, 650));
  record(bench, 7);
  const laterMs = performance.now();
  await bench.untilDone();
  assert.ok(performance.now() - laterMs < 400, 'after a pause the next one leaves at once');
  await bench.pipe.close();
});

test('a stop ends the pause and sends the waiting events in a last request, also unread ones', async () => {
  const bench = await startAfterOne();
  record(bench, 2);
  await untilItLingers(bench);
  record(bench, 9);
  await bench.pipe.close();
  assert.deepEqual([bench.hub.recorded, bench.hub.requests], [upTo(9), [1, 2]]);
  assert.equal(bench.ledger.value.seq, 9);
});

test('a last request without an answer delays a stop by forwardStopMs, and is not repeated', async () => {
  class Silent extends Model {
    override send(batch: Shipment, signal: AbortSignal): Promise<Sent> {
      if (batch.lines[0]!.seq === 1) return super.send(batch, signal);
      this.requests.push(batch.lines[0]!.seq);
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve({ kind: 'again', reason: 'aborted' }));
      });
    }
  }
  const bench = await startAfterOne({ limits: { forwardStopMs: 200 } }, new Silent('hub'));
  record(bench, 2);
  await untilItLingers(bench);
  const begunMs = performance.now();
  await bench.pipe.close();
  const tookMs = performance.now() - begunMs;
  assert.ok(tookMs > 150 && tookMs < 10_000, `${tookMs} ms`);
  assert.deepEqual(bench.hub.requests, [1, 2]);
  assert.equal(bench.ledger.value.seq, 1);
});

test('a full batch is sent at once, and so is a backlog', async () => {
  // About 10 lines of a request.
  const limits = { forwardBatchBytes: lines[0]!.length * 10 };
  const bench = await startAfterOne({ limits });
  record(bench, 2);
  await untilItLingers(bench);
  record(bench, 400);
  await eventually('the backlog is sent', () => bench.hub.seq > 380);
  await bench.finish();
  assert.deepEqual(bench.hub.recorded, upTo(400));

  const disk = new SimulatedDisk();
  disk.put(FIRST, Buffer.concat(lines.slice(0, 25)));
  const hub = new Model('hub');
  const behind = startPipe(disk, 25, () => hub, { limits: { ...limits, forwardLingerMs: LONG_MS } });
  await behind.finish();
  assert.ok(hub.requests.length > 2, 'also the last part, which is not full');
});

test('lingerMs of a destination overrides the default, and plain destinations, hooks and engines do not linger', async () => {
  const bench = await startAfterOne({ destination: { lingerMs: 0 } });
  record(bench, 2);
  await bench.untilDone();
  await bench.pipe.close();
  const own = await startAfterOne({ destination: { lingerMs: LONG_MS }, limits: { forwardLingerMs: 0 } });
  record(own, 2);
  await untilItLingers(own);
  await own.pipe.close();
  for (const [kind, to] of [
    ['api', 'http://plain.example'],
    ['hook', 'hook+http://hook.example'],
    ['nats', 'nats://n1.example/ASSETLOG'],
    ['clickhouse', 'clickhouse+http://ch.example/assets.events'],
  ] as const) {
    const other = await startAfterOne({ destination: { to, ratePerSecond: 1_000_000 } }, new Model(kind));
    record(other, 2);
    await other.finish();
    assert.deepEqual(other.hub.recorded, [1, 2], kind);
  }
});

test('after a failed request no event lingers', async () => {
  const bench = await startAfterOne();
  bench.hub.answer = (what, seq) =>
    what === 'send' && seq === 2 && bench.hub.requests.length < 4 ? 'again' : 'record';
  record(bench, 2);
  await untilItLingers(bench);
  bench.pipe.tryNow();
  await bench.untilDone();
  assert.deepEqual(bench.hub.requests, [1, 2, 2, 2]);
  await bench.pipe.close();
});

test('with replies that wait for the destination no event lingers', async () => {
  const bench = await startAfterOne({ isAwaited: true });
  record(bench, 2);
  await bench.finish();
  assert.deepEqual(bench.hub.requests, [1, 2]);
});
