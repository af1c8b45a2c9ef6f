/** Streams of events of a real service: what they show and when, how they begin again, and their limits. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type LogFile, openDisk } from '../../src/journal/disk.ts';
import { StreamClient, serveReads } from '../support/reading.ts';
import { record } from '../support/report.ts';
import { eventually } from '../support/tools.ts';
import { Wire } from '../support/wire.ts';

test('a stream shows an event only when its line is durable [reading-streams-1]', async (t) => {
  let release: (() => void) | undefined;
  const openSlow = (folder: string) => {
    const disk = openDisk(folder);
    const slow = (file: LogFile): LogFile => ({
      ...file,
      append: async (bytes, end) => {
        const written = await file.append(bytes, end);
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        return written;
      },
    });
    return {
      ...disk,
      createLog: async (name: string) => slow(await disk.createLog(name)),
      openLog: async (name: string) => slow(await disk.openLog(name)),
    };
  };
  const service = await serveReads(t, { parts: { openDisk: openSlow } });
  const stream = await StreamClient.open(`${service.url}/events?after_seq=0`);
  t.after(() => stream.close());
  const reported = service.report('a');
  await eventually('the write', () => release !== undefined);
  const lines = await (await service.get('/events')).text();
  await sleep(100); // there is no sign that nothing will come
  assert.deepEqual([stream.seqs, lines], [[], '']);
  release?.();
  await reported;
  await stream.until('the event', () => stream.seqs.length === 1);
});

test('at most 32 streams are open, apart from --max-connections, and one that ends makes room', async (t) => {
  const service = await serveReads(t, {
    args: ['--max-connections', '8'],
    limits: { streamCommentMs: 50 },
  });
  const streams: StreamClient[] = [];
  t.after(() => streams.map((stream) => stream.close()));
  for (let at = 0; at < 32; at += 1) streams.push(await StreamClient.open(`${service.url}/events`));
  await service.report('a');
  for (const stream of streams) await stream.until('the event', () => stream.seqs.length === 1);
  const refused = await StreamClient.open(`${service.url}/events`);
  assert.deepEqual([refused.status, refused.reply.headers['retry-after']], [503, '1']);
  assert.match(await (await service.get('/metrics')).text(), /^assetlog_streams 32$/m);
  const head = await fetch(`${service.url}/events`, { method: 'HEAD', headers: { accept: 'text/event-stream' } });
  assert.equal(head.status, 503);
  await streams[0]!.until('comments', () => streams[0]!.comments > 1);
  streams.pop()?.close();
  await eventually('space', async () => {
    const next = await StreamClient.open(`${service.url}/events`);
    streams.push(next);
    return next.status === 200;
  });
});

test('a client that does not read is disconnected, and delays no other one [reading-streams-4]', async (t) => {
  const limits = { streamStallMs: 5_000, deadlineCheckMs: 50 }; // the other one reads within that
  const service = await serveReads(t, { limits });
  const good = await StreamClient.open(`${service.url}/events`);
  const { port } = new URL(service.url);
  const stalled = await Wire.open(Number(port));
  stalled.socket.pause();
  stalled.send('GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n');
  await eventually('both', async () => /^assetlog_streams 2$/m.test(await (await service.get('/metrics')).text()));
  const body = { metadata: { long: 'x'.repeat(500_000) } };
  for (let at = 0; at < 40; at += 1) await record(service, 'observation/a', { body });
  await good.until('all events', () => good.seqs.length === 40);
  await eventually('the end of the other', async () =>
    /^assetlog_streams 1$/m.test(await (await service.get('/metrics')).text()),
  );
  good.close();
  stalled.close();
});

test('a stream follows a reset journal from its first event on, and so does a client that saw the old one', async (t) => {
  const service = await serveReads(t, { args: ['--test'] });
  const plain = await StreamClient.open(`${service.url}/events`);
  const some = await StreamClient.open(`${service.url}/events?key=b`);
  t.after(() => [plain, some].map((stream) => stream.close()));
  const before = ['a', 'b', 'a', 'b', 'a'];
  await service.report(...before);
  await plain.until('5 events', () => plain.seqs.length === 5);
  await some.until('2 events', () => some.seqs.length === 2);
  for (let round = 1; round <= 3; round += 1) {
    assert.equal((await fetch(`${service.url}/test/reset`, { method: 'POST' })).status, 200);
    await service.report('a', 'b');
    await plain.until('the new events', () => plain.seqs.length === 5 + 2 * round);
    await some.until('the new event', () => some.seqs.length === 2 + round);
  }
  const shown = ({ event, data }: { event: string; data: string }) => (event === 'reset' ? data : JSON.parse(data).seq);
  assert.deepEqual(plain.events.map(shown), [1, 2, 3, 4, 5, '{}', 1, 2, '{}', 1, 2, '{}', 1, 2]);
  assert.deepEqual(some.events.map(shown), [2, 4, '{}', 2, '{}', 2, '{}', 2]);
  const late = await StreamClient.open(`${service.url}/events`, { 'last-event-id': '5' });
  t.after(() => late.close());
  await late.until('the events', () => late.seqs.length === 2);
  assert.deepEqual(late.events.map(shown), ['{}', 1, 2]);
  assert.equal(late.lastId, '2');
  const next = await service.get('/events?after_seq=5', { accept: 'application/json' });
  assert.deepEqual(await next.json(), { events: [], next_after_seq: 2 });
});
