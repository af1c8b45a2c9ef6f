/** `assetlog asset` from the view of its users. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { jsonIn, runHere } from '../../support/command-output.ts';
import { type CommandRow, runRows } from '../../support/command-rows.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { journalText, newFolder } from '../../support/program.ts';
import { START } from '../../support/segments.ts';
import { serve } from '../../support/service.ts';

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
  const { url } = await serve(t, { data });
  const lines = journalText(data)
    .split('\n')
    .filter((line) => line.includes('"orders"'));
  const [state] = jsonIn((await runHere(['assets', data, '--key', 'warehouse/orders'])).stdout);
  const asset = `{"asset":${JSON.stringify(state)},"events":`;
  const rows: readonly CommandRow[] = [
    ['asset warehouse/orders', 0, `${asset}[${lines.join()}]}`],
    ['asset warehouse orders --json --partition p2', 0, `${asset}[${lines[2]},${lines[3]}]}`],
    ['asset warehouse/orders --partition no', 0, `${asset}[]}`],
  ];
  await runRows({ DATA: data, URL: url }, rows, { endings: ['--data $DATA', '--url $URL'] });
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
  await runRows({ DATA: data }, [
    [
      'asset warehouse/orders --data $DATA --table --partition p2',
      0,
      /^warehouse\/orders, partition p2\n(?:(?!no_nulls).)*of 2 events\n$/s,
    ],
  ]);
});

test('of many numbers 20 are shown, of many events the newest 1,000, also if they do not fit into memory at once', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`m${index + 10}`, index]));
  const large = `"${'x'.repeat(60_000)}"`;
  const events = Array.from({ length: 1_100 }, (_, index) =>
    made(index === 1_099 ? JSON.stringify(wide) : `{"rows":${index},"large":${large}}`),
  );
  const data = write(newFolder(t), events);
  await runRows({ DATA: data }, [
    [
      'asset warehouse/orders --data $DATA --table',
      0,
      /^rows .* 1098 +899 +1098\n(.*\n)*m28 .*\n(.*\n)*and 11 more numbers: m29, m30, (.*\n)*of the newest 1000 events\n$/m,
    ],
  ]);
  const whole = await runHere(['asset', 'warehouse/orders', '--data', data]);
  const [shown] = jsonIn(whole.stdout) as { events: { seq: number }[] }[];
  assert.deepEqual([shown?.events.length, shown?.events[0]?.seq, shown?.events.at(-1)?.seq], [1_000, 101, 1_100]);
});
