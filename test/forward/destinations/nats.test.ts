/** The NATS destination against a server that says what a real one cannot be made to say. Real servers are in `test/engines`. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { type Limits, limits as standard } from '../../../src/config/limits.ts';
import type {
  AskableDestination,
  Asked,
  Opening,
  Sent,
  Shipment,
} from '../../../src/forward/destinations/destination.ts';
import { traitsOf } from '../../../src/forward/destinations/kinds.ts';
import { openNats } from '../../../src/forward/destinations/nats/nats.ts';
import { type Frame, FrameReader } from '../../../src/forward/destinations/nats/protocol.ts';
import { processorMs } from '../../support/processor-time.ts';
import { freePort, newFolder } from '../../support/program.ts';
import { linesOf } from '../../support/sent-lines.ts';
import { eventually, HANG_MS, within } from '../../support/tools.ts';
import { errorOf, messageOf, noResponders, type Published } from '../../world/nats.ts';
import { type NatsStub, startNatsStub } from '../../world/nats-server.ts';

const NEVER = new AbortController().signal;
const SOURCE = '01a1fb95-0000-7000-8000-000000000001';
const SUBJECT = `assetlog._.${SOURCE}`;
const GET = '$JS.API.STREAM.MSG.GET.ASSETLOG';

const limits: Limits = { ...standard, natsAnswerMs: 3_000, natsRepeatMs: 100, keptMs: 0 };

function open(t: TestContext, to: string, options: Partial<Opening> = {}, opened = openNats): AskableDestination {
  const destination = opened({ to, source: SOURCE, tokenHeader: 'Authorization', stamp: false, limits, ...options });
  t.after(() => destination.close());
  return destination;
}

/** Lines of a journal, with names of this length. */
function batch(count: number, firstSeq = 1, characters = 1): Shipment {
  const events = Array.from({ length: count }, () => ({
    type: 'AssetObservation' as const,
    assetKey: ['a'.repeat(characters)],
  }));
  return { lines: linesOf(events, firstSeq), lost: undefined };
}

/** `stopped: turned away: …`, `again: …` or the kind alone. */
function shown(found: Asked | Sent): string {
  if (found.kind === 'stopped') return `stopped: ${found.why}: ${found.reason}`;
  return found.kind === 'again' ? `again: ${found.reason}` : found.kind;
}

/** The messages of batches. */
function batchesOf({ published }: NatsStub): Published[] {
  return published.filter(({ subject }) => subject.startsWith('assetlog.'));
}

/** Answers the last message of a batch with this. */
const atCommit = (said: object | string) => ({
  answer: ({ headers }: Published) => (headers['Nats-Batch-Commit'] === undefined ? undefined : said),
});

test('frames are read the same wherever their bytes are cut', () => {
  const payload = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
  const headers = fc.constantFrom('NATS/1.0\r\n\r\n', 'NATS/1.0 503\r\n\r\n', 'NATS/1.0\r\nA:b\r\n\r\n');
  const message = fc.tuple(fc.option(headers), fc.boolean(), payload).map(([block, isWithReply, bytes]) => {
    const start = `INBOX.1 1${isWithReply ? ' reply' : ''}`;
    const size = (block?.length ?? 0) + bytes.length;
    const line = block === null ? `MSG ${start} ${size}` : `HMSG ${start} ${block.length} ${size}`;
    const all = Buffer.concat([Buffer.from(`${line}\r\n${block ?? ''}`), bytes, Buffer.from('\r\n')]);
    return { all, frame: { verb: 'MSG', headers: block ?? '', payload: bytes.toString('hex') } };
  });
  const other = fc.constantFrom('INFO {"a":1}', 'PING', 'PONG', '+OK', "-ERR 'Slow Consumer'").map((line) => ({
    all: Buffer.from(`${line}\r\n`),
    frame: { verb: line.split(' ')[0], headers: '', payload: '' },
  }));
  const shownFrame = ({ verb, headers, payload }: Frame) => ({ verb, headers, payload: payload.toString('hex') });
  const frames = fc.array(fc.oneof(message, other), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(frames, fc.array(fc.nat(200)), (parts, cuts) => {
      const bytes = Buffer.concat(parts.map(({ all }) => all));
      const readAt = (ends: readonly number[]) => {
        const reader = new FrameReader(limits);
        return ends.flatMap((end, index) => [...reader.read(bytes.subarray(ends[index - 1] ?? 0, end))]);
      };
      const found = readAt([...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length]);
      assert.deepEqual(
        found.map(shownFrame),
        parts.map(({ frame }) => frame),
      );
      assert.deepEqual(readAt([...bytes.keys(), bytes.length]).map(shownFrame), found.map(shownFrame));
    }),
  );
});

test('bytes that are not NATS, or exceed a limit, are refused before all of them have arrived', () => {
  const small = { ...limits, natsControlBytesMax: 40, natsMessageBytesMax: 100 };
  const texts = ['HTTP/1.1 400 Bad Request\r\n', `INFO ${'x'.repeat(40)}`, 'MSG a 1 101\r\n', 'MSG a 1 -1\r\n'];
  texts.push('MSG a 1 x\r\n', 'HMSG a 1 12 10\r\n', 'HMSG a 1 -2 10\r\n', '\r\n');
  for (const text of texts) {
    assert.throws(() => [...new FrameReader(small).read(Buffer.from(text))], /protocol|bytes/, text);
  }
});

test('a line of a server is read in linear time, whatever it contains', async (t) => {
  const blanks = ' '.repeat(30_000);
  const error = `-ERR '${'Auth'.repeat(15_000)}'\r\n`;
  const stub = await startNatsStub(t, { answer: () => error });
  const before = processorMs();
  for (const end of ['b', '\rb']) {
    const [frame] = new FrameReader(limits).read(Buffer.from(`INFO${blanks}a${blanks}${end}\r\n`));
    assert.equal(frame?.text, `a${blanks}${end}`);
  }
  assert.match(shown(await open(t, stub.to).ask(NEVER)), /^again: .* answers 'Auth/);
  assert.ok(processorMs() - before < 1000, `${processorMs() - before} ms`);
});

test('a batch has the lines unchanged and the seq at which the stream has to be, also of a deployment [nats-2]', async (t) => {
  const stub = await startNatsStub(t);
  for (const deployment of [undefined, 'prod']) {
    const destination = open(t, stub.to, { deployment });
    assert.deepEqual(await destination.ask(NEVER), { kind: 'at', seq: 0, id: null });
    const before = stub.stored.length;
    const { lines } = batch(3);
    assert.deepEqual(await destination.send({ lines, lost: undefined }, NEVER), {
      kind: 'recorded',
      seq: 3,
      id: lines[2]?.event.id,
    });
    const sent = batchesOf(stub).slice(-3);
    const [{ headers: first = {} } = {}, { headers: second = {} } = {}, { headers: third = {} } = {}] = sent;
    const id = first['Nats-Batch-Id'];
    assert.deepEqual(first, {
      'Nats-Batch-Id': id,
      'Nats-Batch-Sequence': '1',
      'Nats-Expected-Last-Subject-Sequence': '0',
    });
    assert.deepEqual(second, { 'Nats-Batch-Id': id, 'Nats-Batch-Sequence': '2' });
    assert.deepEqual(third, { 'Nats-Batch-Id': id, 'Nats-Batch-Sequence': '3', 'Nats-Batch-Commit': '1' });
    const subject = `assetlog.${deployment ?? '_'}.${SOURCE}`;
    assert.deepEqual(
      sent.map((message) => [message.subject, `${message.payload}`]),
      lines.map(({ text }) => [subject, text]),
    );
    // The acknowledgement says where the next batch belongs, and a copy of the journal is refused.
    const copy = open(t, stub.to, { deployment });
    assert.deepEqual(await copy.ask(NEVER), { kind: 'at', seq: 3, id: lines[2]?.event.id });
    assert.equal((await destination.send(batch(1, 4), NEVER)).kind, 'recorded');
    assert.equal(batchesOf(stub).at(-1)?.headers['Nats-Expected-Last-Subject-Sequence'], `${before + 3}`);
    for (const reason of ['has another last message of this journal than before', 'has not been asked yet']) {
      assert.deepEqual(await copy.send(batch(1, 4), NEVER), { kind: 'elsewhere', reason });
    }
    assert.equal(stub.stored.length, before + 4);
  }
});

test('a batch counts as stored only if all of it is acknowledged [nats-3]', async (t) => {
  const answers: readonly (object | string)[] = [
    { stream: 'ASSETLOG', seq: 2 },
    { stream: 'ASSETLOG', seq: 2, count: 1 },
    { stream: 'ASSETLOG', seq: 2, batch: 'x', count: '2' },
    errorOf(10_071, 'wrong last sequence: 7'),
    errorOf(10_164, 'wrong last sequence'),
    errorOf(10_176, 'atomic publish batch is incomplete'),
    { error: { code: 500 } },
    { error: null },
    { error: 'no' },
    {},
  ];
  for (const answer of answers) {
    const stub = await startNatsStub(t, atCommit(answer));
    const destination = open(t, stub.to);
    await destination.ask(NEVER);
    assert.match(
      shown(await destination.send(batch(2), NEVER)),
      /^(again: (answers|acknowledges) |elsewhere$)/,
      JSON.stringify(answer),
    );
  }
});

test('an ask that fails gives a reason and no position', async (t) => {
  const failures: readonly (readonly [RegExp, (stub: NatsStub, message: Published) => object | string])[] = [
    [
      /^again: answers 10008: JetStream system temporarily unavailable$/,
      () => errorOf(10_008, 'JetStream system temporarily unavailable', 503),
    ],
    [/^again: 127.0.0.1:\d+ answers 503: /, (_, { reply = '' }) => noResponders(reply)],
    [/^again: 127.0.0.1:\d+ does not answer within 3 s$/, () => ''],
    [/^again: 127.0.0.1:\d+ closed the connection$/, ({ sockets }) => `${sockets.at(-1)?.end() && ''}`],
    [/^again: 127.0.0.1:\d+ does not speak NATS as expected: /, () => 'HTTP/1.1 400 Bad Request\r\n'],
    [/^again: 127.0.0.1:\d+ does not speak NATS as expected: /, (_, { reply = '' }) => messageOf(reply, '{')],
    [/^again: answers 0: undefined$/, () => ({ error: { code: 404 } })],
    [/^again: answers seq undefined, which is not a number$/, () => ({})],
    [/^stopped: not understood: has a message 7 of assetlog/, () => ({ message: { seq: 7, data: 'eA==' } })],
    [/^stopped: not understood: /, () => ({ message: { seq: 7, data: Buffer.from('{"seq":0}').toString('base64') } })],
  ];
  for (const [expected, fail] of failures) {
    const stub = await startNatsStub(t, {
      answer: (message, self) => (message.subject === GET ? fail(self, message) : undefined),
    });
    assert.match(shown(await open(t, stub.to).ask(NEVER)), expected);
  }
  // `max_age` removed all, and left this message in their place.
  const hdrs = Buffer.from('NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n').toString('base64');
  const marked = await startNatsStub(t, {
    answer: ({ subject }) => (subject === GET ? { message: { seq: 7, hdrs } } : undefined),
  });
  const destination = open(t, marked.to);
  assert.deepEqual(await destination.ask(NEVER), { kind: 'at', seq: 0, id: null });
  await destination.send(batch(1), NEVER);
  assert.equal(batchesOf(marked)[0]?.headers['Nats-Expected-Last-Subject-Sequence'], '7');
});

test('an error that is null is no error, in the position of a stream and in an acknowledgement', async (t) => {
  const [line] = batch(1).lines;
  const data = line!.bytes.subarray(line!.start, line!.end).toString('base64');
  for (const error of [null, undefined]) {
    const stub = await startNatsStub(t, {
      answer: (message) => {
        if (message.subject === GET) return { error, message: { seq: 7, data } };
        return atCommit({ error, stream: 'ASSETLOG', seq: 9, count: 2, batch: 'x' }).answer(message);
      },
    });
    const destination = open(t, stub.to);
    assert.deepEqual(await destination.ask(NEVER), { kind: 'at', seq: line!.seq, id: line!.event.id });
    assert.equal(shown(await destination.send(batch(2), NEVER)), 'recorded');
    assert.equal(batchesOf(stub)[0]?.headers['Nats-Expected-Last-Subject-Sequence'], '7');
  }
});

test('a request that a stream without a leader dropped is sent again, and a batch is not', async (t) => {
  let dropped = 0;
  const stub = await startNatsStub(t, {
    answer: ({ subject, headers }) => {
      const isDropped = (subject === GET && dropped === 0) || headers['Nats-Batch-Commit'] !== undefined;
      if (isDropped) dropped += 1;
      return isDropped ? '' : undefined;
    },
  });
  const destination = open(t, stub.to);
  assert.equal((await destination.ask(NEVER)).kind, 'at');
  assert.match(shown(await destination.send(batch(2), NEVER)), /does not answer within/);
  assert.equal(batchesOf(stub).length, 2);
});

test('a retry leaves the position of the stream unchanged, and is found by the next retry', async (t) => {
  let losesAnswers = false;
  const stub = await startNatsStub(t, { passes: (message) => !losesAnswers || !message.includes('"count"') });
  const destination = open(t, stub.to);
  await destination.ask(NEVER);
  const sent = batch(2);
  await destination.send(sent, NEVER);
  const retry = open(t, stub.to, {}, traitsOf.nats.openForRetry);
  assert.deepEqual(await retry.ask(NEVER), { kind: 'at', seq: 0, id: null });
  const first = { lines: sent.lines.slice(0, 1), lost: undefined };
  assert.equal((await retry.send(first, NEVER)).kind, 'recorded');
  assert.equal(((await destination.ask(NEVER)) as { seq?: number }).seq, 2);
  assert.equal((await destination.send(batch(1, 3), NEVER)).kind, 'recorded');
  losesAnswers = true;
  const second = { lines: sent.lines.slice(1), lost: undefined };
  assert.equal((await retry.send(second, NEVER)).kind, 'again', 'its answer is lost');
  losesAnswers = false;
  const { seq, event } = second.lines[0]!;
  assert.deepEqual(await retry.ask(NEVER), { kind: 'at', seq, id: event.id });
  assert.deepEqual(
    stub.stored.map(({ subject }) => subject.endsWith('.again')),
    [false, false, true, false, true],
  );
});

test('a login is sent in CONNECT, and no reason shows it', async (t) => {
  const folder = newFolder(t);
  const [tokenFile, passwordFile] = [join(folder, 'token'), join(folder, 'password')];
  writeFileSync(tokenFile, 'secret-of-the-token\n');
  writeFileSync(passwordFile, 'secret-of-the-user\n');
  const errors: readonly (readonly [string, RegExp])[] = [
    ['Authorization Violation', /^stopped: turned away: .*check .*(token|password)$/],
    ['User Authentication Expired', /^stopped: turned away: /],
    ['Authentication Timeout', /^again: /],
    ['Permissions Violation for Publish to "a.b"', /^stopped: turned away: .* "a.b"'; check what this login may do$/],
    ['Slow Consumer', /^again: .* answers 'Slow Consumer'$/],
    ['maximum connections exceeded', /^again: /],
    ['bad SECRET', /^again: .* 'bad \*\*\*'/],
  ];
  for (const options of [{ tokenFile }, { user: 'u', passwordFile }]) {
    const stub = await startNatsStub(t);
    assert.equal((await open(t, stub.to, options).ask(NEVER)).kind, 'at');
    const { auth_token, user, pass, ...rest } = stub.logins[0] as Record<string, unknown>;
    assert.deepEqual(
      [auth_token, user, pass],
      'user' in options ? [undefined, 'u', 'secret-of-the-user'] : ['secret-of-the-token', undefined, undefined],
    );
    const { verbose, headers, no_responders, name, tls_required } = rest;
    assert.deepEqual([verbose, headers, no_responders, name, tls_required], [false, true, true, 'assetlog', false]);
    for (const [text, expected] of errors) {
      const refusing = await startNatsStub(t, {
        answer: () =>
          `-ERR '${text.replace('SECRET', 'user' in options ? 'secret-of-the-user' : 'secret-of-the-token')}'\r\n`,
      });
      const found = shown(await open(t, refusing.to, options).ask(NEVER));
      assert.match(found, expected);
      assert.doesNotMatch(found, /secret-of/);
    }
    const failing = await startNatsStub(t, { answer: () => errorOf(1, `no ${pass ?? auth_token}`) });
    assert.equal(shown(await open(t, failing.to, options).ask(NEVER)), 'again: answers 1: no ***');
  }
  writeFileSync(passwordFile, 'short\n');
  const repeating = await startNatsStub(t, { answer: () => "-ERR 'bad short one'\r\n" });
  assert.match(
    shown(await open(t, repeating.to, { user: 'u', passwordFile }).ask(NEVER)),
    /^again: \S+ answers \*\*\*$/,
  );
  const wanting = await startNatsStub(t, { answer: () => "-ERR 'Authorization Violation'\r\n" });
  assert.match(shown(await open(t, wanting.to).ask(NEVER)), /name a token file, or a user and a password file$/);
});

test('no login is sent to a nats+tls:// URL without TLS', async (t) => {
  const stub = await startNatsStub(t);
  const found = shown(await open(t, stub.to.replace('nats:', 'nats+tls:')).ask(NEVER));
  assert.match(found, /^stopped: turned away: .* offers no TLS/);
  assert.deepEqual(stub.logins, []);
});

test('hosts are tried in turn, the next one after each failure', async (t) => {
  const stubs = await Promise.all([1, 2].map(() => startNatsStub(t)));
  const [one, two] = stubs as [NatsStub, NatsStub];
  const gone = await freePort(t);
  const to = `nats://127.0.0.1:${gone},127.0.0.1:${one.port},127.0.0.1:${two.port}/ASSETLOG`;
  const destination = open(t, to, { limits: { ...limits, natsAnswerMs: 60_000 } }); // no host is too slow
  const asked = () => stubs.map(({ published }) => published.filter(({ subject }) => subject === GET).length);
  assert.equal((await destination.ask(NEVER)).kind, 'at');
  assert.deepEqual(asked(), [1, 0]);
  one.say("-ERR 'Stale Connection'\r\n");
  await eventually('it is closed', async () => one.sockets.every(({ destroyed }) => destroyed));
  assert.equal(
    shown(await destination.ask(NEVER)),
    'at',
    'a connection that ends while nothing is asked is no failure',
  );
  assert.deepEqual(asked(), [2, 0]);
  assert.equal((await destination.send(batch(1), AbortSignal.abort())).kind, 'again');
  assert.equal((await destination.ask(NEVER)).kind, 'at');
  assert.deepEqual(asked(), [2, 1]);
  two.sockets.at(-1)?.destroy();
  await eventually('the next host is asked', async () => (await destination.ask(NEVER)).kind === 'at');
  const none = open(t, `nats://127.0.0.1:${gone}/ASSETLOG`);
  assert.match(shown(await none.ask(NEVER)), /^again: 127.0.0.1:\d+ cannot be reached: connect ECONNREFUSED/);
});

test('a batch fits the limits of the server and the stream, and a line that exceeds them is refused unsent', async (t) => {
  const stub = await startNatsStub(t, { info: { max_payload: 4_000 } });
  const destination = open(t, stub.to);
  await destination.ask(NEVER);
  const large = batch(1, 3, 4_000).lines;
  const sizes: unknown[] = [];
  const send = async (lines: Shipment['lines']) => {
    const before = batchesOf(stub).length;
    const sent = await destination.send({ lines, lost: undefined }, NEVER);
    sizes.push([sent.kind, batchesOf(stub).length - before]);
    return sent;
  };
  await send([...batch(2).lines, ...large]);
  const refused = await send(large);
  assert.deepEqual(refused.kind === 'refused' && refused.status, 413);
  await send(batch(1_001, 4).lines);
  stub.say(`INFO ${JSON.stringify({ version: '2.12.0', max_payload: 9_000 })}\r\n`);
  await eventually('the server has said it', async () => (await send(large)).kind === 'recorded');
  assert.deepEqual(sizes.slice(0, 3), [
    ['recorded', 2],
    ['refused', 0],
    ['recorded', 1_000],
  ]);
  const { lines } = batch(1_001);
  const whole = await startNatsStub(t, { config: { max_msg_size: lines[0]!.end + 130 } });
  const other = open(t, whole.to);
  await other.ask(NEVER);
  assert.equal((await other.send({ lines, lost: undefined }, NEVER)).kind, 'recorded');
  assert.equal(whole.stored.length, 1_000);
  assert.equal((await other.send(batch(1, 1, 200), NEVER)).kind, 'refused');
});

test('after a batch that is not acknowledged in time the next ones are smaller', async (t) => {
  let isSlow = true;
  const stub = await startNatsStub(t, {
    answer: ({ headers }) => (isSlow && 'Nats-Batch-Id' in headers ? '' : undefined),
  });
  const destination = open(t, stub.to);
  const lines = batch(8).lines;
  const sizes: number[] = [];
  for (const isNext of [true, true, false, false, false]) {
    isSlow = isNext;
    await destination.ask(NEVER);
    const before = batchesOf(stub).length;
    await destination.send({ lines, lost: undefined }, NEVER);
    sizes.push(batchesOf(stub).length - before);
  }
  assert.deepEqual(sizes, [8, 4, 2, 4, 8]);
});

test('a stream that cannot be used stops forwarding, and the reason has the command that corrects it', async (t) => {
  const noStream = () => errorOf(10_059, 'stream not found', 404);
  const problems: readonly (readonly [Parameters<typeof startNatsStub>[1], RegExp])[] = [
    [{ info: { version: '2.10.29' } }, /is version 2.10.29, .* 2.12/],
    [{ config: { allow_atomic: undefined } }, /run: nats stream edit ASSETLOG --allow-batch$/],
    [{ config: { subjects: ['a.>', 'assetlog.*', 'assetlog.*.*.*', 'assetlog.*.*.*.>'] } }, /--subjects 'assetlog.>'$/],
    [{ config: { no_ack: true } }, /--ack$/],
    [{ config: { retention: 'workqueue' } }, /--retention limits$/],
    [{ config: { sealed: true } }, /is sealed/],
    [{ config: { subject_transform: { src: '>', dest: 'b.>' } } }, /--no-transform$/],
    [
      { answer: noStream, info: { cluster: 'c' } },
      /run: nats stream add ASSETLOG --subjects 'assetlog.>' --storage file --replicas 3 --allow-batch --defaults$/,
    ],
    [{ answer: noStream }, /--replicas 1 --allow-batch --defaults$/],
    [{ answer: () => errorOf(10_039, 'JetStream not enabled for account', 503) }, /add jetstream/],
  ];
  for (const [options, expected] of problems) {
    const stub = await startNatsStub(t, options);
    const found = shown(await open(t, stub.to).ask(NEVER));
    assert.match(found, /^stopped: not set up: /);
    assert.match(found, expected);
  }
  // Of one deployment, or of all of them.
  const one = await startNatsStub(t, { answer: noStream });
  for (const [stream, subjects] of Object.entries({
    'LOG-prod': 'assetlog.prod.>',
    LOG: 'assetlog.>',
    LOG_: 'assetlog.>',
  })) {
    const deployment = stream === 'LOG_' ? undefined : 'prod';
    const found = shown(await open(t, one.to.replace('ASSETLOG', stream), { deployment }).ask(NEVER));
    assert.ok(found.includes(`nats stream add ${stream} --subjects '${subjects}' `), found);
  }
  for (const subjects of [['assetlog.*.*'], [SUBJECT], ['a', '>']]) {
    const stub = await startNatsStub(t, { config: { subjects } });
    assert.equal((await open(t, stub.to).ask(NEVER)).kind, 'at');
  }
});

test('the reason for a full stream names the limit and the command that makes space', async (t) => {
  const edit = 'or let the stream drop old messages: nats stream edit ASSETLOG';
  const more = `; let account and server have more, ${edit} --max-bytes N`;
  const hints: readonly (readonly [number, string, string])[] = [
    [10_077, 'maximum messages exceeded', `; raise that, ${edit} --discard old --no-discard-per-subject`],
    [10_002, 'resource limits exceeded for account', more],
    [10_023, 'insufficient resources', more],
    [10_028, 'insufficient memory resources available', more],
    [10_047, 'insufficient storage resources available', more],
    [10_008, 'JetStream system temporarily unavailable', ''],
  ];
  for (const [code, text, hint] of hints) {
    const stub = await startNatsStub(t, atCommit(errorOf(code, text)));
    const destination = open(t, stub.to);
    await destination.ask(NEVER);
    assert.equal(shown(await destination.send(batch(1), NEVER)), `again: answers ${code}: ${text}${hint}`);
  }
});

test('a PING is answered, and an aborted request leaves nothing behind', async (t) => {
  const stub = await startNatsStub(t, { answer: ({ subject }) => (subject === GET ? '' : undefined) });
  const destination = open(t, stub.to, { limits: { ...limits, natsAnswerMs: 60_000 } });
  const stopping = new AbortController();
  const asked = destination.ask(stopping.signal);
  await eventually('it asks', async () => stub.published.some(({ subject }) => subject === GET));
  stub.say('PING\r\n');
  await eventually('it answers', async () => stub.pongs === 1);
  stopping.abort();
  assert.match(shown(await within('it ends', HANG_MS, asked)), /^again: .* given up$/);
  assert.match(shown(await destination.ask(AbortSignal.abort())), /^again: .* given up$/);
  const again = destination.ask(NEVER);
  await sleep(50);
  destination.close();
  assert.match(shown(await within('it ends', HANG_MS, again)), /^again: /);
  await eventually('its connections are closed', async () => stub.sockets.every(({ destroyed }) => destroyed));
});

test('a server that sends too much unasked loses its connection, and the next request says why [nats-14]', async (t) => {
  const few = { ...limits, natsSecondBytesMax: 1_000_000, natsPieceBytes: 10_000 };
  let late = '';
  const stub = await startNatsStub(t, {
    answer: ({ reply = '' }) => {
      late = messageOf(reply, '{}');
      return undefined;
    },
  });
  const destination = open(t, stub.to, { limits: few });
  const floods: readonly (readonly [string, (count: number) => string])[] = [
    ['PING', (count) => 'PING\r\n'.repeat(count)],
    ['+OK', (count) => '+OK\r\n'.repeat(count)],
    ['INFO', (count) => 'INFO {"version":"2.12.0"}\r\n'.repeat(count)],
    ['messages to nobody', (count) => messageOf('a', 'a').repeat(count)],
    ['an answer once more', (count) => late.repeat(count)],
    ['a large message', (count) => messageOf('a', 'a'.repeat(10_000 * count))],
  ];
  for (const [what, flood] of floods) {
    assert.equal((await destination.ask(NEVER)).kind, 'at', what);
    const { length } = stub.sockets;
    stub.say(flood(20));
    assert.equal((await destination.ask(NEVER)).kind, 'at', what);
    assert.equal(stub.sockets.length, length, what);
    stub.say(flood(300));
    await eventually(`${what} ends the connection`, async () => stub.sockets.at(-1)!.destroyed);
    const reason = shown(await destination.ask(NEVER));
    assert.match(reason, /^again: .* not requested, more than 1000000 bytes or 100 lines in a second; check/, what);
  }
  const flooding = await startNatsStub(t, { answer: () => 'PING\r\n'.repeat(1_000) });
  const waiting = open(t, flooding.to, { limits: few });
  for (let tries = 0; tries < 2; tries += 1) assert.match(shown(await waiting.ask(NEVER)), /^again: .* not requested/);
});

test('chunks of a byte count against the limit like lines, and answers to requests do not count', async (t) => {
  const few = { ...limits, natsSecondBytesMax: 1_000_000, natsPieceBytes: 10_000 };
  let isDripping = true;
  const stub = await startNatsStub(t, {
    answer: ({ subject, reply = '', headers }, self) => {
      if (subject === GET && isDripping) {
        const [socket] = self.sockets as [Socket];
        const drip = () => !socket.destroyed && socket.write('x', () => setImmediate(drip));
        setImmediate(drip);
        return `MSG ${reply} 1 100000\r\n`;
      }
      self.sockets.at(-1)!.setNoDelay(); // so that a batch takes a millisecond
      if (headers['Nats-Batch-Sequence'] === '1') self.say(messageOf(reply, '')); // as a real server does
      return undefined;
    },
  });
  const destination = open(t, stub.to, { limits: few });
  assert.match(shown(await destination.ask(NEVER)), /^again: .* not requested/);
  isDripping = false;
  assert.equal((await destination.ask(NEVER)).kind, 'at');
  for (let seq = 1; seq < 1_000; seq += 2) {
    assert.equal((await destination.send(batch(2, seq), NEVER)).kind, 'recorded', `${seq}`);
  }
});

test('an answer with a value of another type is refused, and the reason shows the value cut, quoted and masked', async (t) => {
  const passwordFile = join(newFolder(t), 'password');
  const secret = 'pass-word-of-the-login';
  writeFileSync(passwordFile, secret);
  const hostile = `${secret}\u001b[31m${'x '.repeat(400_000)}`;
  const noLine = { seq: hostile, subject: SUBJECT, data: '' };
  for (const [name, options] of [
    ['count', atCommit({ count: hostile, seq: 1 })],
    ['seq', atCommit({ count: 2, seq: hostile })],
    ['seq', { answer: ({ subject }: Published) => (subject === GET ? { message: noLine } : undefined) }],
    ['subjects', { config: { subjects: hostile } }],
    ['subjects', { config: { subjects: { length: 1 } } }],
    ['max_msg_size', { config: { max_msg_size: hostile } }],
    ['max_payload', { info: { max_payload: [secret] } }],
  ] as const) {
    const stub = await startNatsStub(t, options);
    const destination = open(t, stub.to, { user: 'device', passwordFile });
    const asked = await destination.ask(NEVER);
    const found = shown(asked.kind === 'at' ? await destination.send(batch(2), NEVER) : asked);
    assert.match(found, RegExp(`^again: answers ${name} .*, which is not a (number|list)$`));
    assert.doesNotMatch(found, /pass-word|\u001b/);
    assert.ok(found.length < 400, `${found.length}`);
  }
});
