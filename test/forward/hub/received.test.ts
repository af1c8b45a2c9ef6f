/** Bytes with a right checksum are not yet an event: what a hub takes of the lines that a client calls those of a journal. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { limits } from '../../../src/config/limits.ts';
import { ItemError } from '../../../src/event/item.ts';
import { readForwarded } from '../../../src/forward/hub/received.ts';
import { batchItemReader } from '../../../src/http/batch.ts';
import { Refusal } from '../../../src/http/message.ts';
import { runHere } from '../../support/command-output.ts';
import { type Answer, askHub, put, SentJournal, SOURCE, sourceOf } from '../../support/forwarding.ts';
import { rounds, sampled } from '../../support/long.ts';
import { encodeMembers } from '../../support/plain-event.ts';
import { journalText } from '../../support/program.ts';
import { reportOne } from '../../support/report.ts';
import { flip, makeLines } from '../../support/segments.ts';
import { serve } from '../../support/service.ts';

const ID = sourceOf(77);
const TIME = '2026-11-20T15:19:45.266Z';
const GOOD = `"id":"${ID}","time":"${TIME}","type":"AssetObservation","asset_key":["a"]`;

/** A line with the right crc for whatever is in it. */
function lineOf(members: string | Buffer, seq: number | string = 1, seed = 0): Buffer {
  const head = Buffer.concat([Buffer.from(`{"seq":${seq},`), Buffer.from(members)]);
  return Buffer.concat([head, Buffer.from(`,"crc":"${crc32(head, seed).toString(16).padStart(8, '0')}"}\n`)]);
}

function without(name: string): string {
  return GOOD.replace(new RegExp(`"${name}":(?:"[^"]*"|\\[[^\\]]*\\]),?`), '').replace(/,$/, '');
}

function errorOf({ body }: Answer): string {
  return String(body['error']);
}

const badMembers: readonly (readonly [what: string, members: string | Buffer, why: RegExp])[] = [
  ['JSON that breaks off', `${GOOD},"metadata":{`, /not valid JSON/],
  ['two values', `${GOOD}},{"a":1`, /not valid JSON/],
  ['an unknown member of another form', `${GOOD},"colour":{"red":1}`, /has no "colour"/],
  ['an unknown member with an escape', `${GOOD},"colour":"\\u0072ed"`, /has no "colour"/],
  ['an unknown member that is no whole number', `${GOOD},"colour":1.5`, /has no "colour"/],
  ['an origin without a seq', `${GOOD},"origin":["${ID}"]`, /its origin is not the id of one journal and a seq/],
  ['an origin that is no journal', `${GOOD},"origin":["x",1]`, /its origin is not/],
  ['an origin before the first line', `${GOOD},"origin":["${ID}",0]`, /its origin is not/],
  ['an origin whose seq is no number', `${GOOD},"origin":["${ID}",9007199254740992]`, /its origin is not/],
  ['two origins', `${GOOD},"origin":["${ID}",1],"site":1,"origin":["${ID}",2]`, /its origin is not/],
  ...['7', 'null', '""', '"a\\""', `"${'a'.repeat(101)}"`, '"a","by":"b"', '["a"]'].map(
    (by): (typeof badMembers)[number] => [`by ${by}`, `${GOOD},"by":${by}`, /its by is not one name of a token/],
  ),
  ['an origin that is null', `${GOOD},"origin":null`, /its origin is not/],
  ['no type', without('type'), /its "type" is missing/],
  ['another type', GOOD.replace('AssetObservation', 'AssetThing'), /its "type" is "AssetThing"/],
  ['no key', without('asset_key'), /asset_key is missing/],
  ['an empty key', GOOD.replace('["a"]', '[]'), /empty array/],
  ['a control character in the key', GOOD.replace('["a"]', '["\\u0000"]'), /control character/],
  ['a key over the limit', GOOD.replace('["a"]', `["${'x'.repeat(limits.keyBytesMax + 1)}"]`), /4097 bytes/],
  ['half of a surrogate pair', GOOD.replace('["a"]', '["\\ud800"]'), /surrogate pair/],
  ['no id', without('id'), /its id is missing/],
  ['an id that is no UUID', GOOD.replace(ID, 'x'), /its id is "x"/],
  ['an id in upper case', GOOD.replace(ID, ID.toUpperCase()), /its id is/],
  ['an id that closes its string', GOOD.replace(ID, `${ID.slice(0, 34)}\\"`), /its id is/],
  ['an id that is a number', GOOD.replace(`"${ID}"`, '7'), /its id is 7/],
  ['no time', without('time'), /its time is missing/],
  ['a time without milliseconds', GOOD.replace('.266Z', 'Z'), /its time is/],
  ['a time with more digits', GOOD.replace('.266Z', '.2661Z'), /its time is/],
  ['a time in another zone', GOOD.replace('.266Z', '.266+01:00'), /its time is/],
  ['a time in month 13', GOOD.replace('-11-', '-13-'), /its time is/],
  ['the 30th of February', GOOD.replace('-11-20', '-02-30'), /its time is/],
  ['a time of twenty-four characters', GOOD.replace(TIME, 'x'.repeat(24)), /its time is/],
  ['a first time that is none', `${GOOD},"from":["${ID}",1],"recorded":"x"`, /its time is "x"/],
  ['a first time that is null', `${GOOD},"recorded":null`, /its time is null/],
  ['an event time without a zone', `${GOOD},"event_time":"2026-11-20T15:19:45"`, /event_time is/],
  ['an unknown tag', `${GOOD},"tags":{"x":"y"}`, /its "tags" can only have/],
  ['a line break in a string', `${GOOD},"description":"\t"`, /not valid JSON/],
  ['too many levels', `${GOOD},"metadata":{"a":${'['.repeat(128)}${']'.repeat(128)}}`, /not valid JSON.*128/],
];

test('a line with the right crc is accepted only if its event could be reported', async (t) => {
  const hub = await serve(t);
  for (const [what, members, why] of badMembers) {
    for (const [first, body, number] of [
      [1, lineOf(members), 1],
      [1, Buffer.concat([lineOf(GOOD), lineOf(members, 2)]), 2],
    ] as const) {
      const answer = await put(hub.url, SOURCE, first, body);
      assert.equal(answer.status, 400, `${what}: ${JSON.stringify(answer.body)}`);
      assert.match(
        errorOf(answer),
        new RegExp(`^nothing was recorded: line ${number}, which must have seq ${number}, is wrong: `),
      );
      assert.match(errorOf(answer), why, what);
    }
  }
  const utf8 = await put(hub.url, SOURCE, 1, lineOf(Buffer.from(GOOD.replace('"a"', '"\xff"'), 'latin1')));
  assert.deepEqual([utf8.status, errorOf(utf8).slice(0, 24)], [400, 'the body is not UTF-8: b']);
  for (const separator of ['\u0085', '\u2028', '\u2029']) {
    const answer = await put(hub.url, SOURCE, 1, lineOf(`${GOOD},"description":"${separator}"`));
    assert.match(errorOf(answer), /^nothing was recorded: U\+0085, .* are escaped/);
  }
  assert.equal(journalText(hub.data), '');
  assert.equal((await put(hub.url, SOURCE, 1, lineOf(GOOD))).status, 200);
});

test('an error in a line has its column in that line, whatever the order of the members', async (t) => {
  const hub = await serve(t);
  const wrong = `${GOOD},"metadata":{"a":True}`;
  const [id, time] = [`"id":"${ID}"`, `"time":"${TIME}"`];
  assert.ok(wrong.includes(`${id},${time}`));
  const [one, other] = await Promise.all(
    [wrong, wrong.replace(`${id},${time}`, `${time},${id}`)].map((members) => put(hub.url, SOURCE, 1, lineOf(members))),
  );
  const column = lineOf(wrong).indexOf('True') + 1;
  assert.match(errorOf(one!), new RegExp(`at column ${column}: True is not a JSON value`));
  assert.equal(errorOf(one!), errorOf(other!));
});

test('an accepted line is written in the form of a journal line, whatever its form was', async (t) => {
  const hub = await serve(t);
  const members = [
    '"time":"1970-01-01T00:00:00.000Z" , "asset_key":"one" ,"type":"observation", "id":"x","metadata":{ "a" : "\\u2028" , "a": 1.0 }',
    `"id":"${ID}"`,
  ].join(',');
  assert.equal((await put(hub.url, SOURCE, 1, lineOf(members))).status, 200);
  const line = journalText(hub.data);
  assert.ok(line.includes(`"id":"${ID}"`), line);
  assert.ok(
    line.includes(
      `"type":"AssetObservation","asset_key":["one"],"metadata":{"a":"\\u2028","a":1.0},"from":["${SOURCE}",1],"recorded":"1970-01-01T00:00:00.000Z"`,
    ),
    line,
  );
  await hub.stop();
  assert.equal((await runHere(['verify', '--data', hub.data])).code, 0);
});

test('unknown members are recorded as they arrived, wherever they were in the line', async (t) => {
  const hub = await serve(t);
  const late = `${GOOD},"metadata":{"a":1},"site":"north","idempotency_key":"k","hops":[ "a" , 1 ],"origin":["${ID}",7]`;
  assert.equal((await put(hub.url, SOURCE, 1, lineOf(late))).status, 200);
  const line = journalText(hub.data);
  assert.ok(
    line.includes(
      `"asset_key":["a"],"origin":["${ID}",7],"site":"north","hops":["a",1],"metadata":{"a":1},"idempotency_key":"k","from":`,
    ),
    line,
  );
  await hub.stop();
  assert.equal((await runHere(['verify', '--data', hub.data])).code, 0);
});

/** @returns the event of a line and the members that it gets here, or why it is refused, without the column */
function readingOf(members: string): unknown {
  try {
    const request = { source: SOURCE, eras: [[1, SOURCE] as const], firstSeq: 1, crc: 0, body: lineOf(members) };
    const [event = assert.fail()] = readForwarded(request, batchItemReader(limits), limits);
    const { encoded, origin } = event;
    return [encoded.toString(), origin];
  } catch (error) {
    assert.ok(error instanceof ItemError || error instanceof Refusal, String(error));
    return error.message.replace(/column \d+/, 'column');
  }
}

const HEAD = `"id":"${ID}","time":"${TIME}",`;
const CHECK = '"type":"AssetCheckEvaluation","asset_key":["a"]';
const RESULT = ',"check_name":"c","passed":true,"severity":"WARN"';
const OBSERVATION = '"type":"AssetObservation","asset_key":["a"]';
const edgeMembers = [
  CHECK,
  `${OBSERVATION}${RESULT}`,
  `${CHECK}${RESULT},"description":"d"`,
  `${CHECK}${RESULT.replace('"c"', '""')}`,
  `${CHECK}${RESULT.replace('WARN', 'warn')}`,
  `${CHECK}${RESULT.replace('true', 'false')}`,
  ...['""', '"a",""', '"a" ,"b"', '"a","b",', '"\u007f"', '"é/ü"', '"a\\u0062"', '"a\\"","b"', '"]"', '"[\\"]'].map(
    (key) => OBSERVATION.replace('"a"', key),
  ),
  ...[0, 1].map((more) => OBSERVATION.replace('"a"', `"${'é'.repeat(limits.keyBytesMax / 2)}${'x'.repeat(more)}"`)),
  OBSERVATION.replace('"a"', Array(101).fill('"a"').join(',')),
  ...[1, 255, 256, 263, 264].map((length) => `${OBSERVATION},"idempotency_key":"${'}'.repeat(length)}"`),
  ...['"a b"', '""', '"\\u0062"', '"a\\"b"', 'null', '7'].map((key) => `${OBSERVATION},"idempotency_key":${key}`),
  ...['2026-02-30T00:00:00Z', '2026-02-20T00:00:00.25Z', '2026-02-20T00:00:00+01:00', '2026-02-20t00:00:00z', ''].map(
    (time) => `${OBSERVATION},"event_time":"${time}"`,
  ),
  ...[
    '{}',
    '{"a": 1}',
    '{"a":1}}',
    '{"a":01}',
    '{"a":"}","b":{}}',
    '{"a":1,}',
    '[]',
    'null',
    '{"a":"\t"}',
    '{"a":"\\n"}',
  ].map((metadata) => `${OBSERVATION},"metadata":${metadata}`),
  `${OBSERVATION},"metadata":{"a":1},"event_time":"2026-02-20T00:00:00Z","metadata":{"a":2}`,
  `${OBSERVATION},"metadata":{"a":{"b":1},"event_time":"2026-02-20T00:00:00Z"}`,
  ...[126, 127].map((depth) => `${OBSERVATION},"metadata":{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`),
  `${OBSERVATION},"from":["${SOURCE}",7],"recorded":"1999-12-31T23:59:59.999Z"`,
  `${OBSERVATION},"from":["${SOURCE}",7],"recorded":"1999-02-30T23:59:59.999Z"`,
  `${OBSERVATION},"from":["${SOURCE}",7]`,
  `${OBSERVATION},"origin":["${SOURCE}",7],"from":["${SOURCE}",7],"recorded":"1999-12-31T23:59:59.999Z"`,
  `${OBSERVATION},"site":"north","origin":["${SOURCE}",7],"hops":["a",1],"metadata":{"origin":["x",1]}`,
  ...['ci', 'é', ''].map((by) => `${OBSERVATION},"origin":["${SOURCE}",7],"by":"${by}","site":1,"metadata":{"by":"x"}`),
  `${OBSERVATION},"site":"é","metadata":{"a":1}`,
  `${OBSERVATION},"site":"north","event_time":"2026-02-20T00:00:00Z"`,
  `${OBSERVATION},"site":"north","idempotency_key":"k"`,
  `${OBSERVATION},"site":{}`,
  `${OBSERVATION},"tags":{"data_version":"1"},"partition":"p"`,
  `${OBSERVATION},"tags":{"data_version":"1","x":"2"}`,
];

test('a line in journal form is accepted or refused like the same line with a space in it', () => {
  const differently = (members: string) => assert.deepEqual(readingOf(HEAD + members), readingOf(`${HEAD} ${members}`));
  for (const members of edgeMembers) differently(members);
  const text = fc.string({ unit: 'grapheme' }).map((any) => any.replace(/[\u0085\u2028\u2029]/g, ''));
  const optional = fc.option(text, { nil: undefined });
  const metadata = fc.option(
    fc.json().map((any) => `{"a":${any}}`),
    { nil: undefined },
  );
  const shared = { assetKey: fc.array(text, { minLength: 1 }), partition: optional, metadata };
  const observation = { type: fc.constant('AssetObservation' as const), description: optional, dataVersion: optional };
  const result = { passed: fc.boolean(), severity: fc.constantFrom('WARN' as const, 'ERROR' as const) };
  const check = { type: fc.constant('AssetCheckEvaluation' as const), checkName: text, ...result };
  const events = fc.oneof(fc.record({ ...shared, ...observation }), fc.record({ ...shared, ...check }));
  fc.assert(
    fc.property(events, (event) => differently(encodeMembers(event).toString())),
    { numRuns: rounds({ long: 1_000, short: 250 }) },
  );
});

test('the chain of checksums is checked from the first byte to the last, and may start again at a new file', async (t) => {
  const hub = await serve(t);
  const sent = new SentJournal(3);
  const all = sent.bytes(1, 3);
  const headers = { 'Assetlog-Crc': '00000000' };
  const swapped = Buffer.concat([sent.lines[0]!, sent.lines[2]!, sent.lines[1]!]);
  const spoiled: [string, Buffer, Record<string, string>][] = [
    ['a lost line', Buffer.concat([sent.lines[0]!, sent.lines[2]!]), headers],
    ['a line twice', Buffer.concat([sent.lines[0]!, sent.lines[0]!]), headers],
    ['swapped lines', swapped, headers],
    ['another crc before it', all, { 'Assetlog-Crc': '00000001' }],
    ['an empty line', Buffer.concat([sent.lines[0]!, Buffer.from('\n'), sent.lines[1]!]), headers],
    ['an empty line at the end', Buffer.concat([all, Buffer.from('\n')]), headers],
    ['a carriage return', Buffer.from(all.toString().replaceAll('\n', '\r\n')), headers],
    ['a byte order mark', Buffer.concat([Buffer.from('\ufeff'), all]), {}],
    ['no newline at its end', all.subarray(0, -1), headers],
    ['nothing', Buffer.alloc(0), headers],
    ['another first seq', sent.bytes(2, 3), {}],
  ];
  for (const [what, body, more] of spoiled) {
    const answer = await put(hub.url, SOURCE, 1, body, { headers: more });
    assert.equal(answer.status, 400, `${what}: ${JSON.stringify(answer.body)}`);
    assert.match(errorOf(answer), what === 'nothing' ? /the body is empty; / : /^nothing was recorded: /, what);
  }
  for (const cut of sampled([...all.keys()].slice(1))) {
    const whole = all.subarray(0, cut).at(-1) === 0x0a;
    if (!whole)
      assert.equal((await put(hub.url, SOURCE, 1, all.subarray(0, cut), { headers })).status, 400, `cut at ${cut}`);
  }
  for (const at of sampled([...all.keys()], 7)) {
    assert.equal((await put(hub.url, SOURCE, 1, flip(all, at), { headers })).status, 400, `flipped at ${at}`);
  }
  assert.equal(journalText(hub.data), '');

  const nextFile = makeLines(2, { seq: 4, crc: 0 }).bytes;
  assert.equal((await put(hub.url, SOURCE, 1, Buffer.concat([all, nextFile]), { headers })).status, 200);
  const bad = await put(hub.url, SOURCE, 6, makeLines(1, { seq: 6, crc: 5 }).bytes, { headers });
  assert.match(errorOf(bad), /line 1, which must have seq 6, is wrong: its crc is [0-9a-f]{8}, computed/);
  assert.equal(
    (await put(hub.url, SOURCE, 6, makeLines(1, { seq: 6, crc: 5 }).bytes)).status,
    200,
    'without the header',
  );
});

test('a path without a valid journal id and seq gets a 400', async (t) => {
  const hub = await serve(t);
  const near = [`${SOURCE}0`, SOURCE.slice(1), SOURCE.replaceAll('-', ''), `%30${SOURCE.slice(1)}`, `{${SOURCE}}`];
  for (const source of ['x', SOURCE.toUpperCase(), ...near]) {
    const answer = await put(hub.url, source, 1, lineOf(GOOD));
    assert.equal(answer.status, 400, source);
    assert.match(errorOf(answer), /send lines with PUT \/forward\/\{source\}\/\{first_seq\}/);
    assert.equal((await askHub(hub.url, source)).status, 400, source);
  }
  for (const seq of ['0', '-1', '+1', '01', '1.0', '1e3', 'x', '', '%31', '9007199254740992', '99999999999999999999']) {
    assert.equal((await put(hub.url, SOURCE, seq, lineOf(GOOD))).status, 400, seq);
  }
  assert.equal((await put(hub.url, SOURCE, '1/', lineOf(GOOD))).status, 404);
  const last = await put(hub.url, SOURCE, Number.MAX_SAFE_INTEGER, lineOf(GOOD, Number.MAX_SAFE_INTEGER), {
    headers: { 'Assetlog-Lost': `1-${Number.MAX_SAFE_INTEGER - 1}` },
  });
  assert.deepEqual(last.body, { seq: Number.MAX_SAFE_INTEGER, id: ID });
  const crcs = ['', '0', '0000000', '000000000', '0000000G', '0000000A', '00000000, 00000000'];
  for (const crc of crcs) {
    const answer = await put(hub.url, sourceOf(2), 1, lineOf(GOOD), { headers: { 'Assetlog-Crc': crc } });
    assert.equal(answer.status, 400, `crc ${crc}`);
  }
  const before = (count: number) =>
    Array.from({ length: count }, (_, at) => `${at + 1} ${sourceOf(10 + at)}`).join(', ');
  for (const wrong of [
    '',
    'x',
    ID,
    `0 ${ID}`,
    `1 ${ID},2 ${ID}`,
    `2 ${ID}, 1 ${ID}`,
    `1 ${ID.toUpperCase()}`,
    before(9),
  ]) {
    const answer = await put(hub.url, sourceOf(2), 1, lineOf(GOOD), { headers: { 'Assetlog-Before': wrong } });
    assert.equal(answer.status, 400, wrong);
    assert.match(errorOf(answer), /^Assetlog-Before is .*; send a last line and the id up to there, such as/);
    assert.equal((await askHub(hub.url, sourceOf(2), { 'Assetlog-Before': wrong })).status, 400, wrong);
  }
  const ids = { headers: { 'Assetlog-Before': before(8) } };
  assert.equal((await put(hub.url, sourceOf(2), 1, lineOf(GOOD), ids)).status, 200);
  const through = { headers: { 'Assetlog-Through': 'x' } };
  assert.equal((await put(hub.url, sourceOf(3), 1, lineOf(GOOD), through)).status, 200, 'of version 0.3');
  const type = await put(hub.url, sourceOf(2), 1, lineOf(GOOD), { headers: { 'Content-Type': 'application/json' } });
  assert.equal(type.status, 400);
});

test('a forwarded body may be larger than a report, so that each line of a journal fits', async (t) => {
  const hub = await serve(t);
  const text = (bytes: number) => `${GOOD},"description":"${'x'.repeat(bytes)}"`;
  const least = lineOf(text(0)).length;
  const lineOfBytes = (bytes: number, seq: number) => lineOf(text(bytes - least), seq);
  const bytesMax = limits.lineBytesMax - 512;
  assert.equal((await put(hub.url, SOURCE, 1, lineOfBytes(bytesMax, 1))).status, 200);
  assert.match(errorOf(await put(hub.url, SOURCE, 2, lineOfBytes(bytesMax + 2, 2))), /longer than a line can be/);
  const over = await put(hub.url, SOURCE, 2, Buffer.alloc(limits.forwardBodyBytesMax + 1, ' '));
  assert.deepEqual([over.status, errorOf(over).slice(0, 40)], [413, 'the body is larger than 4194304 bytes; s']);
  const many = (count: number) => {
    const { bytes } = makeLines(count, { seq: 2, crc: 0 });
    return put(hub.url, SOURCE, 2, bytes);
  };
  assert.match(errorOf(await many(limits.batchItemsMax + 1)), /at most 10000 lines/);
  assert.equal((await many(limits.batchItemsMax)).status, 200);
  const report = await reportOne(hub, 'observation/a', { body: { description: 'x'.repeat(limits.bodyBytesMax) } });
  assert.equal(report.status, 413, 'a report has its own limit');
  await hub.stop();
  assert.equal((await runHere(['verify', '--data', hub.data])).code, 0);
});
