/**
 * The programs that commands print, read by the tools of their language. ASSETLOG_TEST_PYTHON_CHECKERS names the folder of `ruff`,
 * `pyright` and `mypy`.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newFolder, root } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';

const bin = process.env['ASSETLOG_TEST_PYTHON_CHECKERS'];
const skip = bin === undefined && 'no ruff, pyright and mypy here: name their folder in ASSETLOG_TEST_PYTHON_CHECKERS';
const folder = join(root, 'src/commands/printed');
const files = readdirSync(folder)
  .filter((name) => name.endsWith('.py'))
  .map((name) => join(folder, name));

function run(cwd: string, command: string, ...args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(join(bin ?? '', command), args, {
    cwd,
    encoding: 'utf8',
    timeout: HANG_MS,
  });
  assert.equal(status, 0, stdout + stderr);
}

test('ruff finds no mistake in the printed programs, for Python 3.8', { skip }, (t) => {
  const rules = ['--isolated', '--no-cache', '--target-version', 'py38', '--select', 'E4,E7,E9,F,B'];
  run(newFolder(t), 'ruff', 'check', ...rules, ...files);
});

test('pyright finds no mistake in the printed programs, for Python 3.8', { skip }, (t) => {
  const settings = { include: files, pythonVersion: '3.8', reportMissingImports: false }; // of Dagster and pytest
  const own = newFolder(t);
  writeFileSync(join(own, 'pyrightconfig.json'), JSON.stringify(settings));
  run(own, 'pyright', '--project', own);
});

test('mypy --strict finds no mistake in the printed programs, nor in a file that calls the client', { skip }, (t) => {
  const own = newFolder(t);
  const flags = ['--strict', '--python-version', '3.10', '--cache-dir', join(own, 'cache')];
  // Without Dagster its decorators have no types.
  run(own, 'mypy', ...flags, '--ignore-missing-imports', '--allow-untyped-decorators', ...files);
  run(folder, 'mypy', ...flags, join(root, 'test/edges/client-caller.py'));
});
