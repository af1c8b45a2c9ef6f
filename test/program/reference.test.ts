/**
 * The same requests go to assetlog and to the other implementation of the specification, dagster-webserver, and what
 * both answered and recorded is compared. Where they differ on purpose a row says so, and a row whose difference is gone
 * fails, so that the README's table stays true.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { root, startService } from '../support/program.ts';
import {
  referenceExecutable as executable,
  type Member,
  type Members,
  type Recorded,
  readEvents,
  type Side,
  withoutReference as skip,
  startReference,
} from '../support/reference.ts';
import { ask, post, Wire, type WireReply } from '../support/wire.ts';

/** One request. `ROW` in it becomes a word that no other row has, by which its events are found again. */
interface Row {
  /** A sentence about both, or what it is that differs. */
  readonly says: string;
  readonly method?: string;
  readonly target: string;
  /** Text is sent as UTF-8. */
  readonly body?: string | Buffer;
  /** All headers besides Host and the body's length. Without it a body goes as application/json. */
  readonly headers?: readonly string[];
  /** Instead of one `localhost`. */
  readonly hosts?: readonly string[];
  readonly chunked?: true;
  /** The target of a second request, else the same, that is sent after it; both accept the first. */
  readonly next?: string;
}

interface Expectation {
  /** Of the reference and of assetlog. */
  readonly statuses: readonly [number, number];
  /** What the events disagree about, where both record one. */
  readonly members?: readonly Member[];
  /** How many events the reference records of the row; as a rule one for each 200. */
  readonly referenceEvents?: number;
  /** The same of assetlog. */
  readonly assetlogEvents?: number;
  /** JSON text of members that the reference's event has, where they are worth a word in the README. */
  readonly records?: string;
}

interface Difference extends Expectation {
  /** As the README's table calls it. */
  readonly what: string;
  /** A row may expect something else than its difference as a rule does. */
  readonly rows: readonly (Row & Partial<Expectation>)[];
}

/** A row with what is expected of it. */
interface Case extends Row, Expectation {
  readonly difference: string | undefined;
}

const AFTER_MS = 100;

const MATERIALIZATION = '/report_asset_materialization';
const CHECK = '/report_asset_check';
const OBSERVATION = '/report_asset_observation';
const BATCH = '/report_asset_batch';

const JSON_TYPE = 'Content-Type: application/json';

/** Half of a surrogate pair, as JSON writes it. */
const LONE = '\\ud800';

function nested(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth);
}

/** A value for a query; where its escapes matter, a row spells them out. */
const inQuery = encodeURIComponent;

/** Both answer 200 and record the same. */
const agreeing: readonly Row[] = [
  // Where the key stands
  { says: 'a key in the path needs no body', target: `${MATERIALIZATION}/ROW` },
  { says: 'each slash of the path begins another part', target: `${OBSERVATION}/ROW/orders/2026` },
  { says: 'escapes in the path are decoded as UTF-8', target: `${MATERIALIZATION}/ROW%20x/%C3%A9%E6%97%A5` },
  { says: 'escapes in the path are decoded once', target: `${MATERIALIZATION}/ROW%2520x%252Fy` },
  { says: 'a plus in the path is a plus', target: `${OBSERVATION}/ROW+x%2By` },
  { says: 'dots in the path are parts like others', target: `${MATERIALIZATION}/ROW/.././x` },
  { says: 'punctuation in the path is kept', target: `${MATERIALIZATION}/ROW:@!$&'()*,;=~-._` },
  { says: 'an escaped question mark and number sign belong to the key', target: `${OBSERVATION}/ROW%3Fx%23y` },
  { says: 'a string in the body is one part', target: `${MATERIALIZATION}/`, body: '{"asset_key":"ROW"}' },
  { says: 'a string in the body keeps its slashes', target: `${OBSERVATION}/`, body: '{"asset_key":"ROW/a/b"}' },
  { says: 'a string in the body keeps its dots', target: `${OBSERVATION}/`, body: '{"asset_key":"ROW-a.b c"}' },
  { says: 'an array in the body is the parts', target: `${MATERIALIZATION}/`, body: '{"asset_key":["ROW","a/b"," "]}' },
  {
    says: 'keys hold any script',
    target: `${MATERIALIZATION}/`,
    body: '{"asset_key":["ROW","é日本😀","\\u00e9\\ud83d\\ude00"]}',
  },
  { says: 'a word in the query is a key', target: `${OBSERVATION}/?asset_key=ROW` },
  {
    says: 'a JSON array in the query is a key',
    target: `${MATERIALIZATION}/?asset_key=${inQuery('["ROW", "my-table.v2", "é"]')}`,
  },
  {
    says: 'a check takes its key from the body',
    target: `${CHECK}/`,
    body: '{"asset_key":["ROW","x"],"check_name":"c","passed":true}',
  },
  { says: 'a check takes its key from the query', target: `${CHECK}/?asset_key=ROW&check_name=c&passed=true` },
  { says: 'a check takes its key from the path', target: `${CHECK}/ROW/x?check_name=c&passed=true` },
  { says: 'an absolute target means the same', target: `http://localhost${MATERIALIZATION}/ROW/x?description=d` },
  // Which place wins
  { says: 'the path wins over the body', target: `${MATERIALIZATION}/ROW/path`, body: '{"asset_key":["ROW","body"]}' },
  { says: 'the path wins over the query', target: `${OBSERVATION}/ROW/path?asset_key=ROW` },
  {
    says: 'the body wins over the query for a key',
    target: `${MATERIALIZATION}/?asset_key=other`,
    body: '{"asset_key":["ROW","body"]}',
  },
  {
    says: 'the body wins over the query for each parameter of a materialization',
    target: `${MATERIALIZATION}/ROW?description=q&partition=q&data_version=q&metadata=%7B%22q%22:1%7D`,
    body: '{"description":"b","partition":"b","data_version":"b","metadata":{"b":1}}',
  },
  {
    says: 'the body wins over the query for each parameter of a check',
    target: `${CHECK}/ROW?check_name=q&passed=true&severity=ERROR&partition=q&metadata=%7B%22q%22:1%7D`,
    body: '{"check_name":"b","passed":false,"severity":"WARN","partition":"b","metadata":{"b":1}}',
  },
  {
    says: 'null in the body hides the query',
    target: `${OBSERVATION}/ROW?description=q&partition=q&data_version=q&metadata=%7B%22q%22:1%7D`,
    body: '{"description":null,"partition":null,"data_version":null,"metadata":null}',
  },
  {
    says: 'null in the body of a check hides the query',
    target: `${CHECK}/ROW?check_name=c&passed=true&severity=WARN&partition=q&metadata=%7B%22q%22:1%7D`,
    body: '{"severity":null,"partition":null,"metadata":null}',
  },
  {
    says: 'the query fills what the body leaves out',
    target: `${MATERIALIZATION}/ROW?description=q&data_version=q`,
    body: '{"partition":"b"}',
  },
  {
    says: 'an empty object leaves everything to the query',
    target: `${OBSERVATION}/?asset_key=ROW&partition=q`,
    body: '{}',
  },
  {
    says: 'of a repeated parameter the last value wins',
    target: `${MATERIALIZATION}/ROW?description=first&description=last`,
  },
  {
    says: 'of a repeated member the last value wins',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"description":"first","description":"last"}',
  },
  // Metadata
  {
    says: 'metadata holds values of every kind',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"metadata":{"text":"t","int":1,"float":1.5,"true":true,"false":false,"null":null,"array":[1,"a",null],"object":{"a":{"b":[]}}}}',
  },
  {
    says: 'integers of any size are kept',
    target: `${MATERIALIZATION}/ROW`,
    body: `{"metadata":{"a":9007199254740993,"b":12345678901234567890,"c":-${'9'.repeat(400)},"d":[18446744073709551617]}}`,
  },
  {
    says: 'integers and other numbers are told apart',
    target: `${OBSERVATION}/ROW`,
    body: '{"metadata":{"a":1,"b":1.0,"c":1e2,"d":0,"e":[1,1.0]}}',
  },
  {
    says: 'numbers at the edges of a double are kept',
    target: `${OBSERVATION}/ROW`,
    body: '{"metadata":{"a":0.1,"b":1.7976931348623157e308,"c":5e-324,"d":-0.0,"e":123456.789e-3}}',
  },
  {
    says: 'metadata nests',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":true,"metadata":{"a":{"b":{"c":[{"d":[[1],[{}]]},{"e":null}]}},"f":[]}}',
  },
  {
    says: 'names and texts in metadata hold any character',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"metadata":{"é 😀":"日本\\n\\t\\u0000\\u2028","":"empty name","\\"":"\\\\","url":"https://example.com/?a=b&c=%20"}}',
  },
  {
    says: 'half of a surrogate pair stays in metadata',
    target: `${OBSERVATION}/ROW`,
    body: `{"metadata":{"a":"${LONE}","b":["x${LONE}"]}}`,
  },
  {
    says: 'texts that look like other values stay texts',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"metadata":{"a":"1","b":"true","c":"null","d":"{}","e":""}}',
  },
  {
    says: 'of a repeated name in metadata readers take the last',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"metadata":{"a":1,"b":2,"a":3}}',
  },
  { says: 'metadata without members is taken', target: `${OBSERVATION}/ROW`, body: '{"metadata":{}}' },
  {
    says: 'metadata stands in the query as JSON',
    target: `${MATERIALIZATION}/ROW?metadata=${inQuery('{"rows": 12345678901234567890, "é": [null]}')}`,
  },
  {
    says: 'metadata of a check stands in the query as JSON',
    target: `${CHECK}/ROW?check_name=c&passed=true&metadata=${inQuery('{"a":{"b":1}}')}`,
  },
  { says: 'metadata null in the query is metadata not given', target: `${OBSERVATION}/ROW?metadata=null` },
  // Strings
  {
    says: 'a materialization has description, partition and data version',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"description":"two\\nlines é","partition":"2026-11-20|eu","data_version":"v1.0 é"}',
  },
  {
    says: 'an observation has description, partition and data version',
    target: `${OBSERVATION}/ROW`,
    body: '{"description":"😀","partition":"[\\"a\\"]","data_version":"3"}',
  },
  {
    says: 'strings in the body may be empty',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"description":"","partition":"","data_version":""}',
  },
  { says: 'strings in the query may be empty', target: `${OBSERVATION}/ROW?description=&partition=&data_version` },
  {
    says: 'a control character in a string is kept',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"description":"a\\u0000b\\u007f","partition":"a\\tb"}',
  },
  {
    says: 'a plus in the query is a space and %2B a plus',
    target: `${MATERIALIZATION}/ROW?description=a+b%2Bc%20d&partition=%2B+`,
  },
  {
    says: 'escapes in the query are decoded as UTF-8',
    target: `${OBSERVATION}/ROW?description=%C3%A9%F0%9F%98%80%26%3D%25&data_version=%2525`,
  },
  { says: 'names in the query may be escaped', target: `${OBSERVATION}/ROW?%70artition=p&&data%5Fversion=v` },
  {
    says: 'equals signs and semicolons belong to a value',
    target: `${MATERIALIZATION}/ROW?description=a=b;partition=c`,
  },
  { says: 'a question mark and a slash belong to a value', target: `${MATERIALIZATION}/ROW?description=a?b/c` },
  {
    says: 'words in the query that look like JSON are texts',
    target: `${OBSERVATION}/ROW?description=null&partition=true&data_version=3`,
  },
  // Checks
  {
    says: 'a check that failed is an error by default',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":false}',
  },
  {
    says: 'a check that failed may be a warning',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":false,"severity":"WARN"}',
  },
  {
    says: 'a check that passed may name a severity',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"é 1/2","passed":true,"severity":"ERROR"}',
  },
  { says: 'a check stands whole in the query', target: `${CHECK}/ROW?check_name=no+nulls&passed=false&severity=WARN` },
  {
    says: 'a check has a partition',
    target: `${CHECK}/ROW?partition=2026-11-20`,
    body: '{"check_name":"c","passed":true}',
  },
  {
    says: 'description and data version of a check are ignored',
    target: `${CHECK}/ROW?description=d`,
    body: '{"check_name":"c","passed":true,"data_version":"v"}',
  },
  // Everything else about a request
  {
    says: 'unknown members are ignored',
    target: `${MATERIALIZATION}/ROW`,
    body: '{"uri":"s3://a","tags":{"a":"b"},"severity":5,"description":"d"}',
  },
  { says: 'unknown parameters are ignored', target: `${OBSERVATION}/ROW?uri=s3://a&passed=no&description=d` },
  {
    says: 'unknown parameters of a check are ignored',
    target: `${CHECK}/ROW?blocking=1`,
    body: '{"check_name":"c","passed":true,"blocking":"no"}',
  },
  {
    says: 'white space between tokens does not matter',
    target: `${MATERIALIZATION}/ROW`,
    body: '\r\n\t{ "description" :\n"d" , "metadata" : { "a" : [ 1 , 2 ] } } \n',
  },
  { says: 'a byte order mark is skipped', target: `${MATERIALIZATION}/ROW`, body: '\ufeff{"description":"d"}' },
  {
    says: 'a body may come in chunks',
    target: `${OBSERVATION}/ROW`,
    body: '{"description":"é😀é😀é😀"}',
    chunked: true,
  },
  {
    says: 'a body may have 1 MiB',
    target: `${MATERIALIZATION}/ROW`,
    body: `{"description":"${'x'.repeat(1_048_558)}"}`,
  },
  {
    says: 'the same report sent twice is two events',
    target: `${MATERIALIZATION}/ROW`,
    next: `${MATERIALIZATION}/ROW`,
    body: '{"partition":"p"}',
  },
  {
    says: 'the same check sent twice is two events',
    target: `${CHECK}/ROW?check_name=c&passed=true`,
    next: `${CHECK}/ROW?check_name=c&passed=true`,
  },
];

/** Both answer 400 and record nothing. */
const refused: readonly Row[] = [
  { says: 'a report without a key is refused', target: `${MATERIALIZATION}/`, body: '{"description":"ROW"}' },
  { says: 'an observation without a key is refused', target: `${OBSERVATION}/?description=ROW` },
  { says: 'a check without a key is refused', target: `${CHECK}/?check_name=ROW&passed=true` },
  { says: 'an empty key in the query is refused', target: `${OBSERVATION}/?asset_key=&description=ROW` },
  { says: 'metadata that is an array is refused', target: `${MATERIALIZATION}/ROW`, body: '{"metadata":["a"]}' },
  { says: 'metadata that is a text is refused', target: `${OBSERVATION}/ROW`, body: '{"metadata":"a"}' },
  {
    says: 'metadata that is a number is refused',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":true,"metadata":5}',
  },
  { says: 'broken metadata in the query is refused', target: `${MATERIALIZATION}/ROW?metadata=%7B` },
  { says: 'empty metadata in the query is refused', target: `${OBSERVATION}/ROW?metadata=` },
  {
    says: 'an array as metadata in the query is refused',
    target: `${CHECK}/ROW?check_name=c&passed=true&metadata=[1]`,
  },
  { says: 'a description that is a number is refused', target: `${MATERIALIZATION}/ROW`, body: '{"description":3}' },
  { says: 'a partition that is a number is refused', target: `${OBSERVATION}/ROW`, body: '{"partition":20261120}' },
  { says: 'a partition that is an array is refused', target: `${MATERIALIZATION}/ROW`, body: '{"partition":["a"]}' },
  { says: 'a description that is true is refused', target: `${OBSERVATION}/ROW`, body: '{"description":true}' },
  { says: 'a check without passed is refused', target: `${CHECK}/ROW?check_name=c` },
  { says: 'a check without a name is refused', target: `${CHECK}/ROW?passed=true` },
  {
    says: 'a name that is null is refused',
    target: `${CHECK}/ROW?check_name=c`,
    body: '{"check_name":null,"passed":true}',
  },
  { says: 'a name that is a number is refused', target: `${CHECK}/ROW`, body: '{"check_name":5,"passed":true}' },
  { says: 'passed null is refused', target: `${CHECK}/ROW?passed=true`, body: '{"check_name":"c","passed":null}' },
  { says: 'passed 1 is refused', target: `${CHECK}/ROW`, body: '{"check_name":"c","passed":1}' },
  { says: 'passed as a text is refused', target: `${CHECK}/ROW`, body: '{"check_name":"c","passed":"true"}' },
  { says: 'passed True in the query is refused', target: `${CHECK}/ROW?check_name=c&passed=True` },
  { says: 'passed 1 in the query is refused', target: `${CHECK}/ROW?check_name=c&passed=1` },
  { says: 'passed "true" in the query is refused', target: `${CHECK}/ROW?check_name=c&passed=%22true%22` },
  { says: 'passed null in the query is refused', target: `${CHECK}/ROW?check_name=c&passed=null` },
  { says: 'an empty passed is refused', target: `${CHECK}/ROW?check_name=c&passed=` },
  { says: 'an unknown severity is refused', target: `${CHECK}/ROW?check_name=c&passed=true&severity=FATAL` },
  {
    says: 'a severity in lower case is refused',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":true,"severity":"warn"}',
  },
  {
    says: 'a severity that is a number is refused',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":true,"severity":1}',
  },
  { says: 'an empty severity is refused', target: `${CHECK}/ROW?check_name=c&passed=true&severity=` },
  {
    says: 'a partition of a check that is a number is refused',
    target: `${CHECK}/ROW`,
    body: '{"check_name":"c","passed":true,"partition":5}',
  },
  {
    says: 'a body as plain text is refused',
    target: `${MATERIALIZATION}/ROW`,
    body: '{}',
    headers: ['Content-Type: text/plain'],
  },
  {
    says: 'a body as a form is refused',
    target: `${OBSERVATION}/ROW`,
    body: 'description=d',
    headers: ['Content-Type: application/x-www-form-urlencoded'],
  },
];

/** What is different on purpose. */
const differences: readonly Difference[] = [
  {
    what: 'trailing comma in the JSON',
    statuses: [500, 400],
    rows: [{ says: 'a trailing comma', target: `${MATERIALIZATION}/ROW`, body: '{"description":"d",}' }],
  },
  {
    what: 'broken, empty, non-UTF-8 or too deep JSON; body `null` or a number',
    statuses: [500, 400],
    rows: [
      { says: 'broken JSON', target: `${MATERIALIZATION}/ROW`, body: '{"description":' },
      { says: 'white space as body', target: `${MATERIALIZATION}/ROW`, body: ' \n' },
      {
        says: 'a body that is not UTF-8',
        target: `${OBSERVATION}/ROW`,
        body: Buffer.from('{"description":"\xff"}', 'latin1'),
      },
      {
        says: 'JSON that is much too deep',
        target: `${OBSERVATION}/ROW`,
        body: `{"metadata":{"a":${nested(100_000)}}}`,
      },
      { says: 'null as body', target: `${CHECK}/ROW?check_name=c&passed=true`, body: 'null' },
      { says: 'a number as body', target: `${OBSERVATION}/ROW`, body: '5' },
    ],
  },
  {
    what: 'body `[]` or `"asset_key"`',
    statuses: [200, 400],
    rows: [
      { says: 'an array as body', target: `${CHECK}/ROW?check_name=c&passed=true`, body: '[]' },
      { says: 'a text as body', target: `${MATERIALIZATION}/ROW`, body: '"asset_key"' },
    ],
  },
  {
    what: 'JSON body without Content-Type',
    statuses: [200, 400],
    rows: [
      {
        says: 'a body without Content-Type',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"description":"d"}',
        headers: [],
        records: '{"description":null}',
      },
    ],
  },
  {
    what: '`application/json; charset=utf-8`, `Application/JSON`',
    statuses: [400, 200],
    rows: [
      {
        says: 'a charset',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"description":"d"}',
        headers: [`${JSON_TYPE}; charset=utf-8`],
      },
      {
        says: 'a Content-Type in other letters',
        target: `${OBSERVATION}/ROW`,
        body: '{"description":"d"}',
        headers: ['Content-Type: Application/JSON'],
      },
    ],
  },
  {
    what: 'a Content-Type with no body',
    statuses: [400, 200],
    rows: [
      {
        says: 'application/json without a body',
        target: `${MATERIALIZATION}/ROW`,
        headers: [JSON_TYPE],
        statuses: [500, 200],
      },
      {
        says: 'another Content-Type without a body',
        target: `${OBSERVATION}/ROW`,
        headers: ['Content-Type: application/octet-stream'],
      },
    ],
  },
  {
    what: 'endpoint without its trailing slash',
    statuses: [405, 200],
    rows: [
      { says: 'a missing slash', target: MATERIALIZATION, body: '{"asset_key":"ROW"}' },
      { says: 'a missing slash before a query', target: `${CHECK}?asset_key=ROW&check_name=c&passed=true` },
    ],
  },
  {
    what: 'query `asset_key=my-table.v2`',
    statuses: [200, 200],
    members: ['asset_key'],
    rows: [
      {
        says: 'a key in the query with dots and dashes',
        target: `${MATERIALIZATION}/?asset_key=ROW-table.v2`,
        records: '{"asset_key":["ROW","table","v2"]}',
      },
      {
        says: 'a key in the query with a slash',
        target: `${CHECK}/?asset_key=ROW/orders&check_name=c&passed=true`,
        records: '{"asset_key":["ROW","orders"]}',
      },
      {
        says: 'a key in the query with a space',
        target: `${OBSERVATION}/?asset_key=ROW+orders`,
        records: '{"asset_key":["ROW","orders"]}',
      },
    ],
  },
  {
    what: 'path `a%2Fb`',
    statuses: [200, 200],
    members: ['asset_key'],
    rows: [
      {
        says: 'an escaped slash in the path',
        target: `${MATERIALIZATION}/ROW%2Forders`,
        records: '{"asset_key":["ROW","orders"]}',
      },
    ],
  },
  {
    what: 'path `a%zz`, `a%FF`, `a//b`, `a/`, `a%00`',
    statuses: [200, 400],
    rows: [
      {
        says: 'a malformed escape in the path',
        target: `${MATERIALIZATION}/ROW%zz`,
        records: '{"asset_key":["ROW%zz"]}',
      },
      {
        says: 'bytes in the path that are not UTF-8',
        target: `${OBSERVATION}/ROW%FF`,
        records: '{"asset_key":["ROW\ufffd"]}',
      },
      {
        says: 'an empty part in the path',
        target: `${MATERIALIZATION}/ROW//b`,
        records: '{"asset_key":["ROW","","b"]}',
      },
      {
        says: 'a slash after a key',
        target: `${CHECK}/ROW/?check_name=c&passed=true`,
        records: '{"asset_key":["ROW",""]}',
      },
      {
        says: 'a control character in the path',
        target: `${OBSERVATION}/ROW%00`,
        records: '{"asset_key":["ROW\\u0000"]}',
      },
    ],
  },
  {
    what: 'query `description=a%zz`, `description=a%FF`',
    statuses: [200, 400],
    rows: [
      {
        says: 'a malformed escape in the query',
        target: `${MATERIALIZATION}/ROW?description=a%zz`,
        records: '{"description":"a%zz"}',
      },
      {
        says: 'bytes in the query that are not UTF-8',
        target: `${OBSERVATION}/ROW?description=a%FF`,
        records: '{"description":"a\ufffd"}',
      },
    ],
  },
  {
    what: 'key `[]`, `""`, `[1]`, `5`, `{}`, `null` in the body',
    statuses: [500, 400],
    rows: [
      {
        says: 'an empty array as key',
        target: `${MATERIALIZATION}/`,
        body: '{"asset_key":[],"description":"ROW"}',
        statuses: [200, 400],
        records: '{"asset_key":[]}',
      },
      {
        says: 'an empty text as key',
        target: `${MATERIALIZATION}/`,
        body: '{"asset_key":"","description":"ROW"}',
        statuses: [200, 400],
        records: '{"asset_key":[""]}',
      },
      { says: 'a number in a key', target: `${OBSERVATION}/`, body: '{"asset_key":[1],"description":"ROW"}' },
      { says: 'a number as key', target: `${OBSERVATION}/`, body: '{"asset_key":5,"description":"ROW"}' },
      { says: 'an object as key', target: `${CHECK}/`, body: '{"asset_key":{},"check_name":"ROW","passed":true}' },
      { says: 'null as key', target: `${MATERIALIZATION}/?asset_key=ROW`, body: '{"asset_key":null}' },
    ],
  },
  {
    what: '`data_version: 3`',
    statuses: [200, 400],
    rows: [
      {
        says: 'a number as data version',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"data_version":3}',
        records: '{"data_version":3}',
      },
      {
        says: 'a number as data version of an observation',
        target: `${OBSERVATION}/ROW`,
        body: '{"data_version":3}',
        records: '{"data_version":3}',
      },
    ],
  },
  {
    what: '`NaN` in the body',
    statuses: [200, 400],
    rows: [{ says: 'NaN', target: `${MATERIALIZATION}/ROW`, body: '{"metadata":{"a":NaN}}' }],
  },
  {
    what: 'gzip body',
    statuses: [500, 415],
    rows: [
      {
        says: 'a gzip body',
        target: `${MATERIALIZATION}/ROW`,
        body: gzipSync('{"description":"d"}'),
        headers: [JSON_TYPE, 'Content-Encoding: gzip'],
      },
    ],
  },
  {
    what: 'GET, HEAD on an endpoint',
    statuses: [200, 405],
    referenceEvents: 0,
    rows: [{ says: 'GET', method: 'GET', target: `${MATERIALIZATION}/ROW` }],
  },
  {
    what: 'PUT, DELETE, OPTIONS',
    statuses: [405, 405],
    rows: [
      { says: 'PUT', method: 'PUT', target: `${MATERIALIZATION}/ROW` },
      { says: 'DELETE', method: 'DELETE', target: `${CHECK}/ROW` },
      { says: 'OPTIONS', method: 'OPTIONS', target: `${OBSERVATION}/ROW` },
    ],
  },
  {
    what: 'unknown path, wrong case',
    statuses: [405, 404],
    rows: [
      { says: 'an unknown path', target: '/report_asset_deletion/ROW' },
      { says: 'a path in other letters', target: '/Report_Asset_Materialization/ROW' },
    ],
  },
  {
    what: 'foreign `Origin`, `Sec-Fetch-Site: cross-site`, foreign Host on loopback',
    statuses: [200, 403],
    rows: [
      { says: 'a foreign Origin', target: `${MATERIALIZATION}/ROW`, headers: ['Origin: https://evil.example'] },
      {
        says: 'a fetch that the browser calls foreign',
        target: `${CHECK}/ROW?check_name=c&passed=true`,
        headers: ['Sec-Fetch-Site: cross-site'],
      },
      { says: 'a foreign Host', target: `${OBSERVATION}/ROW`, hosts: ['evil.example'] },
    ],
  },
  {
    what: 'the same check reported twice with a `partition`',
    statuses: [500, 200],
    referenceEvents: 2,
    rows: [
      {
        says: 'the second of them',
        target: `${CHECK}/ROW?check_name=c&passed=true&partition=p`,
        next: `${CHECK}/ROW?check_name=c&passed=true&partition=p`,
      },
    ],
  },
  {
    what: 'an `Upgrade: h2c` offer beside a JSON body',
    statuses: [500, 200],
    rows: [
      {
        says: 'an offer to speak HTTP/2',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"description":"d"}',
        headers: [
          JSON_TYPE,
          'Connection: Upgrade, HTTP2-Settings',
          'Upgrade: h2c',
          'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA',
        ],
      },
    ],
  },
  {
    what: 'a lone surrogate in a partition, a data version or a description',
    statuses: [500, 400],
    rows: [
      { says: 'one in a partition', target: `${MATERIALIZATION}/ROW`, body: `{"partition":"${LONE}"}` },
      {
        says: 'one in a description',
        target: `${OBSERVATION}/ROW`,
        body: `{"description":"${LONE}"}`,
        statuses: [200, 400],
      },
      { says: 'one in a data version', target: `${OBSERVATION}/ROW`, body: `{"data_version":"${LONE}"}` },
    ],
  },
  {
    what: 'UTF-16 body; depth 200; empty `check_name`; broken JSON list in the query; `passed=+true`; 5,000-character key',
    statuses: [200, 400],
    rows: [
      {
        says: 'a UTF-16 body',
        target: `${MATERIALIZATION}/ROW`,
        body: Buffer.from('\ufeff{"description":"d"}', 'utf16le'),
      },
      { says: 'a depth of 200', target: `${MATERIALIZATION}/ROW`, body: `{"metadata":{"a":${nested(199)}}}` },
      { says: 'an empty check name', target: `${CHECK}/ROW?check_name=&passed=true` },
      {
        says: 'a broken array as key in the query',
        target: `${OBSERVATION}/?asset_key=[%22ROW%22,`,
        records: '{"asset_key":["ROW"]}',
      },
      { says: 'white space before passed in the query', target: `${CHECK}/ROW?check_name=c&passed=+true` },
      { says: 'a key of 5,000 characters', target: `${MATERIALIZATION}/ROW${'x'.repeat(5_000)}` },
    ],
  },
  {
    what: 'two `Host` or none; two `Content-Type`; 120 headers; a 20 KB header; a body over 1 MiB',
    statuses: [200, 400],
    rows: [
      { says: 'two Hosts', target: `${MATERIALIZATION}/ROW`, hosts: ['localhost', 'localhost'] },
      { says: 'no Host', target: `${OBSERVATION}/ROW`, hosts: [] },
      { says: 'two Content-Types', target: `${MATERIALIZATION}/ROW`, body: '{}', headers: [JSON_TYPE, JSON_TYPE] },
      {
        says: '120 headers',
        target: `${OBSERVATION}/ROW`,
        headers: Array.from({ length: 120 }, (_, index) => `X-Header-${index}: x`),
        statuses: [200, 431],
      },
      {
        says: 'a header of 20 KB',
        target: `${CHECK}/ROW?check_name=c&passed=true`,
        headers: [`X-Large: ${'x'.repeat(20_000)}`],
        statuses: [200, 431],
      },
      {
        says: 'a body over 1 MiB',
        target: `${MATERIALIZATION}/ROW`,
        body: `{"description":"${'x'.repeat(1_048_577)}"}`,
        statuses: [200, 413],
      },
    ],
  },
  {
    what: 'metadata `1e400` or `0.12345678901234567890`',
    statuses: [200, 200],
    members: ['metadata'],
    rows: [
      {
        says: 'a number that a double can not hold',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"metadata":{"a":1e400}}',
        records: '{"metadata":{"a":"Infinity"}}',
      },
      {
        says: 'digits that a double can not hold',
        target: `${CHECK}/ROW`,
        body: '{"check_name":"c","passed":true,"metadata":{"a":0.12345678901234567890}}',
        records: '{"metadata":{"a":0.12345678901234568}}',
      },
    ],
  },
  {
    what: 'a member `__class__`, `__enum__` or `__mapping_items__` inside metadata',
    statuses: [200, 200],
    members: ['metadata'],
    rows: [
      {
        says: 'an object in the form that the reference stores, which it can not load',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"metadata":{"a":{"__class__":"AssetKey"}}}',
      },
      {
        says: 'an object in the form of an enumeration that it stores, which it can not load',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"metadata":{"a":{"__enum__":"Color.RED"}}}',
      },
      {
        says: 'an object in the form of a mapping that it stores, which loads as another',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"metadata":{"a":{"__mapping_items__":[["b",2]]}}}',
      },
    ],
  },
  {
    what: '`event_time`',
    statuses: [200, 200],
    members: ['event_time'],
    records: '{"event_time":null}',
    rows: [
      {
        says: 'a time in the body',
        target: `${MATERIALIZATION}/ROW`,
        body: '{"event_time":"2026-11-20T16:19:45.250+01:00","description":"d"}',
      },
      { says: 'a time in the query', target: `${OBSERVATION}/ROW?event_time=2026-11-20T15:19:45Z` },
      {
        says: 'a time of a check',
        target: `${CHECK}/ROW?check_name=c&passed=true&event_time=2026-11-20T16:19:45%2B01:00`,
      },
    ],
  },
  {
    what: 'an `event_time` without a zone, or a number',
    statuses: [200, 400],
    rows: [
      { says: 'a time without a zone', target: `${OBSERVATION}/ROW?event_time=2026-11-20T15:19:45` },
      { says: 'a plus that is a space', target: `${OBSERVATION}/ROW?event_time=2026-11-20T15:19:45+01:00` },
      { says: 'seconds or milliseconds', target: `${MATERIALIZATION}/ROW`, body: '{"event_time":1763650785}' },
    ],
  },
  {
    what: 'the same report twice with one `Idempotency-Key`',
    statuses: [200, 200],
    assetlogEvents: 1,
    rows: [
      {
        says: 'a materialization',
        target: `${MATERIALIZATION}/ROW?description=d`,
        next: `${MATERIALIZATION}/ROW?description=d`,
        headers: ['Idempotency-Key: "ROW"'],
      },
      {
        says: 'a check',
        target: `${CHECK}/ROW`,
        next: `${CHECK}/ROW`,
        body: '{"check_name":"c","passed":true}',
        headers: [JSON_TYPE, 'Idempotency-Key: ROW'],
      },
    ],
  },
  {
    what: 'another report with an `Idempotency-Key` that was used before',
    statuses: [200, 422],
    rows: [
      {
        says: 'a description that was not there',
        target: `${OBSERVATION}/ROW`,
        next: `${OBSERVATION}/ROW?description=d`,
        headers: ['Idempotency-Key: ROW'],
      },
    ],
  },
  {
    what: 'two `Idempotency-Key`, or one with a space in it',
    statuses: [200, 400],
    rows: [
      {
        says: 'two of them',
        target: `${MATERIALIZATION}/ROW`,
        headers: ['Idempotency-Key: ROW', 'Idempotency-Key: ROW'],
      },
      { says: 'one with a space', target: `${MATERIALIZATION}/ROW`, headers: ['Idempotency-Key: "ROW x"'] },
    ],
  },
  {
    what: '`POST /report_asset_batch/`',
    statuses: [405, 200],
    rows: [
      {
        says: 'a batch of lines',
        target: `${BATCH}/`,
        body: '{"type":"materialization","asset_key":"ROW"}\n{"type":"observation","asset_key":["ROW","b"]}\n',
        headers: ['Content-Type: application/x-ndjson'],
        assetlogEvents: 2,
      },
      { says: 'a batch in an array', target: BATCH, body: '[{"type":"materialization","asset_key":"ROW"}]' },
    ],
  },
];

/** What is different after a request, which takes two of them to see. */
const AFTER_500 = 'after a 500';

const cases: readonly Case[] = [
  ...agreeing.map((row) => ({ ...row, statuses: [200, 200] as const, difference: undefined })),
  ...refused.map((row) => ({ ...row, statuses: [400, 400] as const, difference: undefined })),
  ...differences.flatMap(({ what, rows, ...rule }) => rows.map((row) => ({ ...rule, ...row, difference: what }))),
];

test('assetlog records what the reference records, but for the differences that are named', { skip }, async (t) => {
  assert.ok(executable !== undefined);
  const [reference, service] = await Promise.all([startReference(t, executable), startService(t)]);
  const outcomes: Record<Side, WireReply[]>[] = [];
  for (const [index, each] of cases.entries()) {
    const outcome: Record<Side, WireReply[]> = { reference: [], assetlog: [] };
    for (const target of each.next === undefined ? [each.target] : [each.target, each.next]) {
      const bytes = bytesOf({ ...each, target }, markerOf(index));
      outcome.reference.push(await ask(reference.port, bytes));
      outcome.assetlog.push(await ask(service.port, bytes));
    }
    outcomes.push(outcome);
  }
  const events = await readEvents(executable, reference.home, service.data);

  for (const [index, each] of cases.entries()) {
    await t.test(nameOf(each), () => {
      const marker = markerOf(index);
      const { reference, assetlog } = outcomes[index]!;
      compare(each, marker, {
        reference: { replies: reference, events: eventsOf(events, 'reference', marker) },
        assetlog: { replies: assetlog, events: eventsOf(events, 'assetlog', marker) },
      });
    });
  }

  await t.test('no event belongs to none of the requests', () => {
    const markers = new Set(cases.map((_, index) => markerOf(index)));
    const strange = events.filter(({ marker }) => !markers.has(marker));
    assert.deepEqual(strange, []);
  });

  await t.test(`${AFTER_500}: the reference closes without saying so, assetlog keeps the connection`, async () => {
    assert.deepEqual(await reportAfterBrokenJson(reference.port), { announced: false, next: 'no reply' });
    assert.deepEqual(await reportAfterBrokenJson(service.port), { announced: false, next: 200 });
  });
});

test('the table has at least 45 rows, and at least 10 for each endpoint', { skip }, () => {
  assert.ok(cases.length >= 45);
  for (const endpoint of [MATERIALIZATION, CHECK, OBSERVATION]) {
    const count = cases.filter(({ target }) => target.startsWith(endpoint)).length;
    assert.ok(count >= 10, `${endpoint} has ${count}`);
  }
});

test('the page of the tests names every difference', { skip }, () => {
  const page = readFileSync(join(root, 'test/README.md'), 'utf8');
  const named = [...differences.map(({ what }) => what), AFTER_500];
  const missing = named.filter((what) => !page.includes(what));
  assert.deepEqual(missing, []);
});

interface Outcome {
  readonly replies: readonly WireReply[];
  readonly events: readonly Members[];
}

function nameOf({ says, target, difference, statuses: [reference, assetlog] }: Case): string {
  if (difference === undefined) return `${says} (${target.slice(0, 60)})`;
  return `${difference}: ${says}: ${reference} of the reference, ${assetlog} of assetlog`;
}

function eventsOf(events: readonly Recorded[], side: Side, marker: string): Members[] {
  return events.filter((event) => event.side === side && event.marker === marker).map(({ members }) => members);
}

function compare(each: Case, marker: string, { reference, assetlog }: Readonly<Record<Side, Outcome>>): void {
  const { difference, statuses, members = [], referenceEvents, assetlogEvents, records = '{}' } = each;
  const [referenceStatus, status] = statuses;
  const last = reference.replies.length - 1;
  const expected = (final: number) => reference.replies.map((_, index) => (index === last ? final : 200));
  assert.deepEqual(assetlog.replies.map(statusOf), expected(status), 'statuses of assetlog');
  assert.deepEqual(reference.replies.map(statusOf), expected(referenceStatus), 'statuses of the reference');

  // Ours has one form on every path, and an event for each 200. Of the reference only rows without a difference ask it.
  assert.deepEqual(
    assetlog.replies.filter((reply) => !hasItsForm(reply)).map(({ body }) => body),
    [],
  );
  const accepted = (final: number) => expected(final).filter((each) => each === 200).length;
  assert.equal(assetlog.events.length, assetlogEvents ?? accepted(status), 'events of assetlog');
  assert.equal(reference.events.length, referenceEvents ?? accepted(referenceStatus), 'events of the reference');

  if (difference === undefined) {
    assert.deepEqual(assetlog.events, reference.events);
    assert.ok(reference.replies.every(hasItsForm), 'form of the replies');
    return;
  }
  const bothRecorded = reference.events.length > 0 && assetlog.events.length > 0;
  assert.deepEqual(bothRecorded ? differing(reference.events[0]!, assetlog.events[0]!) : [], members);
  for (const [member, value] of Object.entries(JSON.parse(records.replaceAll('ROW', marker)))) {
    assert.deepEqual(JSON.parse(reference.events[0]?.[member as Member] ?? ''), value, `${member} of the reference`);
  }
  const differs =
    referenceStatus !== status ||
    reference.events.length !== assetlog.events.length ||
    members.length > 0 ||
    !reference.replies.every(hasItsForm);
  assert.ok(differs, `both do the same now, so this is no difference any more: ${difference}`);
}

function differing(one: Members, other: Members): Member[] {
  return (Object.keys(one) as Member[]).filter((member) => one[member] !== other[member]);
}

function statusOf({ status }: WireReply): number {
  return status;
}

/** `{}` for a report that was accepted, else an object with an error (specification, section 7); a batch has its count. */
function hasItsForm({ status, headers, body }: WireReply): boolean {
  if (headers.get('content-type') !== 'application/json') return false;
  return status === 200 ? /^\{("recorded":\d+)?\}$/.test(body) : typeof JSON.parse(body).error === 'string';
}

function markerOf(index: number): string {
  return `row${String(index).padStart(3, '0')}`;
}

function bytesOf(
  { method = 'POST', target, body, headers, hosts = ['localhost'], chunked }: Row,
  marker: string,
): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body.replaceAll('ROW', marker)) : body;
  const lines = [`${method} ${target} HTTP/1.1`, ...hosts.map((host) => `Host: ${host}`)];
  lines.push(...(headers ?? (bytes === undefined ? [] : [JSON_TYPE])));
  lines.push(chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes?.length ?? 0}`);
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`.replaceAll('ROW', marker), 'latin1');
  if (bytes === undefined) return head;
  if (!chunked) return Buffer.concat([head, bytes]);
  const middle = Math.floor(bytes.length / 2);
  const chunk = (part: Buffer) => [Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')];
  const end = Buffer.from('0\r\n\r\n');
  return Buffer.concat([head, ...chunk(bytes.subarray(0, middle)), ...chunk(bytes.subarray(middle)), end]);
}

/** Sends broken JSON and then a good report on the same connection. */
async function reportAfterBrokenJson(port: number): Promise<{ announced: boolean; next: number | 'no reply' }> {
  const wire = await Wire.open(port);
  try {
    wire.send(post(`${MATERIALIZATION}/after`, '{'));
    const first = await wire.reply();
    // A client that keeps connections sends its next report later, when it could have seen the end.
    await sleep(AFTER_MS);
    wire.send(post(`${MATERIALIZATION}/after`));
    const second = await wire.reply();
    return { announced: first?.headers.get('connection') === 'close', next: second?.status ?? 'no reply' };
  } finally {
    wire.close();
  }
}
