/** The version that the program says, and the oldest Node that it says it needs. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { commands, texts } from '../../src/commands/all-commands.ts';
import { newFolder, root, run } from '../support/program.ts';

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const built = join(root, 'dist/server.js');
const embedded = join(root, 'dist/embed.cjs');
const withoutBuilt = !existsSync(built) && 'npm run build makes it';
const withoutEmbedded = !existsSync(embedded) && 'npm run build makes it';

test('each way of asking for the version and for the help has its answer', async () => {
  for (const word of ['--version', '-v', '-V', 'version']) {
    assert.deepEqual(await run([word]), { code: 0, signal: null, stdout: `assetlog ${version}\n`, stderr: '' });
  }
  for (const word of ['--help', '-h', 'help']) {
    const { code, stdout } = await run([word]);
    assert.equal(code, 0, word);
    assert.match(stdout, /^Usage: assetlog \[command\] \[options\]\n/, word);
  }
  assert.match((await run(['help', 'verify'])).stdout, /^Usage: assetlog verify /);
});

test('the built file can be called by its path, as a cron job does', { skip: withoutBuilt }, () => {
  accessSync(built, constants.X_OK);
  assert.match(readFileSync(built, 'utf8'), /^#!\/usr\/bin\/env node\n/);
  const { status, stdout } = spawnSync(built, ['--version'], { encoding: 'utf8' });
  assert.deepEqual([status, stdout], [0, `assetlog ${version}\n`]);
});

test('the built file is small enough for a slow link to a device', { skip: withoutBuilt }, () => {
  const { size } = statSync(built);
  assert.ok(size < 520_000, `dist/server.js has ${size} bytes`);
});

test('the built file has the same commands and help as the source', { skip: withoutBuilt }, () => {
  const { stdout } = spawnSync(process.execPath, [built, 'help'], { encoding: 'utf8' });
  assert.equal(stdout, `${texts()['help']}\n`);
  for (const name of Object.keys(commands)) {
    const { status, stderr } = spawnSync(process.execPath, [built, name, '--unheard-of'], { encoding: 'utf8' });
    assert.deepEqual([status, stderr.split(';')[0]?.trim()], [2, 'assetlog: unknown option --unheard-of'], name);
  }
});

/** Makes this Node say that it is an older one, before the file is evaluated. */
function pretending(folder: string, node: string): string {
  const path = join(folder, `pretend-${node}.cjs`);
  const lacking = 'process.getBuiltinModule = undefined;'; // as before 20.16
  writeFileSync(path, `Object.defineProperty(process.versions, 'node', { value: '${node}' }); ${lacking}`);
  return path;
}

test('on an older Node the program says in one line which one it needs', { skip: withoutBuilt }, (t) => {
  const folder = newFolder(t);
  for (const node of ['14.21.3', '18.20.8', '20.18.3']) {
    for (const path of [built, join(root, 'bin/assetlog.js')]) {
      const args = ['--require', pretending(folder, node), path, '--version'];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
      assert.deepEqual([status, stdout, stderr], [2, '', `assetlog needs Node 20.19 or newer; this is ${node}\n`]);
    }
  }
  for (const node of ['20.19.0', '22.0.0', '100.1.0']) {
    const path = join(folder, `newer-${node}.cjs`);
    writeFileSync(path, `Object.defineProperty(process.versions, 'node', { value: '${node}' });`);
    assert.equal(spawnSync(process.execPath, ['--require', path, built, '--version']).status, 0, node);
  }
});

test('on an older Node the package throws an Error with that line', { skip: withoutEmbedded }, (t) => {
  const script = `try { require(${JSON.stringify(embedded)}) } catch (error) { console.log(error.message) }`;
  const args = ['--require', pretending(newFolder(t), '18.20.8'), '-e', script];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.equal(stdout, 'assetlog needs Node 20.19 or newer; this is 18.20.8\n');
});

/** Node 14 to 18 as the registry has them; each is about 30 MB, so they are fetched in the long run only. */
const olderNodes = process.env['ASSETLOG_TEST_LONG'] === '1' ? ['14.21.3', '16.20.2', '18.20.8'] : [];

for (const node of olderNodes) {
  test(`Node ${node} parses the built files up to that line`, {
    skip: withoutBuilt || withoutEmbedded,
    timeout: 110_000,
  }, (t) => {
    const folder = newFolder(t);
    const install = ['install', '--silent', '--no-audit', '--no-fund', '--prefix', folder, `node@${node}`];
    if (spawnSync('npm', install).status !== 0) return t.skip('the registry can not be reached');
    const old = join(folder, 'node_modules/node/bin/node');
    const problem = `assetlog needs Node 20.19 or newer; this is ${node}`;
    for (const path of [built, join(root, 'bin/assetlog.js')]) {
      const { status, stderr } = spawnSync(old, [path], { encoding: 'utf8' });
      assert.deepEqual([status, stderr], [2, `${problem}\n`]);
    }
    const { stderr } = spawnSync(old, [embedded], { encoding: 'utf8' });
    assert.match(stderr, new RegExp(`^Error: ${problem}$`, 'm'));
  });
}
