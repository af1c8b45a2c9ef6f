/** Node for Windows, under Wine, runs the tests of `program/day`, which start the built program with it. */

import { spawnSync } from 'node:child_process';
import { after, test } from 'node:test';
import { rowsOf } from '../support/rows.ts';
import { testFiles } from '../support/run-tests.ts';
import { missing } from '../support/tools.ts';

const withoutWine = missing('there is no Wine', 'wine', ['--version']);
after(() => {
  if (process.env['WINEPREFIX'] !== undefined) spawnSync('wineserver', ['-k'], { stdio: 'ignore' }); // of this prefix only
});

for (const version of ['20', '22']) {
  const name = `ASSETLOG_TEST_WINDOWS_NODE_${version}`;
  const node = process.env[name];
  const skip = node === undefined ? `there is no ${name}` : withoutWine;
  test(`the tests of program/day pass on Windows, with Node ${version}`, { skip }, async (t) => {
    const rows = await rowsOf(t, ['wine', node ?? ''], testFiles('built', ['program/day']));
    for (const { name, check } of rows) await t.test(`${name}, on Windows with Node ${version}`, check);
  });
}
