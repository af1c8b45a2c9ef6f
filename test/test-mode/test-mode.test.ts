import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import type { RecordReport } from '../../src/http/counted.ts';
import type { Incoming, Recorder, RecordHandled, Reply } from '../../src/http/message.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { TestMode } from '../../src/test-mode/test-mode.ts';
import { fault } from '../support/faults.ts';
import { entriesOf } from '../support/log.ts';
import { eventOf } from '../support/plain-event.ts';

const ok: Reply = { kind: 'body', status: 200, body: '{}' };
const record: RecordReport = (_outcome, _recorder, _route, respond) => respond(ok);

/** Sends reports for tests, each with its head and then its body. */
function open(delayedRepliesMax: number = limits.delayedRepliesMax) {
  const log: string[] = [];
  const testMode = new TestMode({
    limits: { ...limits, delayedRepliesMax },
    notices: createNotices('info', false, (line) => log.push(line)),
    startOver: async () => {},
  });
  const incoming = { id: 'one', method: 'POST', url: '/a', ending: new AbortController().signal } as Incoming;
  const outcome = { events: [eventOf({ type: 'AssetObservation', assetKey: ['a'] })] } as unknown as RecordHandled;
  const report = (onReply: (reply: Reply) => void) => {
    const around = testMode.around(incoming, '/report_asset_observation', record);
    if (typeof around !== 'function') return onReply(around);
    around(outcome, {} as Recorder, '/report_asset_observation', onReply);
  };
  return { log, testMode, report };
}

test('replies beyond the cap are sent at once, and a reset sends all waiting ones', async () => {
  const { log, testMode, report } = open(2);
  testMode.faults.add(fault({}, { delay_ms: 60_000 }));
  const sent: number[] = [];
  for (const number of [1, 2, 3]) report(() => sent.push(number));
  await sleep(1);
  assert.deepEqual(sent, [3]);
  assert.equal(entriesOf(log, 'too many replies are held back; this reply is sent at once').length, 1);
  await testMode.reset();
  await sleep(1);
  assert.deepEqual(sent, [3, 1, 2]);
});

test('a report that a fault decides by its head counts once', () => {
  const { testMode, report } = open();
  testMode.faults.add(fault({}, { drop: 'request' }, { after: 1, times: 1 }));
  const kinds: string[] = [];
  for (let count = 0; count < 3; count += 1) report(({ kind }) => kinds.push(kind));
  assert.deepEqual(kinds, ['body', 'cut', 'body']);
});
