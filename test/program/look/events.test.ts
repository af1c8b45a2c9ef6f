/** `assetlog events` from the view of its users. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { jsonIn, runHere } from '../../support/command-output.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { journalText, launch, newFolder, run, startService } from '../../support/program.ts';
import { FIRST, flip, START, timedEvents } from '../../support/segments.ts';
import { noTerminal, onTerminal } from '../../support/terminal.ts';
import { eventually } from '../../support/tools.ts';
import { ask, post } from '../../support/wire.ts';

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

const seqsIn = (text: string): number[] => jsonIn(text).map(({ seq }) => seq);

test('a pipe gets the lines of the journal, byte for byte, and each option filters them', async (t) => {
  const data = journal(t);
  const ids = jsonIn(readFileSync(join(data, FIRST), 'utf8')).map(({ id }) => id);
  const table: readonly (readonly [words: string, number[]])[] = [
    ['', [1, 2, 3, 4, 5]],
    ['--key warehouse/orders', [1, 2, 4]],
    ['--key ["warehouse","a/b"]', [3]],
    ['--key warehouse/a/b', []],
    ['--key-prefix warehouse', [1, 2, 3, 4]],
    ['--type check', [2, 4]],
    ['--type AssetObservation', [3]],
    ['--check fresh', [4]],
    ['--passed', [4]],
    ['--failed --key warehouse/orders', [2]],
    ['--partition x', [4]],
    ['--contains NIGHTLY', [1]],
    ['--contains warehouse/orders --last 2', [2, 4]],
    ['--contains rows_123 --key warehouse/orders', [1]],
    ['--contains hi",\nthen', [5]],
    ['--contains 2026-11-20T15', []],
    ['--since 2026-11-18', [3, 4, 5]],
    ['--since 2026-11-18T15:00:00.001Z --until 2026-11-20', [4]],
    ['--since 2026-11-18T17:00+02:00 --until 2026-11-18_15:01', [3]],
    ['--since 1s', []],
    ['--since 2026-11-18_15:00:00.000999Z --until 2026-11-18t15:00:00.001001z', []],
    ['--since 2026-11-18_15:00:00Z --until 2026-11-18_15:00:00.0001+00:00', [3]],
    ['--key-begins-with warehouse/o', [1, 2, 4]],
    ['--key-begins-with ware --key-prefix warehouses', [5]],
    ['--severity WARN', [2]],
    ['--severity error --passed', [4]],
    [`--id ${ids[2]}`, [3]],
    [`--id ${ids[2]} --key warehouse/orders`, []],
    ['--until-seq 2', [1, 2]],
    ['--until-seq 4 --last 2', [3, 4]],
    ['--until-seq 4 --after-seq 2 --key warehouse/orders', [4]],
    ['--until-seq 0', []],
    ['--after-seq 3', [4, 5]],
    ['--limit 2', [1, 2]],
    ['--last 2', [4, 5]],
    ['--last 2 --key warehouse/orders --limit 1', [2]],
    ['--last 9 --after-seq 4', [5]],
    ['--type materialization --last 1', [5]],
  ];
  for (const [words, seqs] of table) {
    const args = words === '' ? [] : words.split(' ').map((word) => word.replace('_', ' '));
    const { code, stdout, stderr } = await runHere(['events', '--data', data, ...args]);
    assert.equal(code, 0, words);
    assert.equal(stderr === '', stdout !== '', stderr);
    assert.deepEqual(seqsIn(stdout), seqs, words);
    if (words === '') assert.equal(stdout, readFileSync(join(data, FIRST), 'utf8'));
  }
});

test('an invalid call is refused with 2 and a sentence with what to do', async (t) => {
  const data = journal(t);
  const folder = newFolder(t);
  const table: readonly (readonly [readonly string[], RegExp])[] = [
    [['--key', 'a//b'], /^assetlog: --key "a\/\/b" is not a key; write warehouse\/orders, or /],
    [['--key', '[1]'], /is not a key/],
    [['--contains', ''], /--contains needs a value: --contains TEXT/],
    [['--contains', 'x'.repeat(101)], /is not a text of 1 to 100 characters/],
    [['--severity', 'bad'], /--severity "bad" is not a severity; use WARN or ERROR/],
    [['--id', '3'], /--id "3" is not the id of an event, such as 01a1fb95-/],
    [['--until-seq', '-1'], /--until-seq "-1" is not a whole number from 0 to /],
    [['--key-begins-with', 'a//b'], /--key-begins-with "a\/\/b" is not the start of a key; write /],
    [['--type', 'checks'], /is not a type; use one of materialization, check, observation/],
    [['--since', '2026-02-30'], /is not a time such as 2026-11-20, /],
    [['--until', 'yesterday'], /is not a time/],
    [['--last', '0'], /is not a whole number from 1 to 1000000/],
    [['--passed', '--failed'], /use one of --passed and --failed/],
    [['--csv', '--json'], /use one of --json, --table and --csv/],
    [['--data', join(data, 'nowhere')], /there is no journal in .*nowhere: ENOENT.*; give its folder with --data/],
    [[join(data, 'nowhere')], /nowhere" and --data \S+ are not the same; give one of them/],
  ];
  for (const [args, problem] of table) {
    const { code, stdout, stderr } = await runHere([
      'events',
      ...(args[0] === '--data' ? [] : ['--data', data]),
      ...args,
    ]);
    assert.deepEqual([code, stdout], [2, ''], String(args));
    assert.match(stderr, problem);
  }
  mkdirSync(join(folder, FIRST));
  const { code, stderr } = await runHere(['events', folder]);
  assert.equal(code, 5);
  assert.match(stderr, /^assetlog: the journal in \S+ could not be shown: .*is not a regular file; move it away/);
});

test('CSV follows RFC 4180, keeps digits, and contains no formula', async (t) => {
  const { code, stdout } = await run(['events', '--csv', '--data', journal(t)]);
  assert.equal(code, 0);
  const ids = [...journalText(journal(t)).matchAll(/"id":"/g)].length;
  assert.equal(ids, 5);
  const lines = stdout.replaceAll(/,[0-9a-f-]{36}(?=,,,,,,\r\n)/g, ',ID').split('\r\n');
  assert.deepEqual(lines, [
    'seq,time,type,asset_key,partition,check_name,passed,severity,data_version,description,metadata,id,event_time,idempotency_key,source,from,recorded,by',
    '1,2026-11-16T15:00:00.000Z,AssetMaterialization,warehouse/orders,2026-11-20,,,,v1,nightly,"{""rows"":12345678901234567890,""took_s"":1.50}",ID,,,,,,',
    '2,2026-11-17T15:00:00.000Z,AssetCheckEvaluation,warehouse/orders,,no_nulls,false,WARN,,,"{""nulls"":3}",ID,,,,,,',
    '3,2026-11-18T15:00:00.000Z,AssetObservation,"[""warehouse"",""a/b""]",,,,,v2,,,ID,,,,,,',
    '4,2026-11-19T15:00:00.000Z,AssetCheckEvaluation,warehouse/orders,x,fresh,true,ERROR,,,,ID,,,,,,',
    `5,2026-11-20T15:00:00.000Z,AssetMaterialization,warehouses,'=1+1,,,,,"say ""hi"",\nthen go",,ID,,,,,,`,
    '',
  ]);
});

test('keys that look alike differ in each table and on a terminal, and find their own events as shown', async (t) => {
  const keys = [
    ['a', 'b'],
    ['a/b'],
    ['a', 'b '],
    [' a', 'b'],
    ['a', 'b\u202e'],
    ['caf\u00e9'],
    ['cafe\u0301'],
    ['\uac00'],
    ['\u1100\u1161'],
    ['["x"]'],
    ['x\u00a0'],
    ['x'],
  ];
  const data = journal(
    t,
    keys.map((assetKey) => ({ type: 'AssetObservation', assetKey })),
  );
  for (const what of ['events', 'assets']) {
    const { stdout } = await runHere([what, data, '--table']);
    const [titles = '', ...rows] = stdout.trimEnd().split('\n');
    const at = titles.indexOf('asset key');
    const shown = rows.map((row) => row.slice(at).split(/ {2,}/)[0] ?? '');
    assert.equal(new Set(shown.map((text) => text.normalize().trim())).size, keys.length, shown.join('\n'));
    for (const text of [
      '["a","b "]',
      '["cafe\\u0301"]',
      '["a","b\\u202e"]',
      'caf\u00e9',
      'a/b',
      '["a/b"]',
      '["x\u00a0"]',
      'x',
    ])
      assert.ok(shown.includes(text), `${text} in ${shown.join()}`);
    for (const text of shown)
      assert.equal(seqsIn((await runHere(['events', data, '--key', text])).stdout).length, 1, text);
  }
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

test('a table into a pipe has 120 columns, and a search without a match is reported on standard error', async (t) => {
  const data = journal(t);
  const { stdout } = await run(['events', '--table', '--data', data]);
  assert.match(stdout, /^seq .*\n1 .*version v1 {2}nightly {2}\{"rows":\S+…?\n/);
  for (const line of stdout.split('\n')) assert.ok(line.length <= 120, line);
  for (const args of [
    ['--table', '--key', 'nothing'],
    ['--last', '3', '--after-seq', '5'],
    ['--until', '2026-11-16'],
  ]) {
    const { code, stdout, stderr } = await runHere(['events', data, ...args]);
    assert.deepEqual([code, stdout, stderr], [0, '', 'assetlog: no events match\n']);
  }
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
  const empty = newFolder(t);
  writeFileSync(join(empty, FIRST), '');
  const nothing = await run(['events', empty]);
  assert.deepEqual(
    [nothing.code, nothing.stdout, nothing.stderr],
    [0, '', 'assetlog: no events: the journal is empty\n'],
  );
});

test('damage is reported once on standard error, the rest is shown, and the exit code is 3; a torn end is noted, with exit code 0', async (t) => {
  const data = journal(t);
  const file = join(data, FIRST);
  const whole = readFileSync(file);
  writeFileSync(file, flip(whole, whole.indexOf('nightly')));
  for (const args of [[], ['--last', '3'], ['--csv', '--last', '5']]) {
    const { code, stdout, stderr } = await runHere(['events', '--data', data, ...args]);
    assert.equal(code, 3, String(args));
    assert.match(
      stderr,
      /^assetlog: damaged: events-0+1\.jsonl, line 1, byte 0: its crc is \w{8}, computed \w{8}; 1 line is skipped, reading continues with seq 2\n$/,
    );
    if (args.length === 0) assert.deepEqual(seqsIn(stdout), [2, 3, 4, 5]);
  }
  const assets = await run(['assets', '--data', data]);
  assert.equal(assets.code, 3);
  assert.match(assets.stderr, /^assetlog: damaged: /);
  writeFileSync(file, whole.subarray(0, -20));
  const torn = await run(['events', '--data', data]);
  assert.deepEqual([torn.code, seqsIn(torn.stdout)], [0, [1, 2, 3, 4]]);
  assert.match(
    torn.stderr,
    /^assetlog: events-0+1\.jsonl, line 5, byte \d+: it ends without a newline; this end is skipped: /,
  );
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

test('--follow shows each event of a service once, across new files, a kill and a restart, and ends with 0 on a signal', async (t) => {
  const data = join(newFolder(t), 'later');
  const { child, stdout: shown, finished } = launch(['events', '--follow', '--data', data]);
  t.after(() => child.kill('SIGKILL'));
  let sent = 0;
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const service = await startService(t, { data, args: ['--segment-bytes', '4096'] });
    for (const last = sent + 40; sent < last; sent += 1) {
      const reply = await ask(service.port, post(`/report_asset_materialization/a?description=${'x'.repeat(100)}`));
      assert.equal(reply.status, 200);
    }
    await service.kill(signal);
  }
  await eventually('all is shown', () => seqsIn(shown().slice(0, shown().lastIndexOf('\n'))).length >= sent);
  child.kill('SIGTERM');
  const { code, stdout, stderr } = await finished;
  assert.deepEqual([code, stderr], [0, '']);
  assert.equal(stdout, journalText(data));
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
  const show = async (args: readonly string[], folder = data) => {
    const { code, stdout, stderr } = await runHere(['events', folder, '--by', 'event_time', ...args]);
    assert.deepEqual([code, stderr], [0, ''], args.join(' '));
    return stdout;
  };
  const inFiles = (deployment: string) => journalText(join(data, deployment)).trimEnd().split('\n');
  const [one, two] = [inFiles('one'), inFiles('two')];
  const named = (deployment: string, line = '') => `{"deployment":"${deployment}",${line.slice(1)}\n`;
  const expected = [
    named('two', two[2]),
    named('two', two[1]),
    named('one', one[0]),
    named('one', one[2]),
    named('two', two[0]),
    named('one', one[1]),
  ];
  assert.equal(await show([]), expected.join(''));
  const table = (await show(['--table', '--last', '2'])).trimEnd().split('\n');
  assert.deepEqual(
    table.map((line) => line.split(/ {2,}/).slice(0, 4)),
    [
      ['seq', 'event time (UTC)', 'event', 'deployment'],
      ['1', '2026-11-20 15:00:02', 'observation', 'two'],
      ['2', '2026-11-20 15:00:03', 'observation', 'one'],
    ],
  );
  const ofTwo = async (...args: string[]) => seqsIn(await show(args, join(data, 'two')));
  assert.deepEqual(await ofTwo('--last', '2'), [2, 1]);
  assert.deepEqual(await ofTwo('--limit', '2'), [3, 2]);
  assert.deepEqual(await ofTwo('--since', '2026-11-20T15:00:00', '--until', '2026-11-20T15:00:02'), [2]);
  assert.deepEqual(await ofTwo('--since', '2026-11-20 15:00:00.45z'), [2, 1]);
  assert.deepEqual(await ofTwo('--since', '2026-11-20T16:00:00.450000001+01:00'), [1]);
  assert.deepEqual(await ofTwo('--until', '0001-01-01 00:00:00.1Z'), [3]);
  assert.deepEqual(await ofTwo('--after-seq', '1'), [3, 2]);
  const none = await runHere(['events', join(data, 'two'), '--by', 'event_time', '--since', '2026-11-21']);
  assert.equal(none.stderr, 'assetlog: no events match\n');
  const both = await runHere(['events', data, '--by', 'event_time', '--follow']);
  assert.deepEqual([both.code, both.stderr.includes('leave out --by event_time')], [2, true]);
  assert.equal((await runHere(['events', data, '--by', 'id'])).code, 2);
});
