/** Which requests are sent again, and when, with simulated attempts. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HttpReply, NoReply } from '../../src/client/connection.ts';
import { acceptReport, type Delivery, deliver, type Permission } from '../../src/client/delivery.ts';
import { type Limits, limits } from '../../src/config/limits.ts';

const GOOD: HttpReply = { status: 200, headers: {}, body: '{}' };

function answer(status: number, body = '{"error":"no"}', headers: HttpReply['headers'] = {}): HttpReply {
  return { status, headers, body };
}

function noReply(code: string | undefined, sent: boolean): NoReply {
  return new NoReply(Object.assign(new Error('what it was'), { code }), sent);
}

interface DeliveryCourse {
  readonly found: Delivery;
  readonly attempts: number;
  readonly waitsMs: readonly number[];
}

/**
 * @param replies of the attempts, in order; the last one also answers all later attempts
 * @param waits number of completed waits; the next one is aborted
 */
async function deliverWith(
  replies: readonly (HttpReply | NoReply)[],
  waits = 0,
  retryForMs = 60_000,
  mayRepeat: () => Promise<Permission> = async () => ({ kind: 'no' }),
  own: Limits = limits,
): Promise<DeliveryCourse> {
  const stop = new AbortController();
  const waitsMs: number[] = [];
  let attempts = 0;
  const attempt = async () => {
    const reply = replies[Math.min(attempts, replies.length - 1)];
    attempts += 1;
    if (reply instanceof Error) throw reply;
    return reply as HttpReply;
  };
  const found = await deliver(
    { attempt, accept: acceptReport, mayRepeat },
    {
      retryForMs,
      stopped: stop.signal,
      limits: own,
      onWait: (_reason, waitMs) => {
        waitsMs.push(waitMs);
        if (waitsMs.length > waits) stop.abort();
      },
    },
  );
  return { found, attempts, waitsMs };
}

test('each status has its meaning, and all but three are final', async () => {
  const moved = answer(301, '', { location: 'https://x/\u001b[1m' });
  const table: readonly (readonly [HttpReply, Delivery['kind'], reason: string])[] = [
    [GOOD, 'recorded', ''],
    [answer(200, ' {"ok": true}'), 'recorded', ''],
    [answer(200, '<html>Welcome'), 'misconfigured', 'answers 200: <html>Welcome; is this the right address?'],
    [answer(200, ''), 'misconfigured', 'answers 200: nothing; is this the right address?'],
    [answer(200, '[]'), 'misconfigured', 'answers 200: []; is this the right address?'],
    [answer(200, '{"error":"no"}'), 'misconfigured', 'answers 200: no; is this the right address?'],
    [answer(204, ''), 'misconfigured', 'answers 204: nothing; is this the right address?'],
    [moved, 'misconfigured', 'answers 301: it is at https://x/\\u001b[1m now'],
    [answer(400), 'refused', 'answers 400: no'],
    [answer(413), 'refused', 'answers 413: no'],
    [answer(422, '{}'), 'refused', 'answers 422: no error'],
    [answer(400, '{"error":"two\\nlines \\u001b[31mred"}'), 'refused', 'answers 400: two lines \\u001b[31mred'],
    ...[401, 403, 404, 405].map((status) => [answer(status), 'misconfigured', `answers ${status}: no`] as const),
    ...[500, 502, 504].map(
      (status) => [answer(status, 'x'.repeat(9999)), 'in doubt', `answers ${status}: ${'x'.repeat(300)}`] as const,
    ),
  ];
  for (const [reply, kind, reason] of table) {
    const { found, attempts, waitsMs } = await deliverWith([reply]);
    assert.deepEqual([found.kind, found.kind === 'recorded' ? '' : found.reason], [kind, reason], reply.body);
    assert.deepEqual([attempts, waitsMs], [1, []], 'the report was sent again');
  }
});

test('a 429 with the challenge of assetlog is final, since a valid token is not limited; another 429 is retried', async () => {
  const limited = (challenge: string) =>
    answer(429, '{"error":"too many"}', { 'retry-after': '1', 'www-authenticate': challenge });
  const { found, attempts } = await deliverWith([limited('Service-Cloud-Api-Token realm="assetlog"'), GOOD], 9);
  assert.deepEqual(
    [found, attempts],
    [
      {
        kind: 'misconfigured',
        reason: 'answers 429: too many; a valid token is never limited, so this one is wrong or missing',
      },
      1,
    ],
  );
  for (const challenge of ['Bearer realm="gateway"', 'Basic', '']) {
    assert.equal((await deliverWith([limited(challenge)])).waitsMs.length, 1, challenge);
  }
});

test('a report that might have been received is not sent again [delivery-1]', async () => {
  for (const code of ['ECONNRESET', 'EPIPE', undefined, 'ECONNREFUSED']) {
    const { found, attempts } = await deliverWith([noReply(code, true), GOOD], 1);
    assert.deepEqual([found, attempts], [{ kind: 'in doubt', reason: 'sent no complete reply: what it was' }, 1]);
  }
});

test('a report in doubt is sent again if a repetition would be recorded once', async () => {
  const yes = async () => ({ kind: 'yes' }) as const;
  for (const first of [noReply('ECONNRESET', true), answer(500), answer(502)]) {
    const { found, attempts } = await deliverWith([first, GOOD], 1, 60_000, yes);
    assert.deepEqual([found, attempts], [{ kind: 'recorded' }, 2]);
  }
  // The report stays in doubt unless a later reply shows its outcome.
  for (const later of [answer(503), noReply('ECONNREFUSED', false), answer(401)]) {
    const { found } = await deliverWith([answer(500, '{"error":"first"}'), later], 1, 60_000, yes);
    assert.deepEqual(found, { kind: 'in doubt', reason: 'answers 500: first' });
  }
  assert.equal((await deliverWith([answer(500), answer(422)], 1, 60_000, yes)).found.kind, 'refused');
  const over = await deliverWith([answer(500), GOOD], 9, 0, yes);
  assert.deepEqual([over.found.kind, over.attempts], ['in doubt', 1]);
});

test('a report in doubt is not sent again before it is known whether that is safe', async () => {
  const asked: Permission[] = [
    { kind: 'again', reason: 'cannot be reached: x', afterMs: 0 },
    { kind: 'again', reason: 'answers 503: x', afterMs: 0 },
    { kind: 'yes' },
  ];
  let asks = 0;
  const ask = async () => asked[asks++] ?? ({ kind: 'yes' } as const);
  const { found, attempts, waitsMs } = await deliverWith([answer(502), GOOD], 9, 60_000, ask);
  assert.deepEqual([found, attempts, waitsMs.length, asks], [{ kind: 'recorded' }, 2, 2, 3]);
  asks = 0;
  asked[2] = { kind: 'no' };
  const never = await deliverWith([answer(502), GOOD], 9, 60_000, ask);
  assert.deepEqual([never.found.kind, never.attempts, asks], ['in doubt', 1, 3]);
});

test('an unreachable service is retried; an untrusted certificate is final', async () => {
  for (const code of ['ECONNREFUSED', 'EAI_AGAIN', 'ENETUNREACH', undefined]) {
    const { found, attempts, waitsMs } = await deliverWith([noReply(code, false), GOOD], 1);
    assert.deepEqual([found.kind, attempts, waitsMs.length], ['recorded', 2, 1], code);
  }
  const untrusted = await deliverWith([noReply('SELF_SIGNED_CERT_IN_CHAIN', false), GOOD], 1);
  assert.deepEqual([untrusted.found.kind, untrusted.attempts], ['misconfigured', 1]);
  assert.match((untrusted.found as { reason: string }).reason, /NODE_EXTRA_CA_CERTS$/);
});

test('backoff is exponential up to a limit, with jitter', async () => {
  const first = await Promise.all(Array.from({ length: 20 }, () => deliverWith([noReply('ECONNREFUSED', false)])));
  const pauses = first.map(({ waitsMs }) => waitsMs[0] ?? 0);
  assert.ok(new Set(pauses).size > 10, 'no jitter');
  for (const pause of pauses) assert.ok(pause >= limits.retryMs / 2 && pause <= limits.retryMs, `${pause}`);
  const { waitsMs, found, attempts } = await deliverWith([answer(503)], 3, 60_000, undefined, {
    ...limits,
    retryMs: 4,
    retryMsMax: 8,
  });
  assert.deepEqual([attempts, found.kind], [4, 'unavailable']);
  for (const [index, longest] of [4, 8, 8, 8].entries()) {
    const pause = waitsMs[index] ?? Number.NaN;
    assert.ok(pause >= longest / 2 && pause <= longest, `pause ${index} is ${pause}`);
  }
});

test('Retry-After is honoured, in seconds and as a date', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(1994, 10, 6, 8, 49, 27) });
  const now = 'Sun, 06 Nov 1994 08:49:27 GMT';
  const table: readonly (readonly [HttpReply['headers'], number])[] = [
    [{ 'retry-after': '7' }, 7],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': 'Sun, 06 Nov 1994 08:49:37 GMT' }, 10],
    [{ 'retry-after': 'Sunday, 06-Nov-94 08:49:37 GMT' }, 10],
    [{ 'retry-after': 'Sun Nov  6 08:49:37 1994' }, 10],
    [{ 'retry-after': 'Sun, 06 Nov 1994 08:49:17 GMT' }, 0],
    // The clock of the service decides.
    [{ 'retry-after': 'Fri, 20 Nov 2026 00:00:05 GMT', date: 'Fri, 20 Nov 2026 00:00:00 GMT' }, 5],
    [{ 'retry-after': 'Sun, 06 Nov 1994 08:49:37 GMT', date: now }, 10],
    [{ 'retry-after': '-1' }, 0],
    [{ 'retry-after': 'soon' }, 0],
    [{ 'retry-after': '1.5' }, 0],
    [{ 'retry-after': '99999999999999999999' }, 0],
    [{}, 0],
  ];
  for (const status of [408, 429, 503]) {
    for (const [headers, seconds] of table) {
      const { waitsMs } = await deliverWith([answer(status, '', headers)]);
      const [waitMs = -1] = waitsMs;
      const about = JSON.stringify([status, headers, waitMs]);
      assert.ok(waitMs >= seconds * 1000 + limits.retryMs / 2, `too early: ${about}`);
      assert.ok(waitMs <= seconds * 1000 + limits.retryMs, `too late: ${about}`);
    }
  }
});

test('retries end when their time is over, or at once if Retry-After exceeds it', async () => {
  const never = await deliverWith([answer(503), GOOD], 9, 0);
  assert.deepEqual([never.found.kind, never.attempts], ['unavailable', 1]);
  const tooLong = await deliverWith([answer(429, '{"error":"slow down"}', { 'retry-after': '120' }), GOOD], 9, 60_000);
  assert.deepEqual(tooLong.found, {
    kind: 'unavailable',
    reason: 'answers 429: slow down; its Retry-After of 120 s is longer than --retry-for allows',
  });
  assert.equal(tooLong.attempts, 1);
  const startedMs = performance.now();
  const soon = await deliverWith([noReply('ECONNREFUSED', false)], 99, 2_000);
  const tookMs = performance.now() - startedMs;
  assert.equal(soon.found.kind, 'unavailable');
  // The last attempt is made when the time ends, not one pause earlier.
  assert.ok(tookMs >= 1_999 && tookMs < 10_000 && soon.attempts >= 3, `${tookMs} ms, ${soon.attempts} attempts`);
});
