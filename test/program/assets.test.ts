/** `assetlog assets` as its users meet it. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Event } from '../../src/event/event.ts';
import { encodeBatch, encodeMembers } from '../../src/journal/record.ts';
import { segmentName } from '../../src/journal/segments.ts';
import { newFolder, run } from '../support/program.ts';
import { FIRST, START } from '../support/segments.ts';

const TIME = '2026-11-20T15:00:00.000Z';
const check = (assetKey: string[], checkName: string, passed: boolean): Event => ({
  type: 'AssetCheckEvaluation',
  assetKey,
  checkName,
  passed,
  severity: passed ? 'ERROR' : 'WARN',
});

/** In two files. */
function journal(t: TestContext): string {
  const data = newFolder(t);
  const first: readonly Event[] = [
    { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p1', dataVersion: 'v1' },
    check(['b'], 'x', false),
    check(['b'], 'y', false),
    { type: 'AssetObservation', assetKey: ['a', '1'], metadata: '{"asset_key":["b"]}' },
  ];
  const second: readonly Event[] = [
    { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p2' },
    check(['b'], 'x', true),
    check(['a'], 'x', false),
    check(['a'], 'x', true),
  ];
  const write = (name: string, events: readonly Event[], seq: number) =>
    writeFileSync(join(data, name), encodeBatch(events.map(encodeMembers), { ...START, seq }, new Date(TIME)).bytes);
  write(FIRST, first, 1);
  write(segmentName(5), second, 5);
  return data;
}

test('of each asset the latest event of each kind, the counts and the states of its checks are told, in the order of keys', async (t) => {
  const { code, stdout, stderr } = await run(['assets', '--data', journal(t)]);
  assert.deepEqual([code, stderr], [0, '']);
  const time = TIME;
  assert.deepEqual(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
    [
      {
        asset_key: ['a'],
        check: { count: 2, seq: 8, time },
        checks: [{ check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 8, time }],
      },
      { asset_key: ['a', '1'], observation: { count: 1, seq: 4, time }, checks: [] },
      {
        asset_key: ['b'],
        materialization: { count: 2, seq: 5, time, partition: 'p2' },
        check: { count: 3, seq: 6, time },
        checks: [
          { check_name: 'x', passed: true, severity: 'ERROR', count: 2, seq: 6, time },
          { check_name: 'y', passed: false, severity: 'WARN', count: 1, seq: 3, time },
        ],
      },
    ],
  );
});

test('assets are chosen by key and by failing checks, and shown as a table and as CSV', async (t) => {
  const data = journal(t);
  const ask = async (...args: string[]) => (await run(['assets', '--data', data, ...args])).stdout;
  const keys = (text: string) => text.split('\n').map((line) => line && JSON.parse(line).asset_key.join('/'));
  const [exact, prefix, failing, table, csv] = await Promise.all([
    ask('--key', 'a'),
    ask('--key-prefix', 'a'),
    ask('--failing'),
    ask('--table'),
    ask('--csv', '--key', 'b'),
  ]);
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
  assert.equal(header.split(',').length, 18);
  assert.equal(row, `b,2,5,${TIME},p2,,0,,,,,3,6,${TIME},,1,1,"[""y""]"`);
  assert.equal((await run(['assets', data, '--csv', '--table'])).code, 2);
  const none = await run(['assets', data, '--key-prefix', 'a', '--failing']);
  assert.deepEqual(
    [none.code, none.stdout, none.stderr],
    [0, '', 'assetlog: no assets match (3 in the journal; with a failing check: 1, keys that begin with a: 2)\n'],
  );
});
