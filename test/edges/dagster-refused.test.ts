/** Events that Dagster refuses to store, with PostgreSQL, and the sensor that `assetlog dagster` prints. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { alarmsOf, Evaluator, seqsOf, Ticks, versions } from '../support/dagster.ts';
import { startPostgres, withoutPostgres } from '../support/postgres.ts';
import { newFolder, startService } from '../support/program.ts';
import { record, report } from '../support/report.ts';
import { missing } from '../support/tools.ts';

const [{ python = '', skip = false } = {}] = versions;
const reason = 'the reference has no dagster-postgres';

test('events that Dagster with PostgreSQL refuses are skipped, each with an alarm, and the others are stored', {
  skip: skip || withoutPostgres || missing(reason, python, ['-c', 'import dagster_postgres']),
}, async (t) => {
  const home = newFolder(t);
  const url = `postgresql://assetlog@/postgres?host=${startPostgres(t)}`;
  const yaml = `telemetry:\n  enabled: false\nstorage:\n  postgres:\n    postgres_url: ${url}\n`;
  writeFileSync(join(home, 'dagster.yaml'), yaml);
  const service = await startService(t);
  await report(service, ['a', `${'k'.repeat(3_000)}`]);
  await record(service, 'observation/a', { body: { partition: 'a\u0000b' } });
  await record(service, 'materialization/a', { body: { data_version: randomBytes(30_000).toString('base64') } });
  for (const _ of [1, 2]) await record(service, 'check/a?check_name=c&passed=true&partition=p');
  await report(service, ['z']);
  const ticks = new Ticks(new Evaluator(t, python, newFolder(t), home), service.url);
  const failed = await ticks.tick();
  assert.deepEqual(seqsOf(failed.stored), [1]);
  assert.match(failed.error ?? '', /value too long/);
  const { stored, message } = await ticks.tick();
  assert.deepEqual([seqsOf(stored), message], [[1, 5, 6, 7], '7 events, up to seq 7']);
  const refused = alarmsOf(stored).map(
    (problem) => /^event (\d+) is skipped, since Dagster refuses it/.exec(`${problem}`)?.[1],
  );
  assert.deepEqual(refused, ['2', '3', '4']);
  assert.equal((await ticks.tick()).message, '0 events, up to seq 7');
});
