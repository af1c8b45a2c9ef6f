/** A Node for musl, the C library of Alpine, runs the tests of `program/day`, which start the built program with it. */

import { test } from 'node:test';
import { rowsOf } from '../support/rows.ts';
import { testFiles } from '../support/run-tests.ts';

const name = 'ASSETLOG_TEST_MUSL_NODE';
const node = process.env[name];

test('the tests of program/day pass with a Node for musl', {
  skip: node === undefined && `there is no ${name}`,
}, async (t) => {
  const rows = await rowsOf(t, [node ?? ''], testFiles('built', ['program/day']));
  for (const { name, check } of rows) await t.test(`${name}, with a Node for musl`, check);
});
