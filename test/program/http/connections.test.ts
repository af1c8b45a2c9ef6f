/** Connections: refused uploads, idle connections, clients that read nothing, and the cap. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../src/config/limits.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { connectionsOf } from '../../support/metrics.ts';
import { startService } from '../../support/program.ts';
import { serve, serveSimulated } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, get, post, Wire } from '../../support/wire.ts';
import { gate } from '../../world/gate.ts';

const TARGET = '/report_asset_materialization/';
const LIVE = get('/livez');

test('an endless refused upload is cut off', async (t) => {
  const limits = { discardMs: 300, discardBytesMax: 1_000_000, deadlineCheckMs: 50 };
  const { port } = await serve(t, { limits });
  for (const pauseMs of [1, 400]) {
    const upload = await Wire.open(port);
    upload.send(`POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n`);
    assert.equal((await upload.reply())?.status, 404);
    for (let sent = 0; sent < 100 && !upload.ended; sent += 1) {
      upload.send(Buffer.alloc(100_000));
      await sleep(pauseMs);
    }
    assert.equal(await upload.ends(), true, 'the upload was read without end');
    upload.close();
  }
});

test('--idle-timeout sets the idle time and the Keep-Alive header, and at the cap an idle connection is still closed', async (t) => {
  const own = { idleMs: 20_000, deadlineCheckMs: 20, evictableMs: 20 };
  const short = await serve(t, { limits: own, config: { idleTimeout: 1 } });
  const long = await serve(t, { limits: { ...own, idleMs: 20 }, args: ['--idle-timeout=7200', '--max-connections=1'] });
  const [soon, late] = await Promise.all([short, long].map(({ port }) => Wire.open(port)));
  assert.ok(soon !== undefined && late !== undefined);
  for (const wire of [soon, late]) wire.send(LIVE);
  assert.equal((await soon.reply())?.headers.get('keep-alive'), 'timeout=1');
  assert.equal((await late.reply())?.headers.get('keep-alive'), 'timeout=7200');
  assert.ok(await soon.ends());
  assert.ok(!late.ended);
  assert.equal((await ask(long.port, LIVE)).status, 200);
  assert.ok(await late.ends());
});

test('a connection that waits for a reply, or receives requests, is not idle', async (t) => {
  const { disk, port } = await serveSimulated(t, {
    limits: { idleMs: 2_500, deadlineCheckMs: 20 },
  });
  const wire = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? sleep(3_000) : undefined);
  wire.send(post(`${TARGET}slow`));
  assert.equal((await wire.reply())?.status, 200);
  disk.fault = () => undefined;
  for (let count = 0; count < 5; count += 1) {
    await sleep(600);
    wire.send(post(`${TARGET}quick`));
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('keep-alive')], [200, 'timeout=2']);
  }
  assert.equal(await wire.ends(), true);
});

test('a client that reads no replies is disconnected, whatever the idle timeout; a client that reads slowly is not [service-2]', async (t) => {
  const limits = { unreadMs: 5_000, deadlineCheckMs: 50, unansweredMax: 5_000 };
  const { port } = await serve(t, { limits, args: ['--idle-timeout', '7200'] });
  const documents = 'GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(3_000); // 67 MB, too large for all buffers
  const [unread, slow] = await Promise.all([Wire.open(port), Wire.open(port)]);
  for (const wire of [unread, slow]) {
    wire.send(LIVE); // a connected socket might not be accepted yet
    assert.equal((await wire.reply())?.status, 200);
    wire.socket.pause();
  }
  let read = 0;
  slow.socket.on('data', (text) => {
    read += text.length;
    slow.socket.pause();
  });
  slow.socket.pause();
  for (const wire of [unread, slow]) wire.send(documents);
  const beat = setInterval(() => slow.socket.resume(), 20);
  t.after(() => clearInterval(beat));
  await eventually('the end of the unread connection', async () => (await connectionsOf({ port })) <= 2);
  assert.equal(slow.socket.destroyed, false);
  const before = read;
  await eventually('more bytes for the slow reader', () => read > before);
  for (const wire of [unread, slow]) wire.close();
});

test('the last of too many unanswered requests ends its connection, and later requests are not recorded [service-3]', async (t) => {
  const { disk, port } = await serveSimulated(t, { limits: { discardMs: 300 } });
  const wire = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? sleep(100) : undefined);
  const max = limits.unansweredMax;
  wire.send(Array.from({ length: 200 }, (_, count) => post(`${TARGET}${count}`)).join(''));
  for (let count = 1; count <= max; count += 1) {
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('connection')], [200, count < max ? 'keep-alive' : 'close']);
  }
  assert.equal(await wire.ends(), true);
  wire.close();
  disk.fault = () => undefined;
  assert.equal((await ask(port, post(`${TARGET}after`))).status, 200);
  assert.equal(disk.text(segmentName(1)).split('\n').length, max + 2);
});

test('reading pauses while too many replies are pending, and continues when they are sent', async (t) => {
  const { disk, port } = await serveSimulated(t);
  const wire = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? sleep(50) : undefined);
  const body = JSON.stringify({ description: 'x'.repeat(5_000) }); // a dozen fit into one read of Node
  for (let count = 0; count < 150; count += 1) wire.send(post(`${TARGET}${count}`, body));
  for (let count = 0; count < 150; count += 1) {
    const reply = await wire.reply();
    assert.deepEqual([count, reply?.status, reply?.headers.get('connection')], [count, 200, 'keep-alive']);
  }
  wire.close();
});

test('at the cap the longest idle connection is closed for a new one, and no connection that waits for its reply', async (t) => {
  const limits = { evictableMs: 3_000, deadlineCheckMs: 20 };
  const { disk, port, notices } = await serveSimulated(t, { args: ['--max-connections', '3'], limits });
  const { opened: syncing, open: release } = gate();
  const waiting = await Wire.open(port);
  disk.fault = (call) => (call === 'sync' ? syncing : undefined);
  waiting.send(post(`${TARGET}waiting`));
  const oldest = await Wire.open(port);
  await sleep(100); // so the first is idle longer
  const younger = await Wire.open(port);
  await sleep(limits.evictableMs + 100); // both are idle long enough
  const newcomer = await Wire.open(port);
  assert.equal(await oldest.ends(), true);
  newcomer.send(LIVE);
  assert.equal((await newcomer.reply())?.status, 200);
  younger.send(LIVE);
  assert.equal((await younger.reply())?.status, 200);
  assert.equal(await (await Wire.open(port)).ends(), true, 'no connection was idle long enough');
  release();
  assert.equal((await waiting.reply())?.status, 200);
  assert.match(notices.join(''), /at the cap, the longest idle connection is closed for a new one.*"cap":3/);
  assert.match(notices.join(''), /connections over the cap are closed at once.*"cap":3/);
  for (const wire of [waiting, younger, newcomer]) wire.close();
});

test('HTTP stays strict if NODE_OPTIONS ask for a lenient parser', async (t) => {
  const service = await startService(t, { env: { NODE_OPTIONS: '--insecure-http-parser' } });
  for (const header of ['X: a\x01b', 'X: a\nY: b']) {
    const request = `POST /report_asset_observation/a HTTP/1.1\r\nHost: localhost\r\n${header}\r\n\r\n`;
    assert.equal((await ask(service.port, request)).status, 400, JSON.stringify(header));
  }
});
