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

/** Whether a check fails, since when, and in how many results in a row. */
const holds = (failing: boolean, in_a_row: number, since_seq: number) => ({
  failing,
  ...(failing && { failing_severity: 'WARN' }),
  since: TIME,
  since_seq,
  in_a_row,
});

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
      alive: TIME,
      check: { count: 2, seq: 8, time },
      checks: [{ check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 8, time, ...holds(false, 1, 8) }],
    },
    { asset_key: ['a', '1'], alive: TIME, observation: { count: 1, seq: 4, time }, checks: [] },
    {
      asset_key: ['b'],
      alive: TIME,
      materialization: { count: 2, seq: 5, time, partition: 'p2' },
      check: { count: 3, seq: 6, time },
      checks: [
        { check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 6, time, ...holds(false, 1, 6) },
        { check_name: 'y', passed: false, severity: 'WARN', count: 1, seq: 3, time, ...holds(true, 1, 3) },
      ],
    },
  ]);
});

test('assets are filtered by key and by failing checks, and shown as a table and as CSV', async (t) => {
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
  assert.deepEqual(keys(await ask('--key-begins-with', 'a/1')), ['a/1', '']);
  assert.deepEqual(keys(await ask('--key-begins-with', 'a', '--key', 'a/1')), ['a/1', '']);
  assert.deepEqual(keys(await ask('--key-begins-with', 'b', '--key', 'a')), ['']);
  assert.deepEqual(
    JSON.parse(failing).checks.map(({ check_name }: { check_name: string }) => check_name),
    ['y'],
  );
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
  assert.equal(header.split(',').length, 22);
  assert.equal(row, `b,2,5,${TIME},p2,,0,,,,,3,6,${TIME},,1,1,"[""y""]",,,,${TIME}`);
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

test('the state of an asset follows event times, and the options of events are refused', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), encodeBatch(late.map(encodeMembers), START, new Date(TIME)).bytes);
  const { code, stdout, stderr } = await runHere(['assets', data]);
  assert.deepEqual([code, stderr], [0, '']);
  const time = TIME;
  const y = { count: 2, seq: 8, time, event_time: '2026-11-19T10:00:00.250Z' };
  const since = '2026-11-19T10:00:00.250Z';
  const holding = { failing: false, since, in_a_row: 1 };
  assert.deepEqual(JSON.parse(stdout), {
    asset_key: ['b'],
    alive: TIME,
    materialization: { count: 2, seq: 1, time, event_time: LATER, partition: 'p1' },
    observation: { count: 2, seq: 3, time, data_version: 'now' },
    check: { ...y, count: 4 },
    checks: [
      { check_name: 'x', passed: true, severity: 'ERROR', ...y, seq: 5, event_time: LATER, ...holding, since_seq: 5 },
      { check_name: 'y', passed: true, severity: 'ERROR', ...y, ...holding, since_seq: 8 },
    ],
  });
  for (const option of ['--by=event_time', '--since', '--until', '--source']) {
    const wrong = await runHere(['assets', data, option, '1h']);
    const [flag = ''] = option.split('=');
    const text = flag === '--by' ? 'the state goes by when things happened' : `use assetlog events ${flag}`;
    assert.equal(wrong.code, 2);
    assert.ok(wrong.stderr.startsWith(`assetlog: ${flag} is gone; ${text}`), wrong.stderr);
  }
});

test('a failing check is shown with its failed partitions', async (t) => {
  const data = newFolder(t);
  const events = ['26', '27', '28'].map((partition) => ({ ...check(['b'], 'x', false), partition }));
  writeFileSync(join(data, FIRST), encodeBatch(events.map(encodeMembers), START, new Date(TIME)).bytes);
  const { stdout } = await runHere(['assets', data, '--table']);
  assert.match(stdout, /1 FAILED +b +x \(WARN\) 26 and 2 more/);
});
