/** The built file runs alone, prints the same texts as the source, and names the version of Node that it needs. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, cpSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { texts } from '../../../src/commands/all-commands.ts';
import { version } from '../../../src/config/names.ts';
import type { Fault } from '../../../src/embed.ts';
import { fault } from '../../support/faults.ts';
import { sampled } from '../../support/long.ts';
import { newFolder, root, run } from '../../support/program.ts';
import { each, HANG_MS } from '../../support/tools.ts';

const built = join(root, 'dist/server.js');
const embedded = join(root, 'dist/embed.cjs');
const withoutBuilt = !existsSync(built) && 'npm run build makes it';
const withoutEmbedded = !existsSync(embedded) && 'npm run build makes it';
const ofBuilt = { program: [process.execPath, built] };

test('the built file can be called by its path, as in a cron job', { skip: withoutBuilt }, () => {
  accessSync(built, constants.X_OK);
  assert.match(readFileSync(built, 'utf8'), /^#!\/usr\/bin\/env node\n/);
  const { status, stdout } = spawnSync(built, ['--version'], { encoding: 'utf8' });
  assert.deepEqual([status, stdout], [0, `assetlog ${version}\n`]);
});

test('the built files are in strict mode from their first statement', {
  skip: withoutBuilt || withoutEmbedded,
}, () => {
  for (const path of [built, embedded])
    assert.match(readFileSync(path, 'utf8').slice(0, 100), /^(#!.*\n)?['"]use strict['"];/, path);
});

test('a service runs in a test that fakes its timers and freezes its clock, and its events have the time of the test', {
  skip: withoutEmbedded,
  timeout: HANG_MS,
}, async (t) => {
  const { startService } = createRequire(import.meta.url)(embedded) as typeof import('../../../src/embed.ts');
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'setImmediate', 'Date'], now: 0 }); // also in node:timers
  t.mock.method(performance, 'now', () => 0);
  const service = await startService({ test: true });
  const report = () => fetch(`${service.url}/report_asset_observation/a`, { method: 'POST' });
  assert.equal((await report()).status, 200);
  assert.equal((await service.waitFor({ assetKey: 'a' })).time, '1970-01-01T00:00:00.000Z');
  await assert.rejects(service.waitFor({ assetKey: 'b' }, { timeoutMs: 20 }), /within 20 ms/);
  await service.expectNone({ assetKey: 'b' }, { timeoutMs: 20 });
  service.fail(fault({}, { delay_ms: 20 }) as Fault);
  assert.equal((await report()).status, 200);
  await service.reset();
  await service.stop();
});

test('the built file is small enough for a slow link to a device', { skip: withoutBuilt }, () => {
  const { size } = statSync(built);
  assert.ok(size < 720_000, `dist/server.js has ${size} bytes`);
});

/** The modules of Node that a start loads before its ready line. Each takes time and memory. */
const LOADED_MODULES =
  'child_process cluster crypto dgram diagnostics_channel dns dns/promises fs/promises http net os perf_hooks stream stream/promises string_decoder timers/promises tty v8 zlib';

/** Ends the process instead of its ready line, with the modules of Node that were loaded since the process started. */
const LIST_MODULES = `
const before = new Set(process.moduleLoadList);
process.stdout.write = () => {
  const loaded = process.moduleLoadList.filter((name) => !before.has(name));
  require('node:fs').writeSync(1, JSON.stringify(loaded));
  process.exit();
};`;

test('a start loads only known modules of Node, and none for fetch, web streams or workers', {
  skip: withoutBuilt,
}, (t) => {
  const folder = newFolder(t);
  const list = join(folder, 'list.cjs');
  writeFileSync(list, LIST_MODULES);
  const args = ['--require', list, built, '--port', '0', '--data', join(folder, 'data')];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const loaded: string[] = JSON.parse(stdout);
  const counted = loaded.filter((name) => /^NativeModule (?!internal|_)|internal\/(deps|webstreams|worker)/.test(name));
  assert.ok(counted.includes('NativeModule http'));
  const known = new Set(LOADED_MODULES.split(' ').map((name) => `NativeModule ${name}`));
  assert.deepEqual(
    counted.filter((name) => !known.has(name)),
    [],
  );
});

test('the built file has the commands of the source, and prints the same texts', {
  skip: withoutBuilt,
}, async () => {
  const expected = Object.entries(texts());
  assert.ok(expected.length > 12, 'each command, both scripts and the program itself');
  await each(sampled(expected), 4, async ([name, text]) => {
    const { code, stdout, stderr } = await run(name.split(' '), ofBuilt);
    assert.deepEqual([code, stderr, stdout], [0, '', `${text}\n`], name);
  });
  assert.equal((await run(['help', 'nonsense'], ofBuilt)).stdout, `${texts()['help']}\n`);
  assert.equal((await run(['report', '--help'], ofBuilt)).stdout, `${texts()['help report']}\n`);
});

/** Writes a script that makes this Node pretend to be an older one, before the file is evaluated. */
function writePretence(folder: string, node: string): string {
  const path = join(folder, `pretend-${node}.cjs`);
  const withoutBuiltin = 'process.getBuiltinModule = undefined;'; // as before 20.16
  writeFileSync(path, `Object.defineProperty(process.versions, 'node', { value: '${node}' }); ${withoutBuiltin}`);
  return path;
}

test('on an older Node the program prints in one line the version that it needs', { skip: withoutBuilt }, (t) => {
  const folder = newFolder(t);
  for (const node of ['14.21.3', '18.20.8', '20.18.3']) {
    for (const path of [built, join(root, 'bin/assetlog.js')]) {
      const args = ['--require', writePretence(folder, node), path, '--version'];
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

test('on an older Node the package throws an Error with the same line', { skip: withoutEmbedded }, (t) => {
  const script = `try { require(${JSON.stringify(embedded)}) } catch (error) { console.log(error.message) }`;
  const args = ['--require', writePretence(newFolder(t), '18.20.8'), '-e', script];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.equal(stdout, 'assetlog needs Node 20.19 or newer; this is 18.20.8\n');
});

/** Node 14 to 18 from the registry; each is about 30 MB, so only the long run fetches them. */
const olderNodes = process.env['ASSETLOG_TEST_LONG'] === '1' ? ['14.21.3', '16.20.2', '18.20.8'] : [];

for (const node of olderNodes) {
  test(`Node ${node} parses the built files up to the check of its version`, {
    skip: withoutBuilt || withoutEmbedded,
    timeout: 3 * HANG_MS,
  }, (t) => {
    const folder = newFolder(t);
    const install = ['install', '--silent', '--no-audit', '--no-fund', '--prefix', folder, `node@${node}`];
    if (spawnSync('npm', install).status !== 0) return t.skip('the registry cannot be reached');
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

test('the built file runs alone, inside any kind of package', {
  skip: withoutBuilt,
}, async (t) => {
  for (const type of [undefined, 'commonjs', 'module']) {
    const folder = newFolder(t);
    cpSync(built, join(folder, 'server.js'));
    if (type !== undefined) writeFileSync(join(folder, 'package.json'), JSON.stringify({ type }));
    const out = execFileSync(process.execPath, [join(folder, 'server.js'), '--version'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    assert.match(out, /^assetlog \d/);
  }
  const bin = execFileSync(process.execPath, [join(root, 'bin/assetlog.js'), '--version'], { encoding: 'utf8' });
  assert.match(bin, /^assetlog \d/);
});
