/** The JSON Schema of a journal line accepts exactly the lines that the service writes. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { eventSchema } from '../../../src/journal/line/line-schema.ts';
import { eventsIn } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { serve } from '../../support/service.ts';

const isLine = new Ajv2020({ strict: true }).compile(eventSchema());

test('each line of a journal is valid against the schema, and invalid with any mistake', async (t) => {
  const service = await serve(t);
  const strange = '\u0000"\\\u2028\u0085\ud83d\ude00é';
  const metadata = { [strange]: [strange, 1e300, null, { deep: [[]] }] };
  const all = { asset_key: ['\u2028😀', 'b/c', ' '], partition: '', description: strange, data_version: '', metadata };
  const checked = { asset_key: 'a', partition: strange, check_name: ' ', passed: true, severity: 'WARN', metadata: {} };
  await record(service, 'materialization', { body: all });
  await record(service, 'check', { body: checked });
  await record(service, 'observation', { body: all });
  const later = {
    event_time: '2026-11-20T15:19:45.123456789Z',
    idempotency_key: 'order-17/1',
    from: ['0193e0c2-7f3a-7000-8000-000000000000', 7],
    recorded: '2026-11-20T15:19:45.266Z',
  };
  const optional = ['partition', 'description', 'tags', 'metadata', ...Object.keys(later)];
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    seq: [0, 1.5, '1', 2 ** 53],
    id: ['', '01a1fb95-ce62-4e59-9364-610bf5613940', '01A1FB95-CE62-7E59-9364-610BF5613940'],
    time: ['2026-11-21', '2026-11-21T00:51:01Z', '2026-11-21T00:51:01.346+00:00', 0],
    type: ['Materialization', 'AssetCheck'],
    asset_key: [[], [''], ['\n'], 'a', [1]],
    partition: [7],
    description: [7],
    tags: [{}, { data_version: 7 }, { data_version: 'v', other: 'x' }],
    check_name: ['', 7],
    passed: ['true', 1],
    severity: ['INFO', 'warn'],
    metadata: [[], 'x'],
    event_time: ['2026-11-20', '2026-11-20T15:19:45+00:00', '2026-11-20T15:19:45.Z', '2026-11-20T15:19:45.1234567890Z'],
    idempotency_key: ['', 'a b', 'é', 7],
    from: [[], ['s'], ['s', 0], ['s', '7'], [7, 7], ['s', 7, 7]],
    recorded: ['2026-11-20T15:19:45Z'],
    crc: ['', '9AE0DAAF', '9ae0daaf0'],
  };
  const events = eventsIn(service.data).map((event) => ({ ...event, ...later }) as Record<string, unknown>);
  assert.equal(events.length, 3);
  for (const event of events) {
    assert.ok(isLine(event), JSON.stringify(isLine.errors));
    for (const name of Object.keys(event)) {
      const { [name]: _, ...less } = event;
      assert.equal(isLine(less), optional.includes(name), `without ${name}`);
      for (const value of [...(wrong[name] ?? []), null])
        assert.ok(!isLine({ ...event, [name]: value }), `${name}: ${JSON.stringify(value)}`);
    }
    const isCheck = event['type'] === 'AssetCheckEvaluation';
    if (!isCheck) assert.ok(!isLine({ ...event, type: 'AssetCheckEvaluation' }), 'no result of a check');
    assert.ok(isLine({ ...event, other: 1 }), 'a member of a later version');
  }
});
