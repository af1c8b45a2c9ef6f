import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Limits, limits } from '../../src/config/limits.ts';
import { recorded } from '../../src/event/record-result.ts';
import { prefersLenient, reportBatch } from '../../src/http/batch.ts';
import { readFields } from '../../src/http/headers.ts';
import type { ErrorReply } from '../../src/http/message.ts';
import { processorMs } from '../support/processor-time.ts';
import { refusalOf } from '../support/refusal.ts';

interface Sent {
  readonly contentType?: string;
  readonly prefer?: string;
}

/** @returns the lines that a batch would record, without seq, id, time and crc, and its reply */
function send(
  body: string | Buffer,
  { contentType = 'application/x-ndjson', prefer }: Sent = {},
  bounds: Limits = limits,
) {
  const fields = readFields(['Content-Type', contentType, ...(prefer === undefined ? [] : ['Prefer', prefer])]);
  const request = {
    keyPath: undefined,
    body: Buffer.from(body),
    query: '',
    head: { method: 'POST', path: '/', fields },
  };
  const outcome = reportBatch(bounds)(request);
  assert.ok(outcome.kind === 'record');
  const reply = outcome.replyTo(recorded);
  assert.ok(reply.kind === 'body');
  const lines = outcome.events.map((event) => JSON.parse(`{${event.encoded}}`));
  return { lines, status: reply.status, reply: JSON.parse(reply.body), headers: reply.headers };
}

function refused(body: string | Buffer, sent: Sent = {}, bounds: Limits = limits): ErrorReply {
  return refusalOf(() => send(body, sent, bounds));
}

const JSON_ARRAY = { contentType: 'application/json; charset=utf-8' };
const LENIENT = { prefer: 'handling=lenient' };
const good = '{"type":"materialization","asset_key":["a","b"],"metadata":{"rows":1.0}}';
const check = '{"type":"check","asset_key":"c","check_name":"n","passed":false}';
const wrong = '{"type":"check","asset_key":"c","check_name":"n"}';

test('blank lines, CR LF and a byte order mark are not part of an item, and every line is counted', () => {
  const body = `\ufeff\r\n${good}\r\n \t\r\n\r\n${check}\r\n`;
  assert.equal(send(body).lines.length, 2);
  assert.deepEqual(refused(body.replace('"passed":false', '"passed":1')).errors?.[0]?.item, 5);
});

test('a batch with a wrong item is refused: the reply lists the wrong items, the log has none of their text', () => {
  const { status, error, errors, logged } = refused(`${good}\n\n${wrong}\n{"type":"x"}\nsecret\n${check}\n`);
  assert.equal(status, 400);
  assert.match(error, /^3 of 5 items are wrong and nothing was recorded; item 3: passed is missing: send /);
  assert.deepEqual(
    errors?.map(({ item }) => item),
    [3, 4, 5],
  );
  assert.equal(errors?.[1]?.error, 'its "type" is "x"; write materialization, check, observation');
  assert.match(errors?.[2]?.error ?? '', /^it is not valid JSON at column 1: /);
  assert.doesNotMatch(refused('secret').logged ?? 'secret', /secret/);
  assert.match(logged ?? '', /item 3: passed is missing/);
  assert.match(refused(wrong).error, /^1 of 1 items is wrong/);
});

test('lenient handling records the right items and lists the wrong ones, and a batch without a right item is refused', () => {
  const some = send(`${good}\n${wrong}\n${check}`, LENIENT);
  assert.deepEqual([some.lines.length, some.status, some.reply.recorded, some.reply.failed], [2, 207, 2, 1]);
  assert.equal(some.reply.errors[0].item, 2);
  const all = send(good, LENIENT);
  assert.deepEqual([all.status, all.reply], [200, { recorded: 1 }]);
  for (const { headers } of [some, all]) assert.deepEqual(headers, ['Preference-Applied', 'handling=lenient']);
  assert.equal(refused(`${wrong}\n${wrong}`, LENIENT).status, 400);
});

test('only the first wrong items are listed, and all are counted', () => {
  const { error, errors } = refused(`${wrong}\n`.repeat(250));
  assert.match(error, /^250 of 250 items are wrong/);
  assert.equal(errors?.length, limits.batchErrorsMax);
  assert.equal(send(`${good}\n${`${wrong}\n`.repeat(250)}`, LENIENT).reply.failed, 250);
});

test('a batch with too many items is refused', () => {
  const few = { ...limits, batchItemsMax: 2 };
  for (const [body, sent, problem] of [
    [`${good}\n`.repeat(3), {}, /^the batch has more than 2 items; send it in parts/],
    [`[${good},${good},${good}]`, JSON_ARRAY, /^the batch has more than 2 items/],
  ] as const) {
    const { status, error } = refused(body, sent, few);
    assert.equal(status, 400);
    assert.match(error, problem);
  }
  assert.equal(send(`${good}\n`.repeat(2), {}, few).lines.length, 2);
  assert.equal(send(`[${good},${good}]`, JSON_ARRAY, few).lines.length, 2);
});

test('JSON over several lines, an array on a line and lines joined by curl are refused with advice', () => {
  const own = 'write each report on its own line, as jq -c';
  for (const [body, problem] of [
    [JSON.stringify(JSON.parse(good), undefined, 2), `an object that started at line 1, column 1; ${own} . does`],
    [`[\n${good}\n]`, `an array that started at line 1, column 1; ${own} '.[]' does`],
    [`[${good}]`, `it is not a JSON object; ${own} '.[]' does`],
    [
      good + good,
      'another object starts; send one, or each on its own line (curl -d joins lines, --data-binary does not)',
    ],
  ] as const) {
    assert.ok(refused(body).errors?.[0]?.error.endsWith(problem), refused(body).error);
  }
});

test('a tag can repeat the parameter of its name, but not differ from it', () => {
  const item = (version: string, tag: string) =>
    `{"type":"observation","asset_key":"a","data_version":${version},"tags":{"data_version":${tag}}}`;
  const other = (version: string, tag: string) =>
    `{"type":"observation","asset_key":"a","tags":{"data_version":${tag}},"data_version":${version}}`;
  for (const write of [item, other]) {
    for (const [version, tag] of [
      ['"v1"', '"v1"'],
      ['"v1"', '"\\u00761"'],
      ['"v1"', 'null'],
      ['null', '"v1"'],
    ] as const) {
      assert.deepEqual(send(write(version, tag)).lines[0]?.tags, { data_version: 'v1' }, write(version, tag));
    }
    assert.equal(send(write('null', 'null')).lines[0]?.tags, undefined);
    assert.match(
      refused(write('"v1"', '"v2"')).error,
      /its data_version is "v1" and its tags.data_version "v2"; send one/,
    );
    assert.match(refused(write('7', '"v2"')).error, /its data_version is 7 and its tags.data_version "v2"; send one/);
  }
});

test('an unknown member is an error that names the parameter that was meant', () => {
  const { error } = refused('{"type":"check","asset_key":"c","chek_name":"n","passed":true}');
  assert.match(error, /item 1: a report of kind check has no "chek_name"; did you mean check_name\?$/);
  assert.match(refused('{"type":"check","check_name":"n","passed":true}').error, /item 1: asset_key is missing/);
  assert.match(refused('{"type":"check","asset_key":null,"passed":true}').error, /item 1: asset_key is missing/);
});

test('the text of an item in an error is cut', () => {
  const { error } = refused(`{"type":"check","asset_key":"c","${'x'.repeat(5000)}":1}\n{"type":"${'y'.repeat(5000)}"}`);
  assert.ok(error.length < 500, error);
});

test('a Prefer header is read in linear time', () => {
  const parts = [' ', '"', ';', 'a', '\\', 'x,', 'x ,', ',', 'x=" ', 'x;y="', '="', '"a"', ' = '];
  const fromMs = processorMs();
  for (const part of parts) {
    for (const start of ['', ',', 'x', 'x=', 'x="', 'x;', 'x="a"'])
      for (const end of ['', ',', '"', 'é', '\\']) {
        prefersLenient(`${start}${part.repeat(64_000 / part.length)}${end}`);
      }
  }
  const ms = processorMs() - fromMs;
  assert.ok(ms < 10_000, `${ms} ms for 455 headers of 64 KB`);
});
