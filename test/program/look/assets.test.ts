/** `assetlog assets` from the view of its users. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { agedJournal, hoursAgo } from '../../support/aged-events.ts';
import { type CommandRow, runRows } from '../../support/command-rows.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { newFolder } from '../../support/program.ts';
import { FIRST, START, timedEvents } from '../../support/segments.ts';
import { serve } from '../../support/service.ts';

const TIME = '2026-11-20T15:00:00.000Z';
const [LATE, LATER] = ['2026-11-20T10:00:00.1Z', '2026-11-20T10:00:00.25Z'];
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
    { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p1', dataVersion: 'v1', eventTime: LATE },
    check(['b'], 'x', false),
    check(['b'], 'y', false),
    { type: 'AssetObservation', assetKey: ['a', '1'], metadata: '{"asset_key":["b"]}' },
  ];
  const second: readonly PlainEvent[] = [
    { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p2', eventTime: LATER },
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
  const time = TIME;
  const a = {
    asset_key: ['a'],
    alive: TIME,
    check: { count: 2, seq: 8, time },
    checks: [{ check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 8, time, ...holds(false, 1, 8) }],
  };
  const observed = { asset_key: ['a', '1'], alive: TIME, observation: { count: 1, seq: 4, time }, checks: [] };
  const b = {
    asset_key: ['b'],
    alive: TIME,
    materialization: { count: 2, seq: 5, time, event_time: LATER, partition: 'p2' },
    check: { count: 3, seq: 6, time },
    checks: [
      { check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 6, time, ...holds(false, 1, 6) },
      { check_name: 'y', passed: false, severity: 'WARN', count: 1, seq: 3, time, ...holds(true, 1, 3) },
    ],
  };
  await runRows({ DATA: journal(t) }, [['assets --data $DATA', 0, [a, observed, b]]]);
});

const TABLE = `
checks         asset key  materialized (UTC)   observed (UTC)       failed checks
1 passed       a
               a/1                             2026-11-20 15:00 ×1
1 FAILED of 2  b          2026-11-20 15:00 ×2                       y (WARN)
`.trimStart();

const CSV_OF_B = [
  'asset_key,materialization_count,materialization_seq,materialization_time,materialization_partition,materialization_data_version,observation_count,observation_seq,observation_time,observation_partition,observation_data_version,check_count,check_seq,check_time,check_partition,checks_passed,checks_failed,failed,materialization_source,observation_source,check_source,alive',
  `b,2,5,${TIME},p2,,0,,,,,3,6,${TIME},,1,1,"[""y""]",,,,${TIME}`,
  '',
].join('\r\n');

test('assets are shown as a table and as CSV', async (t) => {
  await runRows({ DATA: journal(t) }, [
    ['assets $DATA --table', 0, TABLE],
    ['assets $DATA --csv --key b', 0, CSV_OF_B],
  ]);
});

const AGED = [
  '60 materialized w/old',
  '50 materialized w/checked',
  '50 materialized w/observed',
  '49 materialized w/materialized',
  '48 failed w/old',
  '20 passed w/checked',
  '10 observed w/observed',
  ...['b', 'a', 'a/2', 'ab'].map((key) => `2 passed ${key}`),
  ...['a/1', 'c/1', 'é/1'].map((key) => `1 failed ${key}`),
  '1 materialized w/materialized',
];

test('a folder and a service have the same assets for a key, failing checks and an age, and a stale or missing one ends the command with 1', async (t) => {
  const data = agedJournal(t, AGED);
  const { url } = await serve(t, { data });
  const [aged, none] = [['w/checked', 'w/materialized', 'w/observed', 'w/old'], /^assetlog: no assets match/];
  const rows: readonly CommandRow[] = [
    ['assets', 0, ['a', 'a/1', 'a/2', 'ab', 'b', 'c/1', ...aged, 'é/1']],
    ['assets --key-prefix a', 0, ['a', 'a/1', 'a/2']],
    ['assets --key-begins-with a', 0, ['a', 'a/1', 'a/2', 'ab']],
    ['assets --key-begins-with a/', 0, ['a', 'a/1', 'a/2']],
    [`assets --key-begins-with '["a","1"]'`, 0, ['a/1']],
    ['assets --key-begins-with b/', 0, ['b']],
    ['assets --failing', 0, ['a/1', 'c/1', 'w/old', 'é/1']],
    ['assets --failing --key-prefix a', 0, ['a/1']],
    ['assets --key a/1', 0, ['a/1']],
    ['assets --key-begins-with a --key a/1', 0, ['a/1']],
    ['assets --key w', 0, [], none],
    ['assets --stale 26h', 1, ['w/old']],
    ['assets --stale 49h', 0, [], none],
    ['assets --stale 19h', 1, ['w/checked', 'w/old']],
    ['assets --stale 30m --key-prefix w', 1, aged],
    ['assets --stale 26h --failing', 1, ['w/old']],
    ['assets --stale 26h --key w/observed', 0, [], none],
    ['assets --stale 26h --key nothing', 1, [], none],
    ['assets --stale 100d --key-prefix x', 1, [], / no asset matches --key-prefix or --stale alone/],
    ['assets --stale 100d --key w', 1, [], none],
    ['assets --stale 100d --key-prefix w', 0, [], none],
  ];
  await runRows({ DATA: data, URL: url }, rows, { endings: ['--data $DATA', '--url $URL'] });
});

test('a failing check is shown with its failed partitions', async (t) => {
  const data = newFolder(t);
  const events = ['26', '27', '28'].map((partition) => ({ ...check(['b'], 'x', false), partition }));
  writeFileSync(join(data, FIRST), encodeBatch(events.map(encodeMembers), START, new Date(TIME)).bytes);
  await runRows({ DATA: data }, [['assets $DATA --table', 0, /1 FAILED +b +x \(WARN\) 26 and 2 more/]]);
});

test('an asset is as old as its last event by event time, and stale if that is ahead of the clock; damage takes precedence', async (t) => {
  const late = newFolder(t);
  const assetKey = ['w', 'late'];
  const event = { type: 'AssetObservation', assetKey, eventTime: hoursAgo(40).toISOString() } as const;
  writeFileSync(join(late, FIRST), timedEvents([[hoursAgo(1), event]]));
  const damaged = agedJournal(t, ['60 materialized w/old', '1 materialized w/new']);
  writeFileSync(join(damaged, segmentName(20)), 'no line\n');
  await runRows({ LATE: late, AHEAD: agedJournal(t, ['-24 observed w/ahead']), DAMAGED: damaged }, [
    ['assets $LATE --stale 26h', 1, ['w/late']],
    ['assets $AHEAD --stale 26h', 1, ['w/ahead']],
    ['assets $DAMAGED --stale 26h', 3, ['w/old'], /^assetlog: damaged: /],
  ]);
});
