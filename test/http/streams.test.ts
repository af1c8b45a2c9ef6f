/** Replies that are produced while they are sent, over real sockets. */

import assert from 'node:assert/strict';
import { type IncomingMessage, request } from 'node:http';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { listen } from '../../src/http/listener.ts';
import type { StreamReply } from '../../src/http/message.ts';
import { Activity } from '../../src/telemetry/activity.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { eventually } from '../support/tools.ts';
import { Wire } from '../support/wire.ts';

const GET = (version = '1.1') => `GET / HTTP/${version}\r\nHost: localhost\r\n\r\n`;

/** Serves one stream to every request. */
async function serve(t: TestContext, pieces: StreamReply['pieces'], limits: Partial<Limits> = {}) {
  const notices = createNotices('error', false, () => {});
  const all = { ...standardLimits, ...limits };
  const listener = await listen({
    at: { kind: 'address', host: '127.0.0.1', port: 0 },
    createApp: () => () => ({
      kind: 'receive',
      route: '/',
      bodyLimits: all,
      receive: (_body, respond) => respond({ kind: 'stream', status: 200, contentType: 'text/plain', pieces }),
    }),
    maxConnections: 10,
    background: true,
    limits: all,
    metrics: new Metrics(),
    notices,
    activity: new Activity({ notices, terminal: undefined, quiet: false, refusals: { add: () => {} }, limits: all }),
  });
  t.after(() => listener.close());
  return listener;
}

async function* words(...all: readonly string[]): AsyncGenerator<Buffer> {
  for (const word of all) yield Buffer.from(word);
}

test('a stream is chunked and the connection is kept; with HTTP/1.0 the end of the connection ends it', async (t) => {
  const { port } = await serve(t, () => words('one ', '', 'two'));
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  let text = '';
  wire.socket.on('data', (more) => {
    text += more;
  });
  wire.send(GET() + GET());
  await eventually('two replies', () => text.split('0\r\n\r\n').length === 3);
  assert.match(
    text,
    /^HTTP\/1\.1 200 OK\r\n.*Transfer-Encoding: chunked\r\n.*\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\nHTTP/s,
  );
  text = '';
  wire.send(GET('1.0'));
  await eventually('the end', () => wire.ended);
  assert.match(text, /Connection: close\r\n\r\none two$/);
  assert.doesNotMatch(text, /chunked/);
});

test('a HEAD gets the head alone, and nothing is produced', async (t) => {
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

test('nothing more is produced for a client that does not read, and it is cut off', async (t) => {
  let produced = 0;
  let isClosed = false;
  const endless = async function* () {
    try {
      for (;;) {
        produced += 1;
        yield Buffer.alloc(64 * 1024);
      }
    } finally {
      isClosed = true;
    }
  };
  const { port } = await serve(t, endless, { streamStallMs: 400, deadlineCheckMs: 50 });
  const wire = await Wire.open(port);
  t.after(() => wire.close());
  wire.socket.pause();
  wire.send(GET());
  await eventually('pieces', () => produced > 1);
  let before = 0;
  while (before !== produced) {
    before = produced;
    await sleep(100);
  }
  assert.ok(before < 500, `${before} pieces were produced ahead of the client`); // what the kernel buffers
  await eventually('it is cut off', () => isClosed);
  assert.equal(produced, before);
});

test('a stream that waits is not idle, and its end is whole when the service stops', async (t) => {
  const pieces = async function* (ending: AbortSignal) {
    yield Buffer.from('first ');
    await new Promise((resolve) => ending.addEventListener('abort', resolve));
    yield Buffer.from('last');
  };
  const listener = await serve(t, pieces, { idleMs: 100, streamStallMs: 100, deadlineCheckMs: 20 });
  const reply = await new Promise<IncomingMessage>((resolve, reject) =>
    request({ port: listener.port, agent: false }, resolve).on('error', reject).end(),
  );
  let text = '';
  reply.on('data', (more) => {
    text += more;
  });
  await eventually('the first piece', () => text === 'first ');
  await sleep(400); // four times the idle timeout
  const closed = listener.close();
  await eventually('the last piece', () => reply.complete);
  assert.equal(text, 'first last');
  await closed;
});

test('a stream ends when its client has gone, and an error in it does not look like its end', async (t) => {
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
  let text = '';
  second.socket.on('data', (more) => {
    text += more;
  });
  second.send(GET());
  await eventually('the end of the connection', () => second.ended);
  assert.match(text, /3\r\none\r\n$/);
});
