import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { saveMemory } from '../../src/config/memory.ts';
import type { Event } from '../../src/event/event.ts';
import { endpoints } from '../../src/event/parameters.ts';
import { recorded as recordedResult } from '../../src/event/record-result.ts';
import { reportBatch } from '../../src/http/batch.ts';
import { reportTo } from '../../src/http/handlers.ts';
import { readFields } from '../../src/http/headers.ts';
import { type Handler, type HandlerRequest, type RecordHandled, Refusal } from '../../src/http/message.ts';
import { refusalOf } from '../support/refusal.ts';

type ReportHandler = ReturnType<typeof reportTo>;

const [reportMaterialization, reportCheck, reportObservation] = endpoints.map((endpoint) =>
  reportTo(endpoint, limits),
) as [ReportHandler, ReportHandler, ReportHandler];

interface Sent {
  readonly path?: string;
  readonly body?: string | object;
  readonly query?: string;
}

function request({ path, body, query = '' }: Sent): HandlerRequest {
  const text = typeof body === 'object' ? JSON.stringify(body) : (body ?? '');
  const head = { method: 'POST', path: '/', fields: readFields(['Content-Type', 'application/json']) };
  return { keyPath: path, body: Buffer.from(text), query, head };
}

function outcome(handler: ReportHandler, sent: Sent): RecordHandled | string {
  try {
    return handler(request(sent));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    assert.equal(error.reply.status, 400);
    return error.message;
  }
}

/** @returns the decoded event without seq, id, time and crc, or the refusal */
function recorded(handler: ReportHandler, sent: Sent): unknown {
  const result = outcome(handler, sent);
  if (typeof result === 'string') return result;
  assert.deepEqual(result.replyTo(recordedResult), { kind: 'body', status: 200, body: '{}' });
  return result.events[0] && JSON.parse(`{${result.events[0].encoded}}`);
}

test('the body overrides the query, parameter by parameter, and a null in the body means "not given"', () => {
  const sent = {
    path: 'a',
    body: { description: 'body', partition: null },
    query: 'description=query&partition=query&data_version=query',
  };
  assert.deepEqual(recorded(reportMaterialization, sent), {
    type: 'AssetMaterialization',
    asset_key: ['a'],
    description: 'body',
    tags: { data_version: 'query' },
  });
  assert.match(
    String(recorded(reportCheck, { path: 'a', body: { passed: null, check_name: 'c' }, query: 'passed=true' })),
    /^passed is missing/,
  );
  assert.match(
    String(recorded(reportMaterialization, { body: { asset_key: null }, query: 'asset_key=q' })),
    /^asset_key is missing/,
  );
  assert.deepEqual(
    recorded(reportCheck, {
      path: 'a',
      body: { passed: true, check_name: 'c', severity: null, metadata: null },
      query: 'severity=WARN',
    }),
    {
      type: 'AssetCheckEvaluation',
      asset_key: ['a'],
      check_name: 'c',
      passed: true,
      severity: 'ERROR',
    },
  );
});

test('neither an event nor its key keeps the body in memory', () => {
  const collect = saveMemory();
  const batch = reportBatch(limits);
  const bodyBytes = 512 * 1024;
  const events: Event[] = [];
  const take = (handler: Handler, contentType: string, body: string) => {
    const head = { method: 'POST', path: '/', fields: readFields(['Content-Type', contentType]) };
    const outcome = handler({ keyPath: undefined, body: Buffer.from(body.padEnd(bodyBytes)), query: '', head });
    assert.ok(outcome.kind === 'record');
    events.push(...outcome.events);
  };
  take(reportMaterialization, 'application/json', '{"asset_key":"a"}'); // compiled, and its modules loaded
  collect();
  const memory = () => process.memoryUsage().heapUsed + process.memoryUsage().external;
  const before = memory();
  for (let number = 0; number < 40; number += 1) {
    const text = `the text of the report ${number}`;
    const shared = `"asset_key":["${text}"],"partition":"${text}","metadata":{"a":"${text}"}`;
    take(reportMaterialization, 'application/json', `{${shared}}`);
    take(reportMaterialization, 'application/json', `{${shared},"description":"${text} ä"}`);
    const key = `the-key-of-the-report-${number}`;
    take(
      batch,
      'application/x-ndjson',
      `{"type":"check","check_name":"c","passed":true,${shared},"idempotency_key":"${key}"}`,
    );
  }
  collect();
  const grown = memory() - before;
  assert.ok(grown < 16 * bodyBytes, `${grown} bytes for ${events.length} events`);
  assert.ok(events.slice(1).every(({ encoded }) => encoded.includes('"metadata":{"a":"the text of')));
});

test('long metadata is kept as bytes, recorded as sent, and independent of the body that it came in [metadata-1]', () => {
  const texts = [
    'ä€😀',
    'ö',
    'ä€😀',
    'ä€😀'.repeat(1_000),
    '\\u0041\\ud800\\"\\\\ , : '.repeat(300),
    '\u0085\u2028\u2029'.repeat(1_000),
  ];
  const events = texts.map((text) => {
    const metadata = `{"a b" : [1.0 ,\t-0e+1, true,\n"${text}", { }],\r\n"a b": null}`;
    const body = Buffer.from(`{"metadata": ${metadata}, "partition": "2026-11-20"}`);
    const { events } = reportMaterialization({ ...request({ path: 'a' }), body });
    body.fill(0); // like the next body on the connection
    return events[0]!;
  });
  for (const [index, event] of events.entries()) {
    assert.ok(event.encoded instanceof Buffer);
    const text = texts[index]!.replace(
      /[\u0085\u2028\u2029]/g,
      (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    const metadata = `{"a b":[1.0,-0e+1,true,"${text}",{}],"a b":null}`;
    const members = `"type":"AssetMaterialization","asset_key":["a"],"partition":"2026-11-20","metadata":${metadata}`;
    assert.equal(event.encoded.toString(), members);
  }
});

test('a key in the query is one part, unchanged, unless it is a JSON array', () => {
  const keyOf = (value: string) =>
    (recorded(reportMaterialization, { query: `asset_key=${encodeURIComponent(value)}` }) as { asset_key?: unknown })
      ?.asset_key;
  assert.deepEqual(keyOf('my-table.v2'), ['my-table.v2']);
  assert.deepEqual(keyOf('a/b'), ['a/b']);
  assert.deepEqual(keyOf(' ["a"]'), [' ["a"]']);
  assert.deepEqual(keyOf('null'), ['null']);
  assert.deepEqual(keyOf('[ "a", "b/c" ]'), ['a', 'b/c']);
});

test('a malformed key is refused from any place, and the error shows the key', () => {
  const table: readonly (readonly [Sent, string])[] = [
    [{}, 'asset_key is missing: put it in the path (/warehouse/orders), the JSON body or the query'],
    [{ path: 'a//b' }, 'asset_key in the path has an empty part: "a//b"; every part needs a name'],
    [{ path: 'a/' }, 'asset_key in the path has an empty part: "a/"; every part needs a name'],
    [{ path: '/' }, 'asset_key in the path has an empty part: "/"; every part needs a name'],
    [{ path: 'a%zz' }, 'asset_key in the path holds "a%zz", which is not percent-encoded UTF-8; write % as %25'],
    [{ path: 'a%FF/b' }, 'asset_key in the path holds "a%FF", which is not percent-encoded UTF-8; write % as %25'],
    [{ path: 'a%00' }, 'asset_key in the path has a control character: "a%00"; remove it'],
    [{ path: 'a%7f' }, 'asset_key in the path has a control character: "a%7f"; remove it'],
    [{ body: { asset_key: '' } }, 'asset_key in the body has an empty part: ""; every part needs a name'],
    [{ body: { asset_key: [] } }, 'asset_key in the body is an empty array; give at least one part'],
    [{ body: { asset_key: ['a', ''] } }, 'asset_key in the body has an empty part: ["a",""]; every part needs a name'],
    [{ body: { asset_key: [1] } }, 'asset_key is [1] (an array); send a string or an array of strings'],
    [{ body: { asset_key: 5 } }, 'asset_key is 5 (a number); send a string or an array of strings'],
    [{ body: { asset_key: {} } }, 'asset_key is {} (an object); send a string or an array of strings'],
    [
      { body: '{"asset_key":"\\ud800"}' },
      'asset_key in the body has half of a surrogate pair: "\\ud800"; send whole characters',
    ],
    [{ query: 'asset_key=' }, 'asset_key in the query has an empty part: ""; every part needs a name'],
    [{ query: 'asset_key=[1]' }, 'asset_key in the query is "[1]"; a JSON array must hold strings only'],
    [{ query: 'asset_key=[]' }, 'asset_key in the query is an empty array; give at least one part'],
    [
      { query: 'asset_key=["a",]' },
      'asset_key in the query starts with [ and is not valid JSON at line 1, column 5: trailing comma before ]; JSON allows none, remove it',
    ],
    [
      { query: 'asset_key=["a"]b' },
      'asset_key in the query starts with [ and is not valid JSON at line 1, column 6: there is more text after the value; send one value',
    ],
  ];
  for (const [sent, expected] of table) assert.equal(recorded(reportMaterialization, sent), expected);
});

test('an error about a missing parameter names a similar parameter in the request', () => {
  const check = { asset_key: 'a', passed: true, check_name: 'c' };
  const near: readonly (readonly [name: keyof typeof check, written: string])[] = [
    ['check_name', 'checkname'],
    ['check_name', 'checkName'],
    ['check_name', 'CHECK-NAME'],
    ['check_name', 'chek_name'],
    ['passed', 'Passed'],
    ['passed', 'passd'],
    ['asset_key', 'assetKey'],
    ['asset_key', 'asset-key'],
  ];
  for (const [name, written] of near) {
    const { [name]: value, ...others } = check;
    const hint = `; the request has "${written}", did you mean ${name}?`;
    for (const sent of [{ body: { ...others, [written]: value } }, { body: others, query: `${written}=${value}` }]) {
      const error = String(recorded(reportCheck, sent));
      assert.ok(error.startsWith(`${name} is missing: `) && error.endsWith(hint), error);
    }
  }
  for (const written of ['check', 'name', 'check_names_', 'description']) {
    const sent = { body: { asset_key: 'a', passed: true, [written]: 'c' } };
    assert.doesNotMatch(String(recorded(reportCheck, sent)), /did you mean/, written);
  }
  const written = `check_nam${'\u202e'}`;
  const error = String(recorded(reportCheck, { body: { asset_key: 'a', passed: true, [written]: 'c' } }));
  assert.match(error, /the request has "check_nam\\u202e", did you mean check_name\?$/);
  const ignored = outcome(reportMaterialization, {
    path: 'a',
    body: { Partition: 'p', uri: 1 },
    query: 'data-version=v',
  });
  assert.deepEqual((ignored as RecordHandled).misspelt, [
    { name: 'Partition', meant: 'partition' },
    { name: 'data-version', meant: 'data_version' },
  ]);
});

test('different values of a parameter in the query are refused only if the query is read', () => {
  const error = (sent: Sent) => String(outcome(reportMaterialization, sent));
  assert.equal(
    error({ query: 'asset_key=a&asset_key=b' }),
    'asset_key has different values in the query; send one, or for a key of several parts asset_key=["a","b"]',
  );
  assert.equal(
    error({ path: 'a', query: 'partition=x&partition=y&partition=x' }),
    'partition has different values in the query: ["x","y","x"]; send one',
  );
  for (const sent of [
    { path: 'a', query: 'asset_key=b&asset_key=c' },
    { body: { asset_key: 'a' }, query: 'asset_key=b&asset_key=c' },
    { path: 'a', body: { partition: null }, query: 'partition=x&partition=y' },
    { path: 'a', query: 'partition=x&partition=x&uri=1&uri=2' },
  ]) {
    assert.equal((outcome(reportMaterialization, sent) as RecordHandled).kind, 'record', JSON.stringify(sent));
  }
});

test('the log of a refusal quotes no value of a query', () => {
  const logged = (query: string) => {
    const reply = refusalOf(() => reportCheck(request({ query })));
    assert.ok(reply.error.includes('s3cret'), reply.error);
    assert.doesNotMatch(reply.logged ?? reply.error, /s3cret/);
    return reply.logged ?? '';
  };
  const check = 'asset_key=a&check_name=c&passed=true';
  assert.equal(logged(`${check}&metadata=s3cret`), 'metadata in the query is not valid JSON at line 1, column 1');
  assert.match(logged(`${check}&severity=s3cret`), /^severity is …; send WARN or ERROR/);
  assert.match(logged('asset_key=["s3cret",1]'), /^asset_key in the query is …;/);
});

test('a value in an error is cut at 100 characters', () => {
  const error = String(recorded(reportMaterialization, { path: 'a', body: { partition: ['😀'.repeat(200)] } }));
  assert.equal(error, `partition is ["${'😀'.repeat(98)}… (an array); send a JSON string`);
});

test('a key in the path that overrides a different key is logged, an equal one is not', () => {
  const hides = (sent: Sent) => (outcome(reportMaterialization, sent) as RecordHandled).hidesKey;
  for (const sent of [
    { path: 'a/b', body: { asset_key: 'c' } },
    { path: 'a/b', body: { asset_key: ['a', 'c'] } },
    { path: 'a/b', body: { asset_key: 7 } },
    { path: 'a/b', query: 'asset_key=a/b' },
    { path: 'a/b', query: 'asset_key=[' },
    { path: 'a', body: { asset_key: 'a' }, query: 'asset_key=b' },
  ]) {
    assert.equal(hides(sent), true, JSON.stringify(sent));
  }
  for (const sent of [
    { path: 'a' },
    { path: 'a', body: { asset_key: 'a' } },
    { path: 'a/b', body: '{"asset_key":["\\u0061","b"]}' },
    { path: 'a/b', query: 'asset_key=["a", "b"]' },
    { path: 'a', body: { asset_key: null }, query: 'asset_key=c' },
  ]) {
    assert.equal(hides(sent), false, JSON.stringify(sent));
  }
});

test('a value of the wrong kind is refused with the parameter, the value and advice', () => {
  const bodies: readonly (readonly [ReportHandler, members: string, problem: string])[] = [
    [reportMaterialization, '"data_version":3', 'data_version is 3 (a number); send a JSON string'],
    [reportMaterialization, '"partition":["p"]', 'partition is ["p"] (an array); send a JSON string'],
    [reportMaterialization, '"description":false', 'description is false (a boolean); send a JSON string'],
    [reportObservation, '"metadata":[]', 'metadata is [] (an array); send a JSON object such as {"rows":10}'],
    [
      reportObservation,
      '"description":"\\udfff"',
      'description has half of a surrogate pair: "\\udfff"; send whole characters',
    ],
    [reportCheck, '"passed":"true"', 'passed is "true" (a string); send the JSON boolean true or false'],
    [reportCheck, '"passed":true,"check_name":""', 'check_name is ""; send the name of the check'],
    [
      reportCheck,
      '"passed":true,"check_name":"c","severity":"error"',
      'severity is "error"; send WARN or ERROR, or leave it out for ERROR',
    ],
  ];
  for (const [handler, members, problem] of bodies)
    assert.equal(recorded(handler, { path: 'a', body: `{${members}}` }), problem);
  const queries: readonly (readonly [ReportHandler, query: string, problem: string])[] = [
    [
      reportObservation,
      'metadata=',
      'metadata in the query is not valid JSON at line 1, column 1: the text ends where a value should be',
    ],
    [reportCheck, 'check_name=c&passed=True', 'passed in the query is "True"; send true or false'],
    [
      reportCheck,
      'check_name=c',
      'passed is missing: send true or false as a JSON boolean in the body, or passed=true in the query',
    ],
    [reportCheck, 'passed=true', 'check_name is missing: send the name of the check as a string'],
  ];
  for (const [handler, query, problem] of queries) assert.equal(recorded(handler, { path: 'a', query }), problem);
});

test('the mistake that comes first in the order of the specification is reported', () => {
  const everything = { asset_key: 1, passed: 1, check_name: 1, metadata: 1, severity: 1, partition: 1 };
  const good = { asset_key: 'a', passed: true, check_name: 'c', metadata: {}, severity: 'WARN', partition: 'p' };
  const names = Object.keys(good) as (keyof typeof good)[];
  for (const [index, name] of names.entries()) {
    const fixed = Object.fromEntries(names.slice(0, index).map((fixedName) => [fixedName, good[fixedName]]));
    assert.match(String(recorded(reportCheck, { body: { ...everything, ...fixed } })), new RegExp(`^${name} is 1 `));
  }
});
