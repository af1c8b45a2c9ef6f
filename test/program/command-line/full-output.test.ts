/** Standard output that cannot be written, as on a full disk. */

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newFolder, run } from '../../support/program.ts';
import { FIRST, segment } from '../../support/segments.ts';
import { each } from '../../support/tools.ts';

const FULL = '/dev/full';

test('a command whose output cannot be written ends with an exit code other than 0, and without a stack trace', {
  skip: !existsSync(FULL) && 'there is no /dev/full',
}, async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), segment(1, 3));
  const commands = [
    ['--version'],
    ['report', '--help'],
    ['events', data],
    ['events', data, '--table'],
    ['assets', data, '--csv'],
    ['verify', data],
    ['repair', data, '--json'],
    ['backup', '--data', data, '--to', join(newFolder(t), 'backup')],
    ['token'],
    ['dagster'],
    ['pytest'],
    ['python'],
    ['completion', 'bash'],
    ['forward', 'status', '--data', data],
    ['forward', 'ddl', 'clickhouse'],
  ];
  await each(commands, 4, async (args) => {
    const { code, stderr } = await run(args, { under: ['sh', '-c', `exec "$@" > ${FULL}`, 'sh'] });
    assert.equal(code, 5, `${args}: ${stderr}`);
    assert.match(stderr, /^assetlog: standard output cannot be written: ENOSPC/m);
    assert.doesNotMatch(stderr, /^ {4}at /m);
  });
});
