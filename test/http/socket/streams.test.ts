/** Streams over real sockets. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../../src/config/limits.ts';
import { Refusal, type StreamReply } from '../../../src/http/message.ts';
import { listenWith } from '../../support/listener.ts';
import { eventually } from '../../support/tools.ts';
import { Wire } from '../../support/wire.ts';

const GET = (version = '1.1') => `GET / HTTP/${version}\r\nHost: localhost\r\n\r\n`;

const CAP = 10;

/** Serves one stream to every request. */
function serve(
  t: TestContext,
  pieces: StreamReply['pieces'],
  limits: Partial<Limits> = {},
  log = (_line: string) => {},
) {
  const reply = { kind: 'stream', status: 200, contentType: 'text/plain', pieces } as const;
  return listenWith(t, (respond) => respond(reply), { limits, maxConnections: CAP, log });
}

async function* words(...all: readonly string[]): AsyncGenerator<Buffer> {
  for (const word of all) yield Buffer.from(word);
}

test('a stream is chunked and the connection is kept; with HTTP/1.0 it ends with the connection', async (t) => {
  const { port } = await serve(t, () => words('one ', '', 'two'));
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  wire.send(GET() + GET());
  await eventually('two replies', () => wire.text.split('0\r\n\r\n').length === 3);
  assert.match(
    wire.text,
    /^HTTP\/1\.1 200 OK\r\n.*Transfer-Encoding: chunked\r\n.*\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\nHTTP/s,
  );
  const before = wire.text.length;
  wire.send(GET('1.0'));
  await eventually('the end', () => wire.ended);
  assert.match(wire.text, /Connection: close\r\n\r\none two$/);
  assert.doesNotMatch(wire.text.slice(before), /chunked/);
});

test('a HEAD of a stream gets only the head, and no piece is produced', async (t) => {
  let calls = 0;
  const { port } = await serve(t, () => {
    calls += 1;
    return words('one');
  });
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  wire.send('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  assert.equal((await wire.reply(true))?.status, 200);
  wire.send(GET());
  assert.equal((await wire.reply(true))?.headers.get('transfer-encoding'), 'chunked');
  assert.equal(calls, 1);
});

const drainMs = 60_000;

for (const [what, limits, pauseMs] of [
  ['is not idle', { idleMs: 100, streamStallMs: 100, deadlineCheckMs: 20, drainMs }, 400],
  ['is completed when the service stops, and its connection ends', { drainMs }, 0],
] as const) {
  test(`a stream that waits ${what}`, async (t) => {
    const pieces = async function* (ending: AbortSignal) {
      yield Buffer.from('first ');
      await new Promise((resolve) => ending.addEventListener('abort', resolve));
      yield Buffer.from('last');
    };
    const listener = await serve(t, pieces, limits);
    const wire = await Wire.open(listener.port);
    t.after(() => wire.close());
    wire.send(GET());
    await eventually('the first piece', () => wire.text.endsWith('first \r\n'));
    await sleep(pauseMs);
    const closed = listener.close();
    assert.equal((await wire.reply())?.body, 'first last');
    assert.ok(await wire.ends(drainMs / 2), 'the stop waited for its deadline');
    wire.close();
    await closed;
  });
}

test('a stream ends when its client disconnects, and an error does not look like its end', async (t) => {
  const ended: boolean[] = [];
  const waiting = async function* (ending: AbortSignal) {
    yield Buffer.from('one');
    if (ended.length > 0) throw new Error('the disk failed');
    await new Promise((resolve) => ending.addEventListener('abort', resolve));
    ended.push(true);
  };
  const { port } = await serve(t, waiting);
  const first = await Wire.open(port);
  first.send(GET());
  await first.reply(true);
  first.close();
  await eventually('the end of the stream', () => ended.length === 1);
  const second = await Wire.open(port);
  t.after(() => second.close());
  second.send(GET());
  await eventually('the end of the connection', () => second.ended);
  assert.match(second.text, /3\r\none\r\n$/);
});

/** Numbered replies that wait until they are ended. */
function waits(): { pieces: StreamReply['pieces']; readonly waiting: () => number } {
  let count = 0;
  let waiting = 0;
  const pieces = async function* (ending: AbortSignal, onWait: () => void) {
    count += 1;
    const text = `number ${count}`;
    waiting += 1;
    onWait();
    if (!ending.aborted) await new Promise((resolve) => ending.addEventListener('abort', resolve));
    waiting -= 1;
    yield Buffer.from(text);
  };
  return { pieces, waiting: () => waiting };
}

test('requests after a wait that ended at the cap are answered, and the last reply has Connection: close', async (t) => {
  const { pieces, waiting } = waits();
  const { port } = await serve(t, pieces, { deadlineCheckMs: 50 });
  const wires = await Promise.all(Array.from({ length: CAP }, () => Wire.open(port)));
  t.after(() => wires.map((wire) => wire.close()));
  for (const wire of wires) wire.send(GET().repeat(3));
  await eventually('all wait', () => waiting() === CAP);
  for (let at = 0; at < CAP; at += 1) wires.push(await Wire.open(port));
  for (const wire of wires.slice(0, CAP)) {
    const replies = [await wire.reply(), await wire.reply(), await wire.reply()];
    assert.deepEqual(
      replies.map((reply) => [reply?.status, reply?.headers.get('connection')]),
      [
        [200, 'keep-alive'],
        [200, 'keep-alive'],
        [200, 'close'],
      ],
    );
    assert.ok(await wire.ends());
  }
  for (const wire of wires.slice(CAP)) wire.send('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  for (const wire of wires.slice(CAP)) assert.equal((await wire.reply(true))?.status, 200);
});

test('repeated waits at the cap end no faster than the idle check runs, and a limited number of them', async (t) => {
  const { pieces, waiting } = waits();
  const { port } = await serve(t, pieces, { deadlineCheckMs: 1_000_000 });
  const wires: Wire[] = [];
  t.after(() => wires.map((wire) => wire.close()));
  for (let at = 0; at < 3 * CAP; at += 1) {
    const wire = await Wire.open(port);
    wires.push(wire);
    wire.send(GET());
    await eventually('it waits', () => waiting() === Math.min(at + 1, 2 * CAP));
  }
  await eventually('the oldest are disconnected', () => wires.filter(({ ended }) => ended).length === CAP);
  assert.ok(wires.slice(0, CAP).every(({ ended }) => ended));
});

test('an exception of a stream before its first piece is the reply, and the connection is kept', async (t) => {
  const errors = [new Refusal(410, 'it was removed'), new Error('the disk failed')];
  const log: string[] = [];
  const failing = async function* () {
    yield Buffer.alloc(0);
    throw errors.shift();
  };
  const { port } = await serve(t, failing, {}, (line) => log.push(line));
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  wire.send(GET() + GET());
  for (const status of [410, 503]) {
    const reply = await wire.reply();
    assert.deepEqual([reply?.status, reply?.headers.get('connection')], [status, 'keep-alive']);
  }
  assert.equal(log.filter((line) => line.includes('a reply could not be completed')).length, 1, log.join(''));
});

test('incomplete replies are logged at a bounded rate, and the others are counted', async (t) => {
  const lines: string[] = [];
  const broken = async function* () {
    yield Buffer.from('one');
    throw new Error('the disk failed');
  };
  const { port } = await serve(t, broken, { refusalLinesMax: 3, activityMs: 5_000 }, (line) => lines.push(line));
  for (let at = 0; at < 10; at += 1) {
    const wire = await Wire.open(port);
    wire.send(GET());
    await wire.ends();
    wire.close();
  }
  const logged = () => lines.filter((line) => line.includes('"a reply could not be completed"')).length;
  const counted = () => lines.reduce((sum, line) => sum + (JSON.parse(line).count ?? 0), 0);
  await eventually('all', () => logged() + counted() === 10);
  assert.ok(logged() < 10 && counted() > 0, `${logged()} and ${counted()}`);
});

test('at the cap a client that reads no reply is disconnected for a new connection, but a client that reads is not', async (t) => {
  const endless = async function* () {
    for (;;) {
      yield Buffer.alloc(64 * 1024);
      await sleep(1); // otherwise the reading client uses all processor time
    }
  };
  const { port } = await serve(t, endless, { evictableMs: 300, deadlineCheckMs: 50 });
  const reading = await Wire.open(port);
  reading.socket.removeAllListeners('data').on('data', () => {}); // discards the data
  reading.send(GET());
  const deaf: Wire[] = [];
  for (let at = 1; at < CAP; at += 1) {
    const wire = await Wire.open(port);
    wire.socket.pause();
    wire.send(GET());
    deaf.push(wire);
  }
  await eventually('room for a connection', async () => {
    const wire = await Wire.open(port);
    wire.send('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const reply = await wire.reply(true);
    wire.close();
    return reply?.status === 200;
  });
  assert.ok(!reading.ended);
  for (const wire of [reading, ...deaf]) wire.close(); // otherwise the listener waits for them
});
