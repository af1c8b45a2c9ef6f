/** The files of `npm run release`: built in two clones, then checked and installed as in the handbook. */

import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { version } from '../../src/config/names.ts';
import { filesOfBin, page } from '../support/handbook.ts';
import { newFolder, root } from '../support/program.ts';
import { HANG_MS } from '../support/tools.ts';

const NAMES = ['CHANGES.md', 'Dockerfile', 'SHA256SUMS', `assetlog-${version}.tgz`, 'server.js'];

function run(cwd: string, command: string, args: readonly string[], more: NodeJS.ProcessEnv = {}) {
  const own = { NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined, NODE_OPTIONS: undefined, ...more };
  return spawnSync(command, args, { cwd, encoding: 'utf8', timeout: HANG_MS, env: { ...process.env, ...own } });
}

function outputOf({ status, stdout, stderr }: SpawnSyncReturns<string>): string {
  assert.equal(status, 0, stdout + stderr);
  return stdout;
}

const git = (cwd: string, ...args: string[]) =>
  outputOf(run(cwd, 'git', ['-c', 'user.name=test', '-c', 'user.email=test@localhost', ...args]));

/** Clones a repository into a new folder, with the packages that a release needs. */
function clone(t: TestContext, from: string, umask = '022'): string {
  const folder = join(newFolder(t), 'clone');
  outputOf(run(root, 'sh', ['-c', `umask ${umask} && git clone --quiet "$0" "$1"`, from, folder]));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Clones this repository, and commits the changes that are not committed yet, so that they are released as well. */
function cloneOfThis(t: TestContext): string {
  const folder = clone(t, root);
  for (const path of ['package.json', 'src', 'bin']) cpSync(join(root, path), join(folder, path), { recursive: true });
  git(folder, 'add', '--all');
  git(folder, 'commit', '--quiet', '--allow-empty', '--message', 'as it is');
  return folder;
}

const release = (folder: string, umask: string, env: NodeJS.ProcessEnv = {}) =>
  run(folder, 'sh', ['-c', `umask ${umask} && npm run --silent release`], env);

const bytesOf = (folder: string, name: string) => readFileSync(join(folder, 'dist/release', name));

test('two clones in two folders release the same bytes, at another time, in another zone and with another umask', (t) => {
  const first = cloneOfThis(t);
  const second = clone(t, first, '077');
  outputOf(release(first, '022', { TZ: 'UTC' }));
  mkdirSync(join(second, 'dist/release'), { recursive: true });
  appendFileSync(join(second, 'dist/release/left.over'), 'of the release before');
  appendFileSync(join(second, 'dist/left.over'), 'of an older build');
  outputOf(release(second, '077', { TZ: 'Asia/Tokyo', LC_ALL: 'tr_TR.UTF-8' }));
  for (const folder of [first, second]) assert.deepEqual(readdirSync(join(folder, 'dist/release')).sort(), NAMES);
  for (const name of NAMES) {
    assert.ok(bytesOf(first, name).equals(bytesOf(second, name)), name);
    const modes = [first, second].map((folder) => statSync(join(folder, 'dist/release', name)).mode & 0o777);
    assert.deepEqual(modes, Array(2).fill(name === 'server.js' ? 0o755 : 0o644), name);
  }
  checkDevice(t, join(first, 'dist/release'));
  checkPackage(t, first);
  checkTexts(first);
});

/** Runs the handbook's two lines for a device in a folder with only the program and the checksums. */
function checkDevice(t: TestContext, made: string): void {
  outputOf(run(made, 'sha256sum', ['-c', '--strict', 'SHA256SUMS']));
  const [device, target] = [newFolder(t), join(newFolder(t), 'server.js')];
  for (const name of ['server.js', 'SHA256SUMS']) cpSync(join(made, name), join(device, name));
  const [, lines = ''] = /^```bash\n(grep ' server.*?)^```$/ms.exec(page('install')) ?? [];
  assert.equal(lines.trimEnd().split('\n').length, 2);
  const install = () => run(device, 'bash', ['-ec', lines.replaceAll('/opt/assetlog/server.js', target)]);
  assert.equal(outputOf(install()), `server.js: OK\nassetlog ${version}\n`);
  appendFileSync(join(device, 'server.js'), ' ');
  assert.match(install().stdout, /^server\.js: FAILED/);
  assert.ok(readFileSync(target).equals(readFileSync(join(made, 'server.js'))), 'the broken program is not installed');
}

function checkPackage(t: TestContext, folder: string): void {
  const project = newFolder(t);
  const tarball = join(folder, 'dist/release', `assetlog-${version}.tgz`);
  outputOf(run(project, 'npm', ['install', '--offline', '--no-audit', '--no-fund', tarball]));
  assert.equal(outputOf(run(project, 'node_modules/.bin/assetlog', ['--version'])), `assetlog ${version}\n`);
  const installed = join(project, 'node_modules/assetlog');
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  for (const name of ['scripts', 'devDependencies', 'overrides', 'c8']) assert.equal(manifest[name], undefined, name);
  for (const name of ['main', 'types']) assert.ok(existsSync(join(installed, manifest[name])), name);
  for (const path of ['README.md', ...filesOfBin.filter((path) => path.endsWith('.md'))]) {
    const text = readFileSync(join(installed, path), 'utf8');
    const files = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, file = '']) => file);
    assert.ok(files.length > 0, path);
    for (const file of files) assert.ok(existsSync(join(installed, dirname(path), file)), `${path}: ${file}`);
  }
  assert.ok(existsSync(join(installed, 'test/page.png')));
  const packed = readFileSync(join(installed, 'dist/server.js'));
  assert.ok(packed.equals(bytesOf(folder, 'server.js')));
  assert.deepEqual([...readFileSync(tarball).subarray(4, 8)], [0, 0, 0, 0], 'gzip has no time');
  const listed = outputOf(run(project, 'tar', ['-tvzf', tarball], { TZ: 'UTC' }))
    .trim()
    .split('\n');
  assert.equal(listed.length, 10 + filesOfBin.length);
  for (const line of listed) assert.match(line, /^-rw(-r--r--|xr-xr-x) 0\/0 +\d+ 1985-10-26 /);
}

function checkTexts(folder: string): void {
  assert.ok(page('install').includes(`\`\`\`dockerfile\n${bytesOf(folder, 'Dockerfile')}\`\`\`\n`));
  const changes = bytesOf(folder, 'CHANGES.md').toString();
  assert.match(changes, RegExp(`^# Changes\\n\\n## ${version} \\(\\d{4}-\\d\\d-\\d\\d\\)\\n\\n`));
  assert.equal(changes.match(/^## /gm)?.length, 1, 'the changes of this version only');
  assert.doesNotMatch(changes, /\]\([^)#:]+[)#]/, 'no link that is broken outside the handbook');
}

test('a work tree with changes is refused in one line before anything is built', (t) => {
  const folder = cloneOfThis(t);
  appendFileSync(join(folder, 'bin/notes'), '');
  appendFileSync(join(folder, 'LICENSE'), '\n');
  const { status, stderr } = release(folder, '022');
  assert.deepEqual([status, readdirSync(folder).includes('dist')], [1, false], stderr);
  assert.match(stderr, /^assetlog release: a release is made of a commit; [^\n]+:\nM LICENSE\n\?\? bin\/notes$/m);
});
