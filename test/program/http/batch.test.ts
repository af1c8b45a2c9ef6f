/** The batch endpoint of the program: the largest batches, what many of them cost, and a full disk. */

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { batchTypes } from '../../../src/http/batch.ts';
import { rounds } from '../../support/long.ts';
import { limitFiles, withoutPrlimit } from '../../support/machine.ts';
import { memoryMib } from '../../support/memory.ts';
import { metricsOf } from '../../support/metrics.ts';
import { eventsIn, startService } from '../../support/program.ts';
import { named } from '../../support/report.ts';
import { FIRST } from '../../support/segments.ts';
import { ask, post, Wire, type WireReply } from '../../support/wire.ts';

const MIB = 1024 * 1024;
/** Like in the memory tests with large bodies: newer versions of Node let garbage grow further before they collect it. */
const MEMORY_MIB_MAX = Number(process.versions.node.split('.')[0]) <= 20 ? 300 : 450;

function requestOf(body: string): string {
  return post('/report_asset_batch/', body).replace('application/json', batchTypes[0]!);
}

function send({ port }: { readonly port: number }, body: string): Promise<WireReply> {
  return ask(port, requestOf(body));
}

function itemOf(name: string): string {
  return JSON.stringify({ type: 'observation', asset_key: name });
}

function linesOf(names: readonly string[]): string {
  return names.map(itemOf).join('\n');
}

function keysIn(data: string): unknown[] {
  return eventsIn(data).map(({ asset_key: key }) => (key as string[])[0]);
}

function assertRecorded({ status, body }: WireReply, count: number): void {
  assert.deepEqual([status, body], [200, JSON.stringify({ recorded: count })]);
}

/** A batch of exactly 1 MiB with as many items as it may have. U+0085 has two bytes here, and six in a line. */
function longestBatch(): string {
  const items = named('k', limits.batchItemsMax - 1).map(itemOf);
  const last = { type: 'observation', asset_key: 'last', partition: 'p' };
  const body = (description: string) => [...items, JSON.stringify({ ...last, description })].join('\n');
  const padding = limits.bodyBytesMax - Buffer.byteLength(body(''));
  return body('\u0085'.repeat(Math.floor(padding / 2)) + 'x'.repeat(padding % 2));
}

test('a batch of the largest size whose lines become as long as possible is accepted', async (t) => {
  const service = await startService(t);
  const longest = longestBatch(); // each item adds a whole line to the journal
  assert.equal(Buffer.byteLength(longest), MIB);
  assertRecorded(await send(service, longest), limits.batchItemsMax);
  const { size } = statSync(join(service.data, FIRST));
  assert.ok(size > 3 * MIB && size < limits.tornBytesMax, `${size} bytes`);
});

test('a batch that could never be queued is a 413 instead of a 503, and the same items in parts are accepted', async (t) => {
  const service = await startService(t, { env: { NODE_OPTIONS: '--max-old-space-size=32 --max-semi-space-size=1' } });
  const longest = longestBatch();
  const { status, body, headers } = await send(service, longest);
  assert.equal(status, 413);
  assert.match(body, /^\{"error":"the 10000 events take \d+ bytes of memory, .*; send them in parts"/);
  assert.equal(headers.get('retry-after'), undefined);
  assert.equal(service.events().length, 0);
  const lines = longest.split('\n');
  for (const part of [lines.slice(0, 5_000), lines.slice(5_000)]) {
    assertRecorded(await send(service, part.join('\n')), 5_000);
  }
});

test('on a full disk a batch gets 503 and leaves no line, and is accepted when there is space', {
  skip: withoutPrlimit,
}, async (t) => {
  const service = await startService(t);
  const body = linesOf(named('k', 400));
  assertRecorded(await send(service, linesOf(['before'])), 1);
  const file = join(service.data, FIRST);
  const { size } = statSync(file);
  // A part of the batch fits, so some of its lines could be recorded.
  limitFiles(service, size + 50_000);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const { status, body: problem, headers } = await send(service, body);
    assert.deepEqual([status, headers.get('retry-after')], [503, '1'], problem);
    assert.equal(statSync(file).size, size);
  }
  limitFiles(service, 'unlimited');
  assertRecorded(await send(service, body), 400);
  assert.deepEqual(keysIn(service.data), ['before', ...named('k', 400)]);
  const metrics = await metricsOf(service);
  assert.match(metrics, /^assetlog_events_total\{type="AssetObservation"\} 401$/m);
  assert.match(metrics, /^assetlog_request_items_count 2$/m);
});

test('16 concurrent batches of 10,000 items, repeated, take bounded memory', {
  skip: process.platform === 'linux' ? false : 'the memory of a process is read from /proc',
}, async (t) => {
  const service = await startService(t);
  const body = linesOf(named('a-key-that-fills-a-mebibyte-with-ten-thousand-of-them-', limits.batchItemsMax));
  assert.ok(body.length > 0.9 * MIB && body.length <= MIB, `${body.length} bytes`);
  const wires = await Promise.all(named('', 16).map(() => Wire.open(service.port)));
  const request = requestOf(body);
  let [recorded, refused] = [0, 0];
  for (let round = 0; round < rounds({ long: 5, short: 3 }); round += 1) {
    for (const wire of wires) wire.send(request);
    for (const wire of wires) {
      const status = (await wire.reply())?.status;
      assert.ok(status === 200 || status === 503, `${status}`);
      if (status === 200) recorded += 1;
      else refused += 1;
    }
  }
  for (const wire of wires) wire.close();
  const peakMib = memoryMib(service.pid);
  t.diagnostic(`peak ${peakMib} MiB, ${recorded} recorded, ${refused} refused`);
  assert.ok(recorded > 0);
  const metrics = await metricsOf(service);
  assert.match(metrics, new RegExp(`^assetlog_last_seq ${recorded * limits.batchItemsMax}$`, 'm'));
  assert.ok(peakMib < MEMORY_MIB_MAX, `the peak was ${peakMib} MiB`);
});
