import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import type { Incoming, Reply } from '../../src/http/message.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { TestMode } from '../../src/test-mode/test-mode.ts';
import { fault } from '../support/faults.ts';
import { entriesOf } from '../support/log.ts';
import { eventOf } from '../support/plain-event.ts';

test('replies beyond the cap are not held back, and a reset sends all waiting replies', async () => {
  const log: string[] = [];
  const testMode = new TestMode({
    limits: { ...limits, delayedRepliesMax: 2 },
    notices: createNotices('info', false, (line) => log.push(line)),
    startOver: async () => {},
  });
  testMode.faults.add(fault({}, { delay_ms: 60_000 }));
  const ok: Reply = { kind: 'body', status: 200, body: '{}' };
  const record = testMode.aroundRecord((_outcome, _recorder, _route, respond) => respond(ok));
  const incoming = { id: 'one', method: 'POST', url: '/a', ending: new AbortController().signal } as Incoming;
  const sent: number[] = [];
  const outcome = { events: [eventOf({ type: 'AssetObservation', assetKey: ['a'] })] } as unknown as Parameters<
    typeof record
  >[0];
  const recorder = {} as Parameters<typeof record>[1];
  for (const number of [1, 2, 3]) record(outcome, recorder, '/a', () => sent.push(number), incoming);
  await sleep(1);
  assert.deepEqual(sent, [3]);
  assert.equal(entriesOf(log, 'too many replies are held back; this reply is sent at once').length, 1);
  await testMode.reset();
  await sleep(1);
  assert.deepEqual(sent, [3, 1, 2]);
});
