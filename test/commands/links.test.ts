/** Root runs commands on the folder of a compromised user, in which links replace files. */

import assert from 'node:assert/strict';
import { cpSync, lstatSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { commands } from '../../src/commands/all-commands.ts';
import { Cursor } from '../../src/forward/ledger/cursor.ts';
import { encodeDeadLetter } from '../../src/forward/ledger/letter.ts';
import { openDisk } from '../../src/journal/disk.ts';
import { goneName, isMadeAgain, isOwnName, segmentName } from '../../src/journal/segments.ts';
import { StartError } from '../../src/service.ts';
import { userFolder } from '../support/as-user.ts';
import { runHere } from '../support/command-output.ts';
import { sampled } from '../support/long.ts';
import { withoutRoot } from '../support/machine.ts';
import { newFolder, type Scope } from '../support/program.ts';
import { eventWithLaterMembers, FIRST, makeLines, START } from '../support/segments.ts';
import { serve } from '../support/service.ts';

const SOURCE = '0193e0c2-7f3a-7000-8000-000000000000';
const SECRET = 'root:$6$not-for-the-user\n';

/** One or more names of every kind of file in the folder. */
const NAMES = [
  ...[FIRST, segmentName(9), ...['.rewrite', '.torn', '.repair', '.partial'].map((end) => FIRST + end)],
  ...[goneName({ first: 1, last: 1 }, 'removed'), goneName({ first: 9, last: 9 }, 'lost')],
  ...['keys-00000000000000000001.idx', 'keys-00000000000000000001.idx.new', '.stopped-cleanly', '.made-for-tests'],
  ...['assets.state', 'assets.state.new'],
  ...['.lock-x', '.unlocked-x', '.journal-id', '.journal-id.new', '.forwarded-hub', '.forwarded-other'],
  ...['dead-hub.jsonl', 'dead-hub.jsonl.new', 'dead-other.jsonl', 'forward-hub.cursor', 'forward-other.cursor'],
  ...['state', 'retry', 'via'].flatMap((end) => [`forward-hub.${end}`, `forward-hub.${end}.new`]),
  ...['seen', 'sources'].flatMap((of) => [`forward-${of}.json`, `forward-${of}.json.new`]),
];

/** The arguments of each command with a folder; `serve` is started separately. */
const CALLS: Readonly<Record<string, readonly string[][]>> = {
  serve: [],
  events: [[]],
  asset: [['a']],
  assets: [[]],
  sources: [[], ['forget', SOURCE]],
  backup: [['--to', 'TO']],
  erase: [['--id', SOURCE]],
  verify: [[]],
  repair: [[], ['--yes']],
  forward: [
    ...[['status'], ['dead', 'hub'], ['retry', 'hub'], ['skip', 'hub', '--seq', '1'], ['skip', 'hub', '--seq', '3']],
    ...[
      ['from', 'hub', '--seq', '2'],
      ['from', 'other', '--seq', '2'],
      ['identity', '--new'],
    ],
  ],
};
/** Commands that change nothing if any file is a link. */
const REFUSING: readonly string[] = ['backup', 'verify', 'repair', 'erase'];
const REFUSED = /is a link; move the file that it names back here/;

/** Writes a journal that is forwarded, and that accepts events of other journals. */
async function writeJournal(folder: string): Promise<void> {
  const { bytes, lines } = makeLines(4, START, eventWithLaterMembers);
  writeFileSync(join(folder, FIRST), bytes);
  writeFileSync(join(folder, '.journal-id'), `${SOURCE.replace(/.$/, '1')}\n`);
  const { cursor } = await Cursor.open(openDisk(folder), 'hub');
  await cursor.save({ seq: 2, id: null, sending: undefined, kind: undefined, to: 'https://hub' });
  await cursor.close();
  const letter = {
    time: '2026-11-20T15:19:45.266Z',
    outcome: 'refused',
    reason: 'no',
    line: `${lines[0]}`.trim(),
  } as const;
  writeFileSync(join(folder, 'dead-hub.jsonl'), `${encodeDeadLetter(letter)}\n`);
}

/** Each entry with its content; links are not followed. */
function contentOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const read = (path: string) => (lstatSync(path).isFile() ? readFileSync(path, 'latin1') : 'no file');
  return Object.fromEntries(names.map((name) => [name, read(join(folder, name))]));
}

/** A start makes the file again, beside the file that the link names. */
async function startWithout(t: Scope, data: string, name: string): Promise<void> {
  const { stop, notices } = await serve(t, { data, args: ['--read'] });
  await stop();
  assert.notEqual(lstatSync(join(data, name), { throwIfNoEntry: false })?.isSymbolicLink(), true, name);
  assert.ok(
    notices.some((line) => /a link was removed/.test(line) && line.includes(name)),
    notices.join(''),
  );
}

async function startRefused(t: Scope, data: string): Promise<{ code: number; stderr: string; stdout: string }> {
  try {
    await serve(t, { data });
  } catch (error) {
    assert.ok(error instanceof StartError, String(error));
    return { code: error.exitCode, stderr: error.message, stdout: '' };
  }
  return assert.fail('it has started');
}

test('the table has each command with a folder, and each kind of file', () => {
  const withFolder = Object.entries(commands).filter(([, { options }]) => 'data' in options);
  assert.deepEqual(withFolder.map(([name]) => name).sort(), Object.keys(CALLS).sort());
  for (const name of NAMES) assert.ok(isOwnName(name), name);
});

test('a link in the place of a file is neither followed nor reported as damage, by any command', async (t) => {
  const made = newFolder(t);
  await writeJournal(made);
  const secret = join(newFolder(t), 'secret');
  writeFileSync(secret, SECRET, { mode: 0o600 });
  const { ino, mtimeMs, mode, uid } = statSync(secret);
  for (const name of sampled(NAMES)) {
    const given = newFolder(t);
    cpSync(made, given, { recursive: true });
    rmSync(join(given, name), { force: true });
    symlinkSync(secret, join(given, name));
    for (const [command, calls] of Object.entries(CALLS)) {
      for (const args of command === 'serve' ? [undefined] : calls) {
        const data = withoutRoot === false ? userFolder(t) : newFolder(t);
        const to = join(newFolder(t), 'to');
        cpSync(given, data, { recursive: true, verbatimSymlinks: true });
        const isStart = args === undefined;
        if (isStart && isMadeAgain(name)) {
          await startWithout(t, data, name);
          assert.equal(readFileSync(secret, 'latin1'), SECRET, name);
          continue;
        }
        const all = [command, ...(args ?? []).map((arg) => (arg === 'TO' ? to : arg)), '--data', data];
        const { code, stdout, stderr } = isStart ? await startRefused(t, data) : await runHere(all);
        const what = `${name}: ${all.join(' ')}: exit code ${code}, ${stderr}`;
        const isRefused = isStart || REFUSING.includes(command);
        assert.ok(isRefused ? code === 5 : code !== 3, what);
        if (code === 5 && !all.includes('status')) assert.match(stderr, REFUSED, what); // `status` has no line for it
        if (isRefused) assert.deepEqual(contentOf(data), contentOf(given), what);
        const after = statSync(secret);
        assert.deepEqual([after.ino, after.mtimeMs, after.mode, after.uid], [ino, mtimeMs, mode, uid], what);
        assert.equal(readFileSync(secret, 'latin1'), SECRET, what);
        const found = [...Object.values(contentOf(join(to, '..'))), ...Object.values(contentOf(data)), stdout, stderr];
        for (const text of found) assert.doesNotMatch(text, /not-for-the-user/, what);
      }
    }
  }
});
