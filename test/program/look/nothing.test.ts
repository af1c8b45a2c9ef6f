/** What `assetlog events` and `assetlog assets` report if nothing matches: the filter that is the cause. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type CommandRow, runRows } from '../../support/command-rows.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { newFolder } from '../../support/program.ts';
import { FIRST, flip, timedEvents } from '../../support/segments.ts';
import { serve } from '../../support/service.ts';

const at = (day: number) => Date.UTC(2026, 10, day, 15);
const check = (assetKey: readonly string[], passed: boolean): PlainEvent => {
  return { type: 'AssetCheckEvaluation', assetKey, checkName: 'fresh', passed, severity: 'WARN' };
};

/** Two assets that differ only in the spelling of their keys, and two that have no other spelling. */
const lines = timedEvents([
  [at(10), { type: 'AssetMaterialization', assetKey: ["it's/whole"], partition: 'p1' }],
  [
    at(11),
    { type: 'AssetMaterialization', assetKey: ['w', 'parts'], partition: 'p2', eventTime: '2026-01-01T00:00:00Z' },
  ],
  [at(12), check(['plain'], true)],
  [at(13), check(['other'], false)],
]);

test('the hint names the filters that exclude all events, and another spelling only of a key without events', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), lines);
  const service = await serve(t, { data });
  const spelling = /; for the other spelling of the key run: assetlog /;
  const without = (what: string, ...flags: string[]) =>
    `assetlog: no ${what}s match; without ${flags.join(' or without ')} some match`;
  const alone = (what: string, flags: string) => `assetlog: no ${what}s match; no ${what} matches ${flags} alone`;
  const rows: readonly CommandRow[] = [
    ['events --key plain --since 2026-11-13', 0, '', without('event', '--key', '--since')],
    ['events --key w/parts --type check', 0, '', without('event', '--key', '--type')],
    ['events --key w/parts --since 1h', 0, '', alone('event', '--since')],
    ['events --key=w/parts --partition p9', 0, '', alone('event', '--partition')],
    ['events --key-prefix w/parts --after-seq 2 --until-seq 3', 0, '', without('event', '--key-prefix', '--after-seq')],
    ['events --key w/parts --partition p2 --until 2026-11-11', 0, '', without('event', '--until')],
    ['events --contains fresh --severity ERROR --last 3', 0, '', alone('event', '--severity')],
    [
      'events --key plain --failed --partition p1',
      0,
      '',
      'assetlog: no events match; leave out some of --key, --failed, --partition',
    ],
    ['events --key none/here --partition p9', 0, '', alone('event', '--key or --partition')],
    [`events --key "it's/whole" --partition p1`, 0, '', spelling],
    [`events --key-begins-with="it's/wh" --since 2026-11-01`, 0, '', spelling],
    [`events --key '["w/parts"]' --by event_time --since 2026-01-01`, 0, '', spelling],
    ['events --key w/parts --by event_time --since 2026-02-01', 0, '', without('event', '--since')],
    ['events --key none/here', 0, '', 'assetlog: no events match'],
    ['events --until-seq 0', 0, '', 'assetlog: no events match'],
    ['assets --key plain --failing', 0, '', 'assetlog: no assets match; without --key or without --failing some match'],
    ['assets --key w/parts --stale 9000d', 0, '', alone('asset', '--stale')],
    ['assets --key-prefix w --failing', 0, '', without('asset', '--key-prefix', '--failing')],
    [`assets --key "it's/whole" --failing`, 0, '', spelling],
    ['assets --key w/parts --key-begins-with w/q', 0, '', alone('asset', '--key-begins-with')],
  ];
  await runRows({ DATA: data, URL: service.url }, rows, { endings: ['--data $DATA', '--url $URL'] });
});

test('the search for the hint reads all deployments, and does not report damage outside of the given times', async (t) => {
  const data = newFolder(t);
  for (const name of ['one', 'two']) mkdirSync(join(data, name));
  writeFileSync(join(data, 'one', FIRST), timedEvents([[at(1), check(['a'], true)]]));
  writeFileSync(join(data, 'two', FIRST), lines);
  const hint = 'assetlog: no events match; without --key or without --since some match';
  await runRows({ DATA: data }, [['events $DATA --key w/parts --since 2026-11-12', 0, '', hint]]);
  const [first, second] = [join(data, 'two', FIRST), join(data, 'two', FIRST.replace('1.', '5.'))];
  writeFileSync(first, flip(lines, lines.indexOf('plain')));
  writeFileSync(second, timedEvents([[at(20), check(['a'], true)]], 5));
  await runRows({ DATA: data }, [['events $DATA/two --key w/parts --since 2026-11-19', 0, '', hint]]);
});
