/** The line of a journal is sent without being parsed: as the same report as if it were. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { itemOf, withKey } from '../../../src/client/batch.ts';
import { readSubmission } from '../../../src/client/submission.ts';
import { itemReader } from '../../../src/commands/send/line-item.ts';
import { limits } from '../../../src/config/limits.ts';
import { readItemText } from '../../../src/event/item.ts';
import { batchItemReader as eventReader } from '../../../src/http/batch.ts';
import { readWrittenReport } from '../../../src/journal/line/members.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { makeLines } from '../../support/segments.ts';

const origin = {
  id: '01a1fb95-ce62-7e59-9364-610bf5613940',
  source: '0193e0c2-7f3a-7000-8000-000000000000',
  seq: 7,
  recorded: '2026-11-20T15:19:45.266Z',
};
const members: readonly Partial<PlainEvent>[] = [
  {},
  { partition: 'p', description: 'die Tür', dataVersion: '7' },
  { metadata: '{"a":{"x":1.0},"b":"},\\"event_time\\":\\"2026-11-20T15:19:45Z\\"","rows":1e400}' },
  { metadata: '{"idempotency_key":"k","event_time":"2026-11-20T15:19:45Z","from":["x",1]}' },
  { metadata: '{}', dataVersion: '' },
];
const tails: readonly Partial<PlainEvent>[] = [
  {},
  { eventTime: '2026-11-20T15:19:45.25Z' },
  { idempotencyKey: '{"seq":7,"crc":"00000000"}/1'.replaceAll('"', "'") },
  { eventTime: '2026-11-20T15:19:45.25Z', idempotencyKey: 'k' },
];
const check = { type: 'AssetCheckEvaluation', checkName: 'c', passed: false, severity: 'WARN' } as const;
const events: readonly PlainEvent[] = [undefined, origin].flatMap((one) =>
  tails.flatMap((tail) =>
    members.flatMap((some): PlainEvent[] => {
      const shared = { assetKey: ['a', 'ü'], ...tail, origin: one };
      return [
        { type: 'AssetObservation', ...some, ...shared },
        { ...check, metadata: some.metadata, ...shared },
      ];
    }),
  ),
);
const lines = makeLines(events.length, undefined, (seq) => events[seq - 1]!).lines.map((line) => line.subarray(0, -1));

test('a journal line gives the same event as its parsed report, with its time and its key', () => {
  const readEvent = eventReader(limits);
  const eventOf = (text: string) => readEvent(readItemText(text, limits));
  for (const keepTimes of [false, true]) {
    const read = itemReader(limits, keepTimes);
    for (const line of lines) {
      assert.notEqual(readWrittenReport(line.toString()), undefined);
      const item = read(line);
      const parsed = itemOf(readSubmission(line.toString(), limits, keepTimes));
      assert.deepEqual(eventOf(item.text), eventOf(parsed.text), line.toString());
      assert.deepEqual([item.hasKey, item.isWithoutTime], [parsed.hasKey, parsed.isWithoutTime]);
      assert.deepEqual(item.single(), parsed.single());
      if (item.hasKey) continue;
      const keyed = withKey(item, 'run-"7"/1');
      assert.equal(eventOf(keyed.text).idempotencyKey, 'run-"7"/1');
      assert.deepEqual(eventOf(keyed.text), eventOf(withKey(parsed, 'run-"7"/1').text));
      assert.equal(keyed.single().idempotencyKey, 'run-"7"/1');
    }
  }
});

test('a line that no journal wrote is read by the parser', () => {
  const read = itemReader(limits, false);
  const [first] = lines.map(String);
  const crc = /,"crc":"[0-9a-f]{8}"\}$/;
  for (const line of [
    first!.replace('"time":"', '"time":"x'),
    first!.replace(/"time":"[^"]*"/, '"time":"2026-02-30T15:19:45.266Z"'),
    first!.replace(crc, '}'),
    first!.replace(crc, (end) => `,"idempotency_key":"k\\u0021"${end}`),
    first!.replace('"type"', '"idempotency_key":"k","type"'),
    first!.replace(crc, (end) => `,"partition":"p"${end}`),
    first!.replaceAll('":', '": '),
    '{"type":"observation","asset_key":"k","event_time":"2026-11-20T15:19:45Z"}',
  ]) {
    const parsed = itemOf(readSubmission(line, limits));
    const item = read(Buffer.from(line));
    const eventOf = (text: string) => eventReader(limits)(readItemText(text, limits));
    assert.deepEqual(eventOf(item.text), eventOf(parsed.text), line);
    assert.deepEqual([item.hasKey, item.isWithoutTime], [parsed.hasKey, parsed.isWithoutTime]);
  }
  assert.throws(() => read(Buffer.from(first!.slice(0, -1))), /^Error: it is not valid JSON/);
});
