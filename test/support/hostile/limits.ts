/** Each limit, and one more than it. */

import {
  announced,
  BODY,
  CHUNKED,
  ends,
  type Forms,
  JSON_TYPE,
  KEY,
  keeps,
  LAST_CHUNK,
  type Row,
  recorded,
  row,
  rows,
  taken,
  utf8,
} from './forms.ts';

/** Only its key is recorded, so that the journal stays small. */
export const bodyOf = (bytes: number) => `{"asset_key":"${KEY}","unknown":"${'x'.repeat(bytes - BODY.length - 13)}"}`;
const deep = (depth: number) => `{"metadata":{"a":${'['.repeat(depth - 2)}${']'.repeat(depth - 2)}}}`;
export const members = (count: number) => `{${Array.from({ length: count }, (_, index) => `"m${index}":0`).join()}}`;
const inBytes = (bytes: number) =>
  [...`{"x":"${'x'.repeat(bytes - 8)}"}`].map((byte) => `1\r\n${byte}\r\n`).join('') + LAST_CHUNK;
const longKey = (bytes: number) => KEY.padEnd(bytes, 'x');

export const limits = (forms: Forms): readonly Row[] => {
  const { MATERIALIZATION, TARGET, reportTo, report, framed, json, headOf, headOfManyHeaders, inChunks, padding } =
    forms;
  const targetOf = (bytes: number) => reportTo(`${TARGET}?x=${'x'.repeat(bytes - reportTo(`${TARGET}?x=`).length)}`);
  const places: readonly (readonly [place: string, sent: (key: string) => string])[] = [
    ['path', (key) => reportTo(`${MATERIALIZATION}${key}`)],
    ['body', (key) => json(`{"asset_key":"${key}"}`, MATERIALIZATION)],
    ['query', (key) => reportTo(`${MATERIALIZATION}?asset_key=${key}`)],
  ];
  return [
    row('A head of 16 KiB is read', headOf(16_384), taken),
    row('A head of one byte more is refused', headOf(16_385), ends(431)),
    row('A head of 16 KiB in one target is read', targetOf(16_384), taken),
    row('A head of one byte more in one target is refused', targetOf(16_385), ends(431)),
    row('A head of 16 KiB in many headers without spaces is read', headOfManyHeaders(16_384), [taken, ends(431)], {
      reason:
        'Node does not expose white space: a space after each colon is assumed, so the count can be off by 100 bytes',
    }),
    row('A head of one byte more in many headers without spaces is refused', headOfManyHeaders(16_385), ends(431)),
    row(
      'A head that white space before a value makes too long is refused',
      report(`X: ${' '.repeat(20_000)}x`),
      ends(431),
      {
        defect:
          'llhttp does not count white space before a value, and Node does not expose it: megabytes of it are read and dropped',
      },
    ),
    row('100 headers are read', report(...padding(100)), taken),
    row('101 headers are refused', report(...padding(101)), ends(431)),
    row('A body of 1 MiB is read', json(bodyOf(1_048_576), MATERIALIZATION), taken),
    row('A body of one byte more is refused', json(bodyOf(1_048_577), MATERIALIZATION), ends(413)),
    row('A chunked body of 1 MiB is read', inChunks(bodyOf(1_048_576)), taken),
    row('A chunked body of one byte more is refused', inChunks(bodyOf(1_048_577)), ends(413)),
    row(
      'A body in 4,266 chunks of one byte is taken, as the last of its connection',
      `${reportTo(TARGET, JSON_TYPE, CHUNKED)}${inBytes(4_266)}`,
      announced(taken),
    ),
    row('One such chunk more is refused', `${reportTo(TARGET, JSON_TYPE, CHUNKED)}${inBytes(4_267)}`, ends(413)),
    row('A body of one byte more is refused before it is sent', framed(['Content-Length: 1048577'], ''), ends(413)),
    ...places.flatMap(([place, sent]) => [
      row(`A key of 4,096 bytes in the ${place} is accepted`, sent(longKey(4_096)), recorded(longKey(4_096))),
      row(`A key of one byte more in the ${place} is refused`, sent(longKey(4_097)), keeps(400)),
    ]),
    ...rows(keeps(400), {
      'The separators of a key are counted': json(`{"asset_key":["${KEY}"${',"x"'.repeat(2_045)}]}`, MATERIALIZATION),
      'Bytes of a key, not characters': json(`{"asset_key":"${KEY}${utf8('é'.repeat(2_045))}"}`, MATERIALIZATION),
    }),
    row('128 levels are read', json(deep(128)), taken),
    row('129 levels are refused', json(deep(129)), keeps(400)),
    row('1,000 members are read', json(members(1_000)), taken),
    row('1,001 members are refused', json(members(1_001)), keeps(400)),
    row('1,001 members of one name are refused', json(`{${Array(1_001).fill('"a":0').join()}}`), keeps(400)),
    row('Members inside metadata are not counted', json(`{"metadata":${members(5_000)}}`), taken),
  ];
};
