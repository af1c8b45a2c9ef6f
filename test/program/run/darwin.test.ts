/** What a Mac lacks of Linux: each process takes its system for `darwin`, and TMPDIR is as long as on a Mac. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { COMPILED } from '../../support/compiler.ts';
import { newFolder, root } from '../../support/program.ts';
import { rowsOf } from '../../support/rows.ts';

const TMPDIR_BYTES = 48;
const FILES = ['program/day/author.test.ts', 'program/day/folder.test.ts'];
const preload = pathToFileURL(join(root, COMPILED, 'test/support/as-darwin.js')).href;

test('with darwin as the platform and a long TMPDIR, tests of program/day leave no file behind', async (t) => {
  const folder = newFolder(t);
  const TMPDIR = join(folder, 'T'.repeat(TMPDIR_BYTES - folder.length - 1));
  mkdirSync(TMPDIR);
  const rows = await rowsOf(t, [process.execPath], FILES, { TMPDIR, NODE_OPTIONS: `--import=${preload}` });
  for (const { name, check } of rows) await t.test(`${name}, on darwin`, check);
  assert.deepEqual(readdirSync(TMPDIR), []);
  assert.deepEqual(
    linksIn('/tmp').filter((target) => target.startsWith(folder)),
    [],
  );
});

/** @returns the targets of links in a folder and in its folders for assetlog, which other tests can remove at the same time */
function linksIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    try {
      if (entry.isSymbolicLink()) return [readlinkSync(path)];
      return entry.isDirectory() && entry.name.startsWith('assetlog-') ? linksIn(path) : [];
    } catch {
      return [];
    }
  });
}
