/** What is sent again, when, and what is not: with attempts that are made up. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, NoReply } from '../../src/client/connection.ts';
import { type Delivery, deliver } from '../../src/client/delivery.ts';
import { limits } from '../../src/config/limits.ts';

const GOOD: Answer = { status: 200, headers: {}, body: '{}' };

function answer(status: number, body = '{"error":"no"}', headers: Answer['headers'] = {}): Answer {
  return { status, headers, body };
}

function silence(code: string | undefined, sent: boolean): NoReply {
  return new NoReply(Object.assign(new Error('what it was'), { code }), sent);
}

interface Course {
  readonly found: Delivery;
  readonly attempts: number;
  readonly waitsMs: readonly number[];
}

/**
 * @param replies of the attempts in their order; the last one is that of all further ones
 * @param waits for how many waits there is patience: the one behind them is broken off
 */
async function course(replies: readonly (Answer | NoReply)[], waits = 0, retryForMs = 60_000): Promise<Course> {
  const stop = new AbortController();
  const waitsMs: number[] = [];
  let attempts = 0;
  const found = await deliver(
    async () => {
      const reply = replies[Math.min(attempts, replies.length - 1)];
      attempts += 1;
      if (reply instanceof Error) throw reply;
      return reply as Answer;
    },
    {
      retryForMs,
      stopped: stop.signal,
      limits,
      onWait: (_reason, waitMs) => {
        waitsMs.push(waitMs);
        if (waitsMs.length > waits) stop.abort();
      },
    },
  );
  return { found, attempts, waitsMs };
}

test('what each answer means, and that all but three are final', async () => {
  const table: readonly (readonly [Answer, Delivery['kind'], RegExp])[] = [
    [GOOD, 'recorded', /^$/],
    [answer(200, ' {"ok": true}'), 'recorded', /^$/],
    [
      answer(200, '<html>Welcome</html>'),
      'turned away',
      /^answers 200: <html>Welcome<\/html>; is this the right address\?$/,
    ],
    [answer(200, ''), 'turned away', /^answers 200: nothing; is/],
    [answer(200, '[]'), 'turned away', /^answers 200: \[\]; is/],
    [answer(200, '{"error":"no"}'), 'turned away', /^answers 200: no; is/],
    [answer(204, ''), 'turned away', /^answers 204: nothing; is/],
    [
      answer(301, '', { location: 'https://x/\u001b[1m' }),
      'turned away',
      /^answers 301: it is at https:\/\/x\/\\u001b\[1m now$/,
    ],
    [answer(400), 'refused', /^answers 400: no$/],
    [answer(413), 'refused', /^answers 413: no$/],
    [answer(422, '{}'), 'refused', /^answers 422: no error$/],
    [answer(400, '{"error":"two\\nlines \\u001b[31mred"}'), 'refused', /^answers 400: two lines \\u001b\[31mred$/],
    ...[401, 403, 404, 405].map((status) => [answer(status), 'turned away', /^answers 40\d: no$/] as const),
    ...[500, 502, 504].map(
      (status) => [answer(status, 'x'.repeat(9999)), 'in doubt', /^answers 50\d: x{300}$/] as const,
    ),
  ];
  for (const [reply, kind, reason] of table) {
    const { found, attempts, waitsMs } = await course([reply]);
    assert.equal(found.kind, kind, reply.body);
    assert.match(found.kind === 'recorded' ? '' : found.reason, reason);
    assert.deepEqual([attempts, waitsMs], [1, []], 'it was sent again');
  }
});

test('a report that may have arrived is not sent again', async () => {
  for (const code of ['ECONNRESET', 'EPIPE', undefined, 'ECONNREFUSED']) {
    const { found, attempts } = await course([silence(code, true), GOOD], 1);
    assert.deepEqual([found, attempts], [{ kind: 'in doubt', reason: 'did not answer: what it was' }, 1]);
  }
});

test('what could not be reached is asked again; a certificate that is not trusted stays so', async () => {
  for (const code of ['ECONNREFUSED', 'EAI_AGAIN', 'ENETUNREACH', undefined]) {
    const { found, attempts, waitsMs } = await course([silence(code, false), GOOD], 1);
    assert.deepEqual([found.kind, attempts, waitsMs.length], ['recorded', 2, 1], code);
  }
  const untrusted = await course([silence('SELF_SIGNED_CERT_IN_CHAIN', false), GOOD], 1);
  assert.deepEqual([untrusted.found.kind, untrusted.attempts], ['turned away', 1]);
  assert.match((untrusted.found as { reason: string }).reason, /NODE_EXTRA_CA_CERTS$/);
});

test('pauses grow to a limit, and no two are alike', async () => {
  const first = await Promise.all(Array.from({ length: 20 }, () => course([silence('ECONNREFUSED', false)])));
  const pauses = first.map(({ waitsMs }) => waitsMs[0] ?? 0);
  assert.ok(new Set(pauses).size > 10, 'there is no chance in it');
  for (const pause of pauses) assert.ok(pause >= limits.retryMs / 2 && pause <= limits.retryMs, `${pause}`);
  const { waitsMs, found, attempts } = await course([answer(503)], 2);
  assert.equal(attempts, 3);
  assert.equal(found.kind, 'away');
  for (const [index, pause] of waitsMs.entries()) {
    const longest = limits.retryMs * 2 ** index;
    assert.ok(pause >= longest / 2 && pause <= longest, `pause ${index} is ${pause}`);
  }
});

test('Retry-After is obeyed, in seconds and as a date', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(1994, 10, 6, 8, 49, 27) });
  const now = 'Sun, 06 Nov 1994 08:49:27 GMT';
  const table: readonly (readonly [Answer['headers'], number])[] = [
    [{ 'retry-after': '7' }, 7],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': 'Sun, 06 Nov 1994 08:49:37 GMT' }, 10],
    [{ 'retry-after': 'Sunday, 06-Nov-94 08:49:37 GMT' }, 10],
    [{ 'retry-after': 'Sun Nov  6 08:49:37 1994' }, 10],
    [{ 'retry-after': 'Sun, 06 Nov 1994 08:49:17 GMT' }, 0],
    // The service's clock is the one that counts.
    [{ 'retry-after': 'Fri, 20 Nov 2026 00:00:05 GMT', date: 'Fri, 20 Nov 2026 00:00:00 GMT' }, 5],
    [{ 'retry-after': 'Sun, 06 Nov 1994 08:49:37 GMT', date: now }, 10],
    [{ 'retry-after': '-1' }, 0],
    [{ 'retry-after': 'soon' }, 0],
    [{ 'retry-after': '1.5' }, 0],
    [{}, 0],
  ];
  for (const status of [408, 429, 503]) {
    for (const [headers, seconds] of table) {
      const { waitsMs } = await course([answer(status, '', headers)]);
      const [waitMs = -1] = waitsMs;
      const about = JSON.stringify([status, headers, waitMs]);
      assert.ok(waitMs >= seconds * 1000 + limits.retryMs / 2, `too early: ${about}`);
      assert.ok(waitMs <= seconds * 1000 + limits.retryMs, `too late: ${about}`);
    }
  }
});

test('it ends when the time is over, or would be before the service wants to be asked', async () => {
  const never = await course([answer(503), GOOD], 9, 0);
  assert.deepEqual([never.found.kind, never.attempts], ['away', 1]);
  const tooLong = await course([answer(429, '{"error":"slow down"}', { 'retry-after': '120' }), GOOD], 9, 60_000);
  assert.deepEqual(tooLong.found, {
    kind: 'away',
    reason: 'answers 429: slow down; it wants to be asked again in 120 s',
  });
  assert.equal(tooLong.attempts, 1);
  const startedMs = performance.now();
  const soon = await course([silence('ECONNREFUSED', false)], 99, 300);
  const tookMs = performance.now() - startedMs;
  assert.equal(soon.found.kind, 'away');
  // The last attempt is made when the time ends, not a pause before it.
  assert.ok(tookMs >= 299 && tookMs < 2_000 && soon.attempts >= 3, `${tookMs} ms, ${soon.attempts} attempts`);
});

test('how long the pauses are is handed in', async () => {
  const stop = new AbortController();
  const waitsMs: number[] = [];
  const onWait = (_reason: string, waitMs: number) => {
    waitsMs.push(waitMs);
    if (waitsMs.length === 4) stop.abort();
  };
  const own = { retryMs: 4, retryMsMax: 8 };
  await deliver(async () => answer(503), { retryForMs: 60_000, stopped: stop.signal, limits: own, onWait });
  for (const [index, most] of [4, 8, 8, 8].entries()) {
    const waitMs = waitsMs[index] ?? Number.NaN;
    assert.ok(waitMs >= most / 2 && waitMs <= most, `pause ${index} is ${waitMs}`);
  }
});
