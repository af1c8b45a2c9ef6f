/** The requests that go to assetlog and to the reference, and the intended differences. */

import { gzipSync } from 'node:zlib';
import type { Member } from '../support/reference.ts';

/** One request. `ROW` in it is replaced by a word that no other row has, by which its events are found. */
export interface Row {
  /** A sentence about both services, or the request that they treat differently. */
  readonly title: string;
  readonly method?: string;
  readonly target: string;
  /** Text is sent as UTF-8. */
  readonly body?: string | Buffer;
  /** All headers besides Host and Content-Length. Without them a body is sent as application/json. */
  readonly headers?: readonly string[];
  /** Without them one `localhost`. */
  readonly hosts?: readonly string[];
  readonly chunked?: true;
  /** The target of a second, otherwise equal request. Both services accept the first one. */
  readonly next?: string;
}

export interface Expectation {
  /** Status of the reference, status of assetlog. */
  readonly statuses: readonly [number, number];
  /** The members that differ if both record an event. */
  readonly members?: readonly Member[];
  /** How many events the reference records. Without it one for each 200. */
  readonly referenceEvents?: number;
  /** How many events assetlog records. Without it one for each 200. */
  readonly assetlogEvents?: number;
  /** Members of the reference's event as JSON text, if the README mentions them. */
  readonly records?: string;
}

export interface Difference extends Expectation {
  /** Its name in the README's table. */
  readonly what: string;
  /** A row can override the expectation of its difference. */
  readonly rows: readonly (Row & Partial<Expectation>)[];
}

export const JSON_TYPE = 'Content-Type: application/json';

/** Half of a surrogate pair, in JSON. */
const LONE = '\\ud800';

function nested(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth);
}

/** Escapes a value for a query. A row whose escapes matter spells them out. */
const inQuery = encodeURIComponent;

type More = Omit<Row, 'title' | 'target' | 'body'> & Partial<Expectation>;

/** @param target a path that starts with `/`, a URL, or the part after `/report_asset_`; `more.next` has the same form */
function row(title: string, target: string, body?: string | Buffer, more: More = {}): Row & Partial<Expectation> {
  const next = more.next === undefined ? {} : { next: pathOf(more.next) };
  return { title, target: pathOf(target), ...(body === undefined ? {} : { body }), ...more, ...next };
}

const pathOf = (target: string) => (/^(\/|http:)/.test(target) ? target : `/report_asset_${target}`);

/** Rows without a body, by their titles. */
const targets = (named: Readonly<Record<string, string>>) =>
  Object.entries(named).map(([title, target]) => row(title, target));

/** Rows with one target, and another body each. */
const bodies = (target: string, named: Readonly<Record<string, string>>) =>
  Object.entries(named).map(([title, body]) => row(title, target, body));

/** Both services answer 200 and record the same. */
export const agreeing: readonly Row[] = [
  ...targets({
    'a key in the path needs no body': 'materialization/ROW',
    'each slash of the path starts another part': 'observation/ROW/orders/2026',
    'escapes in the path are decoded as UTF-8': 'materialization/ROW%20x/%C3%A9%E6%97%A5',
    'escapes in the path are decoded once': 'materialization/ROW%2520x%252Fy',
    'a plus in the path is a plus': 'observation/ROW+x%2By',
    'dots in the path are parts like others': 'materialization/ROW/.././x',
    'punctuation in the path is kept': `materialization/ROW:@!$&'()*,;=~-._`,
    'an escaped question mark and number sign belong to the key': 'observation/ROW%3Fx%23y',
    'a word in the query is a key': 'observation/?asset_key=ROW',
    'a JSON array in the query is a key': `materialization/?asset_key=${inQuery('["ROW", "my-table.v2", "é"]')}`,
    'a check can have its key in the query': 'check/?asset_key=ROW&check_name=c&passed=true',
    'a check can have its key in the path': 'check/ROW/x?check_name=c&passed=true',
    'an absolute target means the same': `http://localhost/report_asset_materialization/ROW/x?description=d`,
    'the path wins over the query': 'observation/ROW/path?asset_key=ROW',
    'a repeated parameter with one value is that value': 'materialization/ROW?description=d&description=d',
    'metadata can be in the query as JSON': `materialization/ROW?metadata=${inQuery('{"rows": 12345678901234567890, "é": [null]}')}`,
    'metadata of a check can be in the query as JSON': `check/ROW?check_name=c&passed=true&metadata=${inQuery('{"a":{"b":1}}')}`,
    'metadata null in the query is metadata not given': 'observation/ROW?metadata=null',
    'strings in the query can be empty': 'observation/ROW?description=&partition=&data_version',
    'a plus in the query is a space and %2B a plus': 'materialization/ROW?description=a+b%2Bc%20d&partition=%2B+',
    'escapes in the query are decoded as UTF-8':
      'observation/ROW?description=%C3%A9%F0%9F%98%80%26%3D%25&data_version=%2525',
    'names in the query can be escaped': 'observation/ROW?%70artition=p&&data%5Fversion=v',
    'equals signs and semicolons belong to a value': 'materialization/ROW?description=a=b;partition=c',
    'a question mark and a slash belong to a value': 'materialization/ROW?description=a?b/c',
    'words in the query that look like JSON are texts':
      'observation/ROW?description=null&partition=true&data_version=3',
    'a check can be entirely in the query': 'check/ROW?check_name=no+nulls&passed=false&severity=WARN',
    'unknown parameters are ignored': 'observation/ROW?uri=s3://a&passed=no&description=d',
  }),
  ...bodies('materialization/', {
    'a string in the body is one part': '{"asset_key":"ROW"}',
    'an array in the body is the parts': '{"asset_key":["ROW","a/b"," "]}',
    'keys hold any script': '{"asset_key":["ROW","é日本😀","\\u00e9\\ud83d\\ude00"]}',
  }),
  row('a string in the body keeps its slashes', 'observation/', '{"asset_key":"ROW/a/b"}'),
  row('a string in the body keeps its dots', 'observation/', '{"asset_key":"ROW-a.b c"}'),
  row('a check can have its key in the body', 'check/', '{"asset_key":["ROW","x"],"check_name":"c","passed":true}'),
  row('the path wins over the body', 'materialization/ROW/path', '{"asset_key":["ROW","body"]}'),
  row('the body wins over the query for a key', 'materialization/?asset_key=other', '{"asset_key":["ROW","body"]}'),
  row(
    'the body wins over the query for each parameter of a materialization',
    'materialization/ROW?description=q&partition=q&data_version=q&metadata=%7B%22q%22:1%7D',
    '{"description":"b","partition":"b","data_version":"b","metadata":{"b":1}}',
  ),
  row(
    'the body wins over the query for each parameter of a check',
    'check/ROW?check_name=q&passed=true&severity=ERROR&partition=q&metadata=%7B%22q%22:1%7D',
    '{"check_name":"b","passed":false,"severity":"WARN","partition":"b","metadata":{"b":1}}',
  ),
  row(
    'null in the body hides the query',
    'observation/ROW?description=q&partition=q&data_version=q&metadata=%7B%22q%22:1%7D',
    '{"description":null,"partition":null,"data_version":null,"metadata":null}',
  ),
  row(
    'null in the body of a check hides the query',
    'check/ROW?check_name=c&passed=true&severity=WARN&partition=q&metadata=%7B%22q%22:1%7D',
    '{"severity":null,"partition":null,"metadata":null}',
  ),
  row(
    'the query fills what the body leaves out',
    'materialization/ROW?description=q&data_version=q',
    '{"partition":"b"}',
  ),
  row('an empty object leaves everything to the query', 'observation/?asset_key=ROW&partition=q', '{}'),
  ...bodies('materialization/ROW', {
    'the last value of a repeated member wins': '{"description":"first","description":"last"}',
    'metadata holds values of every kind':
      '{"metadata":{"text":"t","int":1,"float":1.5,"true":true,"false":false,"null":null,"array":[1,"a",null],"object":{"a":{"b":[]}}}}',
    'integers of any size are kept': `{"metadata":{"a":9007199254740993,"b":12345678901234567890,"c":-${'9'.repeat(400)},"d":[18446744073709551617]}}`,
    'names and texts in metadata hold any character':
      '{"metadata":{"é 😀":"日本\\n\\t\\u0000\\u2028","":"empty name","\\"":"\\\\","url":"https://example.com/?a=b&c=%20"}}',
    'texts that look like other values stay texts': '{"metadata":{"a":"1","b":"true","c":"null","d":"{}","e":""}}',
    'readers get the last value of a repeated name in metadata': '{"metadata":{"a":1,"b":2,"a":3}}',
    'a materialization has description, partition and data version':
      '{"description":"two\\nlines é","partition":"2026-11-20|eu","data_version":"v1.0 é"}',
    'strings in the body can be empty': '{"description":"","partition":"","data_version":""}',
    'a control character in a string is kept': '{"description":"a\\u0000b\\u007f","partition":"a\\tb"}',
    'unknown members are ignored': '{"uri":"s3://a","tags":{"a":"b"},"severity":5,"description":"d"}',
    'white space between tokens does not matter':
      '\r\n\t{ "description" :\n"d" , "metadata" : { "a" : [ 1 , 2 ] } } \n',
    'a byte order mark is skipped': '\ufeff{"description":"d"}',
    'a body can have 1 MiB': `{"description":"${'x'.repeat(1_048_558)}"}`,
  }),
  ...bodies('observation/ROW', {
    'integers and other numbers are distinguished': '{"metadata":{"a":1,"b":1.0,"c":1e2,"d":0,"e":[1,1.0]}}',
    'numbers at the edges of a double are kept':
      '{"metadata":{"a":0.1,"b":1.7976931348623157e308,"c":5e-324,"d":-0.0,"e":123456.789e-3}}',
    'half of a surrogate pair stays in metadata': `{"metadata":{"a":"${LONE}","b":["x${LONE}"]}}`,
    'metadata without members is accepted': '{"metadata":{}}',
    'an observation has description, partition and data version':
      '{"description":"😀","partition":"[\\"a\\"]","data_version":"3"}',
  }),
  ...bodies('check/ROW', {
    'metadata nests':
      '{"check_name":"c","passed":true,"metadata":{"a":{"b":{"c":[{"d":[[1],[{}]]},{"e":null}]}},"f":[]}}',
    'a failed check is an error by default': '{"check_name":"c","passed":false}',
    'a failed check can be a warning': '{"check_name":"c","passed":false,"severity":"WARN"}',
    'a passed check can have a severity': '{"check_name":"é 1/2","passed":true,"severity":"ERROR"}',
  }),
  row('a check has a partition', 'check/ROW?partition=2026-11-20', '{"check_name":"c","passed":true}'),
  row(
    'description and data version of a check are ignored',
    'check/ROW?description=d',
    '{"check_name":"c","passed":true,"data_version":"v"}',
  ),
  row(
    'unknown parameters of a check are ignored',
    'check/ROW?blocking=1',
    '{"check_name":"c","passed":true,"blocking":"no"}',
  ),
  row('a body can be sent in chunks', 'observation/ROW', '{"description":"é😀é😀é😀"}', { chunked: true }),
  row('the same report sent twice is two events', 'materialization/ROW', '{"partition":"p"}', {
    next: 'materialization/ROW',
  }),
  row('the same check sent twice is two events', 'check/ROW?check_name=c&passed=true', undefined, {
    next: 'check/ROW?check_name=c&passed=true',
  }),
];

/** Both services answer 400 and record nothing. */
export const refused: readonly Row[] = [
  row('a report without a key is refused', 'materialization/', '{"description":"ROW"}'),
  ...targets({
    'an observation without a key is refused': 'observation/?description=ROW',
    'a check without a key is refused': 'check/?check_name=ROW&passed=true',
    'an empty key in the query is refused': 'observation/?asset_key=&description=ROW',
    'broken metadata in the query is refused': 'materialization/ROW?metadata=%7B',
    'empty metadata in the query is refused': 'observation/ROW?metadata=',
    'an array as metadata in the query is refused': 'check/ROW?check_name=c&passed=true&metadata=[1]',
    'a check without passed is refused': 'check/ROW?check_name=c',
    'a check without a name is refused': 'check/ROW?passed=true',
    'passed True in the query is refused': 'check/ROW?check_name=c&passed=True',
    'passed 1 in the query is refused': 'check/ROW?check_name=c&passed=1',
    'passed "true" in the query is refused': 'check/ROW?check_name=c&passed=%22true%22',
    'passed null in the query is refused': 'check/ROW?check_name=c&passed=null',
    'an empty passed is refused': 'check/ROW?check_name=c&passed=',
    'an unknown severity is refused': 'check/ROW?check_name=c&passed=true&severity=FATAL',
    'an empty severity is refused': 'check/ROW?check_name=c&passed=true&severity=',
  }),
  ...bodies('materialization/ROW', {
    'metadata that is an array is refused': '{"metadata":["a"]}',
    'a description that is a number is refused': '{"description":3}',
    'a partition that is an array is refused': '{"partition":["a"]}',
  }),
  ...bodies('observation/ROW', {
    'metadata that is a text is refused': '{"metadata":"a"}',
    'a partition that is a number is refused': '{"partition":20261120}',
    'a description that is true is refused': '{"description":true}',
  }),
  ...bodies('check/ROW', {
    'metadata that is a number is refused': '{"check_name":"c","passed":true,"metadata":5}',
    'a name that is a number is refused': '{"check_name":5,"passed":true}',
    'passed 1 is refused': '{"check_name":"c","passed":1}',
    'passed as a text is refused': '{"check_name":"c","passed":"true"}',
    'a severity in lower case is refused': '{"check_name":"c","passed":true,"severity":"warn"}',
    'a severity that is a number is refused': '{"check_name":"c","passed":true,"severity":1}',
    'a partition of a check that is a number is refused': '{"check_name":"c","passed":true,"partition":5}',
  }),
  row('a name that is null is refused', 'check/ROW?check_name=c', '{"check_name":null,"passed":true}'),
  row('passed null is refused', 'check/ROW?passed=true', '{"check_name":"c","passed":null}'),
  row('a body as plain text is refused', 'materialization/ROW', '{}', { headers: ['Content-Type: text/plain'] }),
  row('a body as a form is refused', 'observation/ROW', 'description=d', {
    headers: ['Content-Type: application/x-www-form-urlencoded'],
  }),
];

/** A row that the reference records with these members. */
function recordedAs(title: string, target: string, records: string): Row & Partial<Expectation> {
  return row(title, target, undefined, { records });
}

/** @param rule the expectation of each row, unless the row overrides it */
function difference(what: string, rule: Expectation, rows: Difference['rows']): Difference {
  return { what, rows, ...rule };
}

/** The intended differences. */
export const differences: readonly Difference[] = [
  difference('trailing comma in the JSON', { statuses: [500, 400] }, [
    row('a trailing comma', 'materialization/ROW', '{"description":"d",}'),
  ]),
  difference('broken, empty, non-UTF-8 or too deep JSON; body `null` or a number', { statuses: [500, 400] }, [
    row('broken JSON', 'materialization/ROW', '{"description":'),
    row('white space as body', 'materialization/ROW', ' \n'),
    row('a body that is not UTF-8', 'observation/ROW', Buffer.from('{"description":"\xff"}', 'latin1')),
    row('JSON that is much too deep', 'observation/ROW', `{"metadata":{"a":${nested(100_000)}}}`),
    row('null as body', 'check/ROW?check_name=c&passed=true', 'null'),
    row('a number as body', 'observation/ROW', '5'),
  ]),
  difference('body `[]` or `"asset_key"`', { statuses: [200, 400] }, [
    row('an array as body', 'check/ROW?check_name=c&passed=true', '[]'),
    row('a text as body', 'materialization/ROW', '"asset_key"'),
  ]),
  difference('JSON body without Content-Type', { statuses: [200, 400] }, [
    row('a body without Content-Type', 'materialization/ROW', '{"description":"d"}', {
      headers: [],
      records: '{"description":null}',
    }),
  ]),
  difference('`application/json; charset=utf-8`, `Application/JSON`', { statuses: [400, 200] }, [
    row('a charset', 'materialization/ROW', '{"description":"d"}', { headers: [`${JSON_TYPE}; charset=utf-8`] }),
    row('a Content-Type in another case', 'observation/ROW', '{"description":"d"}', {
      headers: ['Content-Type: Application/JSON'],
    }),
  ]),
  difference('a Content-Type with no body', { statuses: [400, 200] }, [
    row('application/json without a body', 'materialization/ROW', undefined, {
      headers: [JSON_TYPE],
      statuses: [500, 200],
    }),
    row('another Content-Type without a body', 'observation/ROW', undefined, {
      headers: ['Content-Type: application/octet-stream'],
    }),
  ]),
  difference('endpoint without its trailing slash', { statuses: [405, 200] }, [
    row('a missing slash', 'materialization', '{"asset_key":"ROW"}'),
    row('a missing slash before a query', 'check?asset_key=ROW&check_name=c&passed=true'),
  ]),
  difference('query `asset_key=my-table.v2`', { statuses: [200, 200], members: ['asset_key'] }, [
    recordedAs('dots and dashes', 'materialization/?asset_key=ROW-table.v2', '{"asset_key":["ROW","table","v2"]}'),
    recordedAs('a slash', 'check/?asset_key=ROW/orders&check_name=c&passed=true', '{"asset_key":["ROW","orders"]}'),
    recordedAs('a space', 'observation/?asset_key=ROW+orders', '{"asset_key":["ROW","orders"]}'),
  ]),
  difference('path `a%2Fb`', { statuses: [200, 200], members: ['asset_key'] }, [
    recordedAs('an escaped slash in the path', 'materialization/ROW%2Forders', '{"asset_key":["ROW","orders"]}'),
  ]),
  difference('path `a%zz`, `a%FF`, `a//b`, `a/`, `a%00`', { statuses: [200, 400] }, [
    recordedAs('a malformed escape in the path', 'materialization/ROW%zz', '{"asset_key":["ROW%zz"]}'),
    recordedAs('bytes in the path that are not UTF-8', 'observation/ROW%FF', '{"asset_key":["ROW\ufffd"]}'),
    recordedAs('an empty part in the path', 'materialization/ROW//b', '{"asset_key":["ROW","","b"]}'),
    recordedAs('a slash after a key', 'check/ROW/?check_name=c&passed=true', '{"asset_key":["ROW",""]}'),
    recordedAs('a control character in the path', 'observation/ROW%00', '{"asset_key":["ROW\\u0000"]}'),
  ]),
  difference('query `description=a%zz`, `description=a%FF`', { statuses: [200, 400] }, [
    recordedAs('a malformed escape in the query', 'materialization/ROW?description=a%zz', '{"description":"a%zz"}'),
    recordedAs('a byte that is not UTF-8', 'observation/ROW?description=a%FF', '{"description":"a\ufffd"}'),
  ]),
  difference('query `description=a&description=b`', { statuses: [200, 400] }, [
    recordedAs('two values', 'materialization/ROW?description=first&description=last', '{"description":"last"}'),
  ]),
  difference('key `[]`, `""`, `[1]`, `5`, `{}`, `null` in the body', { statuses: [500, 400] }, [
    row('an empty array as key', 'materialization/', '{"asset_key":[],"description":"ROW"}', {
      statuses: [200, 400],
      records: '{"asset_key":[]}',
    }),
    row('an empty text as key', 'materialization/', '{"asset_key":"","description":"ROW"}', {
      statuses: [200, 400],
      records: '{"asset_key":[""]}',
    }),
    row('a number in a key', 'observation/', '{"asset_key":[1],"description":"ROW"}'),
    row('a number as key', 'observation/', '{"asset_key":5,"description":"ROW"}'),
    row('an object as key', 'check/', '{"asset_key":{},"check_name":"ROW","passed":true}'),
    row('null as key', 'materialization/?asset_key=ROW', '{"asset_key":null}'),
  ]),
  difference('`data_version: 3`', { statuses: [200, 400] }, [
    row('a number as data version', 'materialization/ROW', '{"data_version":3}', {
      records: '{"data_version":3}',
    }),
    row('a number as data version of an observation', 'observation/ROW', '{"data_version":3}', {
      records: '{"data_version":3}',
    }),
  ]),
  difference('`NaN` in the body', { statuses: [200, 400] }, [
    row('NaN', 'materialization/ROW', '{"metadata":{"a":NaN}}'),
  ]),
  difference('gzip body', { statuses: [500, 415] }, [
    row('a gzip body', 'materialization/ROW', gzipSync('{"description":"d"}'), {
      headers: [JSON_TYPE, 'Content-Encoding: gzip'],
    }),
  ]),
  difference('GET, HEAD on an endpoint', { statuses: [200, 405], referenceEvents: 0 }, [
    row('GET', 'materialization/ROW', undefined, { method: 'GET' }),
  ]),
  difference('PUT, DELETE, OPTIONS', { statuses: [405, 405] }, [
    row('PUT', 'materialization/ROW', undefined, { method: 'PUT' }),
    row('DELETE', 'check/ROW', undefined, { method: 'DELETE' }),
    row('OPTIONS', 'observation/ROW', undefined, { method: 'OPTIONS' }),
  ]),
  difference('unknown path, wrong case', { statuses: [405, 404] }, [
    row('an unknown path', '/report_asset_deletion/ROW'),
    row('a path in another case', '/Report_Asset_Materialization/ROW'),
  ]),
  difference('foreign `Origin`, `Sec-Fetch-Site: cross-site`, foreign Host on loopback', { statuses: [200, 403] }, [
    row('a foreign Origin', 'materialization/ROW', undefined, { headers: ['Origin: https://evil.example'] }),
    row('a fetch that the browser calls foreign', 'check/ROW?check_name=c&passed=true', undefined, {
      headers: ['Sec-Fetch-Site: cross-site'],
    }),
    row('a foreign Host', 'observation/ROW', undefined, { hosts: ['evil.example'] }),
  ]),
  difference('the same check reported twice with a `partition`', { statuses: [500, 200], referenceEvents: 2 }, [
    row('the second report', 'check/ROW?check_name=c&passed=true&partition=p', undefined, {
      next: 'check/ROW?check_name=c&passed=true&partition=p',
    }),
  ]),
  difference('an `Upgrade: h2c` offer with a JSON body', { statuses: [500, 200] }, [
    row('an offer to speak HTTP/2', 'materialization/ROW', '{"description":"d"}', {
      headers: [
        JSON_TYPE,
        'Connection: Upgrade, HTTP2-Settings',
        'Upgrade: h2c',
        'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA',
      ],
    }),
  ]),
  difference('a lone surrogate in a partition, a data version or a description', { statuses: [500, 400] }, [
    row('in a partition', 'materialization/ROW', `{"partition":"${LONE}"}`),
    row('in a description', 'observation/ROW', `{"description":"${LONE}"}`, { statuses: [200, 400] }),
    row('in a data version', 'observation/ROW', `{"data_version":"${LONE}"}`),
  ]),
  difference(
    'UTF-16 body; depth 200; empty `check_name`; broken JSON list in the query; `passed=+true`; 5,000-character key',
    { statuses: [200, 400] },
    [
      row('a UTF-16 body', 'materialization/ROW', Buffer.from('\ufeff{"description":"d"}', 'utf16le')),
      row('a depth of 200', 'materialization/ROW', `{"metadata":{"a":${nested(199)}}}`),
      row('an empty check name', 'check/ROW?check_name=&passed=true'),
      recordedAs('a broken array as key in the query', 'observation/?asset_key=[%22ROW%22,', '{"asset_key":["ROW"]}'),
      row('white space before passed in the query', 'check/ROW?check_name=c&passed=+true'),
      row('a key of 5,000 characters', `materialization/ROW${'x'.repeat(5_000)}`),
    ],
  ),
  difference(
    'two `Host` or none; two `Content-Type`; 120 headers; a 20 KB header; a body over 1 MiB',
    { statuses: [200, 400] },
    [
      row('two Hosts', 'materialization/ROW', undefined, { hosts: ['localhost', 'localhost'] }),
      row('no Host', 'observation/ROW', undefined, { hosts: [] }),
      row('two Content-Types', 'materialization/ROW', '{}', { headers: [JSON_TYPE, JSON_TYPE] }),
      row('120 headers', 'observation/ROW', undefined, {
        headers: Array.from({ length: 120 }, (_, index) => `X-Header-${index}: x`),
        statuses: [200, 431],
      }),
      row('a header of 20 KB', 'check/ROW?check_name=c&passed=true', undefined, {
        headers: [`X-Large: ${'x'.repeat(20_000)}`],
        statuses: [200, 431],
      }),
      row('a body over 1 MiB', 'materialization/ROW', `{"description":"${'x'.repeat(1_048_577)}"}`, {
        statuses: [200, 413],
      }),
    ],
  ),
  difference('metadata `1e400` or `0.12345678901234567890`', { statuses: [200, 200], members: ['metadata'] }, [
    row('a number that a double cannot hold', 'materialization/ROW', '{"metadata":{"a":1e400}}', {
      records: '{"metadata":{"a":"Infinity"}}',
    }),
    row(
      'more digits than a double',
      'check/ROW',
      '{"check_name":"c","passed":true,"metadata":{"a":0.12345678901234567890}}',
      { records: '{"metadata":{"a":0.12345678901234568}}' },
    ),
  ]),
  difference(
    'a member `__class__`, `__enum__` or `__mapping_items__` inside metadata',
    { statuses: [200, 200], members: ['metadata'] },
    [
      row('an object that it cannot load', 'materialization/ROW', '{"metadata":{"a":{"__class__":"AssetKey"}}}'),
      row('an enumeration that it cannot load', 'materialization/ROW', '{"metadata":{"a":{"__enum__":"Color.RED"}}}'),
      row(
        'a mapping that it loads as another value',
        'materialization/ROW',
        '{"metadata":{"a":{"__mapping_items__":[["b",2]]}}}',
      ),
    ],
  ),
  difference('`event_time`', { statuses: [200, 200], members: ['event_time'], records: '{"event_time":null}' }, [
    row(
      'a time in the body',
      'materialization/ROW',
      '{"event_time":"2026-11-20T16:19:45.250+01:00","description":"d"}',
    ),
    row('a time in the query', 'observation/ROW?event_time=2026-11-20T15:19:45Z'),
    row('a time of a check', 'check/ROW?check_name=c&passed=true&event_time=2026-11-20T16:19:45%2B01:00'),
  ]),
  difference('an `event_time` without a zone, or a number', { statuses: [200, 400] }, [
    row('a time without a zone', 'observation/ROW?event_time=2026-11-20T15:19:45'),
    row('a plus that is a space', 'observation/ROW?event_time=2026-11-20T15:19:45+01:00'),
    row('seconds or milliseconds', 'materialization/ROW', '{"event_time":1763650785}'),
  ]),
  difference('the same report twice with one `Idempotency-Key`', { statuses: [200, 200], assetlogEvents: 1 }, [
    row('a materialization', 'materialization/ROW?description=d', undefined, {
      next: 'materialization/ROW?description=d',
      headers: ['Idempotency-Key: "ROW"'],
    }),
    row('a check', 'check/ROW', '{"check_name":"c","passed":true}', {
      next: 'check/ROW',
      headers: [JSON_TYPE, 'Idempotency-Key: ROW'],
    }),
  ]),
  difference('another report with an `Idempotency-Key` that was used before', { statuses: [200, 422] }, [
    row('an added description', 'observation/ROW', undefined, {
      next: 'observation/ROW?description=d',
      headers: ['Idempotency-Key: ROW'],
    }),
  ]),
  difference('two `Idempotency-Key`, or one with a space in it', { statuses: [200, 400] }, [
    row('two keys', 'materialization/ROW', undefined, {
      headers: ['Idempotency-Key: ROW', 'Idempotency-Key: ROW'],
    }),
    row('a key with a space', 'materialization/ROW', undefined, { headers: ['Idempotency-Key: "ROW x"'] }),
  ]),
  difference('`POST /report_asset_batch/`', { statuses: [405, 200] }, [
    row(
      'a batch of lines',
      'batch/',
      '{"type":"materialization","asset_key":"ROW"}\n{"type":"observation","asset_key":["ROW","b"]}\n',
      { headers: ['Content-Type: application/x-ndjson'], assetlogEvents: 2 },
    ),
    row('a batch in an array', 'batch', '[{"type":"materialization","asset_key":"ROW"}]'),
  ]),
];
