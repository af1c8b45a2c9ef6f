/** Runs compiled test files in another Node, such as one for Windows. Each of their tests is a row. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { COMPILED } from './compiler.ts';
import { newFolder, root } from './program.ts';
import type { Row } from './rows-reporter.ts';
import { compileAll } from './run-tests.ts';
import { HANG_MS, within } from './tools.ts';

/** Paths are relative, since Wine has other ones: the folder of the project is on its drive Z. */
const compiled = (path: string) => `./${COMPILED}/test/${path.replace(/ts$/, 'js')}`;

/** Otherwise `node --test` runs nothing inside a test, and another system looks for certificates at a path of this one. */
const notInherited = { NODE_TEST_CONTEXT: undefined, NODE_EXTRA_CA_CERTS: undefined };

/**
 * @param node the command line of the other Node
 * @param files below `test/`
 * @returns a test that each row is, with its problem if it failed there
 */
export async function rowsOf(
  t: TestContext,
  node: readonly string[],
  files: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<{ readonly name: string; readonly check: () => void }[]> {
  if (!import.meta.filename.includes(COMPILED)) await compileAll(); // this file is run by hand
  const folder = newFolder(t);
  const [results, output] = [join(folder, 'rows.jsonl'), join(folder, 'output.txt')];
  const [program = '', ...args] = [
    ...node,
    '--test',
    '--test-concurrency=2',
    `--test-reporter=${compiled('support/rows-reporter.ts')}`,
    `--test-reporter-destination=${results}`,
    ...files.map(compiled),
  ];
  const file = openSync(output, 'w'); // under Wine standard output cannot be a pipe of Linux
  const child = spawn(program, args, {
    cwd: root,
    env: { ASSETLOG_TEST_BUILT: join(COMPILED, 'src/server.js'), ...process.env, ...notInherited, ...env },
    stdio: ['ignore', file, file],
  });
  closeSync(file);
  t.after(() => child.kill('SIGKILL'));
  const ended = new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  const code = await within('the end of the tests', HANG_MS, ended).catch(({ message }: Error) => message);
  const shown = readFileSync(output, 'utf8');
  const rows: Row[] = readFileSync(results, 'utf8')
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  assert.deepEqual([...new Set(rows.map((row) => row.file))].sort(), [...files].sort(), `each file has rows: ${shown}`);
  assert.equal(
    code === 0,
    rows.every(({ problem }) => problem === undefined),
    `${code}: ${shown}`,
  );
  return rows.map(({ name, problem }) => ({ name, check: () => assert.ok(problem === undefined, problem) }));
}
