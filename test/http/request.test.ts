/** The parsers of a request. The statuses of malformed bytes are in the table of hostile inputs. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { readFields } from '../../src/http/headers.ts';
import { type Head, type Incoming, Refusal, shown } from '../../src/http/message.ts';
import { bodyReader, checkBodyHeaders, checkExpect, headReader, readQuery } from '../../src/http/request.ts';
import { processorMs } from '../support/processor-time.ts';

const readHead = headReader(new Map(), limits);
const readBody = bodyReader(limits);

function incoming(part: Partial<Incoming> & { headers?: readonly string[] } = {}): Incoming {
  const { headers = ['Host', 'localhost'], ...rest } = part;
  const more = { fields: readFields(headers), ending: AbortSignal.abort(), endReply: () => {} };
  return { id: '1', method: 'POST', url: '/report', httpVersion: '1.1', ...more, ...rest };
}

/** @returns the status and error of a refusal, or the result */
function outcome<Value>(act: () => Value): Value | string {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return `${error.reply.status}${error.reply.close ? ' close' : ''} ${error.message}`;
  }
}

function headOf(part: Parameters<typeof incoming>[0] = {}): Head {
  return readHead(incoming(part));
}

function checkBody(head: Head, bytes: number): void {
  checkBodyHeaders(head, bytes, { bodyTypes: ['application/json'] }, limits);
}

test('a request is a navigation only if both Sec-Fetch headers say so, once each', () => {
  const [mode, dest] = ['Sec-Fetch-Mode', 'Sec-Fetch-Dest'];
  const navigates = (...headers: readonly string[]) => headOf({ headers: ['Host', 'localhost', ...headers] }).navigates;
  assert.equal(navigates(mode, 'navigate', dest, 'document'), true);
  for (const headers of [
    [mode, 'navigate'],
    [dest, 'document'],
    [mode, 'navigate', dest, 'iframe'],
    [mode, 'cors', dest, 'document'],
    [mode, 'navigate', dest, 'document', dest, 'iframe'],
    [mode, 'navigate', mode, 'navigate', dest, 'document'],
  ])
    assert.equal(navigates(...headers), false, headers.join());
});

test('every header is read in linear time', () => {
  const hostile = ['; ', ';\t', ' ', '"', ';a="', ';a=b', '\\', ';a="\\"', ','].map((unit) =>
    unit.repeat(15_000 / unit.length),
  );
  const startedMs = processorMs();
  for (const text of hostile) {
    for (const end of ['', '\u0001', '"', 'x']) {
      const headers = ['Host', 'a', 'Content-Type', `application/json${text}${end}`.slice(0, 16_000)];
      outcome(() => checkBody(headOf({ headers }), 1));
      outcome(() => headOf({ headers: ['Host', `${text}${end}`.slice(0, 16_000)] }));
      outcome(() => headOf({ url: `http://${text}${end}`.slice(0, 16_000) }));
    }
  }
  // Not a measurement: an exponential match would never end.
  assert.ok(processorMs() - startedMs < 5_000);
});

test('the size is checked before the encoding, and the encoding before the type', () => {
  const head = headOf({ headers: ['Host', 'a', 'Content-Encoding', 'gzip', 'Content-Type', 'text/plain'] });
  assert.match(String(outcome(() => checkBody(head, 2_000_000))), /^413/);
  assert.match(String(outcome(() => checkBody(head, 2))), /^415/);
});

test('the error about invalid UTF-8 has the position of the byte', () => {
  const table: readonly (readonly [Buffer, number])[] = [
    [Buffer.from([0xff]), 1],
    [Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xe9]), Buffer.from('"}')]), 7],
    [Buffer.concat([Buffer.from('{"\ufffdä":"'), Buffer.from([0xc0, 0x80])]), 11],
    [Buffer.concat([Buffer.from('"'), Buffer.from([0xed, 0xa0, 0x80])]), 2],
    [Buffer.from([0x7b, 0xe2, 0x82]), 2],
  ];
  for (const [bytes, place] of table) {
    assert.equal(
      outcome(() => readBody(bytes)),
      `400 the body is not UTF-8: byte ${place} does not start a valid character`,
    );
  }
});

test('a body in UTF-16 is recognised, with and without its mark, in either byte order', () => {
  for (const text of ['{"a":1}', '\ufeff{"a":1}', '\ufeff{"a":"\u4e00"}']) {
    const little = Buffer.from(text, 'utf16le');
    for (const bytes of [little, Buffer.from(little).swap16()])
      assert.equal(
        outcome(() => readBody(bytes)),
        '400 the body is UTF-16; send it as UTF-8',
      );
  }
  for (const bytes of [Buffer.from('1'), Buffer.from('\ufeff{}'), Buffer.from('\0\0'), Buffer.from([0])])
    assert.doesNotMatch(String(outcome(() => readBody(bytes))), /UTF-16/);
});

test('a query is read like a form, with the different values of a repeated name', () => {
  const query = (text: string) => outcome(() => readQuery(text));
  const repeated = readQuery('a=1&a=2&b=1&a=3&b=1');
  assert.deepEqual([repeated.get('a'), repeated.others], ['3', new Map([['a', ['1', '2']]])]);
  assert.deepEqual(query(''), new Map());
  assert.deepEqual(
    query('a=1&b=x+y%20z&a=1&&c&d=&%61b=%C3%A9&e=1=2'),
    new Map([
      ['a', '1'],
      ['b', 'x y z'],
      ['c', ''],
      ['d', ''],
      ['ab', 'é'],
      ['e', '1=2'],
    ]),
  );
  for (const text of ['a=%zz', 'a=%', 'a=%F', '%ff=1', 'a=%C3', 'a=%ED%A0%80', 'a=%C0%80']) {
    assert.match(String(query(text)), /^400 the query holds ".*", which is not percent-encoded UTF-8/, text);
  }
});

test('text of a client in an error is on one line, without control characters', () => {
  const nasty = '\u007f\u0085\u009b\u2028\u2029\u202e\u2066\ud800';
  const escapes = '\\u007f\\u0085\\u009b\\u2028\\u2029\\u202e\\u2066\\ud800';
  assert.equal(shown(nasty), `"${escapes}"`);
  assert.equal(shown(`${nasty}${'x'.repeat(200)}`), `"${escapes}${'x'.repeat(92)}"…`);
  assert.equal(shown('日本 "é" \n'), '"日本 \\"é\\" \\n"');
  const latin1 = '\u0085\u009b';
  const refused = [
    outcome(() => readBody(Buffer.from(`"${nasty}"`))),
    outcome(() => readBody(Buffer.from(`{"a": ${nasty}}`))),
    outcome(() => readQuery(`${nasty}%zz`)),
    outcome(() => headOf({ headers: ['Host', `a${latin1}`] })),
    outcome(() => headOf({ url: `/${latin1}` })),
    outcome(() => headOf({ headers: ['Host', 'a', 'Transfer-Encoding', latin1] })),
    outcome(() => checkExpect(headOf({ headers: ['Host', 'a', 'Expect', latin1] }))),
    outcome(() => checkBody(headOf({ headers: ['Host', 'a', 'Content-Type', latin1] }), 1)),
    outcome(() => checkBody(headOf({ headers: ['Host', 'a', 'Content-Encoding', latin1] }), 1)),
  ];
  for (const error of refused) {
    assert.match(String(error), /^4\d\d /);
    assert.doesNotMatch(String(error), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  }
});
