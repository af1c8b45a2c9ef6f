/** What readings hold: files of clients that have gone, and memory for clients that read nothing. */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { bytesOf } from '../../src/journal/look/reading.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { ReadableJournals } from '../../src/reading/journals.ts';
import { piecesOf } from '../../src/reading/pieces.ts';
import { readExisting } from '../../src/reading/tail.ts';
import { newFolder, type Scope } from '../support/program.ts';
import { StreamClient, serveReads } from '../support/reading.ts';
import { diskWith, FIRST, makeLines, plainEvent, quiet } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';
import { Wire } from '../support/wire.ts';

const SHORT = 'x'.repeat(20_000);
const LONG = 'x'.repeat(800_000);
/** More lines than the kernel takes for a client that reads nothing. */
const MANY = 40;
const MANY_SHORT = 1_600;
const withoutProc = process.platform !== 'linux' && 'needs /proc';

/** A service whose journal has lines with this description, and how many files its readings have open. */
async function serveCounted(t: Scope, changed: Partial<Limits>, lines: number, description: string) {
  const data = newFolder(t);
  const eventOf = (seq: number) => ({ ...plainEvent(seq), description });
  writeFileSync(join(data, FIRST), makeLines(lines, undefined, eventOf).bytes);
  const open = { files: 0 };
  const before = await serveReads(t, { data });
  await eventually('the state of the assets is read', async () => (await before.get('/assets')).status === 200);
  await before.stop();
  const limits = { ...standardLimits, ...changed };
  const openCounted = (folder: string) => {
    const disk = openDisk(folder);
    const read = async function* (...args: Parameters<typeof disk.read>) {
      open.files += 1;
      try {
        yield* disk.read(...args);
      } finally {
        open.files -= 1;
      }
    };
    return { ...disk, read };
  };
  const service = await serveReads(t, { data, limits, parts: { openDisk: openCounted } });
  return { ...service, open, port: Number(new URL(service.url).port) };
}

/** A client that reads nothing. */
async function askDeaf(t: Scope, port: number, target = '/events?limit=1000'): Promise<Wire> {
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  wire.socket.pause();
  wire.send(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return wire;
}

test('a reading whose client has gone closes its file while it waits for a turn', async (t) => {
  // A turn in twenty seconds or more, while reports arrive.
  const { open, port } = await serveCounted(
    t,
    { readTimePercent: 0.000_01, readIdlePercent: 0, readIdleMs: 60_000 },
    5,
    LONG,
  );
  await eventually('the state of the assets, which waits for a turn with a file open', () => open.files === 1);
  const wires: Wire[] = [];
  for (let at = 0; at < 8; at += 1) wires.push(await askDeaf(t, port));
  await eventually('the readings', () => open.files > 1);
  for (const wire of wires) wire.close();
  await eventually('no further file', () => open.files === 1, 15_000);
});

test('a reading closes its file when its client, which reads nothing, ends the connection', {
  skip: withoutProc,
}, async (t) => {
  const service = await serveCounted(t, { streamStallMs: 600_000 }, MANY_SHORT, SHORT);
  const files = () =>
    readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).startsWith(service.data);
      } catch {
        return false; // it is closed
      }
    }).length;
  // Until then a file of the journal is open, for longer than two samples on a busy machine.
  await eventually(
    'the state of the assets is read',
    async () => (await service.get('/assets?limit=1')).status === 200,
  );
  let before = -1;
  await eventually('the state of the assets is written', async () => {
    const last = before;
    before = files();
    await sleep(200);
    return before === last && before === files();
  });
  const wire = await askDeaf(t, service.port);
  const sent = async () =>
    /^assetlog_read_events_total.*$/m.exec(await (await service.get('/metrics')).text())?.[0] ?? '';
  let last = '';
  await eventually('that nothing more is sent', async () => {
    const earlier = last;
    await sleep(200);
    last = await sent();
    return files() > before && earlier === last;
  });
  wire.socket.end(); // half of the connection: the client could still read
  await eventually('no further file', () => files() === before);
  wire.close();
});

test('a long poll that got its event leaves no file open', async (t) => {
  const service = await serveCounted(t, {}, 1, '');
  for (let seq = 1; seq < 20; seq += 1) {
    const waiting = service.get(`/events?after_seq=${seq}&wait=30`);
    await service.report('a');
    assert.match(await (await waiting).text(), /^{/);
  }
  await eventually('no open file', () => service.open.files === 0, 15_000);
});

test('a reading beyond the memory limit gets 503, and readings that wait for events take no memory [limits-2]', async (t) => {
  const service = await serveCounted(t, { readBytesMax: 2 * 3 * standardLimits.readTurnBytes }, MANY, LONG);
  const streams = await Promise.all([1, 2, 3].map(() => StreamClient.open(`${service.url}/events`)));
  t.after(() => streams.map((stream) => stream.close()));
  const polls = [1, 2, 3].map(() => service.get(`/events?after_seq=${MANY}&wait=30`));
  const deaf = [await askDeaf(t, service.port), await askDeaf(t, service.port)];
  await eventually('both in a long line, with the journal and the line open', () => service.open.files === 4);
  for (const target of ['/events?last=1', '/assets', '/refusals']) {
    await eventually('503', async () => {
      const reply = await service.get(target);
      await reply.arrayBuffer();
      return reply.status === 503 && reply.headers.get('retry-after') === '1';
    });
  }
  deaf[0]!.close();
  await eventually('memory for another reading', async () => (await service.get('/events?last=1')).status === 200);
  await service.report('a');
  for (const poll of polls) assert.match(await (await poll).text(), new RegExp(`"seq":${MANY + 1},`));
  for (const stream of streams) await stream.until('the event', () => stream.seqs.at(-1) === MANY + 1);
  deaf[1]!.close();
});

test('while reports arrive every reading waits for its turn', async (t) => {
  const service = await serveCounted(t, { readTimePercent: 0.000_1, readIdlePercent: 0, readIdleMs: 600_000 }, 5, '');
  const ending = new AbortController();
  t.after(() => ending.abort());
  const answered: string[] = [];
  const headers = { Accept: 'text/html' };
  const ask = (target: string) => {
    const asked = fetch(`${service.url}${target}`, { signal: ending.signal, headers }).then((reply) =>
      reply.arrayBuffer(),
    );
    asked.then(() => answered.push(target)).catch(() => {}); // aborted
    return asked;
  };
  const beganMs = performance.now();
  await ask('/metrics'); // before reports arrive
  let slowestMs = Math.max(100, performance.now() - beganMs);
  await service.report('a');
  const isAnswered = async (asked: Promise<unknown>) => {
    const askedMs = performance.now();
    const isIt = await Promise.race([asked.then(() => true), sleep(10 * slowestMs, false)]);
    if (isIt) slowestMs = Math.max(slowestMs, performance.now() - askedMs);
    return isIt;
  };
  while (await isAnswered(ask('/metrics'))); // until what was saved is used up
  const before = [...answered];
  const ofHub = `/forward/${randomUUID()}`;
  for (const target of ['/events', '/assets', '/sources', '/refusals', '/metrics', '/', ofHub]) ask(target);
  for (let count = 0; count < 5; count += 1) await service.report('a');
  assert.ok(before.length > 0);
  assert.deepEqual(answered, before);
});

test('long lines are in memory one at a time, and sent in chunks, byte for byte', async () => {
  const eventOf = (seq: number) => ({ ...plainEvent(seq), ...(seq % 3 === 1 && { description: LONG }) });
  const { bytes } = makeLines(9, undefined, eventOf);
  const disk = diskWith({ [FIRST]: bytes });
  /** Readers that hold the beginning of a long line. */
  let [inside, insideMax] = [0, 0];
  const read = async function* (name: string, start?: number, end?: number) {
    let isInside = false;
    for await (const whole of disk.read(name, start, end)) {
      for (let at = 0; at < whole.length; at += 1_000) {
        const chunk = whole.subarray(at, at + 1_000);
        const isEnd = chunk.includes(0x0a);
        if (end !== undefined) {
          yield chunk; // a line is read once more
          continue;
        }
        if (isInside && isEnd) inside -= 1;
        if (isEnd) isInside = false;
        yield chunk;
        if (!isEnd && !isInside) {
          inside += 1;
          isInside = true;
          insideMax = Math.max(insideMax, inside);
        }
      }
    }
    if (isInside) inside -= 1;
  };
  const openSliced = () =>
    ({
      folder: disk.folder,
      list: () => disk.list(),
      size: (name: string) => disk.size(name),
      read,
    }) as unknown as Disk;
  const progress = new OwnProgress();
  progress.recorded(disk.folder, 10);
  const limits = { ...standardLimits, readIdleMs: -1, readTurnBytes: 1_000 };
  const parts = { data: disk.folder, openDisk: openSliced, progress, open: () => undefined, limits, notices: quiet };
  const journals = new ReadableJournals(parts);
  const journal = journals.of(undefined);
  const { signal } = new AbortController();

  const form = { textOf: bytesOf, headOf: () => Buffer.alloc(0), end: Buffer.alloc(0) };
  const readAll = async () => {
    const found: Buffer[] = [];
    const seqs: number[] = [];
    for await (const { lines } of readExisting(journal, 0, { filter: {}, signal, limits })) {
      seqs.push(...lines.map(({ seq }) => seq));
      assert.ok(lines.every(({ isDropped, start, end }) => isDropped === end - start > 1_000));
      for await (const chunk of journal.bytesOf(piecesOf(lines, form), signal)) found.push(Buffer.from(chunk));
    }
    assert.deepEqual(seqs, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.ok(Buffer.concat(found).equals(bytes));
  };
  await Promise.all([readAll(), readAll(), readAll(), readAll()]);
  assert.equal(insideMax, 1);
});

test('pages and streams return short and long lines complete and in order, also if each is longer than a chunk', async (t) => {
  for (const [readTurnBytes, description] of [
    [standardLimits.readTurnBytes, LONG],
    [100, 'short'],
  ] as const) {
    const eventOf = (seq: number) => ({ ...plainEvent(seq), ...(seq % 3 !== 0 && { description }) });
    const { bytes, lines } = makeLines(9, undefined, eventOf);
    const texts = lines.map((line) => line.toString().trimEnd());
    const data = newFolder(t);
    writeFileSync(join(data, FIRST), bytes);
    const service = await serveReads(t, { data, limits: { ...standardLimits, readTurnBytes } });
    for (const query of ['', '?last=9'])
      assert.equal(await (await service.get(`/events${query}`)).text(), bytes.toString());
    const inJson = await (await service.get('/events', { accept: 'application/json' })).text();
    assert.equal(inJson.replaceAll('\n', ''), `{"events":[${texts.join()}],"next_after_seq":9}`);
    const one = await service.get('/events?after_seq=1&limit=1', { accept: 'application/json' });
    assert.deepEqual(await one.json(), { events: [JSON.parse(texts[1]!)], next_after_seq: 2 });
    const queries = ['after_seq=0', 'last=9', 'last=9&type=materialization'];
    const streams = await Promise.all(queries.map((query) => StreamClient.open(`${service.url}/events?${query}`)));
    for (const stream of streams) {
      await stream.until('all', () => stream.events.length === 9);
      assert.deepEqual(
        stream.events,
        texts.map((text, at) => ({ id: `${at + 1}`, event: 'AssetMaterialization', data: text })),
      );
    }
    await service.report('a', 'a');
    await streams[0]!.until('eleven events', () => streams[0]!.seqs.length === 11);
    assert.deepEqual(streams[0]!.seqs.slice(9), [10, 11]);
    for (const stream of streams) stream.close();
  }
});
