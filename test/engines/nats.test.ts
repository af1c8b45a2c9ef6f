/** Forwarding to a NATS server: what stops it and what repairs it. The stream has each event once, whatever happens to either side. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Limits } from '../../src/config/limits.ts';
import { runHere } from '../support/command-output.ts';
import { deadLettersIn, forwardFile, sourceIn, stateIn } from '../support/forwarded.ts';
import { linkedFrom, page } from '../support/handbook.ts';
import {
  assertInStream,
  type Nats,
  natsCommand,
  natsUrl,
  STREAM,
  startNats,
  withoutNats,
  withoutOlderNats,
} from '../support/nats.ts';
import { makeCertificate, withoutNginx } from '../support/nginx.ts';
import { eventsIn, newFolder, type Scope } from '../support/program.ts';
import { report, reportOne } from '../support/report.ts';
import { type Served, serve } from '../support/service.ts';
import { eventually } from '../support/tools.ts';
import { listenOn } from '../world/http-server.ts';

const skip = withoutNats;
const QUICK = {
  followMs: 5,
  forwardRetryMs: 5,
  ackRetryMsMax: 50,
  forwardStoppedMs: 50,
  forwardCheckMs: 20,
  forwardLookMs: 20,
};

interface Sending {
  readonly to?: string;
  readonly args?: readonly string[];
  readonly data?: string;
  readonly limits?: Partial<Limits>;
}

/** Starts a service that acknowledges a report once the stream has it. */
function startIngester(t: Scope, nats: Nats, sending: Sending = {}) {
  const { to = natsUrl(nats), args = [], data = newFolder(t), limits = {} } = sending;
  return serve(t, { data, args: ['--forward-to', to, '--ack', 'upstream', ...args], limits: { ...QUICK, ...limits } });
}

/** Like {@link startIngester}, with a file of one destination. */
function startIngesterWith(t: Scope, destination: object, { data = newFolder(t), limits = {} }: Sending = {}) {
  const file = join(newFolder(t), 'forward.json');
  forwardFile(file, { name: 'upstream', ...destination });
  return serve(t, { data, args: ['--forward', file, '--ack', 'upstream'], limits: { ...QUICK, ...limits } });
}

const isReady = async ({ url }: Served) => (await fetch(`${url}/readyz`)).status === 200;
const waitUntilReady = (service: Served) => eventually('the service is ready', () => isReady(service));
const why = ({ data }: Served) => stateIn(data)?.['why'];

/** Starts a server with a stream, and a service that is ready to send to it. */
async function startReady(t: Scope, stream: object = {}, sending: Sending = {}) {
  const nats = await startNats(t);
  await nats.createStream(stream);
  const service = await startIngester(t, nats, sending);
  await waitUntilReady(service);
  return { nats, service };
}

/** Waits until the service is stopped with an expected reason code and refuses reports. @returns the reason */
async function waitUntilStopped(service: Served, expected: string): Promise<string> {
  await eventually(`forwarding is stopped: ${expected}`, () => why(service) === expected);
  assert.equal(await isReady(service), false);
  assert.deepEqual(await report(service, ['refused']), [503]);
  return `${stateIn(service.data)?.['reason']}`;
}

/** Runs a command from a reason, such as `nats stream add ASSETLOG`, with the `nats` program. */
async function runNats(t: Scope, nats: Nats, command: string): Promise<void> {
  const env = { ...process.env, HOME: newFolder(t), NATS_URL: natsUrl(nats, '').slice(0, -1) };
  await promisify(execFile)('bash', ['-euc', command.replace('nats', `${natsCommand}`)], { env });
}

test('a login by token or by user and password, each also with TLS', { skip: skip || withoutNginx }, async (t) => {
  const folder = newFolder(t);
  const { certificateFile, keyFile } = makeCertificate(folder);
  const ca = readFileSync(certificateFile, 'utf8');
  const tls = `tls { cert_file: "${certificateFile}", key_file: "${keyFile}" }`;
  const token = join(folder, 'token');
  writeFileSync(token, 's3cret\n', { mode: 0o600 });
  const users = [
    { config: 'authorization { token: s3cret }', login: { auth_token: 's3cret' } },
    { config: 'authorization { user: writer, password: s3cret }', login: { user: 'writer', pass: 's3cret' } },
  ];
  for (const { config, login } of users) {
    for (const isTls of [false, true]) {
      const secured = isTls ? { config: `${config}\n${tls}`, login: { ...login, ca } } : { config, login };
      const nats = await startNats(t, secured);
      await nats.createStream();
      const to = isTls ? natsUrl(nats).replace('nats:', 'nats+tls:') : natsUrl(nats);
      const withUser = { to, user: 'writer', passwordFile: token, ...(isTls && { caFile: certificateFile }) };
      const args = ['--forward-token-file', token, ...(isTls ? ['--forward-ca-file', certificateFile] : [])];
      const service = await ('user' in login ? startIngesterWith(t, withUser) : startIngester(t, nats, { to, args }));
      await waitUntilReady(service);
      assert.deepEqual(await report(service, ['a', 'b']), [200, 200]);
      await service.stop();
      assertInStream(await nats.messages(), service.data);
    }
  }
});

test('no login is sent if the server offers no TLS or has an unknown authority', {
  skip: skip || withoutNginx,
}, async (t) => {
  const { certificateFile, keyFile } = makeCertificate(newFolder(t));
  const plain = await startNats(t);
  const reason = await waitUntilStopped(
    await startIngester(t, plain, { to: natsUrl(plain).replace('nats:', 'nats+tls:') }),
    'turned away',
  );
  assert.match(reason, /TLS/);
  const secured = await startNats(t, {
    config: `tls { cert_file: "${certificateFile}", key_file: "${keyFile}" }`,
    login: { ca: readFileSync(certificateFile, 'utf8') },
  });
  assert.match(await waitUntilStopped(await startIngester(t, secured), 'turned away'), /certificate/);
});

test('a wrong password stops the destination and is shown nowhere, and the right one in the file resumes it', {
  skip,
}, async (t) => {
  const nats = await startNats(t, {
    config: 'authorization { user: writer, password: s3cret }',
    login: { user: 'writer', pass: 's3cret' },
  });
  await nats.createStream();
  const passwordFile = join(newFolder(t), 'password');
  writeFileSync(passwordFile, 'wr0ng', { mode: 0o600 });
  const service = await startIngesterWith(
    t,
    { to: natsUrl(nats), user: 'writer', passwordFile },
    { limits: { forwardStoppedMs: 60_000 } },
  );
  assert.match(await waitUntilStopped(service, 'turned away'), /Authorization Violation/);
  const texts = [
    JSON.stringify(stateIn(service.data)),
    ...service.notices,
    await (await fetch(`${service.url}/metrics`)).text(),
  ];
  assert.doesNotMatch(texts.join(), /wr0ng|s3cret/);
  writeFileSync(passwordFile, 's3cret', { mode: 0o600 });
  await waitUntilReady(service);
  assert.deepEqual(await report(service, ['a']), [200]);
  assertInStream(await nats.messages(), service.data);
});

test('the permissions of the handbook are enough, and none of them can be left out', { skip }, async (t) => {
  const [, block = ''] = /^```\n(authorization \{.*?)^```$/ms.exec(page('replicate')) ?? [];
  const password = /password: "([^"]*)"/.exec(block)?.[1] ?? '';
  const passwordFile = join(newFolder(t), 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  const admin = { user: 'admin', pass: 'admin' };
  const permissions = [...block.matchAll(/"((?:assetlog|\$JS|_INBOX)[^"]*)"/g)].map(([, subject = '']) => subject);
  assert.equal(permissions.length, 4);
  for (const missing of [undefined, ...permissions]) {
    const own = missing === undefined ? block : block.replace(`"${missing}"`, '"other"');
    const config = own.replace('users: [{', `users: [{ user: admin, password: admin }, {`);
    const nats = await startNats(t, { config, login: admin });
    await nats.createStream();
    const service = await startIngesterWith(
      t,
      { to: natsUrl(nats), user: 'assetlog', passwordFile },
      { limits: { ackMs: missing === undefined ? 60_000 : 1_000 } },
    );
    if (missing === undefined || missing === 'assetlog.>') await waitUntilReady(service);
    if (missing === 'assetlog.>') assert.deepEqual(await report(service, ['a']), [503]);
    if (missing === undefined) assert.deepEqual(await report(service, ['a']), [200]);
    else assert.match(await waitUntilStopped(service, 'turned away'), /Permissions Violation/, missing);
    await service.stop();
    await Promise.all(nats.nodes.map((node) => node.kill()));
  }
});

test('without a stream the reason has the command that creates it, and then forwarding resumes', {
  skip,
}, async (t) => {
  const nats = await startNats(t, { nodes: 3 });
  const service = await startIngester(t, nats, { limits: { forwardStoppedMs: 60_000 } });
  const reason = await waitUntilStopped(service, 'not set up');
  const [command = ''] = /nats stream add .*--defaults/.exec(reason) ?? [];
  assert.ok(command !== '' && linkedFrom('tier.sh', 'replicate').includes(command), command);
  if (natsCommand) await runNats(t, nats, command);
  else await nats.createStream();
  const status = await runHere(['forward', 'status', '--data', service.data]);
  assert.equal(status.code, 1);
  assert.ok(status.stdout.replaceAll(/\s+/g, ' ').includes(command), status.stdout);
  await service.reload(); // SIGHUP; without it the service retries within a minute
  await waitUntilReady(service);
  assert.deepEqual(await report(service, ['a']), [200]);
  assertInStream(await nats.messages(), service.data);
});

test('a server before 2.12 and a stream without atomic batches get no events, and the reason says what is missing', {
  skip: withoutOlderNats,
}, async (t) => {
  const older = await startNats(t, { isOlder: true });
  await older.createStream();
  const service = await startIngester(t, older);
  assert.match(await waitUntilStopped(service, 'not set up'), /2\.10\.29.*2\.12/);
  assert.deepEqual(await older.messages(), []);
  const nats = await startNats(t);
  await nats.createStream({ allow_atomic: false });
  const other = await startIngester(t, nats);
  assert.match(await waitUntilStopped(other, 'not set up'), /--allow-batch/);
  assert.deepEqual(await nats.messages(), []);
  await nats.updateStream({ allow_atomic: true });
  await waitUntilReady(other);
  assert.deepEqual(await report(other, ['a']), [200]);
});

/** Sends reports with lines a little shorter and a little longer than a limit. @returns the statuses */
async function reportAround(service: Served, bytes: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let length = bytes - 700; length < bytes; length += 25) {
    const { status } = await reportOne(service, 'observation/long', { body: { description: 'x'.repeat(length) } });
    statuses.push(status);
  }
  return statuses;
}

for (const [what, config, stream] of [
  ['the stream', '', { max_msg_size: 4_096 }],
  ['the server', 'max_payload: 4096', {}],
] as const) {
  test(`a line longer than the limit of ${what} becomes a dead letter, and the next lines arrive`, {
    skip,
  }, async (t) => {
    const nats = await startNats(t, { config });
    await nats.createStream(stream);
    const service = await startIngester(t, nats);
    await waitUntilReady(service);
    const statuses = await reportAround(service, 4_096);
    const accepted = statuses.indexOf(503);
    assert.ok(accepted > 0 && accepted < statuses.length - 1, `${statuses}`);
    assert.deepEqual(
      new Set(statuses.slice(accepted)),
      new Set([503]),
      'a line is either in the stream or a dead letter',
    );
    assert.deepEqual(await report(service, ['small']), [200]);
    const dead = deadLettersIn(service.data);
    assert.deepEqual([...new Set(dead.map(({ outcome }) => outcome))], ['refused']);
    assert.equal(dead.length, statuses.length - accepted);
    assert.equal((await nats.messages()).length, accepted + 1);
  });
}

test('a retry publishes to a separate subject, and does not change the last seq of the journal', {
  skip,
}, async (t) => {
  const { nats, service } = await startReady(t, { max_msg_size: 4_096 });
  const body = { description: 'x'.repeat(5_000) };
  assert.deepEqual(await report(service, ['a']), [200]);
  assert.equal((await reportOne(service, 'observation/long', { body })).status, 503);
  assert.deepEqual(await report(service, ['b']), [200]);
  await nats.updateStream({ max_msg_size: -1 });
  await service.stop(); // a connection keeps the limits from its start
  const again = await startIngester(t, nats, { data: service.data });
  await waitUntilReady(again);
  const retried = await runHere(['forward', 'retry', 'upstream', '--data', service.data]);
  assert.equal(retried.code, 0, retried.stderr);
  const subject = `assetlog._.${sourceIn(service.data)}`;
  const retriedMessages = async () =>
    (await nats.messages()).filter((message) => message.subject === `${subject}.again`);
  await eventually('the retried event is in the stream', async () => (await retriedMessages()).length === 1);
  const [, line] = readFileSync(join(service.data, 'events-00000000000000000001.jsonl'), 'utf8').split('\n');
  assert.equal((await retriedMessages())[0]?.payload, line);
  assert.deepEqual(await report(again, ['c']), [200]);
  await again.stop();
  const last = await startIngester(t, nats, { data: service.data });
  await waitUntilReady(last);
  assert.deepEqual(await report(last, ['d']), [200]);
  const seqs = (await nats.messages()).flatMap((one) => (one.subject === subject ? [JSON.parse(one.payload).seq] : []));
  assert.deepEqual(seqs, [1, 3, 4, 5]);
});

test('a stream that dropped all events gets the next one, and after forward from all of them', {
  skip,
}, async (t) => {
  const { nats, service } = await startReady(t, { max_age: 1e9 });
  for (const keys of [['a', 'b'], ['c']]) {
    assert.deepEqual(new Set(await report(service, keys)), new Set([200]));
    await eventually('all events are dropped', async () => (await nats.messages()).length === 0);
  }
  const warnings = service.notices.filter((line) => line.includes('"level":"warn"'));
  assert.deepEqual(warnings.length, 1, warnings.join('\n'));
  await service.stop();
  await nats.updateStream({ max_age: 0 });
  const next = await startIngester(t, nats, { data: service.data });
  await waitUntilReady(next);
  assert.deepEqual(await report(next, ['d']), [200]);
  assert.ok(
    next.notices.some((line) => line.includes('"level":"warn"') && line.includes('forward from upstream --seq 1')),
    next.notices.join('\n'),
  );
  assert.deepEqual(
    (await nats.messages()).map(({ payload }) => JSON.parse(payload).seq),
    [4],
  );
  await nats.api(`STREAM.PURGE.${STREAM}`);
  await next.stop();
  const { code, stderr } = await runHere(['forward', 'from', 'upstream', '--seq', '1', '--data', service.data]);
  assert.equal(code, 0, stderr);
  await waitUntilReady(await startIngester(t, nats, { data: service.data }));
  assertInStream(await nats.messages(), service.data);
});

test('a stream restored from an older state gets the missing events again', { skip }, async (t) => {
  const { nats, service } = await startReady(t);
  const [node] = nats.nodes as readonly [(typeof nats.nodes)[0]];
  assert.deepEqual(await report(service, ['a', 'b']), [200, 200]);
  await node.kill();
  const [store, backup] = [join(node.folder, 'store'), join(newFolder(t), 'store')];
  cpSync(store, backup, { recursive: true });
  await node.start();
  await waitUntilReady(service);
  assert.deepEqual(await report(service, ['c', 'd']), [200, 200]);
  await node.kill();
  rmSync(store, { recursive: true });
  cpSync(backup, store, { recursive: true });
  await node.start();
  await eventually('JetStream answers', () => nats.answers());
  assert.deepEqual(await report(service, ['e']), [200]);
  assertInStream(await nats.messages(), service.data);
});

test('a full stream with discard new refuses the next event until it has space', { skip }, async (t) => {
  const { nats, service } = await startReady(t, { max_bytes: 8_192, discard: 'new' }, { limits: { ackMs: 5_000 } });
  const statuses: (number | undefined)[] = [];
  while (statuses.at(-1) !== 503) statuses.push(...(await report(service, [`a${statuses.length}`])));
  assert.ok(statuses.length > 5, `${statuses.length} reports`);
  assert.equal(await isReady(service), false);
  const problem = () => `${stateIn(service.data)?.['last_error']}`;
  await eventually('the status has the reason', () => /maximum bytes exceeded.*--discard old/.test(problem()));
  await nats.updateStream({ max_bytes: -1 });
  await waitUntilReady(service);
  assert.deepEqual(deadLettersIn(service.data), []);
  assertInStream(await nats.messages(), service.data);
});

test('the command for a full stream makes space, also with a limit per subject', {
  skip: skip || (!natsCommand && 'there is no nats program; set ASSETLOG_TEST_NATS_CLI to one'),
}, async (t) => {
  const nats = await startNats(t);
  await nats.createStream({ max_msgs_per_subject: 2, discard: 'new', discard_new_per_subject: true });
  const service = await serve(t, { args: ['--forward-to', natsUrl(nats)], limits: QUICK });
  for (const name of ['a', 'b', 'c']) await report(service, [name]);
  const command = () => /nats stream edit .*/.exec(`${stateIn(service.data)?.['last_error']}`)?.[0];
  await eventually('the status has the command', () => command() !== undefined);
  await runNats(t, nats, `${command()} --force`);
  await eventually('the stream has the last event', async () => /"c"/.test((await nats.messages()).at(-1)!.payload));
  assert.equal((await nats.messages()).length, 2);
});

test('a copy of a folder that runs beside its original is a fork, and resumes with a new id', { skip }, async (t) => {
  const { nats, service: before } = await startReady(t);
  assert.deepEqual(await report(before, ['a', 'b']), [200, 200]);
  await before.stop();
  const data = newFolder(t);
  cpSync(before.data, data, { recursive: true });
  const original = await startIngester(t, nats, { data: before.data });
  const clone = await startIngester(t, nats, { data, limits: { ackMs: 500 } });
  await Promise.all([waitUntilReady(original), waitUntilReady(clone)]);
  assert.deepEqual(await report(original, ['c']), [200]);
  assert.deepEqual(await report(clone, ['c']), [503]);
  assert.match(await waitUntilStopped(clone, 'fork'), /event 3/);
  assert.deepEqual(await report(original, ['d']), [200]);
  assertInStream(await nats.messages(), original.data);
  await clone.stop();
  const { code, stderr } = await runHere(['forward', 'identity', '--new', '--data', data]);
  assert.equal(code, 0, stderr);
  const renamed = await startIngester(t, nats, { data });
  await waitUntilReady(renamed);
  assert.deepEqual(await report(renamed, ['e']), [200]);
  const own = (await nats.messages()).filter(({ subject }) => subject.endsWith(`${sourceIn(data)}`));
  assert.deepEqual(
    own.map(({ payload }) => JSON.parse(payload).seq),
    [3, 4],
  );
  assertInStream(await nats.messages(), original.data);
});

/** Starts a proxy that can hold the bytes of clients, also after they disconnect. */
async function startHoldingProxy(t: Scope, port: number) {
  let isHolding = false;
  const held: (() => void)[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}));
    client.on('data', (bytes) => {
      if (isHolding) held.push(() => upstream.write(bytes));
      else upstream.write(bytes);
    });
    upstream.on('data', (bytes) => client.write(bytes));
    upstream.on('close', () => client.destroy());
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  const own = await listenOn(t, server);
  return {
    port: own,
    heldCount: () => held.length,
    hold: () => {
      isHolding = true;
    },
    /** Passes on new bytes; the held ones wait for `release`. */
    pass: () => {
      isHolding = false;
    },
    release: () => {
      for (const send of held.splice(0)) send();
    },
  };
}

test('a batch that arrives after its timeout is never stored', { skip }, async (t) => {
  const nats = await startNats(t);
  await nats.createStream();
  const proxy = await startHoldingProxy(t, nats.nodes[0]!.port);
  const service = await startIngester(t, nats, {
    to: `nats://127.0.0.1:${proxy.port}/${STREAM}`,
    limits: { natsAnswerMs: 300 },
  });
  await waitUntilReady(service);
  assert.deepEqual(await report(service, ['a']), [200]);
  proxy.hold();
  const reported = report(service, ['b']);
  await eventually('the batch is held', () => proxy.heldCount() > 0);
  await sleep(100);
  proxy.pass();
  assert.deepEqual(await reported, [200]);
  proxy.release();
  await sleep(200);
  assert.deepEqual(await report(service, ['c']), [200]);
  assertInStream(await nats.messages(), service.data);
});

test('each line of batches of a thousand is in the stream once', { skip }, async (t) => {
  const { nats, service } = await startReady(t);
  const items = Array.from({ length: 2_500 }, (_, at) => ({ type: 'AssetObservation', asset_key: `a${at}` }));
  const file = join(newFolder(t), 'reports.jsonl');
  writeFileSync(file, items.map((item) => JSON.stringify(item)).join('\n'));
  const { code, stderr } = await runHere(['report', '--from', file, '--url', service.url]);
  assert.equal(code, 0, stderr);
  assert.equal(eventsIn(service.data).length, 2_500);
  assertInStream(await nats.messages(), service.data);
});

test('forward test reports whether the stream is set up, and publishes nothing', { skip }, async (t) => {
  const nats = await startNats(t);
  const probe = () => runHere(['forward', 'test', '--forward-to', natsUrl(nats)]);
  const before = await probe();
  assert.equal(before.code, 1);
  assert.match(before.stdout, /^upstream: DOES NOT WORK: \S+: .*nats stream add ASSETLOG/);
  await nats.createStream();
  const { code, stdout } = await probe();
  assert.equal(code, 0);
  assert.match(stdout, /: its stream is set up and can be read; whether the login may publish was not tried\n$/);
  assert.deepEqual(await nats.messages(), []);
});
