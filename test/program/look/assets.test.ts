/** `assetlog assets` from the view of its users. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { jsonIn, runHere } from '../../support/command-output.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { newFolder, run } from '../../support/program.ts';
import { FIRST, START } from '../../support/segments.ts';

const TIME = '2026-11-20T15:00:00.000Z';
const check = (assetKey: string[], checkName: string, passed: boolean): PlainEvent => ({
  type: 'AssetCheckEvaluation',
  assetKey,
  checkName,
  passed,
  severity: passed ? 'ERROR' : 'WARN',
});

/** How many results of a check in a row are the same, and the first of them. */
const inARow = (in_a_row: number, since_seq: number) => ({ since_seq, since: TIME, in_a_row });

/** A journal in two files. */
function journal(t: TestContext): string {
  const data = newFolder(t);
  const first: readonly PlainEvent[] = [
    { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p1', dataVersion: 'v1' },
    check(['b'], 'x', false),
    check(['b'], 'y', false),
    { type: 'AssetObservation', assetKey: ['a', '1'], metadata: '{"asset_key":["b"]}' },
  ];
  const second: readonly PlainEvent[] = [
    { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p2' },
    check(['b'], 'x', true),
    check(['a'], 'x', false),
    check(['a'], 'x', true),
  ];
  const write = (name: string, events: readonly PlainEvent[], seq: number) =>
    writeFileSync(join(data, name), encodeBatch(events.map(encodeMembers), { ...START, seq }, new Date(TIME)).bytes);
  write(FIRST, first, 1);
  write(segmentName(5), second, 5);
  return data;
}

test('the latest event of each kind, the counts and the states of the checks of each asset are shown, ordered by key', async (t) => {
  const { code, stdout, stderr } = await run(['assets', '--data', journal(t)]);
  assert.deepEqual([code, stderr], [0, '']);
  const time = TIME;
  assert.deepEqual(jsonIn(stdout), [
    {
      asset_key: ['a'],
      check: { count: 2, seq: 8, time },
      checks: [{ check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 8, time, ...inARow(1, 8) }],
    },
    { asset_key: ['a', '1'], observation: { count: 1, seq: 4, time }, checks: [] },
    {
      asset_key: ['b'],
      materialization: { count: 2, seq: 5, time, partition: 'p2' },
      check: { count: 3, seq: 6, time },
      checks: [
        { check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 6, time, ...inARow(1, 6) },
        { check_name: 'y', passed: false, severity: 'WARN', count: 1, seq: 3, time, ...inARow(1, 3) },
      ],
    },
  ]);
});

test('assets are chosen by key and by failing checks, and shown as a table and as CSV', async (t) => {
  const data = journal(t);
  const ask = async (...args: string[]) => (await runHere(['assets', '--data', data, ...args])).stdout;
  const keys = (text: string) => text.split('\n').map((line) => line && JSON.parse(line).asset_key.join('/'));
  const [exact, prefix, failing, table, csv] = await Promise.all([
    ask('--key', 'a'),
    ask('--key-prefix', 'a'),
    ask('--failing'),
    ask('--table'),
    ask('--csv', '--key', 'b'),
  ]);
  const later = ['--since', '2026-11-20'];
  for (const more of [[], later]) {
    assert.deepEqual(keys(await ask('--key-begins-with', 'a/1', ...more)), ['a/1', '']);
    assert.deepEqual(keys(await ask('--key-begins-with', 'a', '--key', 'a/1', ...more)), ['a/1', '']);
    assert.deepEqual(keys(await ask('--key-begins-with', 'b', '--key', 'a', ...more)), ['']);
  }
  assert.deepEqual(
    [keys(exact), keys(prefix), keys(failing)],
    [
      ['a', ''],
      ['a', 'a/1', ''],
      ['b', ''],
    ],
  );
  const lines = table.split('\n').map((line) => line.split(/ {2,}/));
  assert.deepEqual(lines, [
    ['checks', 'asset key', 'materialized (UTC)', 'observed (UTC)', 'failed checks'],
    ['1 passed', 'a'],
    ['', 'a/1', '2026-11-20 15:00 ×1'],
    ['1 FAILED of 2', 'b', '2026-11-20 15:00 ×2', 'y (WARN)'],
    [''],
  ]);
  const [header = '', row = '', ...rest] = csv.split('\r\n');
  assert.deepEqual(rest, ['']);
  assert.equal(header.split(',').length, 21);
  assert.equal(row, `b,2,5,${TIME},p2,,0,,,,,3,6,${TIME},,1,1,"[""y""]",,,`);
  assert.equal((await runHere(['assets', data, '--csv', '--table'])).code, 2);
  const none = await runHere(['assets', data, '--key-prefix', 'a', '--failing']);
  const hint = 'assetlog: no assets match; without --key-prefix or without --failing some match\n';
  assert.deepEqual([none.code, none.stdout, none.stderr], [0, '', hint]);
  const other = await runHere(['assets', '--data', data, '--key', 'a/1', '--failing']);
  assert.equal(other.stderr, 'assetlog: no assets match; without --key or without --failing some match\n');
});

const LATE = '2026-11-19T10:00:00.1Z';
const LATER = '2026-11-19T10:00:00.25Z';
/** The last event of each kind is late: it happened before the previous one. */
const late: readonly PlainEvent[] = [
  { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p1', eventTime: LATER },
  { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p0', eventTime: LATE },
  { type: 'AssetObservation', assetKey: ['b'], dataVersion: 'now' },
  { type: 'AssetObservation', assetKey: ['b'], dataVersion: 'old', eventTime: LATER },
  { ...check(['b'], 'x', true), eventTime: LATER },
  { ...check(['b'], 'x', false), eventTime: LATE },
  { ...check(['b'], 'y', false), eventTime: LATER },
  { ...check(['b'], 'y', true), eventTime: '2026-11-19T10:00:00.250Z' },
];

test('by event_time the state of an asset comes from the events that happened last', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), encodeBatch(late.map(encodeMembers), START, new Date(TIME)).bytes);
  const show = async (...args: string[]) => {
    const { code, stdout, stderr } = await runHere(['assets', data, ...args]);
    assert.deepEqual([code, stderr], [0, ''], args.join(' '));
    return stdout;
  };
  const time = TIME;
  const y = { check_name: 'y', passed: true, severity: 'ERROR', count: 2, seq: 8, time };
  const [recorded, happened, range, before, table, csv] = await Promise.all([
    show(),
    show('--by', 'event_time'),
    show('--by', 'event_time', '--since', '2026-11-19T10:00:00.2', '--until', '2026-11-20'),
    show('--by', 'event_time', '--until', '2026-11-19T10:00:00.200', '--failing'),
    show('--by', 'event_time', '--table'),
    show('--by', 'event_time', '--csv'),
  ]);
  assert.deepEqual(JSON.parse(recorded), {
    asset_key: ['b'],
    materialization: { count: 2, seq: 2, time, partition: 'p0' },
    observation: { count: 2, seq: 4, time, data_version: 'old' },
    check: { count: 4, seq: 8, time },
    checks: [
      { check_name: 'x', passed: false, severity: 'WARN', count: 2, seq: 6, time, ...inARow(1, 6) },
      { ...y, ...inARow(1, 8) },
    ],
  });
  const yHappened = { ...y, event_time: '2026-11-19T10:00:00.250Z' };
  assert.deepEqual(JSON.parse(happened), {
    asset_key: ['b'],
    materialization: { count: 2, seq: 1, time, event_time: LATER, partition: 'p1' },
    observation: { count: 2, seq: 3, time, data_version: 'now' },
    check: { count: 4, seq: 8, time, event_time: yHappened.event_time },
    checks: [
      { check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 5, time, event_time: LATER },
      yHappened,
    ],
  });
  const { materialization, observation } = JSON.parse(range);
  assert.deepEqual([materialization.seq, materialization.count, observation.seq], [1, 1, 4]);
  assert.deepEqual(JSON.parse(before), {
    asset_key: ['b'],
    materialization: { count: 1, seq: 2, time, event_time: LATE, partition: 'p0' },
    check: { count: 1, seq: 6, time, event_time: LATE },
    checks: [{ check_name: 'x', passed: false, severity: 'WARN', count: 1, seq: 6, time, event_time: LATE }],
  });
  assert.deepEqual(
    table.split('\n').map((line) => line.split(/ {2,}/)),
    [
      ['checks', 'asset key', 'materialized (event time)', 'observed (event time)', 'failed checks'],
      ['2 passed', 'b', '2026-11-19 10:00 ×2', '2026-11-20 15:00 ×2'],
      [''],
    ],
  );
  const [header = '', row = ''] = csv.split('\r\n');
  assert.match(
    header,
    /^asset_key,materialization_count,materialization_seq,materialization_time,materialization_event_time,/,
  );
  assert.equal(header.split(',').length, row.split(',').length);
  assert.equal(row, `b,2,1,${TIME},${LATER},p1,,2,3,${TIME},,,now,4,8,${TIME},${yHappened.event_time},,2,0,,,,`);
  assert.equal(JSON.parse(await show('--since', '2026-11-20T15:00')).check.count, 4);
  for (const none of [
    ['--until', '2026-11-20T15:00'],
    ['--by', 'event_time', '--since', '2026-11-21'],
  ])
    assert.equal((await runHere(['assets', data, ...none])).stderr, 'assetlog: no assets match\n');
  const wrong = await runHere(['assets', data, '--by', 'id']);
  assert.deepEqual([wrong.code, wrong.stderr.includes('use time or event_time')], [2, true]);
});
