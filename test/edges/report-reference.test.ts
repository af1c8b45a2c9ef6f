/** `assetlog report` to the reference. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { report } from '../support/command-output.ts';
import { assertLineByLine } from '../support/line-by-line.ts';
import { startService } from '../support/program.ts';
import {
  referenceExecutable as executable,
  readEvents,
  withoutReference as skip,
  startReference,
} from '../support/reference.ts';

test('Dagster accepts reports of all three kinds, and lines', { skip }, async (t) => {
  assert.ok(executable !== undefined);
  const [reference, service] = await Promise.all([startReference(t, executable), startService(t)]);
  for (const port of [reference.port, service.port]) {
    const url = `http://127.0.0.1:${port}`;
    const more = ['--partition', 'p', '--metadata', 'n:=12345678901234567890', '--metadata', 't=1'];
    const table = [
      ['materialization', 'row001/a', ...more, '--data-version', 'v', '--description', 'd'],
      ['check', 'row002', ...more, '--check-name', 'c', '--failed', '--severity', 'WARN'],
      ['observation', '["row003", "a/b"]'],
    ];
    for (const args of table) {
      const { code, stderr } = await report(url, args);
      assert.deepEqual([code, stderr], [0, ''], args.join(' '));
    }
    const lines = '{"type":"observation","asset_key":"row004"}\n{"type":"AssetObservation","asset_key":["row005"]}\n';
    const { code, stdout, stderr } = await report(url, ['--from', '-'], { input: lines });
    assert.deepEqual([code, stdout, stderr], [0, '2 recorded, 0 refused\n', '']);
  }
  const events = await readEvents(executable, reference.home, service.data);
  const of = (wanted: string) =>
    events.filter(({ side }) => side === wanted).map(({ marker, members }) => ({ marker, members }));
  assert.equal(of('reference').length, 5);
  assert.deepEqual(of('reference'), of('assetlog'));
});

test('Dagster gets one line at a time, and no report in doubt is sent again', { skip }, async (t) => {
  assert.ok(executable !== undefined);
  const reference = await startReference(t, executable);
  await assertLineByLine(t, reference.port);
});
