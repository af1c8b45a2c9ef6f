/** `GET /events` of a real service. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { journalText } from '../support/program.ts';
import { type ReadService, StreamClient, serveReads } from '../support/reading.ts';
import { record } from '../support/report.ts';
import { eventually, upTo } from '../support/tools.ts';
import { post, Wire } from '../support/wire.ts';

const SMALL_FILES = ['--segment-bytes', '4096'];

async function json(service: ReadService, query: string): Promise<{ seqs: number[]; next: number }> {
  const reply = await service.get(`/events${query}`, { accept: 'application/json' });
  assert.equal(reply.status, 200);
  const { events, next_after_seq: next } = (await reply.json()) as {
    events: { seq: number }[];
    next_after_seq: number;
  };
  return { seqs: events.map(({ seq }) => seq), next };
}

test('/events returns the lines of the journal, byte for byte', async (t) => {
  const { url, data, report, get } = await serveReads(t);
  await report('a', 'b', 'c', 'd');
  const lines = journalText(data).split('\n');
  const reply = await get('/events');
  assert.equal(reply.headers.get('content-type'), 'application/x-ndjson');
  assert.equal(await reply.text(), journalText(data));
  assert.equal(await (await get('/events?after_seq=1&limit=2')).text(), `${lines[1]}\n${lines[2]}\n`);
  assert.equal(await (await get('/events?after_seq=4')).text(), '');
  const inJson = await get('/events?after_seq=2', { accept: 'application/json' });
  assert.equal(inJson.headers.get('content-type'), 'application/json');
  assert.equal(await inJson.text(), `{"events":[${lines[2]},${lines[3]}],"next_after_seq":4}`);
  const head = await fetch(`${url}/events`, { method: 'HEAD' });
  assert.deepEqual([head.status, await head.text()], [200, '']);
});

test('pages continue across segments, also if a filter matches few events', async (t) => {
  const service = await serveReads(t, { args: SMALL_FILES });
  const keys = Array.from({ length: 60 }, (_, index) => (index % 20 === 0 ? 'rare' : 'often'));
  await service.report(...keys);
  const seen: number[] = [];
  for (let after = 0; ; ) {
    const { seqs, next } = await json(service, `?after_seq=${after}&limit=7`);
    if (seqs.length === 0) break;
    assert.equal(next, seqs.at(-1));
    seen.push(...seqs);
    after = next;
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 60 }, (_, index) => index + 1),
  );
  assert.deepEqual(await json(service, '?key=rare'), { seqs: [1, 21, 41], next: 60 });
  assert.deepEqual(await json(service, '?key=rare&limit=2'), { seqs: [1, 21], next: 21 });
  assert.deepEqual(await json(service, '?last=3'), { seqs: [58, 59, 60], next: 60 });
  assert.deepEqual(await json(service, '?key=rare&last=2'), { seqs: [21, 41], next: 41 });
  assert.deepEqual(await json(service, '?key=rare&last=5'), { seqs: [1, 21, 41], next: 60 });
  assert.deepEqual(await json(service, '?after_seq=900'), { seqs: [], next: 60 });
});

test('a reading of removed events gets 410 with the first seq that is left, but one from the beginning does not', async (t) => {
  const service = await serveReads(t, { args: [...SMALL_FILES, '--retain-bytes', '16384'] });
  await service.report(...Array.from({ length: 150 }, () => 'a'));
  let first = 1;
  await eventually('retention', async () => {
    first = (await json(service, '?limit=1')).seqs[0] ?? 1;
    return first > 1;
  });
  const reply = await service.get('/events?after_seq=1');
  assert.equal(reply.status, 410);
  const { error, first_seq } = (await reply.json()) as { error: string; first_seq: number };
  assert.equal(first_seq, first);
  assert.match(error, new RegExp(`the first available one is ${first}: continue with after_seq=${first - 1}$`));
  assert.equal((await json(service, `?after_seq=${first - 1}&limit=1`)).seqs[0], first);
  assert.equal((await fetch(`${service.url}/events?after_seq=1`, { method: 'HEAD' })).status, 410);
  const stream = await StreamClient.open(`${service.url}/events?after_seq=1`);
  t.after(() => stream.close());
  await stream.until('the newest', () => stream.seqs.at(-1) === 150);
  assert.deepEqual(stream.events[0], { id: undefined, event: 'gap', data: `{"first":2,"last":${first - 1}}` });
  assert.deepEqual(stream.seqs, upTo(150, first));
});

/**
 * Asks for events while retention removes those of the first files: before a piece of a file is read, or after it.
 * @returns the reply, and the first seq that is there then
 */
async function askBesideRetention(
  t: TestContext,
  query: string,
  when: 'before' | 'after',
  accept = 'application/json',
) {
  let onRead = async () => {};
  const openOneDisk = (folder: string): Disk => {
    const disk = openDisk(folder);
    const read: Disk['read'] = async function* (...part) {
      const once = onRead;
      onRead = async () => {};
      if (when === 'before') await once();
      for await (const piece of disk.read(...part)) {
        await once();
        yield piece;
      }
    };
    return { ...disk, read };
  };
  const args = [...SMALL_FILES, '--retain-bytes', '16384'];
  const service = await serveReads(t, { args, parts: { openDisk: openOneDisk } });
  await service.report(...Array.from({ length: 40 }, () => 'a'));
  const files = () =>
    readdirSync(service.data)
      .filter((name) => name.endsWith('.jsonl'))
      .sort();
  const [, second, third] = files();
  onRead = async () => {
    await service.report(...Array.from({ length: 150 }, () => 'a'));
    await eventually('retention', () => !files().some((name) => name === third));
  };
  const secondSeq = Number(/[0-9]+/.exec(second ?? '')?.[0]);
  const reply = await service.get(query.replace('END', String(secondSeq - 1)), { accept });
  return { service, reply, secondSeq };
}

async function removedUpTo(reply: Response): Promise<number> {
  assert.equal(reply.status, 410);
  const { first_seq: first, error } = (await reply.json()) as { first_seq: number; error: string };
  assert.match(error, new RegExp(`continue with after_seq=${first - 1}$`));
  return first - 1;
}

test('a page ends before events that retention removes meanwhile, and the next one gets 410', async (t) => {
  for (const key of ['', '&key=a']) {
    const { service, reply, secondSeq } = await askBesideRetention(t, `/events?limit=1000${key}`, 'after');
    assert.equal(reply.status, 200);
    const page = (await reply.json()) as { events: { seq: number }[]; next_after_seq: number };
    assert.deepEqual(
      page.events.map(({ seq }) => seq),
      upTo(secondSeq - 1),
    );
    assert.equal(page.next_after_seq, secondSeq - 1);
    const next = await removedUpTo(await service.get(`/events?after_seq=${page.next_after_seq}`));
    assert.equal((await json(service, `?after_seq=${next}&limit=1`)).seqs[0], next + 1);
  }
});

test('a page that ends early skips no event', async (t) => {
  const { url, report } = await serveReads(t);
  await report('a', 'b', 'c');
  const wire = await Wire.open(Number(new URL(url).port));
  t.after(() => wire.close());
  wire.send('GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n');
  wire.socket.end(); // a client that has closed its side has often gone
  const { events, next_after_seq: next } = JSON.parse((await wire.reply())?.body ?? '');
  assert.equal(next, events.length);
});

test('a page whose first events are removed meanwhile gets 410, but not one from the beginning', async (t) => {
  for (const [accept, more] of [
    ['application/json', ''],
    ['application/x-ndjson', '&wait=5'],
    ['application/x-ndjson', '&key=never'],
  ] as const) {
    const { service, reply } = await askBesideRetention(t, `/events?after_seq=END${more}`, 'before', accept);
    const next = await removedUpTo(reply);
    assert.equal((await json(service, `?after_seq=${next}&limit=1`)).seqs[0], next + 1);
    assert.match(await (await service.get('/metrics')).text(), /requests_total\{endpoint="events",status="410"\} 1\n/);
  }
  const { service, reply } = await askBesideRetention(t, '/events?after_seq=0', 'before');
  const { seqs } = await json(service, '?after_seq=0&limit=3');
  const { events } = (await reply.json()) as { events: { seq: number }[] };
  assert.deepEqual(
    events.slice(0, 3).map(({ seq }) => seq),
    seqs,
  );
});

test('a long poll gets the next event, and an empty reply at its timeout or at a stop', async (t) => {
  const drainMs = 60_000;
  const service = await serveReads(t, { limits: { drainMs } });
  await service.report('a');
  const waiting = json(service, '?after_seq=1&wait=30&key=c');
  await service.report('b', 'c', 'd');
  assert.deepEqual(await waiting, { seqs: [3], next: 3 });
  assert.deepEqual(await json(service, '?after_seq=2&wait=30'), { seqs: [3, 4], next: 4 });
  const startedMs = performance.now();
  assert.deepEqual(await json(service, '?after_seq=4&wait=1'), { seqs: [], next: 4 });
  assert.ok(performance.now() - startedMs > 900);
  const wire = await Wire.open(Number(new URL(service.url).port)); // a client that keeps its connection
  t.after(() => wire.close());
  wire.send('GET /events?after_seq=4&wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await eventually('the poll', async () => /kind="lines"} 1\n/.test(await (await service.get('/metrics')).text()));
  const stopped = service.stop();
  assert.equal((await wire.reply())?.body, '');
  assert.ok(await wire.ends(drainMs / 2), 'its connection is closed before a stop cuts off what is left');
  wire.close();
  await stopped;
});

test('256 long polls block no report, and those that make room get an empty reply', async (t) => {
  const limits = { evictableMs: 60_000 }; // no reporter is idle for so long
  const service = await serveReads(t, { args: ['--max-connections', '257'], limits }); // one for the metrics
  const port = Number(new URL(service.url).port);
  await service.report('a');
  const reporters: Wire[] = [];
  const polls: Wire[] = [];
  t.after(() => [...polls, ...reporters].map((wire) => wire.close()));
  for (let at = 0; at < 256; at += 1) {
    const wire = await Wire.open(port);
    polls.push(wire);
    const form = at % 2 === 0 ? 'Accept: application/json\r\n' : '';
    wire.send(`GET /events?after_seq=1&wait=60&key=never HTTP/1.1\r\nHost: localhost\r\n${form}\r\n`);
  }
  await eventually('the polls', async () => {
    const metrics = await (await service.get('/metrics')).text();
    return ['json', 'lines'].every((form) => metrics.includes(`kind="${form}"} 128\n`));
  });
  reporters.push(...(await Promise.all(Array.from({ length: 251 }, () => Wire.open(port)))));
  for (const wire of reporters) wire.send(post('/report_asset_observation/a'));
  for (const wire of reporters) assert.equal((await wire.reply())?.status, 200);
  // Whichever they are: one that looks at a new event waits for less long than the others from then on.
  await eventually('the replies', () => polls.filter((wire) => wire.ended).length >= 250);
  let ended = 0;
  for (const [at, wire] of polls.entries()) {
    if (!wire.ended) continue;
    const reply = (await wire.reply())!;
    ended += 1;
    assert.deepEqual([reply.status, reply.headers.get('connection')], [200, 'close']);
    assert.match(reply.body, at % 2 === 0 ? /^\{"events":\[\],"next_after_seq":\d+\}$/ : /^$/);
  }
  assert.ok(ended >= 250 && ended < 256, `${ended} polls ended`);
});

test('a stream has the events from now on as server-sent events, and earlier ones on request', async (t) => {
  const service = await serveReads(t);
  await service.report('a', 'b');
  const reply = await service.get('/events', { accept: 'text/event-stream' });
  assert.equal(reply.headers.get('content-type'), 'text/event-stream');
  assert.equal(reply.headers.get('x-accel-buffering'), 'no');
  await reply.body?.cancel();
  const stream = await StreamClient.open(`${service.url}/events`);
  const all = await StreamClient.open(`${service.url}/events?after_seq=0`);
  const some = await StreamClient.open(`${service.url}/events?key=c&last=1`);
  const again = await StreamClient.open(`${service.url}/events?after_seq=0`, { 'last-event-id': '1' });
  t.after(() => [stream, all, some, again].map((one) => one.close()));
  await all.until('what was there', () => all.seqs.length === 2);
  await service.report('c', 'd');
  await stream.until('what came', () => stream.seqs.length === 2);
  const line = readFileSync(join(service.data, 'events-00000000000000000001.jsonl'), 'utf8').split('\n')[2];
  assert.deepEqual(stream.events[0], { id: '3', event: 'AssetObservation', data: line });
  assert.ok(stream.retryMs >= limits.streamRetryMs && stream.retryMs <= limits.streamRetryMsMax, `${stream.retryMs}`);
  await all.until('all', () => all.seqs.length === 4);
  await again.until('the rest', () => again.seqs.length === 3);
  assert.deepEqual([all.seqs, some.seqs, again.seqs], [[1, 2, 3, 4], [3], [2, 3, 4]]);
});

test('a stream with last begins with the newest events, each once, also beyond the memory limit', async (t) => {
  for (const readTurnBytes of [limits.readTurnBytes, 250]) {
    const service = await serveReads(t, { args: SMALL_FILES, limits: { ...limits, readTurnBytes } });
    await service.report('b', ...Array.from({ length: 40 }, () => 'a'), 'b', 'a');
    const table: readonly (readonly [string, number[]])[] = [
      ['last=4', [40, 41, 42, 43]],
      ['last=3&key=b', [1, 42]],
      ['last=1&key=b&after_seq=1', [42]],
      ['last=3&key=none', []],
    ];
    const streams = await Promise.all(table.map(([query]) => StreamClient.open(`${service.url}/events?${query}`)));
    t.after(() => streams.map((stream) => stream.close()));
    await service.report('b', 'none');
    for (const [index, [query, before]] of table.entries()) {
      const later = [44, 45].filter((seq) => !query.includes('key') || (seq === 44) === query.includes('key=b'));
      await streams[index]!.until(query, () => streams[index]!.seqs.at(-1) === later.at(-1));
      assert.deepEqual(streams[index]!.seqs, [...before, ...later], query);
    }
  }
});

test('events are filtered by id, by severity and up to a seq, at which a long poll does not wait', async (t) => {
  const service = await serveReads(t, { args: SMALL_FILES });
  await service.report(...Array.from({ length: 40 }, () => 'a'));
  for (const severity of ['WARN', 'ERROR'])
    await record(service, `check/a?check_name=x&passed=false&severity=${severity}`);
  const [{ id }] = JSON.parse(`[${await (await service.get('/events?after_seq=16&limit=1')).text()}]`);
  const table: readonly (readonly [query: string, seqs: number[], next: number])[] = [
    ['until_seq=3', [1, 2, 3], 42],
    ['until_seq=3&limit=2', [1, 2], 2],
    ['until_seq=38&last=2', [37, 38], 38],
    ['until_seq=38&after_seq=36&key=a', [37, 38], 42],
    ['until_seq=38&after_seq=38', [], 42],
    [`id=${id}`, [17], 42],
    [`id=${id}&until_seq=16`, [], 42],
    ['severity=WARN', [41], 42],
    ['severity=ERROR&type=check', [42], 42],
  ];
  for (const [query, seqs, next] of table) assert.deepEqual(await json(service, `?${query}`), { seqs, next }, query);
  for (const bounds of ['after_seq=40&until_seq=38', 'after_seq=42&until_seq=42', 'after_seq=0&until_seq=0']) {
    const signal = AbortSignal.timeout(30_000);
    assert.equal(await (await fetch(`${service.url}/events?wait=60&${bounds}`, { signal })).text(), '', bounds);
  }
  const bounded = await StreamClient.open(`${service.url}/events?after_seq=40&until_seq=43`);
  t.after(() => bounded.close());
  await service.report('b', 'b');
  await bounded.until('the last one', () => bounded.seqs.length === 3);
  assert.deepEqual(bounded.seqs, [41, 42, 43]);
});
