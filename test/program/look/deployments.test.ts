/** The commands that read journals, on the folder of a service in hosted mode. */

import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { jsonIn, runHere } from '../../support/command-output.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { launch, newFolder, run } from '../../support/program.ts';
import { FIRST, flip, splitLines, timedEvents } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';

const T0 = Date.UTC(2026, 10, 20, 15);

/** @returns a line for each of these minutes, with the assets `a` and `b` in turn */
function linesAt(deployment: string, minutes: readonly number[]): Buffer[] {
  const eventOf = (index: number): PlainEvent => ({
    type: 'AssetCheckEvaluation',
    assetKey: [index % 2 === 0 ? 'a' : 'b'],
    checkName: deployment,
    passed: index > 0,
    severity: 'WARN',
  });
  return splitLines(timedEvents(minutes.map((minute, index) => [T0 + minute * 60_000, eventOf(index)])));
}

function write(data: string, deployment: string, minutes: readonly number[]): void {
  mkdirSync(join(data, deployment));
  writeFileSync(join(data, deployment, FIRST), Buffer.concat(linesAt(deployment, minutes)));
}

function hosted(t: TestContext): string {
  const data = newFolder(t);
  write(data, 'prod', [1, 4, 5, 8]);
  write(data, 'test', [2, 3, 9]);
  write(data, 'edge', [6, 7]);
  mkdirSync(join(data, 'empty'));
  mkdirSync(join(data, 'damaged-20261120T150000Z'));
  writeFileSync(join(data, 'damaged-20261120T150000Z', FIRST), 'what?\n');
  return data;
}

const shownIn = (text: string): string[] =>
  jsonIn(text).map(({ deployment, seq, asset_key }) => `${deployment} ${seq ?? asset_key}`);

test('events of all deployments are merged by time, and each JSON line starts with its deployment', async (t) => {
  const data = hosted(t);
  const inOrder = 'prod 1,test 1,test 2,prod 2,prod 3,edge 1,edge 2,prod 4,test 3'.split(',');
  const [all, last, limited, passed, csv, table, one] = await Promise.all([
    run(['events', data]),
    runHere(['events', data, '--last', '4']),
    runHere(['events', data, '--limit', '3']),
    runHere(['events', data, '--failed', '--last', '2']),
    runHere(['events', data, '--csv', '--last', '1']),
    runHere(['events', data, '--table', '--last', '1']),
    runHere(['events', join(data, 'prod')]),
  ]);
  for (const { code, stderr } of [all, last, limited, passed, csv, table, one])
    assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(shownIn(all.stdout), inOrder);
  assert.deepEqual(shownIn(last.stdout), inOrder.slice(-4));
  assert.deepEqual(shownIn(limited.stdout), inOrder.slice(0, 3));
  assert.deepEqual(shownIn(passed.stdout), ['test 1', 'edge 1']);
  assert.match(csv.stdout, /^deployment,seq,time,.*\r\ntest,3,2026-11-20T15:09:00\.000Z,/);
  assert.match(
    table.stdout,
    /^seq +time \(UTC\) +event +deployment +asset key .*\n3 .* check passed +test +a +test\n$/,
  );
  const lines = readFileSync(join(data, 'prod', FIRST), 'utf8');
  assert.equal(one.stdout, lines);
  const ofProd = all.stdout.split('\n').filter((line) => line.includes('"deployment":"prod"'));
  assert.equal(`${ofProd.join('\n').replaceAll('{"deployment":"prod",', '{')}\n`, lines, 'the rest is byte for byte');
});

test('a clock that was set back does not change the order of the events of a deployment', async (t) => {
  const data = newFolder(t);
  write(data, 'prod', [1, 9, 2, 3]);
  write(data, 'test', [4, 5]);
  const [all, last] = await Promise.all([runHere(['events', data]), runHere(['events', data, '--last', '3'])]);
  assert.deepEqual(shownIn(all.stdout), ['prod 1', 'test 1', 'test 2', 'prod 2', 'prod 3', 'prod 4']);
  assert.deepEqual(shownIn(last.stdout).sort(), ['prod 4', 'test 1', 'test 2']);
});

test('assets are listed by key and then by deployment', async (t) => {
  const data = hosted(t);
  const { code, stdout, stderr } = await run(['assets', data]);
  assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(shownIn(stdout), ['edge a', 'prod a', 'test a', 'edge b', 'prod b', 'test b']);
  const table = await runHere(['assets', data, '--table', '--key', 'b']);
  assert.match(
    table.stdout,
    /^checks +deployment +asset key .*\n1 passed +edge +b\n1 passed +prod +b\n1 passed +test +b\n$/,
  );
  const none = await runHere(['assets', data, '--key', 'c']);
  assert.equal(none.stderr, 'assetlog: no assets match\n');
});

test('damage of one deployment is reported with its name, the others are shown, and the exit code is the worst', async (t) => {
  const data = hosted(t);
  const file = join(data, 'test', FIRST);
  writeFileSync(file, flip(readFileSync(file), 99));
  const shown = await run(['events', data]);
  assert.equal(shown.code, 3);
  assert.match(shown.stderr, /^assetlog: damaged: test: events-0+1\.jsonl, line 1, byte 0: .*\n$/);
  assert.equal(shownIn(shown.stdout).length, 8);
  const verified = await run(['verify', data]);
  assert.equal(verified.code, 3);
  assert.match(verified.stdout, /^\S+\/edge is good\n.*\n\S+\/prod is good\n.*\n\S+\/test is damaged\n/s);
  assert.match(verified.stdout, /\n3 deployments: 2 good; damaged or not read: test\n$/);
  mkdirSync(join(data, 'broken', FIRST), { recursive: true });
  const json = await run(['verify', data, '--json']);
  assert.equal(json.code, 5);
  assert.match(
    json.stderr,
    /^assetlog: the journal in \S+\/broken could not be read or repaired: .*is not a regular file; move it away/,
  );
  const verdicts = json.stdout.trimEnd().split('\n');
  assert.deepEqual(
    verdicts.map((line) => [JSON.parse(line).deployment, JSON.parse(line).good]),
    [
      ['edge', true],
      ['prod', true],
      ['test', false],
    ],
  );
  const unread = await run(['events', data]);
  assert.equal(unread.code, 5);
  assert.match(unread.stderr, /the journal in \S+\/broken could not be shown: .*is not a regular file; move it away/);
  assert.equal(shownIn(unread.stdout).length, 8);
  const repair = await run(['repair', data, '--yes']);
  assert.deepEqual([repair.code, repair.stdout], [2, '']);
  assert.match(
    repair.stderr,
    /holds a journal for each deployment: broken, edge, prod, test; give one of them, such as /,
  );
});

test('--follow shows the events of all deployments, also of a deployment that appears later', async (t) => {
  const data = newFolder(t);
  const { child, stdout, finished } = launch(['events', '--follow', data]);
  t.after(() => child.kill('SIGKILL'));
  const until = (count: number) => eventually(`${count} are shown`, () => stdout().split('\n').length > count);
  const [first, second, third] = linesAt('prod', [1, 4, 5]);
  mkdirSync(join(data, 'prod'));
  appendFileSync(join(data, 'prod', FIRST), Buffer.concat([first!, second!]));
  await until(2);
  write(data, 'test', [2]);
  await until(3);
  appendFileSync(join(data, 'prod', FIRST), third!);
  await until(4);
  child.kill('SIGTERM');
  const { code, stderr } = await finished;
  assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(shownIn(stdout()), ['prod 1', 'prod 2', 'test 1', 'prod 3']);
});
