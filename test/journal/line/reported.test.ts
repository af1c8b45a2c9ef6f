/** What an event says of its asset, read from its members without parsing them: the same as the parser says. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeEvent } from '../../../src/event/event.ts';
import { reportedOf } from '../../../src/journal/line/members.ts';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { type Reported, readReported } from '../../../src/journal/line/reported.ts';
import { rounds } from '../../support/long.ts';
import { eventOf, type PlainEvent } from '../../support/plain-event.ts';
import { randomFrom } from '../../support/random.ts';
import { START } from '../../support/segments.ts';

const random = randomFrom(11);
const below = (end: number) => Math.floor(random() * end);
const oneOf = <Value>(values: readonly Value[]): Value => values[below(values.length)]!;

const TEXTS = [
  'a',
  '',
  ']',
  ',',
  '","',
  '"]',
  '\\',
  '\\"',
  'é',
  '日本',
  '\u2028',
  '{"metadata":1}',
  ',"partition":"x"',
  '},"event_time":"2020"',
  'x'.repeat(2_000),
  'ü'.repeat(700),
];
const text = (): string => Array.from({ length: below(3) }, () => oneOf(TEXTS)).join('');
const METADATA = [
  '{}',
  '{"a":"},\\"event_time\\":\\"1\\""}',
  '{"event_time":"1999"}',
  '{"x":{},"idempotency_key":"k"}',
  `{"long":"${'"é"'.replaceAll('"', '\\"').repeat(600)}"}`,
];

function anyEvent(): PlainEvent {
  const type = oneOf(['AssetMaterialization', 'AssetObservation', 'AssetCheckEvaluation'] as const);
  const isCheck = type === 'AssetCheckEvaluation';
  const plain: PlainEvent = {
    type,
    assetKey: Array.from({ length: 1 + below(3) }, () => `${text()}k`),
    partition: oneOf([undefined, text()]),
    ...(isCheck && { checkName: `${text()}c`, passed: below(2) === 0, severity: oneOf(['WARN', 'ERROR'] as const) }),
    description: isCheck ? undefined : oneOf([undefined, text()]),
    dataVersion: isCheck ? undefined : oneOf([undefined, text()]),
    metadata: oneOf([undefined, ...METADATA]),
    eventTime: oneOf([undefined, '2026-11-20T15:19:45.250Z']),
  };
  const key = oneOf([undefined, '"}', '\\"', `},"event_time":"x"${'"'.repeat(200)}`]);
  const origin = {
    id: '01a1fb95-ce62-7e59-9364-610bf5613940',
    source: '0193e0c2-7f3a-7000-8000-000000000000',
    seq: 7,
    recorded: '2026-11-20T15:19:45.266Z',
  };
  return { ...plain, ...(key !== undefined && { idempotencyKey: key }), ...(below(4) === 0 && { origin }) };
}

test('it is read as the parser reads it, from a text, from bytes and from a line', () => {
  for (let round = 0; round < rounds({ long: 3_000, short: 800 }); round += 1) {
    const event = eventOf(anyEvent());
    const { asset_key, partition, check_name, passed, severity, tags, event_time } = decodeEvent(event);
    const expected: Reported = {
      type: event.type,
      key: asset_key.join('\0'),
      partition,
      checkName: check_name,
      passed,
      severity,
      dataVersion: tags?.data_version,
      eventTime: event_time,
    };
    assert.deepEqual(readReported(event.encoded), expected, `${event.encoded}`);
    assert.deepEqual(readReported(Buffer.from(event.encoded as string)), expected);
    const { bytes } = encodeBatch([event.encoded], { ...START, seq: 1_234 }, new Date());
    assert.deepEqual(reportedOf(bytes, 0, bytes.length - 1, 1_234), expected);
  }
});
