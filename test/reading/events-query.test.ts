/** What `GET /events` takes for a question, and what it refuses. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { readFields } from '../../src/http/headers.ts';
import { questionReader } from '../../src/reading/events-query.ts';
import { refusalOf } from '../support/refusal.ts';

const NOW_MS = Date.parse('2026-11-22T12:00:00Z');
const NO_BODY = Buffer.alloc(0);
const readQuestion = questionReader(limits);

function ask(query: string, headers: { accept?: string; lastEventId?: string } = {}) {
  const head = { method: 'GET', path: '/', fields: { ...readFields([]), ...headers } };
  return readQuestion({ body: NO_BODY, query, head });
}

test('times of a query count back from the clock, and are rounded up to the milliseconds of a line', () => {
  const cases: [string, object][] = [
    ['since=7d&until=2026-11-20T15:00', { since: '2026-11-15T12:00:00.000Z', until: '2026-11-20T15:00:00.000Z' }],
    ['since=2026-11-20+15:00:00.25z', { since: '2026-11-20T15:00:00.250Z' }],
    ['since=2026-11-20T15:00:00.000001Z', { since: '2026-11-20T15:00:00.001Z' }],
    ['until=2026-11-20t16:00:00.999999999%2B01:00', { until: '2026-11-20T15:00:01.000Z' }],
    ['until=9999-12-31T23:59:59.9999Z', { until: '9999-12-31T23:59:59.999Z' }],
    ['since=0001-01-01', { since: '0001-01-01T00:00:00.000Z' }],
  ];
  for (const [query, expected] of cases) assert.deepEqual(ask(query).filter(NOW_MS), expected, query);
});

test('the query and the Accept header decide how many events are sent, from which one and in which form', () => {
  const stream = { accept: 'text/event-stream' };
  const partOf = (...given: Parameters<typeof ask>) => {
    const { form, afterSeq, last, limit, waitMs } = ask(...given);
    return [form, afterSeq, last, limit, waitMs];
  };
  assert.deepEqual(partOf(''), ['lines', undefined, undefined, 100, 0]);
  assert.deepEqual(partOf('after_seq=17&limit=1000&wait=60'), ['lines', 17, undefined, 1000, 60_000]);
  assert.deepEqual(partOf('last=20', { accept: 'application/json' }), ['json', undefined, 20, 20, 0]);
  assert.deepEqual(partOf('', { accept: 'application/json;q=0.5, application/x-ndjson' })[0], 'lines');
  assert.deepEqual(partOf('', { accept: '*/*' })[0], 'lines');
  assert.deepEqual(partOf('last=5&after_seq=3', stream).slice(0, 3), ['stream', 3, 5]);
  assert.deepEqual(partOf('last=5&after_seq=3', { ...stream, lastEventId: '9' }).slice(0, 3), ['stream', 9, undefined]);
  assert.deepEqual(partOf('after_seq=3', { ...stream, lastEventId: '' }).slice(0, 3), ['stream', 3, undefined]);
  assert.equal(ask('after_seq=3', { lastEventId: 'x' }).afterSeq, 3, 'only a stream is resumed');
});

test('a query that makes no sense is refused with a sentence, and the log has none of it', () => {
  const stream = { accept: 'text/event-stream' };
  const cases: [string, RegExp, { accept?: string; lastEventId?: string }?][] = [
    [
      'keys=a',
      /^there is no parameter "keys" here; did you mean key\? it takes key, key_prefix, key_begins_with, type/,
    ],
    ['afterSeq=1', /did you mean after_seq\?/],
    ['colour=red', /"colour" here; it takes key/],
    ['limit=1&limit=2', /^the query has "limit" twice; send it once$/],
    ['check=', /^check is ""; leave it out, or give a value$/],
    ['contains=', /^contains is ""; leave it out/],
    [`contains=${'é'.repeat(101)}`, /^contains is "é+[^;]*; send at most 100 characters$/],
    ['key=a//b', /^key is "a\/\/b"; send warehouse\/orders, or/],
    ['key_begins_with=a//b', /^key_begins_with is "a\/\/b"; send warehouse\/ord, or/],
    ['type=Check', /^type is "Check"; send materialization, check, observation$/],
    ['passed=1', /^passed is "1"; send true or false$/],
    ['limit=0', /^limit is "0"; send a number from 1 to 1000$/],
    ['limit=1001', /from 1 to 1000$/],
    ['last=1001', /from 1 to 1000$/],
    ['wait=61&after_seq=1', /^wait is "61"; send a number from 0 to 60$/],
    ['after_seq=-1', /from 0 to 9007199254740991$/],
    ['after_seq=1e3', /^after_seq is "1e3"/],
    ['since=yesterday', /^since is "yesterday"; send a time such as/],
    ['since=2026-02-30', /send a time such as/],
    ['since=2026-11-20T16:00:00+01:00', /^since is "2026-11-20T16:00:00 01:00"; write \+ as %2B$/],
    ['until=2026-01-01+10:00:00+02:00', /^until is "2026-01-01 10:00:00 02:00"; write \+ as %2B$/],
    ['since=2026-11-20++15:00', /send a time such as/],
    ['since=2026-11-20T24:00', /send a time such as/],
    ['last=1&limit=1', /^use one of last and limit$/],
    ['wait=1', /^wait needs after_seq/],
    ['wait=1&after_seq=1&last=1', /^use one of last and wait$/],
    ['type=observation&passed=true', /^only checks have check, passed and severity;/],
    ['type=observation&severity=WARN', /^only checks have check, passed and severity;/],
    ['severity=warn', /^severity is "warn"; send WARN or ERROR$/],
    ['id=7', /^id is "7"; send the id of an event, such as 01a1fb95-/],
    ['id=01A1FB95-CE62-7E59-9364-610BF5613940', /^id is "01A1/],
    ['until_seq=-1', /^until_seq is "-1"; send a number from 0 to 9007199254740991$/],
    ['limit=1', /^a stream has no end/, stream],
    ['after_seq=1&wait=0', /^a stream has no end/, stream],
    ['', /^Last-Event-ID is "x"; send the seq of an event/, { ...stream, lastEventId: 'x' }],
    ['', /^Last-Event-ID is "-1"/, { ...stream, lastEventId: '-1' }],
  ];
  for (const [query, expected, headers] of cases) {
    const { status, error, logged = error } = refusalOf(() => ask(query, headers));
    assert.equal(status, 400, query);
    assert.match(error, expected, query);
    const value = /=([^&]+)/.exec(query)?.[1] ?? '\0';
    if (value.length > 3) assert.ok(!logged.includes(value), `${query}: ${logged}`);
  }
  const swapped = refusalOf(() => ask('since=1h&until=2h').filter(NOW_MS));
  assert.match(swapped.error, /^since is 2026-11-22T11:00:00.000Z and until 2026-11-22T10:00:00.000Z: no event/);
  const early = refusalOf(() => ask('since=999999999d').filter(NOW_MS));
  assert.match(early.error, /^since: it is not a time such as/);
});
