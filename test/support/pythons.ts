/**
 * The versions of Python that printed programs are for. ASSETLOG_TEST_PYTHONS names executables, separated by colons;
 * ASSETLOG_TEST_PYTHON_MODULES is a folder with `pytest` and `freezegun` that all of them can import.
 */

import { spawnSync } from 'node:child_process';
import { type TestContext, test } from 'node:test';

const WANTED = ['3.8', '3.9', '3.10', '3.11', '3.12', '3.13'];

/** By its version, such as `3.8`. */
const pythons = new Map<string, string>();
for (const python of [
  'python3',
  ...['3.7', ...WANTED].map((each) => `python${each}`),
  ...(process.env['ASSETLOG_TEST_PYTHONS'] ?? '').split(':').filter(Boolean),
]) {
  const { stdout } = spawnSync(python, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], {
    encoding: 'utf8',
  });
  if (stdout) pythons.set(stdout.trim(), python);
}

const modules = process.env['ASSETLOG_TEST_PYTHON_MODULES'];
export const withoutModules =
  modules === undefined &&
  'no pytest and freezegun for each Python here: name their folder in ASSETLOG_TEST_PYTHON_MODULES';

/** @returns the variables of a Python that can import the modules, and the files of `folder` */
export function withModules(folder: string): Readonly<Record<string, string>> {
  return { PYTHONPATH: `${folder}:${modules}`, PYTHONDONTWRITEBYTECODE: '1' };
}

export type Cases = Readonly<Record<string, (t: TestContext, python: string) => Promise<void>>>;

/** Adds a test of each case for each version; 3.7 stands for 3.8. */
export function testInEach(cases: Cases, skip: string | false = false): void {
  for (const wanted of WANTED) {
    const python = pythons.get(wanted) ?? (wanted === '3.8' ? pythons.get('3.7') : undefined);
    const reason = python === undefined && `there is no Python ${wanted} here; name it in ASSETLOG_TEST_PYTHONS`;
    if (reason !== false) test(`Python ${wanted}`, { skip: reason }, () => {});
    else
      for (const [name, act] of Object.entries(cases))
        test(`Python ${wanted}: ${name}`, { skip }, (t) => act(t, python!));
  }
}
