import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Limits, limits } from '../../src/config/limits.ts';
import { Activity, showsColours } from '../../src/telemetry/activity.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { eventOf } from '../support/plain-event.ts';
import { eventually } from '../support/tools.ts';

interface Setup {
  readonly onTerminal?: boolean;
  readonly colours?: boolean;
  readonly quiet?: boolean;
  readonly level?: 'warn' | 'info';
  readonly limits?: Partial<Limits>;
}

function open({ onTerminal = false, colours = false, quiet = false, level = 'info', limits: other }: Setup = {}) {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const notices = createNotices(level, onTerminal, write);
  const terminal = onTerminal ? { write, colours } : undefined;
  return {
    lines,
    activity: new Activity({
      notices,
      terminal,
      quiet,
      refusals: { add: () => {} },
      addressOf: (peer) => peer,
      limits: { ...limits, ...other },
    }),
  };
}

const refusal = {
  id: 'f00d',
  method: 'POST',
  url: '/report_asset_check/a',
  status: 400,
  error: 'passed is s3cret',
  problem: 'passed is missing',
  peer: '192.0.2.7',
};

test('a refusal is one log line with its path, its status and its reason', () => {
  const { lines, activity } = open();
  activity.refused(refusal);
  const { time, ...line } = JSON.parse(lines[0] ?? '');
  assert.deepEqual(line, {
    level: 'info',
    message: 'refused',
    request_id: 'f00d',
    method: 'POST',
    path: '/report_asset_check/a',
    status: 400,
    problem: 'passed is missing',
    address: '192.0.2.7',
  });
  const warnings = open({ level: 'warn' });
  warnings.activity.refused(refusal);
  assert.deepEqual(warnings.lines, []);
});

test('a 403 is one line, and the first one of each kind is a warning beyond the rate limit', () => {
  const foreign = { ...refusal, status: 403, problem: 'the page is foreign' };
  const { lines, activity } = open({ limits: { refusalLinesMax: 1 } });
  for (const one of [refusal, refusal, foreign, foreign, { ...foreign, problem: 'the host is foreign' }])
    activity.refused(one);
  activity.close();
  const shown = lines.map((line) => JSON.parse(line)).map(({ level, status, count }) => [level, status ?? count]);
  assert.deepEqual(shown, [
    ['info', 400],
    ['warn', 403],
    ['warn', 403],
    ['info', 2],
  ]);
  const warnings = open({ level: 'warn' });
  for (const one of [refusal, foreign, foreign]) warnings.activity.refused(one);
  assert.equal(warnings.lines.length, 1);
  const shownToPerson = open({ onTerminal: true, level: 'warn' });
  for (const one of [refusal, foreign, foreign]) shownToPerson.activity.refused(one);
  assert.match(shownToPerson.lines.join(''), /^\S+ 403 refused POST \/report_asset_check\/a: the page is foreign\n$/);
});

test('only the path of a target is logged, cut and on one line', () => {
  const long = 'x'.repeat(limits.loggedPathCharactersMax);
  for (const [url, path] of [
    ['/a?s3cret', '/a'],
    ['/a#s3cret', '/a'],
    ['/a?x\n#s3cret\n', '/a'],
    ['http://user:s3cret@host/a?x', '/a'],
    ['HTTP://s3cret', ''],
    [`/${long}`, `/${long.slice(1)}…`],
    ['/\u001b[31m\n\u202e', '/\u001b[31m\n\u202e'],
  ] as const) {
    const { lines, activity } = open();
    activity.refused({ ...refusal, url });
    assert.doesNotMatch(lines[0]?.slice(0, -1) ?? '', /[\p{Cc}\p{Cf}]/u);
    assert.equal(JSON.parse(lines[0] ?? '').path, path);
    const shown = open({ onTerminal: true });
    shown.activity.refused({ ...refusal, url });
    assert.doesNotMatch(shown.lines[0]?.slice(0, -1) ?? '', /[\p{Cc}\p{Cf}]|s3cret/u);
  }
});

test('on a terminal a refusal is short, and coloured by its status', () => {
  const { lines, activity } = open({ onTerminal: true, colours: true });
  activity.refused(refusal);
  activity.refused({ ...refusal, status: 503 });
  activity.refused({ id: 'f00d', status: 400, error: 'malformed', problem: 'malformed' });
  const [first = '', second = '', third = ''] = lines.map((line) => line.replace(/^\d\d:\d\d:\d\d /, ''));
  assert.equal(first, '\u001b[33m400 refused\u001b[0m POST /report_asset_check/a: passed is missing\n');
  assert.ok(second.startsWith('\u001b[31m503 refused\u001b[0m '));
  assert.equal(third, '\u001b[33m400 refused\u001b[0m: malformed\n');
  const plain = open({ onTerminal: true });
  plain.activity.refused(refusal);
  assert.doesNotMatch(plain.lines[0] ?? '', /\u001b/);
  assert.deepEqual([{}, { NO_COLOR: '1' }, { NO_COLOR: '' }, { TERM: 'dumb' }].map(showsColours), [
    true,
    false,
    true,
    false,
  ]);
});

test('lines beyond the rate are counted, and the count is logged without another request', async () => {
  const { lines, activity } = open({ limits: { activityMs: 3_000 } }); // 1,000 refusals take less on a busy machine
  for (let count = 0; count < 1_000; count += 1) activity.refused(refusal);
  assert.equal(lines.length, limits.refusalLinesMax);
  await eventually('the count is logged', () => lines.length > limits.refusalLinesMax);
  const { level, message, count } = JSON.parse(lines.at(-1) ?? '');
  assert.deepEqual([level, message, count], ['info', 'further requests were refused', 1_000 - limits.refusalLinesMax]);
  activity.refused(refusal);
  assert.equal(lines.length, limits.refusalLinesMax + 2, 'the next interval has lines of its own');
  const closed = open();
  for (let count = 0; count < 12; count += 1) closed.activity.refused(refusal);
  closed.activity.close();
  assert.equal(JSON.parse(closed.lines.at(-1) ?? '').count, 2);
});

test('an event is shown only on a terminal, and not with --quiet', () => {
  const rest = { partition: undefined, metadata: '{"s3cret":1}' };
  const check = {
    ...rest,
    type: 'AssetCheckEvaluation',
    assetKey: ['warehouse', 'orders'],
    checkName: 'no_nulls',
    severity: 'WARN',
  } as const;
  const { lines, activity } = open({ onTerminal: true, colours: true });
  assert.equal(activity.showsRecorded, true);
  const texts = [
    activity.textOf(eventOf({ ...check, passed: true })),
    activity.textOf(eventOf({ ...check, passed: false, partition: '2026-11-20' })),
    activity.textOf(eventOf({ ...rest, type: 'AssetMaterialization', assetKey: ['a\u001b[31m\n'], description: 'd' })),
  ];
  for (const text of texts) activity.recorded(text);
  assert.deepEqual(
    lines.map((line) => line.replace(/^\d\d:\d\d:\d\d /, '')),
    [
      '\u001b[32mrecorded\u001b[0m AssetCheckEvaluation warehouse/orders no_nulls passed\n',
      '\u001b[32mrecorded\u001b[0m AssetCheckEvaluation warehouse/orders no_nulls failed (WARN) [2026-11-20]\n',
      '\u001b[32mrecorded\u001b[0m AssetMaterialization ["a\\u001b[31m\\n"]\n',
    ],
  );
  for (let count = 0; count < 1_000; count += 1) activity.recorded('x');
  assert.equal(lines.length, limits.recordedLinesMax);
  for (const setup of [{}, { onTerminal: true, quiet: true }, { onTerminal: true, level: 'warn' }] as const) {
    assert.equal(open(setup).activity.showsRecorded, false);
  }
});
