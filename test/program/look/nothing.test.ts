/** What `assetlog events` and `assetlog assets` report if nothing matches: the filter that is the cause. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHere } from '../../support/command-output.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { newFolder, startService } from '../../support/program.ts';
import { FIRST, flip, timedEvents } from '../../support/segments.ts';

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
  const service = await startService(t, { data });
  const spelling = 'for the other spelling of the key run: assetlog ';
  const table: readonly (readonly [args: readonly string[], hint: string])[] = [
    [['events', '--key', 'plain', '--since', '2026-11-13'], 'without --key or without --since some match'],
    [['events', '--key', 'w/parts', '--type', 'check'], 'without --key or without --type some match'],
    [['events', '--key', 'w/parts', '--since', '1h'], 'no event matches --since alone'],
    [['events', '--key=w/parts', '--partition', 'p9'], 'no event matches --partition alone'],
    [
      ['events', '--key-prefix', 'w/parts', '--after-seq', '2', '--until-seq', '3'],
      'without --key-prefix or without --after-seq some match',
    ],
    [['events', '--key', 'w/parts', '--partition', 'p2', '--until', '2026-11-11'], 'without --until some match'],
    [['events', '--contains', 'fresh', '--severity', 'ERROR', '--last', '3'], 'no event matches --severity alone'],
    [['events', '--key', 'plain', '--failed', '--partition', 'p1'], 'leave out some of --key, --failed, --partition'],
    [['events', '--key', 'none/here', '--partition', 'p9'], 'no event matches --key or --partition alone'],
    [['events', '--key', "it's/whole", '--partition', 'p1'], spelling],
    [['events', "--key-begins-with=it's/wh", '--since', '2026-11-01'], spelling],
    [['events', '--key', '["w/parts"]', '--by', 'event_time', '--since', '2026-01-01'], spelling],
    [['events', '--key', 'w/parts', '--by', 'event_time', '--since', '2026-02-01'], 'without --since some match'],
    [['events', '--key', 'none/here'], ''],
    [['events', '--until-seq', '0'], ''],
    [['assets', '--key', 'plain', '--failing'], 'without --key or without --failing some match'],
    [['assets', '--key', 'w/parts', '--stale', '9000d'], 'no asset matches --stale alone'],
    [['assets', '--key-prefix', 'w', '--failing'], 'without --key-prefix or without --failing some match'],
    [['assets', '--key', "it's/whole", '--failing'], spelling],
    [['assets', '--key', 'w/parts', '--key-begins-with', 'w/q'], 'no asset matches --key-begins-with alone'],
  ];
  for (const [args, hint] of table) {
    for (const place of [
      ['--data', data],
      ['--url', service.url],
    ]) {
      const { code, stdout, stderr } = await runHere([...args, ...place]);
      const expected = `assetlog: no ${args[0]} match${hint && `; ${hint}`}`;
      assert.equal(
        hint === spelling ? stderr.slice(0, expected.length) : stderr,
        hint === spelling ? expected : `${expected}\n`,
      );
      assert.deepEqual([code, stdout], [args.includes('--stale') ? code : 0, ''], args.join(' '));
    }
  }
});

test('the search for the hint reads all deployments, and does not report damage outside of the given times', async (t) => {
  const data = newFolder(t);
  for (const name of ['one', 'two']) mkdirSync(join(data, name));
  writeFileSync(join(data, 'one', FIRST), timedEvents([[at(1), check(['a'], true)]]));
  writeFileSync(join(data, 'two', FIRST), lines);
  const deployments = await runHere(['events', data, '--key', 'w/parts', '--since', '2026-11-12']);
  assert.equal(deployments.stderr, 'assetlog: no events match; without --key or without --since some match\n');
  const [first, second] = [join(data, 'two', FIRST), join(data, 'two', FIRST.replace('1.', '5.'))];
  writeFileSync(first, flip(lines, lines.indexOf('plain')));
  writeFileSync(second, timedEvents([[at(20), check(['a'], true)]], 5));
  const bounded = await runHere(['events', join(data, 'two'), '--key', 'w/parts', '--since', '2026-11-19']);
  assert.deepEqual(bounded, {
    code: 0,
    stdout: '',
    stderr: 'assetlog: no events match; without --key or without --since some match\n',
  });
});
