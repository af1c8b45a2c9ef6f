/** One destination of one journal, with a real server and real files beside a simulated journal. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pipe } from '../../../src/forward/pipe/pipe.ts';
import { readPipeState, readStatus, writePipeState } from '../../../src/forward/pipe/status.ts';
import type { DestinationSettings } from '../../../src/forward/settings.ts';
import { page } from '../../support/handbook.ts';
import { newFolder, root } from '../../support/program.ts';
import { diskWith, FIRST, segment } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { listenOn, startScripted } from '../../world/http-server.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import { createPipe, idOf, limits } from '../scripted.ts';

/** A pipe of a journal with 5 events. */
function pipeOf(
  t: TestContext,
  destination: Partial<DestinationSettings>,
  {
    disk = diskWith({ [FIRST]: segment(1, 5) }),
    ...options
  }: Parameters<typeof createPipe>[2] & { disk?: SimulatedDisk } = {},
): Pipe {
  const { pipe } = createPipe(disk, 5, { destination, ...options });
  t.after(() => pipe.close());
  return pipe;
}

test('a token file that changes during a request is used at once after the request is refused', async (t) => {
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, 'old');
  const tokens: string[] = [];
  const { url: to } = await startScripted(t, ({ headers, method }) => {
    tokens.push(`${headers['authorization']}`);
    // Before the answer, so that the first look after the stop already finds the new file.
    if (tokens.length === 1) writeFileSync(tokenFile, 'new one');
    return [tokens.at(-1) === 'old' ? 401 : 200, method === 'GET' ? '{"error":"no"}' : '{}'];
  });
  const pipe = pipeOf(t, { to, tokenFile }, { limits: { forwardStoppedMs: 60_000, keptMs: 60_000 } });
  pipe.begin();
  await eventually('it is stopped', () => pipe.status.state === 'stopped');
  await sleep(100); // a look that finds the new file is not the first thing after the stop
  await eventually('the new token is used', async () => {
    await pipe.look();
    return pipe.status.seq === 5;
  });
  assert.deepEqual([...new Set(tokens)], ['old', 'new one']);
  assert.equal(tokens.filter((token) => token === 'old').length, 1, 'and the old one is not used again');
});

test('a restart keeps the time of the last success, and an invalid time is dropped', async (t) => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  for (const [last_success, expected] of [
    ['2026-11-20T16:04:05.678Z', '2026-11-20T16:04:05.678Z'],
    ['yesterday', null],
  ] as const) {
    const before = { state: 'idle', why: null, reason: null, since: '', next_try: null, kind: null } as const;
    await writePipeState(disk, 'upstream', { ...before, to: '', last_success, last_error: null });
    const pipe = pipeOf(t, { to: 'http://127.0.0.1:9' }, { disk });
    pipe.begin();
    await eventually('it waits', () => pipe.status.state === 'waiting');
    await pipe.close();
    const written = await readPipeState(disk, 'upstream', limits);
    assert.deepEqual([pipe.status.last_success, written?.last_success], [expected, expected]);
  }
});

test('a stopped destination shows when it tries again, and a change of its state is saved at once', async (t) => {
  const { url: to } = await startScripted(t, () => [403, '{"error":"no"}']);
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const pipe = pipeOf(t, { to }, { disk, limits: { forwardStoppedMs: 60_000 } });
  const [status] = await readStatus(disk, null, undefined, limits);
  assert.equal(status, undefined);
  pipe.begin();
  await eventually('it is stopped', () => pipe.status.state === 'stopped');
  const inMs = Date.parse(pipe.status.next_try ?? '') - Date.now();
  assert.ok(inMs > 50_000 && inMs <= 60_000, `${pipe.status.next_try}`);
  const shown = async () => (await readStatus(disk, null, 'unsaid', limits))[0];
  await eventually('the file has it', async () => (await shown())?.next_try === pipe.status.next_try);
  await pipe.close();
  assert.equal((await readStatus(disk, null, undefined, limits))[0]?.next_try, null, 'without a service it does not');
});

test('the service and its files show the same status of a destination, when idle and when stopped', async (t) => {
  for (const [status, isDone] of [
    [200, true],
    [403, false],
  ] as const) {
    const { url: to } = await startScripted(t, ({ method }) => [method === 'GET' ? 404 : status, '{}']);
    const disk = diskWith({ [FIRST]: segment(1, 5) });
    const pipe = pipeOf(t, { to }, { disk, limits: { forwardStoppedMs: 60_000, forwardStateMs: 0 } });
    pipe.begin();
    await eventually(
      'it is so',
      () => pipe.status.state === (isDone ? 'idle' : 'stopped') && pipe.status.seq === (isDone ? 5 : 0),
    );
    await eventually('the files say the same', async () => {
      await pipe.look();
      const [shown] = await readStatus(disk, null, 'unsaid', limits);
      return JSON.stringify(shown) === JSON.stringify(pipe.status);
    });
    const { lag_events, dead_letters, lost_events, deployment } = pipe.status;
    assert.deepEqual([lag_events, dead_letters, lost_events, deployment], [isDone ? 0 : 5, 0, 0, null]);
  }
});

test('a request without an answer for some time is shown, also in the file, until it is answered', async (t) => {
  const sockets: Socket[] = [];
  const port = await listenOn(
    t,
    createServer((socket) => void sockets.push(socket.on('error', () => {}))),
  );
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const pipe = pipeOf(t, { to: `http://127.0.0.1:${port}` }, { disk, limits: { forwardSlowMs: 100 } });
  pipe.begin();
  const isSaid = (state: string, reason: RegExp) =>
    eventually(`it is ${state} without an answer`, async () => {
      await pipe.look();
      const [shown] = await readStatus(disk, null, 'unsaid', limits);
      return shown?.state === state && reason.test(`${shown.reason}`);
    });
  await isSaid('asking', /^no answer for [1-9]\d* s$/);
  const answer = '{"seq":0,"id":null}';
  sockets[0]?.write(`HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`);
  await eventually('it sends', () => pipe.status.state === 'sending');
  assert.match(`${pipe.status.reason}`, /^(?:null|no answer for 0 s)$/);
  await isSaid('sending', /^no answer for \d+ s$/);
  for (const socket of sockets) socket.destroy();
  await eventually('it waits', () => pipe.status.state === 'waiting');
});

test('a retry sends a hub its refused event as a single report, so that the position of the hub does not change', async (t) => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const { url: to, got } = await startScripted(t, ({ method, url, body }) => {
    if (method === 'GET') return [200, '{"seq":0,"id":null}'];
    if (method === 'POST') return [200, '{}'];
    if (url?.endsWith('/1')) return [413, '{"error":"too large"}'];
    const { seq, id } = JSON.parse(body.trimEnd().split('\n').at(-1)!);
    return [200, JSON.stringify({ seq, id })];
  });
  const pipe = pipeOf(t, { to }, { disk });
  pipe.begin();
  await eventually('the first event is refused, and all others are taken', () => pipe.status.seq === 5);
  assert.equal(pipe.status.dead_letters, 1);
  const sent = got.length;
  const { signal } = new AbortController();
  assert.deepEqual(await pipe.letterChanges.retry(undefined, signal), { sent: 1, refused: 0, left: 0 });
  assert.equal(pipe.status.dead_letters, 0);
  const [{ method, headers }, ...more] = got.slice(sent) as [(typeof got)[0]];
  assert.deepEqual([method, headers['idempotency-key'], more], ['POST', `"${idOf(disk, 1)}"`, []]);
  assert.deepEqual([pipe.status.kind, pipe.status.seq], ['hub', 5]);
});

test('a destination that cannot begin shows when it tries again', async (t) => {
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  const source = async () => {
    throw new Error('.journal-id was removed');
  };
  const pipe = pipeOf(t, {}, { disk, source });
  pipe.begin();
  await eventually('it is stopped', () => pipe.status.state === 'stopped');
  assert.equal(pipe.status.reason, '.journal-id was removed; it is tried again every 1 s');
});

test('every reason to stop is in the handbook, and the handbook has no others', () => {
  const folder = join(root, 'src/forward');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const source = names.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n');
  const produced = [...source.matchAll(/(?:why: |stop\(\s*)'([a-z ]+)'/g)].map(([, why]) => why);
  const listed = [...page('forward-mend').matchAll(/^\| stopped, ([a-z ]+) \|/gm)].map(([, why]) => why);
  assert.deepEqual(listed.sort(), [...new Set(produced)].sort());
});
