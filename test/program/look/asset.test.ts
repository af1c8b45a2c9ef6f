/** `assetlog asset` from the view of its users. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { jsonIn, runHere } from '../../support/command-output.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { journalText, newFolder, startService } from '../../support/program.ts';
import { START } from '../../support/segments.ts';

const TIME = '2026-11-20T15:00:00.000Z';
const orders = ['warehouse', 'orders'];
const made = (metadata: string, partition?: string): PlainEvent => ({
  ...{ type: 'AssetMaterialization', assetKey: orders, metadata, partition },
});
const checked = (checkName: string, passed: boolean, severity: 'WARN' | 'ERROR' = 'ERROR'): PlainEvent => ({
  ...{ type: 'AssetCheckEvaluation', assetKey: orders, checkName, passed, severity },
});

function write(folder: string, events: readonly PlainEvent[]): string {
  mkdirSync(folder, { recursive: true });
  const { bytes } = encodeBatch(events.map(encodeMembers), { ...START, seq: 1 }, new Date(TIME));
  writeFileSync(join(folder, segmentName(1)), bytes);
  return folder;
}

const journal = (t: TestContext) =>
  write(newFolder(t), [
    made('{"rows":9007199254740993,"took":{"type":"float","raw_value":1.50},"note":"x"}', 'p1'),
    checked('no_nulls', true),
    { type: 'AssetObservation', assetKey: ['warehouse'] },
    made('{"rows":9007199254740992,"\\u001b[31mred":1}', 'p2'),
    made('{"rows":"none"}', 'p2'),
    made('{"rows":18014398509481984}'),
    checked('no_nulls', false, 'WARN'),
    checked('no_nulls', false),
    checked('fresh', true),
  ]);

test('the JSON has the asset and its lines byte for byte, alike from a folder and from a service', async (t) => {
  const data = journal(t);
  const lines = journalText(data)
    .split('\n')
    .filter((line) => line.includes('"orders"'));
  const [folder] = [await runHere(['asset', 'warehouse/orders', '--data', data])];
  assert.deepEqual([folder.code, folder.stderr], [0, '']);
  assert.ok(folder.stdout.endsWith(`,"events":[${lines.join()}]}\n`));
  const [state] = jsonIn((await runHere(['assets', '--data', data, '--key', 'warehouse/orders'])).stdout);
  const [shown] = jsonIn(folder.stdout) as { asset: unknown }[];
  assert.deepEqual(shown?.asset, state);
  const part = await runHere(['asset', 'warehouse', 'orders', '--data', data, '--json', '--partition', 'p2']);
  assert.ok(part.stdout.endsWith(`,"events":[${lines[2]},${lines[3]}]}\n`));
  const none = await runHere(['asset', 'warehouse/orders', '--data', data, '--partition', 'no']);
  assert.ok(none.stdout.endsWith(',"events":[]}\n'));
  const service = await startService(t, { data });
  for (const more of [[], ['--partition', 'p2'], ['--partition', 'no']]) {
    const own = await runHere(['asset', 'warehouse/orders', '--data', data, ...more]);
    assert.deepEqual(await runHere(['asset', 'warehouse/orders', '--url', service.url, ...more]), own);
  }
});

test('the text shows the state, strips of the checks, the days and each number, with exact digits', async (t) => {
  const data = journal(t);
  const { code, stdout, stderr } = await runHere(['asset', 'warehouse/orders', '--data', data, '--table']);
  assert.deepEqual([code, stderr], [0, '']);
  const rows = stdout.split('\n').map((row) =>
    row
      .trimEnd()
      .replace(/ {2,}/g, '  ')
      .replace(/\d+ \w+ ago/, 'AGE'),
  );
  assert.deepEqual(rows.slice(0, 9), [
    'warehouse/orders',
    'last  time (UTC)  age  seq  count  partition  version',
    'materialization  2026-11-20 15:00:00  AGE  6  4',
    'check  2026-11-20 15:00:00  AGE  9  4',
    '',
    'Checks: · passed, ! warning, █ failed',
    'check  state  newest results  in a row  since',
    'fresh  passed  ·  1  2026-11-20 15:00:00 UTC',
    'no_nulls  FAILED (ERROR)  ·!█  2  2026-11-20 15:00:00 UTC',
  ]);
  assert.match(rows[10] ?? '', /^Materializations by day: \d from /);
  assert.equal(Array.from(rows[11] ?? '').length, 35);
  assert.deepEqual(rows.slice(13), [
    'Numbers',
    'number  newest values  last  lowest  highest',
    'rows  ▁▁ █  18014398509481984  9007199254740992  18014398509481984',
    '\\u001b[31mred  ▅  1  1  1',
    'took  ▅  1.50  1.50  1.50',
    '',
    'of 8 events',
    '',
  ]);
  const part = await runHere(['asset', 'warehouse/orders', '--data', data, '--table', '--partition', 'p2']);
  assert.match(part.stdout, /^warehouse\/orders, partition p2\n/);
  assert.doesNotMatch(part.stdout, /no_nulls/);
  assert.match(part.stdout, /of 2 events\n$/);
});

test('of many numbers 20 are shown, of many events the newest 1,000, also if they do not fit into memory at once', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`m${index + 10}`, index]));
  const large = `"${'x'.repeat(60_000)}"`;
  const events = Array.from({ length: 1_100 }, (_, index) =>
    made(index === 1_099 ? JSON.stringify(wide) : `{"rows":${index},"large":${large}}`),
  );
  const data = write(newFolder(t), events);
  const { stdout } = await runHere(['asset', 'warehouse/orders', '--data', data, '--table']);
  assert.match(stdout, /^rows .* 1098 +899 +1098$/m);
  assert.match(stdout, /^m28 /m);
  assert.match(stdout, /^and 11 more numbers: m29, m30, /m);
  assert.match(stdout, /of the newest 1000 events\n$/);
  const whole = await runHere(['asset', 'warehouse/orders', '--data', data]);
  const [shown] = jsonIn(whole.stdout) as { events: { seq: number }[] }[];
  assert.deepEqual([shown?.events.length, shown?.events[0]?.seq, shown?.events.at(-1)?.seq], [1_000, 101, 1_100]);
});

test('a key without an asset, no key, and several deployments are refused with what to do', async (t) => {
  const data = journal(t);
  const refused = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await runHere(['asset', ...args]);
    assert.equal(stdout, '');
    return [code, stderr.replaceAll(data, 'DATA')];
  };
  assert.deepEqual(await refused('ware', '--data', data), [
    1,
    'assetlog: no asset has the key ware; assetlog assets lists all\n',
  ]);
  assert.deepEqual(await refused('["warehouse/orders"]', '--data', data), [
    1,
    'assetlog: no asset has the key ["warehouse/orders"]; run: assetlog asset warehouse/orders\n',
  ]);
  assert.deepEqual(await refused('--data', data), [
    2,
    'assetlog: give the KEY of an asset, such as warehouse/orders; assetlog assets lists all\n',
  ]);
  const [code, problem] = await refused('a//b', '--data', data);
  assert.deepEqual([code, /^assetlog: "a\/\/b" is not a key; write /.test(`${problem}`)], [2, true]);
  assert.deepEqual(await refused('a', '--data', data, '--json', '--table'), [
    2,
    'assetlog: use one of --json, --table and --csv\n',
  ]);
  const hosted = newFolder(t);
  write(join(hosted, 'prod'), [made('{"rows":1}')]);
  write(join(hosted, 'test'), [made('{"rows":2}')]);
  const [several, which] = await refused('warehouse/orders', '--data', hosted);
  assert.deepEqual([several, /give one of them, such as --data /.test(`${which}`)], [2, true]);
  const one = await runHere(['asset', 'warehouse/orders', '--data', join(hosted, 'test'), '--table']);
  assert.match(one.stdout, /^rows .* 2 +2 +2$/m);
});
