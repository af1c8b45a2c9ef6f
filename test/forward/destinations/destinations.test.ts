/** What the two kinds of destinations send, and what they make of each answer. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Limits, limits as standard } from '../../../src/config/limits.ts';
import type { Asked, Opening, Sent, Shipment } from '../../../src/forward/destinations/destination.ts';
import { type DestinationKind, traitsOf } from '../../../src/forward/destinations/kinds.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { freePort, newFolder } from '../../support/program.ts';
import { linesOf } from '../../support/sent-lines.ts';
import type { Scripted } from '../../world/http.ts';
import { type Got, listenOn, startScripted } from '../../world/http-server.ts';

const SOURCE = '01a1fb95-0000-7000-8000-000000000001';
const HTML = '<!DOCTYPE html><title>proxy</title>';
const HUB = '{"seq":0,"id":null}';
const ID = '01a1fb95-0000-7000-8000-000000000002';
/** What has a seq, and is not what a hub says. */
const NO_POSITIONS: readonly object[] = [
  { seq: -1, id: null },
  { seq: 0, id: ID },
  { seq: 7 },
  { seq: 0 },
  ...[-1, 7.5, '7', null, 2 ** 53].map((seq) => ({ seq, id: ID })),
  ...['a', '', 7, [ID], { id: ID }, `${ID}\n`, ID.toUpperCase(), ID.replaceAll('-', '')].map((id) => ({ seq: 7, id })),
];
const DATE = 'Fri, 20 Nov 2026 15:00:00 GMT';
const NEVER = new AbortController().signal;
const idOf = (number: number) => `01a1fb95-0000-7000-8000-${String(number).padStart(12, '0')}`;

const limits: Limits = { ...standard, forwardRequestMs: 5_000 };
const orders: PlainEvent = { type: 'AssetMaterialization', assetKey: ['warehouse', 'orders'] };
const check: PlainEvent = {
  type: 'AssetCheckEvaluation',
  assetKey: ['orders'],
  checkName: 'no_nulls',
  passed: false,
  severity: 'WARN',
};

/** @returns one of a kind that can be asked with its `ask` */
function open<Kind extends DestinationKind>(t: TestContext, kind: Kind, to: string, options: Partial<Opening> = {}) {
  const openAs = traitsOf[kind].open as (opening: Opening) => ReturnType<(typeof traitsOf)[Kind]['open']>;
  const destination = openAs({
    to,
    source: SOURCE,
    tokenHeader: 'X-Token',
    stamp: false,
    limits,
    ...options,
  });
  t.after(() => destination.close());
  return destination;
}

function batch(events: readonly PlainEvent[] = [orders], firstSeq = 1, crc = 0): Shipment {
  return { lines: linesOf(events, firstSeq, crc), lost: undefined };
}

/** `stopped: turned away` or the kind alone. */
function shown(found: Asked | Sent): string {
  if (found.kind === 'stopped') return `stopped: ${found.why}`;
  return found.kind === 'in doubt' && found.isFinal ? 'in doubt: final' : found.kind;
}

function reasonOf(found: Asked | Sent): string {
  return 'reason' in found ? found.reason : '';
}

const error = '{"error":"no such thing"}';

/** A row for each status, whose reply has this body. */
function each(statuses: readonly number[], body: string, expected: string) {
  return statuses.map((status): readonly [string, Scripted, string] => [`${status}`, [status, body], expected]);
}

/** What a hub says that has taken all lines of a request. */
function tookAll({ body }: Got): Scripted {
  const { seq, id } = JSON.parse(body.trimEnd().split('\n').at(-1) ?? '');
  return [200, JSON.stringify({ seq, id })];
}

test('each answer of a plain destination has its outcome', async (t) => {
  const withPartition: PlainEvent = { ...check, partition: 'p' };
  const table: readonly (readonly [string, Scripted, expected: string, event?: PlainEvent])[] = [
    ['recorded', [200, '{}'], 'recorded'],
    ['recorded, with more members', [200, '{"id":1}'], 'recorded'],
    ['a refusal that is a 200', [200, error], 'refused'],
    ['a refusal that is a 200, with an object', [200, '{"error":{"a":1}}'], 'refused'],
    ['a page', [200, HTML], 'stopped: not understood'],
    ['nothing', [200, ''], 'stopped: not understood'],
    ['an array', [200, '[{}]'], 'stopped: not understood'],
    ['null', [200, 'null'], 'stopped: not understood'],
    ['201', [201, '{}'], 'stopped: not understood'],
    ['202', [202, '{}'], 'stopped: not understood'],
    ['204', [204, ''], 'stopped: not understood'],
    ...[400, 413, 415, 422].flatMap((status): (readonly [string, Scripted, string])[] => [
      [`${status} of the upstream`, [status, error], 'refused'],
      [`${status} of a proxy`, [status, HTML], 'stopped: turned away'],
      [`${status} of a proxy that speaks JSON`, [status, '{"message":"no"}'], 'stopped: turned away'],
    ]),
    ...each([301, 302, 307, 308, 401, 403, 404, 405, 407, 409, 410, 421, 426, 431], error, 'stopped: turned away'),
    ['408', [408, error], 'again'],
    ['429', [429, error], 'again'],
    ['503', [503, error], 'again'],
    ['503 of a proxy', [503, HTML], 'again'],
    ...each([500, 502, 504, 520], HTML, 'in doubt'),
    ['500 to a check', [500, HTML], 'in doubt', check],
    ['500 to a check with a partition', [500, HTML], 'in doubt: final', withPartition],
    ['502 to a check with a partition', [502, HTML], 'in doubt', withPartition],
    ['500 to another event with a partition', [500, HTML], 'in doubt', { ...orders, partition: 'p' }],
  ];
  let answer: Scripted = [200, ''];
  const { url } = await startScripted(t, () => answer);
  const destination = open(t, 'api', url);
  assert.equal(destination.ask, undefined, 'only the cursor says how far it is');
  for (const [what, scripted, expected, event = orders] of table) {
    answer = scripted;
    const sending = batch([event], 7);
    const found = await destination.send(sending, NEVER);
    assert.equal(shown(found), expected, what);
    const [status] = scripted;
    const { id } = sending.lines[0]!.event;
    if (found.kind === 'recorded') assert.deepEqual(found, { kind: 'recorded', seq: 7, id });
    else assert.match(reasonOf(found), new RegExp(`^answers ${status}: `), what);
    if (found.kind === 'refused' || found.kind === 'in doubt') assert.equal(found.status, status, what);
  }
});

test('each answer of a hub to an ask has its outcome, and only an answer can mean that there is no hub', async (t) => {
  const table: readonly (readonly [Scripted, expected: string])[] = [
    [[200, HUB], 'at'],
    [[200, `{"seq":7,"id":"${ID}"}`], 'at'],
    [[200, `{"seq":9007199254740991,"id":"${ID}","via":["${ID}"]}`], 'at'],
    ...NO_POSITIONS.map((said): readonly [Scripted, string] => [
      [200, JSON.stringify(said)],
      'stopped: not understood',
    ]),
    [[200, '{}'], 'no hub'],
    [[200, '[7]'], 'no hub'],
    [[200, HTML], 'no hub'],
    [[400, error], 'no hub'],
    [[404, error], 'no hub'],
    [[404, HTML], 'no hub'],
    [[405, 'Method Not Allowed'], 'no hub'],
    [[204, ''], 'stopped: not understood'],
    [[401, error], 'stopped: turned away'],
    [[403, HTML], 'stopped: turned away'],
    [[301, HTML], 'stopped: turned away'],
    [[410, HTML], 'stopped: turned away'],
    ...[408, 429, 500, 501, 502, 503, 504, 520].map((status): readonly [Scripted, string] => [[status, HTML], 'again']),
  ];
  let answer: Scripted = [200, ''];
  const { url, got } = await startScripted(t, () => answer);
  const destination = open(t, 'hub', `${url}/prod/`);
  for (const [scripted, expected] of table) {
    answer = scripted;
    assert.equal(shown(await destination.ask(NEVER)), expected, scripted.join(' '));
  }
  answer = [200, `{"seq":7,"id":"${ID}"}`];
  assert.deepEqual(await destination.ask(NEVER), { kind: 'at', seq: 7, id: ID, knowsIds: false });
  assert.deepEqual([got[0]?.method, got[0]?.url], ['GET', `/prod/forward/${SOURCE}`]);
});

test('each answer of a hub to lines has its outcome', async (t) => {
  const { lines } = batch([orders, orders, orders], 7);
  const ids = lines.map(({ event }) => event.id);
  const at = (seq: number, id: string | null | undefined) => JSON.stringify({ seq, id });
  const conflict = (reason: string) => JSON.stringify({ error: 'no', reason, seq: 3, id: ID });
  const table: readonly (readonly [string, Scripted, expected: string, count?: number])[] = [
    ['all', [200, at(9, ids[2])], 'recorded'],
    ['some', [200, at(8, ids[1])], 'recorded'],
    ['an event of another journal with our id', [200, at(9, ID)], 'stopped: fork'],
    ['the id of another line', [200, at(9, ids[1])], 'stopped: fork'],
    ['more than was sent', [200, at(20, ID)], 'elsewhere'],
    ['less than was sent', [200, at(6, ID)], 'elsewhere'],
    ['nothing', [200, at(0, null)], 'elsewhere'],
    ['a page', [200, HTML], 'stopped: not understood'],
    ['no position', [200, '{}'], 'stopped: not understood'],
    ['204', [204, ''], 'stopped: not understood'],
    ['fork', [409, conflict('fork')], 'stopped: fork'],
    ['an event that a hub of 0.3 has recorded first', [409, conflict('loop')], 'stopped: turned away'],
    ...[200, 409].flatMap((status) =>
      NO_POSITIONS.map((said): readonly [string, Scripted, string] => [
        `${status} ${JSON.stringify(said).slice(0, 99)}`,
        [status, JSON.stringify({ error: 'no', reason: 'gap', ...said })],
        'stopped: not understood',
      ]),
    ),
    ['409 of a proxy that speaks JSON', [409, '{"message":"no"}'], 'stopped: turned away'],
    ['gap', [409, conflict('gap')], 'elsewhere'],
    ['409 of a proxy', [409, HTML], 'stopped: turned away'],
    ['a broken chain', [400, error], 'stopped: damage'],
    ['400 of a proxy', [400, HTML], 'stopped: turned away'],
    ['413 for one line', [413, error], 'refused', 1],
    ['413 of a proxy for one line', [413, HTML], 'stopped: turned away', 1],
    ['413 of a proxy that speaks JSON', [413, '{"message":"no"}'], 'stopped: turned away', 1],
    ...each([301, 401, 403, 404, 405, 415, 422], error, 'stopped: turned away'),
    ...each([408, 429, 500, 502, 503, 504, 520], HTML, 'again'),
  ];
  let answer: Scripted = [200, ''];
  const { url } = await startScripted(t, () => answer);
  for (const [what, scripted, expected, count = 3] of table) {
    answer = scripted;
    const destination = open(t, 'hub', url);
    const found = await destination.send({ lines: lines.slice(0, count), lost: undefined }, NEVER);
    assert.equal(shown(found), expected, what);
    if (found.kind === 'recorded') assert.deepEqual(found.id, ids[found.seq - 7]);
  }
});

test('a hub that accepts gzip gets compressed lines, and gets them again uncompressed if it refuses them', async (t) => {
  const long: PlainEvent = { ...orders, description: 'x'.repeat(400) };
  let refusal: Scripted | undefined;
  let gzip: unknown = true;
  const { url, got } = await startScripted(t, (one) => {
    if (one.method === 'GET') return [200, JSON.stringify({ seq: 0, id: null, gzip })];
    return (one.headers['content-encoding'] === 'gzip' ? refusal : undefined) ?? tookAll(one);
  });
  const destination = open(t, 'hub', url);
  /** @returns for each request with the lines whether it was packed */
  const send = async (count: number): Promise<boolean[]> => {
    const before = got.length;
    const lines = batch(Array.from({ length: count }, () => long));
    assert.equal(shown(await destination.send(lines, NEVER)), 'recorded');
    const sent = got.slice(before);
    for (const { body } of sent) assert.equal(body, `${lines.lines.map(({ text }) => text).join('\n')}\n`);
    return sent.map(({ headers }) => headers['content-encoding'] === 'gzip');
  };
  assert.deepEqual(await send(3), [false], 'the hub was not asked');
  await destination.ask!(NEVER);
  assert.deepEqual([await send(3), await send(1)], [[true], [false]], 'a small body is not packed');
  for (const one of [
    [415, error],
    [415, HTML],
    [400, error],
    [400, HTML],
  ] as const) {
    refusal = one;
    assert.deepEqual([await send(3), await send(3)], [[true, false], [false]], one.join());
    refusal = undefined;
    assert.deepEqual(await send(3), [false]);
    await destination.ask!(NEVER);
    assert.deepEqual(await send(3), [true]);
  }
  for (gzip of [false, undefined, 'true']) {
    await destination.ask!(NEVER);
    assert.deepEqual(await send(3), [false]);
  }
});

test('lines with members that version 0.3 does not know are sent only to a hub that says it accepts them', async (t) => {
  const first = (name: readonly [string, number] | undefined, slot = ''): PlainEvent => ({
    ...orders,
    origin: { id: ID, source: idOf(50), seq: 1, recorded: '2020-01-01T00:00:00.000Z', first: name },
    slot,
  });
  const through = [
    first(undefined),
    first([idOf(51), 3]),
    first(undefined, ',"site":"north"'),
    first(undefined, ',"by":"ci"'),
  ];
  let origins: unknown;
  const { url, got } = await startScripted(t, (one) =>
    one.method === 'GET' ? [200, JSON.stringify({ seq: 0, id: null, origins })] : tookAll(one),
  );
  const destination = open(t, 'hub', url);
  const send = async (events: readonly PlainEvent[]) => {
    got.length = 0;
    const sent = await destination.send(batch(events), NEVER);
    return [
      sent.kind === 'stopped' ? reasonOf(sent) : shown(sent),
      ...got.map(({ body }) => body.split('\n').length - 1),
    ];
  };
  const older = 'this hub is older than 0.4; upgrade it, then forwarding continues';
  for (const said of [undefined, false, 'true', true]) {
    origins = said;
    await destination.ask!(NEVER);
    assert.deepEqual(await send([orders, first(undefined)]), ['recorded', 2], `${said}`);
    assert.deepEqual(await send(through), ['recorded', said === true ? 4 : 1], `${said}`);
    for (const one of through.slice(1)) assert.deepEqual(await send([one]), said === true ? ['recorded', 1] : [older]);
  }
  origins = false;
  await destination.ask!(NEVER);
  assert.deepEqual(await send(through.slice(2)), [older], 'the hub went back a version');
});

test('a hub gets the lines byte for byte, with the crc before them and the range of lost events', async (t) => {
  const event: PlainEvent = {
    ...orders,
    metadata: '{"rows":1.0,"big":12345678901234567890,"text":"é\\u2028"}',
    description: 'ü',
  };
  const { lines } = batch([event, check, event], 41, 0x00abcdef);
  const { url, got } = await startScripted(t, tookAll);
  const destination = open(t, 'hub', url);
  await destination.send({ lines, lost: { first: 4, last: 40 } }, NEVER);
  await destination.send({ lines: lines.slice(1), lost: undefined }, NEVER);
  const [first, second] = got as [Got, Got];
  assert.deepEqual([first.method, first.url], ['PUT', `/forward/${SOURCE}/41`]);
  assert.equal(first.body, lines[0]!.bytes.toString());
  assert.equal(first.headers['content-type'], 'application/x-ndjson');
  assert.equal(first.headers['assetlog-crc'], '00abcdef');
  assert.equal(first.headers['assetlog-lost'], '4-40');
  assert.equal(second.headers['assetlog-lost'], undefined);
  assert.equal(second.url, `/forward/${SOURCE}/42`);
  assert.match(lines[0]!.text, new RegExp(`"crc":"${second.headers['assetlog-crc']}"}$`));
});

test('a request has as many lines as fit, at least one, and fewer if a proxy refuses it or the link is slow', async (t) => {
  const events = Array.from({ length: 40 }, (): PlainEvent => orders);
  const { lines } = batch(events);
  const lineBytes = lines[0]!.end + 1;
  let takes = Number.POSITIVE_INFINITY;
  const { url, got } = await startScripted(t, (sent) => (sent.body.length > takes ? [413, HTML] : tookAll(sent)));
  const counts = () => got.splice(0).map(({ body }) => body.trimEnd().split('\n').length);
  const sendTo = async (own: Partial<Limits>) => {
    const found = await open(t, 'hub', url, { limits: { ...limits, ...own } }).send({ lines, lost: undefined }, NEVER);
    assert.equal(found.kind, 'recorded');
  };
  await sendTo({});
  await sendTo({ forwardBatchBytes: 10 * (lineBytes + 1) });
  await sendTo({ forwardBatchBytes: 1 });
  await sendTo({ batchItemsMax: 7 });
  assert.deepEqual(counts(), [40, 10, 1, 7]);

  takes = 12 * (lineBytes + 1);
  const destination = open(t, 'hub', url);
  for (let count = 0; count < 3; count += 1) await destination.send({ lines, lost: undefined }, NEVER);
  const [first, second, third, ...later] = counts();
  assert.deepEqual([first, later.length], [40, 2]);
  assert.ok(second! > third! && third! <= 12, `${second}, ${third}`);
  assert.ok(later.every((count) => count === third));

  takes = Number.POSITIVE_INFINITY;
  const slow = createServer(async (request, response) => {
    if (Number(request.headers['content-length']) > 3_000) return; // it takes longer than the timeout
    for await (const _ of request);
    response.end('{}'); // no position
  });
  const to = `http://127.0.0.1:${await listenOn(t, slow)}`;
  const patient = open(t, 'hub', to, { limits: { ...limits, forwardRequestMs: 2_000 } });
  const kinds: string[] = [];
  for (let count = 0; count < 3; count += 1) kinds.push((await patient.send({ lines, lost: undefined }, NEVER)).kind);
  assert.deepEqual(kinds, ['again', 'again', 'stopped']);
});

test('a plain destination gets each type of event with all its values in the body', async (t) => {
  const { url, got } = await startScripted(t, () => [200, '{}']);
  const metadata = '{"rows":1.0,"big":12345678901234567890,"a":1e400,"a":"\\u00e9\\/"}';
  const events: readonly PlainEvent[] = [
    {
      type: 'AssetMaterialization',
      assetKey: ['a/b', 'c'],
      metadata,
      description: 'd "q"',
      dataVersion: 'v1',
      partition: '',
    },
    { type: 'AssetObservation', assetKey: ['é'], eventTime: '2026-11-19T01:02:03.25Z', idempotencyKey: 'k' },
    { ...check, partition: '2026-11-20', metadata: '{}' },
    { ...orders, origin: { id: 'first', source: 'x', seq: 3, recorded: '2026-11-01T00:00:00.000Z' } },
  ];
  const { lines } = batch(events);
  const destination = open(t, 'api', `${url}/prefix`);
  for (const line of lines) await destination.send({ lines: [line], lost: undefined }, NEVER);
  assert.deepEqual(
    got.map(({ method, url: path, body }) => [method, path, body]),
    [
      [
        'POST',
        '/prefix/report_asset_materialization/',
        `{"asset_key":["a/b","c"],"metadata":${metadata},"data_version":"v1","description":"d \\"q\\"","partition":""}`,
      ],
      ['POST', '/prefix/report_asset_observation/', '{"asset_key":["é"],"event_time":"2026-11-19T01:02:03.25Z"}'],
      [
        'POST',
        '/prefix/report_asset_check/',
        `{"asset_key":["orders"],"passed":false,"check_name":"no_nulls","metadata":{},"severity":"WARN","partition":"2026-11-20"}`,
      ],
      ['POST', '/prefix/report_asset_materialization/', '{"asset_key":["warehouse","orders"]}'],
    ],
  );
  for (const [index, { headers }] of got.entries()) {
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['idempotency-key'], `"${lines[index]!.event.id}"`);
  }
});

test('a stamp is added to the metadata, and no other byte changes', async (t) => {
  const { url, got } = await startScripted(t, () => [200, '{}']);
  const destination = open(t, 'api', url, { stamp: true });
  const events: readonly PlainEvent[] = [
    orders,
    { ...orders, metadata: '{}' },
    { ...orders, metadata: '{"rows":1.00}', eventTime: '2026-11-19T01:02:03.25Z' },
    { ...orders, origin: { id: 'first', source: 'x', seq: 3, recorded: '2026-11-01T00:00:00.000Z' } },
  ];
  const { lines } = batch(events);
  for (const line of lines) await destination.send({ lines: [line], lost: undefined }, NEVER);
  const stamp = (at: number, recorded = '2026-11-20T15:19:45.266Z') =>
    `"assetlog/id":"${lines[at]!.event.id}","assetlog/recorded":"${recorded}"`;
  const metadata = got.map(({ body }) => /"metadata":(\{.*?\})/.exec(body)?.[1]);
  assert.deepEqual(metadata, [
    `{${stamp(0)}}`,
    `{${stamp(1)}}`,
    `{"rows":1.00,${stamp(2)},"assetlog/event_time":"2026-11-19T01:02:03.25Z"}`,
    `{${stamp(3, '2026-11-01T00:00:00.000Z')}}`,
  ]);
});

test('a redirect is never followed, and the reason names its target [targets-1]', async (t) => {
  const other = await startScripted(t, () => [200, '{}']);
  for (const status of [301, 302, 303, 307, 308]) {
    const { url } = await startScripted(t, () => [status, '', { Location: `${other.url}/x?\u00e9` }]);
    for (const kind of ['hub', 'api'] as const) {
      const destination = open(t, kind, url);
      const found = await (destination.ask?.(NEVER) ?? destination.send(batch(), NEVER));
      assert.equal(shown(found), 'stopped: turned away');
      assert.match(reasonOf(found), new RegExp(`^answers ${status}: it is at ${other.url}/x`));
    }
  }
  assert.deepEqual(other.got, []);
});

test('without a connection a request is tried again', async (t) => {
  const to = `http://127.0.0.1:${await freePort(t)}`;
  for (const kind of ['hub', 'api'] as const) {
    assert.match(reasonOf(await open(t, kind, to).send(batch(), NEVER)), /^cannot be reached: .*ECONNREFUSED/);
    assert.equal((await open(t, kind, to).send(batch(), NEVER)).kind, 'again');
  }
  assert.equal((await open(t, 'hub', to).ask(NEVER)).kind, 'again');
  const noName = open(t, 'api', 'http://no-such-name.invalid');
  assert.equal((await noName.send(batch(), NEVER)).kind, 'again');
});

test('a server that does not speak HTTP, such as NATS, is reported as such', async (t) => {
  const port = await listenOn(
    t,
    createNetServer((socket) => socket.on('error', () => {}).end('INFO {}\r\n')),
  );
  const asked = await open(t, 'hub', `http://127.0.0.1:${port}`).ask(NEVER);
  assert.equal(reasonOf(asked), 'sent no complete reply: it does not speak HTTP; check the URL');
});

test('a reply that is cut anywhere is not accepted', async (t) => {
  const { lines } = batch();
  const body = JSON.stringify({ seq: 1, id: lines[0]!.event.id });
  const reply = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  let length = 0;
  const server = createNetServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(reply.slice(0, length)));
  });
  const to = `http://127.0.0.1:${await listenOn(t, server)}`;
  const hub = open(t, 'hub', to);
  const api = open(t, 'api', to);
  for (; length < reply.length; length += 1) {
    assert.equal((await hub.ask(NEVER)).kind, 'again', reply.slice(0, length));
    assert.equal((await hub.send({ lines, lost: undefined }, NEVER)).kind, 'again', reply.slice(0, length));
    const sent = await api.send({ lines, lost: undefined }, NEVER);
    assert.deepEqual([sent.kind, 'isFinal' in sent && sent.isFinal], ['in doubt', false], reply.slice(0, length));
    assert.match(reasonOf(sent), /^sent no complete reply: /);
  }
  assert.equal((await hub.send({ lines, lost: undefined }, NEVER)).kind, 'recorded');
  assert.equal((await api.send({ lines, lost: undefined }, NEVER)).kind, 'recorded');
});

test('Retry-After is read as seconds, or as a date relative to the Date of the reply', async (t) => {
  const table: readonly (readonly [Readonly<Record<string, string>>, number | undefined])[] = [
    [{}, undefined],
    [{ 'Retry-After': '7' }, 7_000],
    [{ 'Retry-After': 'Fri, 20 Nov 2026 15:00:30 GMT', Date: DATE }, 30_000],
  ];
  let headers: Readonly<Record<string, string>> = {};
  const { url } = await startScripted(t, () => [503, error, headers]);
  const destination = open(t, 'hub', url);
  // The clock of a device that was never set.
  t.mock.method(Date, 'now', () => 1_000);
  for (const [more, afterMs] of table) {
    headers = more;
    const found = await destination.ask(NEVER);
    assert.deepEqual(found, { kind: 'again', reason: 'answers 503: no such thing', afterMs }, JSON.stringify(more));
    assert.deepEqual(await destination.send(batch(), NEVER), found);
  }
});

test('the token is read again when its file changes, is sent in its header, and is never shown', async (t) => {
  const tokenFile = join(newFolder(t), 'token');
  const { url, got } = await startScripted(t, ({ headers }) => [400, `{"error":"no ${headers['x-token']} here"}`]);
  writeFileSync(tokenFile, 'asl_first\n');
  const destination = open(t, 'api', url, { tokenFile, limits: { ...limits, keptMs: 0 } });
  const first = await destination.send(batch(), NEVER);
  assert.equal(reasonOf(first), 'answers 400: no *** here');
  writeFileSync(tokenFile, '  asl_second  ');
  await destination.send(batch(), NEVER);
  assert.deepEqual(
    got.map(({ headers }) => headers['x-token']),
    ['asl_first', 'asl_second'],
  );
  assert.match(got[0]?.headers['user-agent'] ?? '', /^assetlog\//);

  for (const text of ['asl_a\nasl_b', '', '\n', 'asl_\u00e9', 'x'.repeat(9_000)]) {
    writeFileSync(tokenFile, text);
    const found = await destination.send(batch(), NEVER);
    assert.equal(shown(found), 'stopped: turned away');
    assert.match(reasonOf(found), /^no request was sent: .*token .*(one token|more than 8192 bytes)/);
    assert.doesNotMatch(reasonOf(found), /asl_|xxx/);
  }
  const missing = open(t, 'hub', url, { tokenFile: `${tokenFile}-missing` });
  assert.match(reasonOf(await missing.ask(NEVER)), /no request was sent: ENOENT/);
  assert.equal(got.length, 2);

  writeFileSync(tokenFile, 'asl_third');
  assert.equal(shown(await destination.send(batch(), NEVER)), 'refused');
});

test('a reason says what to do about the token, and quotes little of a reply, on one line', async (t) => {
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, 'asl_first');
  let answer: Scripted = [401, '{"error":"wrong"}'];
  const { url } = await startScripted(t, () => answer);
  assert.equal(reasonOf(await open(t, 'hub', url).ask(NEVER)), 'answers 401: wrong; name a token file');
  const destination = open(t, 'hub', url, { tokenFile });
  assert.equal(reasonOf(await destination.ask(NEVER)), `answers 401: wrong; check the token in ${tokenFile}`);
  const listed = `this needs a token of the deployment NAME, and a path that begins with ${'/NAME/report, '.repeat(50)}`;
  answer = [401, JSON.stringify({ error: listed }), { 'WWW-Authenticate': 'Api-Token realm="assetlog"' }];
  const lacking = `answers 401, and its URL lacks the deployment; add the name, as in ${url}/prod`;
  assert.equal(reasonOf(await destination.ask(NEVER)), lacking);
  const ofProd = open(t, 'hub', `${url}/prod`, { tokenFile });
  const wrong = `answers 401 for the deployment in ${url}/prod; check the token in ${tokenFile}`;
  assert.equal(reasonOf(await ofProd.ask(NEVER)), wrong);
  answer = [401, JSON.stringify({ error: `${'a word '.repeat(40)}` })];
  assert.match(reasonOf(await destination.ask(NEVER)), /^answers 401: (a word )+a …; check the token in /);
  answer = [429, error, { 'WWW-Authenticate': 'Bearer realm="assetlog"' }];
  assert.equal(shown(await destination.ask(NEVER)), 'stopped: turned away');
  answer = [403, `${'<b>\u001b[31m\u202e\n'.repeat(1_000)}`];
  const reason = reasonOf(await destination.ask(NEVER));
  assert.ok(reason.startsWith('answers 403: <b>\\u001b[31m\\u202e <b>'), reason);
  assert.equal(reason.match(/<b>/g)?.length, 20);
});

test('a hub that answers with the token in place of an id is not understood, and the token is not shown', async (t) => {
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, 'asl_first');
  let said: object = {};
  const { url } = await startScripted(t, () => [200, JSON.stringify(said)]);
  const destination = open(t, 'hub', url, { tokenFile });
  said = { seq: 7, id: 'asl_first' };
  for (const found of [await destination.ask(NEVER), await destination.send(batch([orders], 7), NEVER)]) {
    assert.equal(shown(found), 'stopped: not understood');
    assert.doesNotMatch(JSON.stringify(found), /asl_first/);
  }
});
