/** Events that a service forwards to the reference, counted through its GraphQL. */

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runHere } from '../support/command-output.ts';
import { deadLettersIn, forwardStatus } from '../support/forwarded.ts';
import { startPostgres, withoutPostgres } from '../support/postgres.ts';
import { newFolder, type Running, startService } from '../support/program.ts';
import { partitionsAtReference, referenceExecutable, startReference, withoutReference } from '../support/reference.ts';
import { record } from '../support/report.ts';
import { eventually, HANG_MS, missing } from '../support/tools.ts';
import { ask, post } from '../support/wire.ts';

const report = (service: Running, key: string) => record(service, `materialization/nightly?partition=${key}`);

const ROUNDS = 3;
const withoutDagsterPostgres =
  withoutReference ||
  withoutPostgres ||
  missing('the reference has no dagster-postgres', join(dirname(String(referenceExecutable)), 'python'), [
    ...['-c', 'import dagster_postgres'],
  ]);

const storages = [
  { name: 'SQLite', skip: withoutReference, yaml: () => '' },
  {
    name: 'PostgreSQL',
    skip: withoutDagsterPostgres,
    yaml: (t: TestContext) =>
      `storage:\n  postgres:\n    postgres_url: postgresql://assetlog@/postgres?host=${startPostgres(t)}\n`,
  },
];

for (const { name, skip, yaml } of storages) {
  test(`Dagster with ${name} has each event after kills of both under load, and a possible duplicate is a dead letter`, {
    skip,
  }, async (t) => {
    const reference = await startReference(t, String(referenceExecutable), yaml(t));
    const data = newFolder(t);
    const args = ['--forward-to', `http://127.0.0.1:${reference.port}`];
    let service = await startService(t, { data, args });
    let count = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const end = count + 20; count < end; count += 1) await report(service, String(count + 1));
      await sleep(100 + 100 * round);
      if (round % 2 === 1) await reference.kill();
      await service.kill('SIGKILL');
      service = await startService(t, { data, args });
      if (round % 2 === 1) await reference.start();
    }
    const sent = async () => {
      await sleep(500);
      return (await forwardStatus(data)).lag_events === 0;
    };
    await eventually('all events are sent', sent, HANG_MS);
    const partitions = await partitionsAtReference(reference.port, ['nightly']);
    const named = new Set(deadLettersIn(data).map(({ line }) => String(line?.['partition'])));
    const expected = Array.from({ length: count }, (_, index) => String(index + 1));
    assert.deepEqual([...new Set(partitions)].sort(), expected.sort());
    const doubled = partitions.filter((partition, index) => partitions.indexOf(partition) !== index);
    t.diagnostic(`${count} events, ${doubled.length} doubled, ${named.size} dead letters`);
    assert.deepEqual(
      doubled.filter((partition) => !named.has(partition)),
      [],
    );
    assert.ok(named.size <= 2 * ROUNDS, `${named.size} in doubt after ${ROUNDS} crashes of the service`);
  });
}

test('a check that Dagster stores and answers with 500 is a dead letter, and is not sent again', {
  skip: withoutReference,
}, async (t) => {
  const reference = await startReference(t, String(referenceExecutable));
  const service = await startService(t, { args: ['--forward-to', `http://127.0.0.1:${reference.port}`] });
  const check = () => ask(service.port, post('/report_asset_check/nightly?check_name=c&passed=true&partition=p'));
  assert.equal((await check()).status, 200);
  assert.equal((await check()).status, 200);
  await report(service, 'after');
  const isThere = async () => (await partitionsAtReference(reference.port, ['nightly'])).includes('after');
  await eventually('the last event', isThere);
  const letters = deadLettersIn(service.data).map(({ outcome, status }) => [outcome, status]);
  assert.deepEqual(letters, [['in doubt', 500]]);
});

test('forward test reports that Dagster accepts reports, and leaves no event there', {
  skip: withoutReference,
}, async (t) => {
  const reference = await startReference(t, String(referenceExecutable));
  const to = `http://127.0.0.1:${reference.port}`;
  const { code, stdout } = await runHere(['forward', 'test', '--forward-to', to]);
  const says = 'it is not a hub but accepts reports, as its refusal of a report without a key shows';
  assert.deepEqual([code, stdout], [0, `upstream: works: ${to}: ${says}\n`]);
  const wrong = await runHere(['forward', 'test', '--forward-to', `${to}/prod`]);
  assert.equal(wrong.code, 1, wrong.stdout);
});
