/** Retention of a process by days. `program/day/operator` has a budget in bytes. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { runRows } from '../../support/command-rows.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { newFolder, startService } from '../../support/program.ts';
import { aged } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { ask, post } from '../../support/wire.ts';

const DAY_MS = 24 * 3_600_000;
const removed = (last: number) => goneName({ first: 1, last }, 'removed');

test('files are removed by days at the start, and in hosted mode for each deployment separately', async (t) => {
  const folder = newFolder(t);
  const { args, headerOf } = writeDeployments(t, ['old', 'young']);
  for (const [name, days] of [
    ['old', 9],
    ['young', 1],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, segmentName(1)), aged(1, 3, days * DAY_MS));
    writeFileSync(join(folder, name, segmentName(4)), aged(4, 3, days * DAY_MS));
  }
  const service = await startService(t, { data: folder, args: [...args, '--retain-days', '5'] });
  const report = (name: string) =>
    ask(service.port, post(`/${name}/report_asset_observation/a`, undefined, [headerOf(name)]));
  for (const name of ['old', 'young']) assert.equal((await report(name)).status, 200);
  const list = (name: string) =>
    readdirSync(join(folder, name))
      .filter((one) => one.startsWith('events-'))
      .sort();
  await eventually('the old files are removed, and the new event is in another one', () => {
    return list('old').join() === [removed(6), segmentName(7)].join();
  });
  await eventually('the newest file is closed', () => list('young').length === 3);
  const { stderr } = await service.kill();
  await runRows({ DATA: join(folder, 'old') }, [['verify $DATA', 0, /\n {2}removed up to seq 6, by retention\n/]]);
  assert.deepEqual(list('young'), [1, 4, 7].map(segmentName));
  assert.match(
    stderr,
    /"segment removed","deployment":"old","file":"events-0+1\.jsonl","first_seq":1,"last_seq":3,"bytes":\d+,"why":"--retain-days"/,
  );
});
