/** Uploads: their memory, and refusals before their end. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { UnbufferedRequest } from '../../../src/http/socket/node-classes.ts';
import { memoryMib } from '../../support/memory.ts';
import { startService } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, post, Wire } from '../../support/wire.ts';

const TARGET = '/report_asset_materialization/';

/** Chunks of a body, without the last one. */
const inChunks = (body: string, bytes: number) =>
  Array.from(
    body.matchAll(new RegExp(`.{1,${bytes}}`, 'gs')),
    ([chunk]) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`,
  ).join('');

/** A request whose body follows in chunks. */
const chunkedTo = (target: string, type = 'application/json') =>
  `POST ${target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`;

test('a body in very many pieces takes no more memory than a body in a few', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const service = await startService(t);
  await ask(service.port, post(`${TARGET}a`));
  const before = memoryMib(service.pid, 'VmRSS');
  const body = `{"asset_key":"a","description":"${'x'.repeat(1_000_000)}"}`;
  const wires = await Promise.all(Array.from({ length: 8 }, () => Wire.open(service.port)));
  const pieces = inChunks(body, 16);
  for (const wire of wires) {
    wire.send(`${chunkedTo(TARGET)}${pieces}`);
  }
  for (const wire of wires) {
    wire.send('0\r\n\r\n');
    assert.equal((await wire.reply())?.status, 200);
    wire.close();
  }
  const grown = memoryMib(service.pid, 'VmHWM') - before;
  t.diagnostic(`${grown} MiB`);
  assert.ok(grown < 120, `it grew by ${grown} MiB for 8 MB of bodies`);
});

test('after too many tiny chunks the rest of a body is not parsed, whatever the reply [bodies-1]', async (t) => {
  const { port } = await serve(t, { limits: { unpaidPiecesMax: 100 } });
  const { mock } = t.mock.method(UnbufferedRequest.prototype, 'push');
  const read = 64 * 1024; // what Node reads at a time
  const tiny = inChunks('x'.repeat(400_000), 1);
  for (const [target, status] of [
    [TARGET, 413],
    ['/report_asset_batch/', 413],
    ['/nowhere', 404],
  ] as const) {
    const before = mock.callCount();
    const wire = await Wire.open(port);
    wire.send(`${chunkedTo(target)}${tiny}`);
    const reply = await wire.reply();
    assert.equal(reply?.status, status);
    if (status === 413) {
      assert.match(errorOf(reply), /^too many pieces of bodies have less than 16 bytes; send larger chunks/);
    }
    assert.equal(await wire.ends(), true);
    wire.send(tiny);
    await eventually('the rest is taken', () => wire.socket.writableLength === 0 || wire.socket.destroyed);
    assert.equal(wire.socket.errored, null, 'the connection is reset under a client that still sends');
    wire.close();
    const parsed = mock.callCount() - before;
    assert.ok(parsed <= (3 * read) / inChunks('x', 1).length, `${target}: ${parsed} chunks are parsed`);
  }
});

test('tiny chunks of several bodies add up, larger ones offset them, and no client that writes lines is refused', async (t) => {
  const { port } = await serve(t, { limits: { unpaidPiecesMax: 100 } });
  const wire = await Wire.open(port);
  const small = `{"asset_key":"${'a'.repeat(25)}"}`; // owes for 38
  const send = async (chunks: string, target = TARGET, type = 'application/json') => {
    wire.send(`${chunkedTo(target, type)}${chunks}0\r\n\r\n`);
    const reply = await wire.reply();
    return [reply?.status, reply?.headers.get('connection')];
  };
  for (let count = 0; count < 10; count += 1) {
    assert.deepEqual(await send(inChunks(small, 1)), [200, 'keep-alive']);
    assert.deepEqual(await send(inChunks(`${small}${' '.repeat(800)}`, 1_000)), [200, 'keep-alive']);
  }
  const line = '{"type":"observation","asset_key":"a"}\n';
  const lines = inChunks(line.repeat(2_000), line.length);
  assert.deepEqual(await send(lines, '/report_asset_batch/', 'application/x-ndjson'), [200, 'keep-alive']);
  assert.deepEqual(await send(inChunks(small, 1)), [200, 'keep-alive']);
  assert.deepEqual(await send(inChunks(small, 1)), [200, 'close'], 'a third one would be refused');
  assert.equal(await wire.ends(), true);
});

test('when upload memory is used up the longest stalled upload gets 408, and an upload with progress continues', async (t) => {
  const limits = { uploadBytesMax: 250_000, stalledUploadMs: 2_000, deadlineCheckMs: 20 };
  const { port } = await serve(t, { limits });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(100_000) });
  const open = post(TARGET, body).slice(0, -1_000);
  const [stalled, moving] = await Promise.all([Wire.open(port), Wire.open(port)]);
  stalled.send(open);
  moving.send(open);
  const beat = setInterval(() => moving.send('x'), 50);
  t.after(() => clearInterval(beat));
  await sleep(1.5 * limits.stalledUploadMs); // longer than the limit for a stalled upload
  const reply = await ask(port, post(TARGET, body));
  assert.equal(reply.status, 200, reply.body);
  const ended = await stalled.reply();
  assert.equal(ended?.status, 408);
  assert.match(errorOf(ended), /stalled while others needed its memory/);
  const other = await Wire.open(port);
  other.send(open);
  await sleep(10 * limits.deadlineCheckMs); // its bytes are read, and then there is no progress
  assert.equal((await ask(port, post(TARGET, body))).status, 503, 'no upload had stalled');
  assert.equal(moving.ended, false);
  for (const wire of [stalled, moving, other]) wire.close();
});

test('an upload without memory for its body gets 503 and is read to its end, and the service continues', async (t) => {
  // More than any machine can allocate, which causes the same error as a machine without memory.
  const { port, notices } = await serve(t, { limits: { bodyBytesMax: 2 ** 52, uploadBytesMax: 2 ** 52 } });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(300_000) });
  const wire = await Wire.open(port);
  wire.send(post(TARGET, body));
  const refused = await wire.reply();
  assert.equal(refused?.status, 503);
  assert.match(errorOf(refused), /^the service is short of memory; send the report again later$/);
  assert.equal(refused?.headers.get('retry-after'), '1');
  assert.equal(await wire.ends(), true);
  assert.match(notices.join(''), /a body could not be received and gets 503; is memory short\?/);
  assert.equal((await ask(port, post(TARGET, '{"asset_key":"a"}'))).status, 200);
});

test('garbage collections are requested while bodies arrive, accepted or discarded', async (t) => {
  let collections = 0;
  const collectGarbage = () => {
    collections += 1;
  };
  const { port } = await serve(t, { limits: { collectBytes: 100_000 }, parts: { collectGarbage } });
  const body = JSON.stringify({ asset_key: 'a', description: 'x'.repeat(50_000) });
  const collectionsAfter: number[] = [];
  for (let count = 0; count < 4; count += 1) {
    assert.equal((await ask(port, post(TARGET, body))).status, 200);
    collectionsAfter.push(collections);
  }
  assert.deepEqual(collectionsAfter, [0, 1, 1, 2]);
  assert.equal((await ask(port, post('/nowhere', body.repeat(2)))).status, 404);
  await eventually('a third collection', () => collections >= 3);
  assert.equal(collections, 3);
});
