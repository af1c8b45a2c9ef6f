/** JSON bodies, and reports that are wrong. */

import { type Forms, KEY, keeps, type Row, recorded, row, rows, shown, taken, utf8 } from './forms.ts';

/** Bodies that are not a JSON object, for a target that has the key. */
const badJson: readonly string[] = [
  ...[' \r\n', '"text"', '1', 'null', 'true', '[{}]', '{}{}', '{}\0', '{"a":1,}', '{"a":[1,]}', '{,"a":1}'],
  ...['{"a":1,,"b":2}', '{"a" 1}', '{"a"::1}', '{a:1}', "{'a':1}", '{"a":1/* no */}', '{}//no'],
  ...['{"metadata":{"a":NaN}}', '{"metadata":{"a":-Infinity}}', '{"metadata":{"a":True}}'],
  ...['{"metadata":{"a":undefined}}', '{"a":+1}', '{"a":01}', '{"a":.5}', '{"a":1.}', '{"a":1e}', '{"a":0x10}'],
  ...['{"a":"\n"}', '{"a":"\t"}', '{"a":"\0"}', '{"a":"\\x41"}', '{"a":"\\u041"}', '{"a":"', '{"a":"\\', '{"a":1'],
  ...['{}}', '{"a":[}]', '{\x0b}', utf8('{\u00a0}'), `{"a":${'['.repeat(5_000)}`, '{"a":'.repeat(200_000)],
];

/** JSON objects that are no valid report. `openapi.test.ts` has those that the schema refuses. */
export const badReports = ({
  MATERIALIZATION,
}: Forms): readonly (readonly [what: string, body: string, target?: string])[] => [
  ['a description that is half of a surrogate pair', '{"description":"\\ud800"}'],
  ['a partition that is the other half', '{"partition":"\\udc00"}'],
  ['a pair the wrong way round', '{"data_version":"\\udc00\\ud800"}'],
  ['no key', '{}', MATERIALIZATION],
  ['a key with null', `{"asset_key":["${KEY}",null]}`, MATERIALIZATION],
  ['a key of lists', `{"asset_key":[["${KEY}"]]}`, MATERIALIZATION],
  ['a key with half of a surrogate pair', `{"asset_key":"${KEY}\\ud83d"}`, MATERIALIZATION],
  ['a key in __proto__', `{"__proto__":{"asset_key":"${KEY}"}}`, MATERIALIZATION],
  ['a key whose name has a space', `{"asset_key ":"${KEY}"}`, MATERIALIZATION],
  ['a key in capitals', `{"ASSET_KEY":"${KEY}"}`, MATERIALIZATION],
  ['a good key and then null', `{"asset_key":"${KEY}","asset_key":null}`, MATERIALIZATION],
];

export const jsonBodies = (
  { MATERIALIZATION, json }: Forms,
  badReports: readonly (readonly [what: string, body: string, target?: string])[],
): readonly Row[] => [
  ...badJson.map((body) => row(`A body ${shown(body)} is refused`, json(body), keeps(400))),
  ...badReports.map(([what, body, target]) => row(`A report with ${what} is refused`, json(body, target), keeps(400))),
  ...rows(taken, {
    'The last of two equal members counts': json(`{"asset_key":"no","asset_key":"${KEY}"}`, MATERIALIZATION),
    'A name that is written with escapes is the same name': json(`{"\\u0061sset_key":"${KEY}"}`, MATERIALIZATION),
    '__proto__ and constructor are ordinary names': json('{"__proto__":{"partition":1},"constructor":{},"toString":1}'),
    '__proto__ in metadata is kept': json('{"metadata":{"__proto__":{"a":1},"__proto__":2}}'),
    'Numbers beyond a double are kept': json(`{"metadata":{"a":1e400,"b":-0,"c":${'9'.repeat(5_000)}}}`),
    'Half of a surrogate pair in metadata is recorded as sent': json('{"metadata":{"\\ud800":"\\udc00"}}'),
    'An event time can be any nanosecond, with a space in it': json('{"event_time":"0001-01-01 00:00:00.000000001z"}'),
    'An escaped surrogate pair is one character': json('{"description":"\\ud83d\\ude00"}'),
    'White space between tokens is not part of a value': json('\t\r\n {\n"metadata" :\t{ } }\r\n'),
    'An empty member name is accepted': json('{"":1,"metadata":{"":{}}}'),
    'An unknown member can hold anything': json('{"uri":[[[{"a":null}]]]}'),
  }),
  row('A key in the body keeps its slashes', json(`{"asset_key":"${KEY}/x"}`, MATERIALIZATION), recorded(`${KEY}|x`)),
];
