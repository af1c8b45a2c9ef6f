/** `assetlog events` from the view of its users. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { jsonIn, runHere } from '../../support/command-output.ts';
import { type CommandRow, runRows } from '../../support/command-rows.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { journalText, newFolder, run } from '../../support/program.ts';
import { FIRST, flip, START, timedEvents } from '../../support/segments.ts';
import { serve } from '../../support/service.ts';
import { noTerminal, onTerminal } from '../../support/terminal.ts';

const KEY = ['warehouse', 'orders'];
const recorded: readonly PlainEvent[] = [
  {
    type: 'AssetMaterialization',
    assetKey: KEY,
    partition: '2026-11-20',
    dataVersion: 'v1',
    description: 'nightly',
    metadata: '{"rows":12345678901234567890,"took_s":1.50}',
  },
  {
    type: 'AssetCheckEvaluation',
    assetKey: KEY,
    checkName: 'no_nulls',
    passed: false,
    severity: 'WARN',
    metadata: '{"nulls":3}',
  },
  { type: 'AssetObservation', assetKey: ['warehouse', 'a/b'], dataVersion: 'v2' },
  { type: 'AssetCheckEvaluation', assetKey: KEY, checkName: 'fresh', passed: true, severity: 'ERROR', partition: 'x' },
  { type: 'AssetMaterialization', assetKey: ['warehouses'], description: 'say "hi",\nthen go', partition: '=1+1' },
];

/** A journal with one event a day, the last one on 2026-11-20. */
function journal(t: TestContext, events = recorded): string {
  const data = newFolder(t);
  const timeOf = (index: number) => Date.UTC(2026, 10, 20 - events.length + 1 + index, 15);
  writeFileSync(join(data, FIRST), timedEvents(events.map((event, index) => [timeOf(index), event])));
  return data;
}

/** On standard error. */
const NONE = 'assetlog: no events match';

const seqsIn = (text: string): number[] => jsonIn(text).map(({ seq }) => seq);

test('a pipe gets the lines of the journal, byte for byte, and each option filters them, alike from a service', async (t) => {
  const data = journal(t);
  const { url } = await serve(t, { data });
  const [, , third] = jsonIn(journalText(data));
  assert.equal((await run(['events', '--data', data])).stdout, journalText(data));
  const rows: readonly CommandRow[] = [
    ['events', 0, [1, 2, 3, 4, 5]],
    ['events --key warehouse/orders', 0, [1, 2, 4]],
    [`events --key '["warehouse","a/b"]'`, 0, [3]],
    ['events --key warehouse/a/b', 0, [], NONE],
    ['events --key-prefix warehouse', 0, [1, 2, 3, 4]],
    ['events --type check', 0, [2, 4]],
    ['events --type AssetObservation', 0, [3]],
    ['events --check fresh', 0, [4]],
    ['events --passed', 0, [4]],
    ['events --failed --key warehouse/orders', 0, [2]],
    ['events --partition x', 0, [4]],
    ['events --contains NIGHTLY', 0, [1]],
    ['events --contains warehouse/orders --last 2', 0, [2, 4]],
    [`events --contains 'rows 123' --key warehouse/orders`, 0, [1]],
    [`events --contains 'hi",\nthen'`, 0, [5]],
    ['events --contains 2026-11-20T15', 0, [], NONE],
    ['events --since 2026-11-18', 0, [3, 4, 5]],
    ['events --since 2026-11-18T15:00:00.001Z --until 2026-11-20', 0, [4]],
    [`events --since 2026-11-18T17:00+02:00 --until '2026-11-18 15:01'`, 0, [3]],
    ['events --since 1s', 0, [], NONE],
    [`events --since '2026-11-18 15:00:00.000999Z' --until 2026-11-18t15:00:00.001001z`, 0, [], NONE],
    [`events --since '2026-11-18 15:00:00Z' --until '2026-11-18 15:00:00.0001+00:00'`, 0, [3]],
    ['events --key-begins-with warehouse/o', 0, [1, 2, 4]],
    ['events --key-begins-with ware --key-prefix warehouses', 0, [5]],
    ['events --severity WARN', 0, [2]],
    ['events --severity error --passed', 0, [4]],
    ['events --id $THIRD', 0, [3]],
    ['events --id $THIRD --key warehouse/orders', 0, [], /^assetlog: no events match; without /],
    ['events --until-seq 2', 0, [1, 2]],
    ['events --until-seq 4 --last 2', 0, [3, 4]],
    ['events --until-seq 4 --after-seq 2 --key warehouse/orders', 0, [4]],
    ['events --until-seq 0', 0, [], NONE],
    ['events --after-seq 3', 0, [4, 5]],
    ['events --limit 2', 0, [1, 2]],
    ['events --last 2', 0, [4, 5]],
    ['events --last 2 --key warehouse/orders --limit 1', 0, [2]],
    ['events --last 9 --after-seq 4', 0, [5]],
    ['events --type materialization --last 1', 0, [5]],
    ['events --table --key nothing', 0, '', NONE],
    [`events --table --key '["warehouse","a/b"]'`, 0, / {2}\["warehouse","a\/b"\] {2}/],
    [`assets --table --key '["warehouse","a/b"]'`, 0, / {2}\["warehouse","a\/b"\] /],
    ['events --last 3 --after-seq 5', 0, '', NONE],
    ['events --until 2026-11-16', 0, '', NONE],
  ];
  await runRows({ DATA: data, URL: url, THIRD: third.id }, rows, { endings: ['--data $DATA', '--url $URL'] });
});

test('CSV follows RFC 4180, keeps digits, and contains no formula', async (t) => {
  const data = journal(t);
  const [first, second, third, fourth, fifth] = jsonIn(journalText(data)).map(({ id }) => id);
  const { stdout } = await runHere(['events', '--csv', '--data', data]);
  assert.deepEqual(stdout.split('\r\n'), [
    'seq,time,type,asset_key,partition,check_name,passed,severity,data_version,description,metadata,id,event_time,idempotency_key,source,from,recorded,by',
    `1,2026-11-16T15:00:00.000Z,AssetMaterialization,warehouse/orders,2026-11-20,,,,v1,nightly,"{""rows"":12345678901234567890,""took_s"":1.50}",${first},,,,,,`,
    `2,2026-11-17T15:00:00.000Z,AssetCheckEvaluation,warehouse/orders,,no_nulls,false,WARN,,,"{""nulls"":3}",${second},,,,,,`,
    `3,2026-11-18T15:00:00.000Z,AssetObservation,"[""warehouse"",""a/b""]",,,,,v2,,,${third},,,,,,`,
    `4,2026-11-19T15:00:00.000Z,AssetCheckEvaluation,warehouse/orders,x,fresh,true,ERROR,,,,${fourth},,,,,,`,
    `5,2026-11-20T15:00:00.000Z,AssetMaterialization,warehouses,'=1+1,,,,,"say ""hi"",\nthen go",,${fifth},,,,,,`,
    '',
  ]);
});

test('a table fits the terminal, and no text of a client controls it', { skip: noTerminal() }, async (t) => {
  const evil = '\u001b[2J\u009b31m\u202eevil\u0007\n\u2028\u007f';
  const events: readonly PlainEvent[] = [
    ...recorded,
    {
      type: 'AssetMaterialization',
      assetKey: [`ключ\u202e${'x'.repeat(300)}`],
      partition: evil,
      description: evil,
      dataVersion: evil,
      metadata: JSON.stringify({ [evil]: '\u009b\u202e' }),
    },
    { type: 'AssetCheckEvaluation', assetKey: ['a'], checkName: evil, passed: false, severity: 'WARN' },
  ];
  const data = journal(t, events);
  for (const columns of [80, 100, 120, 200]) {
    const table = await onTerminal(['events', '--data', data], columns);
    const lines = table.trimEnd().split('\n');
    assert.equal(lines.length, events.length + 1);
    assert.match(lines[0] ?? '', /^seq {2}time \(UTC\) {11}event {12}asset key +partition +what it s/);
    assert.match(lines[2] ?? '', /^2 {4}2026-11-\d\d 15:00:00 {2}FAILED \(WARN\) {4}\S*use\/orders +no_nulls/);
    assert.match(lines[4] ?? '', /^4 {4}2026-11-\d\d 15:00:00 {2}check passed {5}\S*use\/orders +x +fresh/);
    for (const line of lines) assert.ok(line.length <= columns, line);
    const detailsAt = lines[0]?.indexOf('what it s') ?? 0;
    for (const line of lines) assert.equal(line[detailsAt - 1] ?? ' ', ' ', line);
  }
  const stacked = await onTerminal(['events', '--data', data, '--last', '1'], 60);
  assert.match(
    stacked,
    /^seq {11}7\ntime \(UTC\) {4}2026-11-20 15:00:00\nevent {9}FAILED \(WARN\)\nasset key {5}a\nwhat it says {2}\\u001b/,
  );
  for (const args of [['--table'], ['--json'], ['--csv']]) {
    const shown = await onTerminal(['events', '--data', data, ...args], 500);
    assert.doesNotMatch(shown.replaceAll(/[\r\n]/g, ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u, String(args));
    assert.ok(shown.includes('\\u202e'), String(args));
  }
  const forced = await onTerminal(['events', '--json', '--data', data], 80);
  assert.equal(jsonIn(forced)[5].description, evil, 'the JSON has the same value');
  const assets = await onTerminal(['assets', '--data', data], 100);
  assert.doesNotMatch(assets.replaceAll('\n', ''), /[\p{Cc}\p{Cf}]/u);
});

test('a table into a pipe has 120 columns, and the hint at another spelling of a key is a command that works', async (t) => {
  const { stdout } = await run(['events', '--table', '--data', journal(t)]);
  assert.match(stdout, /^seq .*\n1 .*version v1 {2}nightly {2}\{"rows":\S+…?\n/);
  for (const line of stdout.split('\n')) assert.ok(line.length <= 120, line);
  const whole = journal(t, [{ type: 'AssetObservation', assetKey: ["it's/a"] }]);
  for (const args of [
    ["--key=it's/a", '--type', 'observation'],
    ['--key-prefix', "it's/a", '--limit', '1'],
    ['--key', "it's/a", '--last', '1'],
  ]) {
    const { stdout, stderr } = await runHere(['events', whole, ...args]);
    const [, command = ''] =
      /^assetlog: no events match; for the other spelling of the key run: assetlog (.*)\n$/.exec(stderr) ?? [];
    assert.equal(stdout, '', command);
    const words = execFileSync('sh', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8' });
    assert.equal(seqsIn((await runHere(words.split('\0').slice(0, -1))).stdout).length, 1, stderr);
  }
});

test('damage is reported once on standard error, the rest is shown, and the exit code is 3; a torn end is noted, with exit code 0', async (t) => {
  const data = journal(t);
  const file = join(data, FIRST);
  const whole = readFileSync(file);
  writeFileSync(file, flip(whole, whole.indexOf('nightly')));
  const damaged =
    /^assetlog: damaged: events-0+1\.jsonl, line 1, byte 0: its crc is \w{8}, computed \w{8}; 1 line is skipped, reading continues with seq 2\n$/;
  await runRows({ DATA: data }, [
    ['events --data $DATA', 3, [2, 3, 4, 5], damaged],
    ['events --data $DATA --last 3', 3, [3, 4, 5], damaged],
    ['events --data $DATA --csv --last 5', 3, /^seq,.*\r\n2,/, damaged],
    ['assets --data $DATA', 3, ['warehouse/a/b', 'warehouse/orders', 'warehouses'], /^assetlog: damaged: /],
  ]);
  writeFileSync(file, whole.subarray(0, -20));
  const torn = /^assetlog: events-0+1\.jsonl, line 5, byte \d+: it ends without a newline; this end is skipped: /;
  await runRows({ DATA: data }, [['events --data $DATA', 0, [1, 2, 3, 4], torn]]);
});

test('a thousand places of damage do not fill the screen', async (t) => {
  const data = newFolder(t);
  const members = Array.from({ length: 2_000 }, () => encodeMembers({ type: 'AssetObservation', assetKey: ['a'] }));
  const { bytes } = encodeBatch(members, START, new Date());
  const lines = bytes.toString().split('\n');
  writeFileSync(
    join(data, FIRST),
    lines.map((line, index) => (index % 2 === 0 ? line : line.replace('"a"', '"b"'))).join('\n'),
  );
  const { code, stdout, stderr } = await run(['events', '--data', data]);
  assert.deepEqual([code, seqsIn(stdout).length], [3, 1_000]);
  const reported = stderr.trimEnd().split('\n');
  assert.equal(reported.length, 21);
  assert.equal(reported.at(-1), 'assetlog: and 980 more; assetlog verify with the same --data lists them');
});

test('by event_time events are shown in the order in which they happened, also those of several deployments and in a table', async (t) => {
  const data = newFolder(t);
  const write = (deployment: string, eventTimes: readonly (string | undefined)[], time: string) => {
    const members = eventTimes.map((eventTime) =>
      encodeMembers({ type: 'AssetObservation', assetKey: ['a'], eventTime, metadata: '{"text":"ä"}' }),
    );
    mkdirSync(join(data, deployment));
    writeFileSync(join(data, deployment, FIRST), encodeBatch(members, START, new Date(time)).bytes);
  };
  write('one', ['2026-11-20T15:00:00.5Z', '2026-11-20T15:00:03Z', undefined], '2026-11-20T15:00:01Z');
  write('two', ['2026-11-20T15:00:02Z', '2026-11-20T15:00:00.45Z', '0001-01-01T00:00:00Z'], '2026-11-21T15:00:00Z');
  const { stdout } = await runHere(['events', data, '--by', 'event_time']);
  const inFiles = ['one', 'two'].map((name) =>
    journalText(join(data, name)).replaceAll('{"seq"', `{"deployment":"${name}","seq"`),
  );
  assert.deepEqual(stdout.split('\n').sort(), inFiles.join('').split('\n').sort(), 'byte for byte');
  await runRows({ DATA: data, TWO: join(data, 'two') }, [
    ['events $DATA --by event_time', 0, ['two 3', 'two 2', 'one 1', 'one 3', 'two 1', 'one 2']],
    [
      'events $DATA --by event_time --table --last 2',
      0,
      /^seq +event time \(UTC\) +event +deployment .*\n1 +2026-11-20 15:00:02 +observation +two .*\n2 +2026-11-20 15:00:03 +observation +one .*\n$/,
    ],
    ['events $TWO --by event_time --last 2', 0, [2, 1]],
    ['events $TWO --by event_time --limit 2', 0, [3, 2]],
    ['events $TWO --by event_time --since 2026-11-20T15:00:00 --until 2026-11-20T15:00:02', 0, [2]],
    [`events $TWO --by event_time --since '2026-11-20 15:00:00.45z'`, 0, [2, 1]],
    ['events $TWO --by event_time --since 2026-11-20T16:00:00.450000001+01:00', 0, [1]],
    [`events $TWO --by event_time --until '0001-01-01 00:00:00.1Z'`, 0, [3]],
    ['events $TWO --by event_time --after-seq 1', 0, [3, 2]],
    ['events $TWO --by event_time --since 2026-11-21', 0, [], NONE],
  ]);
});
