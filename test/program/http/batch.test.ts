/** The batch endpoint of the program, over real sockets: a batch is recorded whole or not at all. */

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { batchTypes } from '../../../src/http/batch.ts';
import { gate } from '../../support/gate.ts';
import { rounds } from '../../support/long.ts';
import { limitFiles, withoutPrlimit } from '../../support/machine.ts';
import { memoryMib } from '../../support/memory.ts';
import { metricsOf } from '../../support/metrics.ts';
import { eventsIn, startService } from '../../support/program.ts';
import { FIRST } from '../../support/segments.ts';
import { serveSimulated } from '../../support/service.ts';
import type { SimulatedDisk } from '../../support/simulated-disk.ts';
import { eventually } from '../../support/tools.ts';
import { ask, get, Wire, type WireReply } from '../../support/wire.ts';

const BATCH = '/report_asset_batch/';
const NDJSON = batchTypes[0]!;
const MIB = 1024 * 1024;

interface Sent {
  readonly target?: string;
  readonly type?: string;
  readonly headers?: readonly string[];
  readonly chunkBytes?: number;
}

/** @returns the bytes of a request with a batch */
function requestOf(body: string | Buffer, { target = BATCH, type = NDJSON, headers = [], chunkBytes }: Sent = {}) {
  const bytes = Buffer.from(body);
  const framing = chunkBytes === undefined ? `Content-Length: ${bytes.length}` : 'Transfer-Encoding: chunked';
  const lines = [`POST ${target} HTTP/1.1`, 'Host: localhost', `Content-Type: ${type}`, framing, ...headers];
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
  if (chunkBytes === undefined) return Buffer.concat([head, bytes]);
  const chunks: Buffer[] = [head];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes);
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
  }
  return Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]);
}

function send({ port }: { readonly port: number }, body: string | Buffer, sent?: Sent): Promise<WireReply> {
  return ask(port, requestOf(body, sent));
}

function itemOf(name: string): string {
  return JSON.stringify({ type: 'observation', asset_key: name });
}

function namesOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
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

/** @returns a batch of exactly 1 MiB with `count` items, the last one padded */
function largestOf(count: number, filler = 'x'): string {
  const items = namesOf('k', count - 1).map(itemOf);
  const last = (text: string) =>
    JSON.stringify({ type: 'observation', asset_key: 'last', partition: 'p', description: text });
  const body = (text: string) => [...items, last(text)].join('\n');
  const padding = limits.bodyBytesMax - Buffer.byteLength(body(''));
  const bytes = Buffer.byteLength(filler);
  return body(filler.repeat(Math.floor(padding / bytes)) + 'x'.repeat(padding % bytes));
}

test('a 200 is sent only when the last line is durable', async (t) => {
  const { disk, port } = await serveSimulated(t);
  for (let round = 1; round <= 3; round += 1) {
    const first = gate();
    const later = gate();
    let syncs = 0;
    disk.fault = (call) => {
      if (call !== 'sync') return undefined;
      syncs += 1;
      return syncs === 1 ? first.opened : later.opened;
    };
    const wire = await Wire.open(port);
    t.after(() => wire.close());
    let reply: WireReply | undefined;
    wire.send(requestOf(linesOf(namesOf(`r${round}-`, 50))));
    const replied = wire.reply().then((one) => {
      reply = one;
    });
    await eventually('its lines are written', () => syncs > 0);
    assert.equal((await ask(port, get('/livez'))).status, 200);
    assert.equal(reply, undefined);
    first.open();
    await replied;
    assertRecorded(reply!, 50);
    assert.equal(durableLines(disk), 50 * round);
    later.open();
  }
});

test('a batch of the largest size whose lines become as long as possible is accepted', async (t) => {
  const service = await startService(t);
  // U+0085 has two bytes in the body and six in the line, and each item adds a whole line to the journal.
  const longest = largestOf(limits.batchItemsMax, '\u0085');
  assert.equal(Buffer.byteLength(longest), MIB);
  assertRecorded(await send(service, longest), limits.batchItemsMax);
  const { size } = statSync(join(service.data, FIRST));
  assert.ok(size > 3 * MIB && size < limits.tornBytesMax, `${size} bytes`);
});

test('a batch that could never be queued is a 413 instead of a 503, and the same items in parts are accepted', async (t) => {
  const service = await startService(t, { env: { NODE_OPTIONS: '--max-old-space-size=32 --max-semi-space-size=1' } });
  const longest = largestOf(limits.batchItemsMax, '\u0085');
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

test('a batch that is cut off anywhere is not recorded in part', async (t) => {
  const service = await startService(t);
  const body = linesOf(namesOf('k', 20));
  for (const request of [requestOf(body), requestOf(body, { chunkBytes: 50 })]) {
    for (let end = 1; end < request.length; end += 37) {
      const wire = await Wire.open(service.port);
      wire.send(request.subarray(0, end));
      wire.socket.end();
      const reply = await wire.reply();
      assert.ok(reply === undefined || reply.status >= 400, `cut at ${end}: ${reply?.status}`);
      wire.close();
    }
  }
  assertRecorded(await send(service, body), 20);
  assert.deepEqual(keysIn(service.data), namesOf('k', 20));
});

test('on a full disk a batch gets 503 and leaves no line, and is accepted when there is space [program-batch-2]', {
  skip: withoutPrlimit,
}, async (t) => {
  const service = await startService(t);
  const body = linesOf(namesOf('k', 400));
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
  assert.deepEqual(keysIn(service.data), ['before', ...namesOf('k', 400)]);
  const metrics = await metricsOf(service);
  assert.match(metrics, /^assetlog_events_total\{type="AssetObservation"\} 401$/m);
  assert.match(metrics, /^assetlog_request_items_count 2$/m);
});

test('16 concurrent batches of 10,000 items, repeated, need bounded memory', {
  skip: process.platform === 'linux' ? false : 'the memory of a process is read from /proc',
}, async (t) => {
  const service = await startService(t);
  const body = linesOf(namesOf('a-key-that-fills-a-mebibyte-with-ten-thousand-of-them-', limits.batchItemsMax));
  assert.ok(body.length > 0.9 * MIB && body.length <= MIB, `${body.length} bytes`);
  const wires = await Promise.all(namesOf('', 16).map(() => Wire.open(service.port)));
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

/** Like in the memory tests with large bodies: newer versions of Node let garbage grow further before they collect it. */
const MEMORY_MIB_MAX = Number(process.versions.node.split('.')[0]) <= 20 ? 300 : 450;

/** @returns the number of lines that a power cut would leave */
function durableLines(disk: SimulatedDisk): number {
  const text = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' }).text(FIRST);
  return text.split('\n').length - 1;
}
