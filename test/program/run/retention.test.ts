/** Retention of a process: a budget in bytes, and days. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneName, segmentFirstSeq, segmentName } from '../../../src/journal/segments.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { entriesOf } from '../../support/log.ts';
import { newFolder, run, startService } from '../../support/program.ts';
import { aged } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { ask, post } from '../../support/wire.ts';

/** Retention removes segments between a listing and a look at their sizes. */
const IF_THERE = { throwIfNoEntry: false } as const;

const DAY_MS = 24 * 3_600_000;
const removed = (last: number) => goneName({ first: 1, last }, 'removed');

test('the program keeps to its budget under load, and logs removed files; verify and the next start accept the journal', async (t) => {
  const args = ['--segment-bytes', '4096', '--retain-bytes', '20000'];
  const service = await startService(t, { args });
  const body = JSON.stringify({ description: 'x'.repeat(900) });
  for (let count = 0; count < 60; count += 1)
    assert.equal((await ask(service.port, post('/report_asset_observation/a', body))).status, 200);
  const names = () => readdirSync(service.data).filter((name) => segmentFirstSeq(name) !== undefined);
  const bytesOf = (files: readonly string[]) =>
    files.reduce((sum, name) => sum + (statSync(join(service.data, name), IF_THERE)?.size ?? 0), 0);
  const total = () => bytesOf(names());
  const firstSeq = () => Math.min(...names().map((name) => segmentFirstSeq(name) ?? 0));
  const lastMarker = () =>
    readdirSync(service.data)
      .filter((name) => name.endsWith('.removed'))
      .sort()
      .at(-1);
  // Then nothing is left to remove: a stop would end that after the marker and before the files.
  const isDone = () => bytesOf(names().sort().slice(0, -1)) <= 20_000 && lastMarker() === removed(firstSeq() - 1);
  await eventually('it keeps to its budget', isDone);
  const { stderr, code } = await service.kill();
  assert.equal(code, 0, stderr);
  assert.ok(total() <= 24_096 && total() > 10_000, `${total()} bytes`);

  const removals = entriesOf(stderr, 'segment removed');
  const first = firstSeq();
  assert.equal(removals[0]?.['first_seq'], 1);
  assert.equal(removals.at(-1)?.['last_seq'], first - 1);
  assert.ok(removals.every(({ bytes, why }) => Number(bytes) > 4_000 && why === '--retain-bytes'));
  // A stop ends a removal between two steps, so the marker of the previous run might still exist.
  assert.equal(lastMarker(), removed(first - 1));
  const verdict = await run(['verify', '--data', service.data, '--json']);
  const { good, first_seq, last_seq, removed_to_seq } = JSON.parse(verdict.stdout);
  assert.deepEqual([verdict.code, good, first_seq, last_seq, removed_to_seq], [0, true, first, 60, first - 1]);
  const text = await run(['verify', '--data', service.data]);
  assert.match(text.stdout, new RegExp(`\\n {2}removed up to seq ${first - 1}, by retention\\n`));
  const again = await startService(t, { data: service.data });
  assert.equal((await ask(again.port, post('/report_asset_observation/a'))).status, 200);
  assert.equal(again.events().at(-1)?.['seq'], 61);
});

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
  assert.deepEqual(list('young'), [1, 4, 7].map(segmentName));
  assert.match(
    stderr,
    /"segment removed","deployment":"old","file":"events-0+1\.jsonl","first_seq":1,"last_seq":3,"bytes":\d+,"why":"--retain-days"/,
  );
});
