/** `assets --stale`: assets without an event for too long, and the exit code for a cron job. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { agedJournal, hoursAgo } from '../../support/aged-events.ts';
import { type CommandRow, runRows } from '../../support/command-rows.ts';
import { newFolder, startService } from '../../support/program.ts';
import { FIRST, timedEvents } from '../../support/segments.ts';

const OLD_AND_NEW = [
  '60 materialized w/old',
  '50 materialized w/checked',
  '50 materialized w/observed',
  '49 materialized w/materialized',
  '48 failed w/old',
  '20 passed w/checked',
  '10 observed w/observed',
  '1 materialized w/materialized',
];

test('an asset without any event for that long is stale, and so is a key without an asset: the command ends with 1', async (t) => {
  const data = agedJournal(t, OLD_AND_NEW);
  const { url } = await startService(t, { data });
  const rows: readonly CommandRow[] = [
    ['assets --stale 26h', 1, ['w/old']],
    ['assets --stale 47h', 1, ['w/old']],
    ['assets --stale 49h', 0, [], /^assetlog: no assets match/],
    ['assets --stale 19h', 1, ['w/checked', 'w/old']],
    ['assets --stale 30m', 1, ['w/checked', 'w/materialized', 'w/observed', 'w/old']],
    ['assets --stale 26h --failing', 1, ['w/old']],
    ['assets --stale 26h --key w/old', 1, ['w/old']],
    ['assets --stale 26h --key w/observed', 0, [], /^assetlog: no assets match/],
    ['assets', 0, ['w/checked', 'w/materialized', 'w/observed', 'w/old']],
    ['assets --stale 26h --key nothing', 1, [], /^assetlog: no assets match/],
    [
      'assets --stale 100d --key-prefix x',
      1,
      [],
      'assetlog: no assets match; no asset matches --key-prefix or --stale alone',
    ],
    ['assets --stale 100d --key w', 1, [], /^assetlog: no assets match/],
    ['assets --stale 100d --key-prefix w', 0, [], /^assetlog: no assets match/],
    ['assets --key w', 0, [], /^assetlog: no assets match/],
  ];
  await runRows({ DATA: data, URL: url }, rows, { endings: ['--data $DATA', '--url $URL'] });
});

test('an asset is as old as its last event by event time, and stale if that is ahead of the clock; damage takes precedence', async (t) => {
  const late = newFolder(t);
  const assetKey = ['w', 'late'];
  const event = { type: 'AssetObservation', assetKey, eventTime: hoursAgo(40).toISOString() } as const;
  writeFileSync(join(late, FIRST), timedEvents([[hoursAgo(1), event]]));
  const damaged = agedJournal(t, OLD_AND_NEW);
  writeFileSync(join(damaged, segmentName(20)), 'no line\n');
  await runRows({ LATE: late, AHEAD: agedJournal(t, ['-24 observed w/ahead']), DAMAGED: damaged }, [
    ['assets $LATE --stale 26h', 1, ['w/late']],
    ['assets $AHEAD --stale 26h', 1, ['w/ahead']],
    ['assets $DAMAGED --stale 26h', 3, ['w/old'], /^assetlog: damaged: /],
  ]);
});
