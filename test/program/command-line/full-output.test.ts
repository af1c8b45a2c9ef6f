/** Standard output that cannot be written, as on a full disk, or that is a file which has the output already. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { version } from '../../../src/config/names.ts';
import { newFolder, root, run } from '../../support/program.ts';
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
    ['events', data],
    ['assets', data, '--csv'],
    ['verify', data],
    ['repair', data, '--json'],
    ['backup', '--data', data, '--to', join(newFolder(t), 'backup')],
    ['token'],
    ['relay'],
    ['completion', 'bash'],
    ['forward', 'status', '--data', data],
  ];
  await each(commands, 4, async (args) => {
    const { code, stderr } = await run(args, { under: ['sh', '-c', `exec "$@" > ${FULL}`, 'sh'] });
    assert.equal(code, 5, `${args}: ${stderr}`);
    assert.match(stderr, /^assetlog: standard output cannot be written: ENOSPC/m);
    assert.doesNotMatch(stderr, /^ {4}at /m);
  });
});

test('a printed program has the bytes of its source, and is appended to a file once, not after another version of it', async (t) => {
  const file = join(newFolder(t), 'conftest.py');
  const print = (name: string, to: '>' | '>>') =>
    run([name], { under: ['sh', '-c', `exec "$@" ${to} '${file}'`, 'sh'] });
  for (const [name, word] of Object.entries({
    dagster: 'sensor',
    pytest: 'fixtures',
    relay: 'relay',
    python: 'client',
  })) {
    assert.equal((await print(name, '>')).code, 0);
    assert.equal(
      readFileSync(file, 'utf8'),
      readFileSync(join(root, `src/commands/printed/assetlog_${word}.py`), 'utf8'),
    );
  }
  writeFileSync(file, '# mine\n');
  assert.equal((await print('python', '>>')).code, 0);
  const once = readFileSync(file, 'utf8');
  const [, head = ''] = /^# mine\n(# .* assetlog \S+): /.exec(once) ?? [];
  const refused = `assetlog: the file has "${head}" already; remove that first, and append to the file again\n`;
  const second = await print('python', '>>');
  assert.deepEqual([second.code, second.stderr], [2, refused]);
  writeFileSync(file, once.replaceAll(version, '0.1.0'));
  assert.match((await print('python', '>>')).stderr, /assetlog 0\.1\.0" already; /);
  assert.equal(readFileSync(file, 'utf8'), once.replaceAll(version, '0.1.0'));
});
