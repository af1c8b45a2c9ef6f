/** The commands that read journals, on the folder of a service in hosted mode. */

import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { jsonIn } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
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
  const lines = readFileSync(join(data, 'prod', FIRST), 'utf8');
  await runRows({ DATA: data }, [
    ['events $DATA', 0, ['prod 1', 'test 1', 'test 2', 'prod 2', 'prod 3', 'edge 1', 'edge 2', 'prod 4', 'test 3']],
    ['events $DATA --last 4', 0, ['edge 1', 'edge 2', 'prod 4', 'test 3']],
    ['events $DATA --limit 3', 0, ['prod 1', 'test 1', 'test 2']],
    ['events $DATA --failed --last 2', 0, ['test 1', 'edge 1']],
    ['events $DATA --csv --last 1', 0, /^deployment,seq,time,.*\r\ntest,3,2026-11-20T15:09:00\.000Z,/],
    [
      'events $DATA --table --last 1',
      0,
      /^seq +time \(UTC\) +event +deployment +asset key .*\n3 .* check passed +test +a +test\n$/,
    ],
    ['events $DATA/prod', 0, lines],
  ]);
  const { stdout } = await run(['events', data]);
  const ofProd = stdout.split('\n').filter((line) => line.includes('"deployment":"prod"'));
  assert.equal(`${ofProd.join('\n').replaceAll('{"deployment":"prod",', '{')}\n`, lines, 'the rest is byte for byte');
});

test('a clock that was set back does not change the order of the events of a deployment', async (t) => {
  const data = newFolder(t);
  write(data, 'prod', [1, 9, 2, 3]);
  write(data, 'test', [4, 5]);
  await runRows({ DATA: data }, [
    ['events $DATA', 0, ['prod 1', 'test 1', 'test 2', 'prod 2', 'prod 3', 'prod 4']],
    ['events $DATA --last 3', 0, ['prod 4', 'test 1', 'test 2']],
  ]);
});

test('assets are listed by key and then by deployment', async (t) => {
  await runRows({ DATA: hosted(t) }, [
    ['assets $DATA', 0, ['edge a', 'prod a', 'test a', 'edge b', 'prod b', 'test b']],
    [
      'assets $DATA --table --key b',
      0,
      /^checks +deployment +asset key .*\n1 passed +edge +b\n1 passed +prod +b\n1 passed +test +b\n$/,
    ],
    ['assets $DATA --key c', 0, '', 'assetlog: no assets match'],
  ]);
});

test('damage of one deployment is reported with its name, the others are shown, and the exit code is the worst', async (t) => {
  const data = hosted(t);
  const file = join(data, 'test', FIRST);
  writeFileSync(file, flip(readFileSync(file), 99));
  await runRows({ DATA: data }, [
    [
      'events $DATA',
      3,
      ['prod 1', 'test 2', 'prod 2', 'prod 3', 'edge 1', 'edge 2', 'prod 4', 'test 3'],
      /^assetlog: damaged: test: events-0+1\.jsonl, line 1, byte 0: .*\n$/,
    ],
    [
      'verify $DATA',
      3,
      /^\S+\/edge is good\n.*\n\S+\/prod is good\n.*\n\S+\/test is damaged\n.*\n3 deployments: 2 good; damaged or not read: test\n$/s,
    ],
  ]);
  mkdirSync(join(data, 'broken', FIRST), { recursive: true });
  await runRows({ DATA: data }, [
    [
      'verify $DATA --json',
      5,
      /^\{"deployment":"edge","good":true,.*\n\{"deployment":"prod","good":true,.*\n\{"deployment":"test","good":false,.*\n$/,
      /^assetlog: the journal in \$DATA\/broken could not be read or repaired: .*is not a regular file; move it away/,
    ],
    [
      'events $DATA',
      5,
      ['prod 1', 'test 2', 'prod 2', 'prod 3', 'edge 1', 'edge 2', 'prod 4', 'test 3'],
      /the journal in \$DATA\/broken could not be shown: .*is not a regular file; move it away/,
    ],
    [
      'repair $DATA --yes',
      2,
      '',
      /holds a journal for each deployment: broken, edge, prod, test; give one of them, such as /,
    ],
  ]);
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
