/** Bodies with `Content-Encoding: gzip`: what is unpacked, and what is refused. */

import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { deflateRawSync, gzipSync } from 'node:zlib';
import { journalText } from '../../support/program.ts';
import { type Served, serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { Wire } from '../../support/wire.ts';

const BATCH = '/report_asset_batch/';
const LINE = '{"type":"observation","asset_key":"k"}\n';

interface Answer {
  readonly status: number;
  readonly accepts: string | undefined;
  readonly error: string;
}

function send(
  { port }: Served,
  body: Buffer,
  { path = BATCH, encoding = 'gzip', type = 'application/x-ndjson', method = 'POST', ...more } = {} as {
    readonly path?: string;
    readonly encoding?: string;
    readonly type?: string;
    readonly method?: string;
    readonly headers?: Record<string, string>;
  },
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': type, 'Content-Encoding': encoding, ...more.headers };
    const sent = request({ port, path, method, headers, agent: false }, async (reply) => {
      let text = '';
      for await (const chunk of reply) text += chunk;
      const accepts = reply.headers['accept-encoding'];
      resolve({ status: reply.statusCode!, accepts, error: JSON.parse(text).error ?? '' });
    });
    sent.on('error', reject).end(body);
  });
}

function recordedIn({ data }: Served): number {
  return journalText(data).split('\n').length - 1;
}

/** White space between lines makes a body of any size. */
function padded(bytes: number): Buffer {
  return Buffer.from(LINE.padEnd(bytes, ' '));
}

test('a compressed batch is recorded like an uncompressed one, up to the limit of its uncompressed bytes', async (t) => {
  const service = await serve(t, { limits: { bodyBytesMax: 10_000 } });
  assert.equal((await send(service, gzipSync(LINE.repeat(3)))).status, 200);
  assert.equal((await send(service, gzipSync(LINE), { encoding: 'GZIP' })).status, 200);
  assert.equal((await send(service, gzipSync(LINE), { headers: { 'Transfer-Encoding': 'chunked' } })).status, 200);
  assert.equal((await send(service, gzipSync(`[${LINE}]`), { type: 'application/json' })).status, 200);
  assert.equal((await send(service, gzipSync(padded(10_000)))).status, 200);
  assert.equal(recordedIn(service), 7);
  for (const bytes of [10_001, 5_000_000]) {
    const { status, error } = await send(service, gzipSync(padded(bytes)));
    assert.deepEqual([status, error.split(';')[0]], [413, 'the decompressed body is larger than 10000 bytes']);
  }
  const { status, error } = await send(service, gzipSync(padded(10_001), { level: 0 }));
  assert.deepEqual([status, error.split(';')[0]], [413, 'the body is larger than 10000 bytes']);
  assert.equal(recordedIn(service), 7);
});

test('only one complete gzip member is accepted', async (t) => {
  const service = await serve(t);
  const good = gzipSync(LINE);
  const changed = (at: number, byte: number): Buffer => {
    const bytes = Buffer.from(good);
    bytes[at < 0 ? bytes.length + at : at] = byte;
    return bytes;
  };
  /** With each optional part of a header. */
  const flags = Buffer.from([0x1f, 0x8b, 8, 0x1f, 0, 0, 0, 0, 0, 3, 2, 0, 7, 7]);
  const named = Buffer.concat([flags, Buffer.from('name\0comment\0'), Buffer.from([0, 0]), good.subarray(10)]);
  assert.equal((await send(service, named)).status, 200);
  const raw = deflateRawSync(LINE);
  const bomb = Buffer.concat([good.subarray(0, 10), deflateRawSync(Buffer.alloc(64_000_000)), good.subarray(-8)]);
  for (const [what, body] of [
    ['one byte', Buffer.from([0x1f])],
    ['not gzip', Buffer.from(LINE)],
    ['a header alone', good.subarray(0, 10)],
    ['a header and its end', Buffer.concat([good.subarray(0, 10), good.subarray(-8)])],
    ['another method', changed(2, 7)],
    ['a reserved flag', changed(3, 0x20)],
    ['a name that does not end', Buffer.concat([good.subarray(0, 3), Buffer.from([8]), Buffer.alloc(40, 1)])],
    ['extra bytes that do not end', Buffer.concat([good.subarray(0, 3), Buffer.from([4]), Buffer.alloc(40, 0xff)])],
    ['wrong data', changed(12, 0xff)],
    ['a wrong checksum', changed(-8, good.at(-8)! ^ 1)],
    ['a wrong length', changed(-4, good.at(-4)! ^ 1)],
    ['a length beyond the limit', changed(-1, 0xff)],
    ['an end that is cut', good.subarray(0, -1)],
    ['data that is cut', Buffer.concat([good.subarray(0, -12), good.subarray(-8)])],
    ['a byte after it', Buffer.concat([good, Buffer.from([0])])],
    ['two members', Buffer.concat([good, good])],
    ['an empty member before it', Buffer.concat([gzipSync(''), good])],
    ['an empty member after it', Buffer.concat([good, gzipSync('')])],
    ['packed twice', gzipSync(good)],
    ['without header and end', raw],
    ['more than it says', bomb],
  ] as const) {
    const { status, error } = await send(service, body);
    assert.equal(status, 400, what);
    if (what !== 'packed twice')
      assert.match(error, /^the body is not one complete gzip member: .*; compress it again, or/);
  }
  assert.equal(recordedIn(service), 1);
  for (const encoding of ['br', 'gzip, gzip', 'gzip, identity', 'x-gzip', 'deflate']) {
    const { status, accepts, error } = await send(service, good, { encoding });
    assert.deepEqual([status, accepts], [415, 'gzip'], encoding);
    assert.match(error, / is not read, only gzip once; send the body unencoded and without this header$/);
  }
  for (const [path, type] of [['/report_asset_observation/', 'application/json']] as const) {
    const { status, accepts } = await send(service, gzipSync('{"asset_key":"k"}'), { path, type });
    assert.deepEqual([status, accepts], [415, undefined]);
  }
  assert.equal(recordedIn(service), 1);
});

test('reports that follow a compressed one on a connection are recorded after it', async (t) => {
  const service = await serve(t);
  const packed = gzipSync(Array.from({ length: 2_000 }, (_, at) => LINE.replace('"k"', `"p${at}"`)).join(''));
  const head = (path: string, more: readonly string[]) =>
    Buffer.from([`POST ${path} HTTP/1.1`, 'Host: localhost', ...more, '', ''].join('\r\n'));
  const type = 'Content-Type: application/x-ndjson';
  const wire = await Wire.open(service.port);
  t.after(() => wire.close());
  const whole = Buffer.concat([
    head(BATCH, [type, 'Content-Encoding: gzip', `Content-Length: ${packed.length}`]),
    packed,
    head(BATCH, [type, `Content-Length: ${LINE.length}`]),
    Buffer.from(LINE.replace('"k"', '"b"')),
    head('/report_asset_observation/c', []),
    head(BATCH, [type, 'Content-Encoding: gzip', `Content-Length: ${packed.length}`]),
    packed,
    head('/report_asset_observation/d', ['Connection: close']),
  ]);
  wire.socket.write(whole);
  await new Promise((resolve) => wire.socket.once('end', resolve));
  const keys = journalText(service.data)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).asset_key[0][0]);
  assert.equal(keys.join(''), `${'p'.repeat(2_000)}bc${'p'.repeat(2_000)}d`);
});

test('bodies that are decompressed share the memory of bodies, and get 503 when it is full [packed-4]', async (t) => {
  const bodyBytesMax = 1_000_000;
  const some = { bodyBytesMax, forwardBodyBytesMax: 1, uploadBytesMax: 1_500_000, stalledUploadMs: 600_000 };
  const service = await serve(t, { limits: some });
  const packed = gzipSync(padded(bodyBytesMax));
  const head = ['POST /report_asset_batch/ HTTP/1.1', 'Host: localhost', 'Content-Type: application/x-ndjson'];
  let wire: Wire | undefined;
  await eventually('a body that is received leaves no place', async () => {
    wire?.socket.destroy(); // its body came after the packed one
    wire = await Wire.open(service.port);
    wire.send(`${head.join('\r\n')}\r\nContent-Length: 700000\r\n\r\n${' '.repeat(600_000)}`);
    await sleep(50);
    return (await send(service, packed)).status === 503;
  });
  assert.equal((await send(service, packed)).status, 503);
  assert.equal((await send(service, gzipSync(LINE))).status, 200);
  wire!.socket.destroy();
  await eventually('its place is free', async () => (await send(service, packed)).status === 200);
  const before = recordedIn(service);
  const answers = await Promise.all(Array.from({ length: 8 }, () => send(service, packed)));
  const statuses = answers.map(({ status }) => status);
  assert.ok(
    statuses.every((status) => status === 200 || status === 503),
    statuses.join(' '),
  );
  assert.equal((await send(service, packed)).status, 200, 'the memory is free again');
  assert.equal(recordedIn(service), before + statuses.filter((status) => status === 200).length + 1);
  const alone = await serve(t, { limits: { ...some, uploadBytesMax: bodyBytesMax } });
  assert.equal((await send(alone, packed)).status, 200, 'one alone has a place');
});
