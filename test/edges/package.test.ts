/** The package as npm packs it: its files, and its use in new projects with the common test runners. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { version } from '../../src/config/names.ts';
import { filesOfBin } from '../support/handbook.ts';
import { root } from '../support/program.ts';
import { HANG_MS, missing } from '../support/tools.ts';

/** The newest versions when this was last reviewed. */
const RUNNERS = ['jest@30', 'vitest@5', 'typescript@7', '@sinonjs/fake-timers@15'];
/** With the last compiler that still resolves modules as for CommonJS. */
const TS_JEST = ['jest@30', '@types/jest@30', 'ts-jest@29', 'typescript@5'];
/** The oldest supported version, and the newest. */
const NODES = ['20', '26'];

const folder = mkdtempSync(join(tmpdir(), 'assetlog-package-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const tarball = join(folder, `assetlog-${version}.tgz`);
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', args, { cwd, encoding: 'utf8', timeout: HANG_MS, stdio: ['ignore', 'pipe', 'pipe'] });
}

function newProject(name: string, files: Readonly<Record<string, string>> = {}): string {
  const project = join(folder, name);
  mkdirSync(project);
  write(project, { 'package.json': '{"private": true, "type": "module"}', ...files });
  return project;
}

function write(project: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(project, name)), { recursive: true });
    writeFileSync(join(project, name), text);
  }
}

interface Ended {
  readonly status: number | null;
  readonly output: string;
}

/** Runs a program to its end, without the variables of the coverage and the runner of these tests. */
function run(cwd: string, command: readonly string[]): Ended {
  const [program = '', ...args] = command;
  const own = { NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined, NODE_OPTIONS: undefined };
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd,
    encoding: 'utf8',
    timeout: HANG_MS,
    env: { ...process.env, ...own, CI: '1', NO_COLOR: '1' },
  });
  return { status, output: stdout + stderr };
}

function assertPassed(ended: Ended, summary: RegExp): void {
  assert.equal(ended.status, 0, ended.output);
  assert.match(ended.output, summary);
  assert.doesNotMatch(ended.output, /did not exit|open handle|ExperimentalWarning: CommonJS|PromiseRejection/i);
}

const withoutRegistry = missing('the registry cannot be reached, or there is no npm', 'npm', [
  ...['view', 'typescript', 'version', '--prefer-online'],
]);

test('the package contains the programs, the types, the documents and no other file', () => {
  const [packed] = JSON.parse(npm(root, 'pack', '--json', '--pack-destination', folder));
  const files: string[] = packed.files.map(({ path }: { path: string }) => path);
  assert.deepEqual(files.sort(), [
    ...['LICENSE', 'README.md'],
    ...filesOfBin,
    ...['dist/embed.cjs', 'dist/embed.d.cts', 'dist/event.schema.json', 'dist/openapi.json', 'dist/server.js'],
    ...['dist/server.js.map', 'package.json'],
  ]);
  const shown = execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' });
  const { scripts, dependencies, optionalDependencies, peerDependencies, bundleDependencies } = JSON.parse(shown);
  assert.deepEqual(
    [dependencies, optionalDependencies, peerDependencies, bundleDependencies],
    Array(4).fill(undefined),
  );
  // npm runs `prepare` in a clone of the repository only, never for a package that it unpacks.
  for (const name of ['preinstall', 'install', 'postinstall']) assert.equal(scripts[name], undefined, name);
  for (const { path, mode } of packed.files) {
    const isProgram = ['bin/assetlog.js', 'dist/server.js'].includes(path);
    assert.equal((mode & 0o111) !== 0, isProgram, `${path} has mode ${mode.toString(8)}`);
  }
  for (const { path, mode } of packed.files) assert.equal(mode & 0o022, 0, `${path} may be written by others`);
});

test('the types refer to nothing outside the package', () => {
  const types = readFileSync(join(root, manifest.exports['.'].types), 'utf8');
  assert.doesNotMatch(types, /^import|from '|import\(|NodeJS|Buffer|reference types/m);
});

test('npx runs the package, and an install needs no network, runs no script and adds no dependency', () => {
  const empty = newProject('empty');
  assert.equal(
    npm(folder, 'exec', '--yes', '--offline', '--', `./assetlog-${version}.tgz`, '--version'),
    `assetlog ${version}\n`,
  );
  npm(empty, 'install', '--offline', '--no-audit', '--no-fund', tarball);
  const installed = readdirSync(join(empty, 'node_modules'));
  assert.deepEqual(installed.sort(), ['.bin', '.package-lock.json', 'assetlog']);
  assert.equal(run(empty, ['node_modules/.bin/assetlog', '--version']).output, `assetlog ${version}\n`);
  const names = run(empty, [process.execPath, '-p', 'import("assetlog").then((it) => console.log(Object.keys(it)))']);
  assert.match(names.output, /startService/);
  for (const path of Object.keys(manifest.exports)) {
    const resolved = run(empty, [process.execPath, '-p', `require.resolve('assetlog${path.slice(1)}')`]);
    assert.equal(resolved.status, 0, resolved.output);
  }
});

test('an install from a git repository builds the package', { skip: withoutRegistry }, () => {
  // A clone with the changes that are not committed yet.
  const clone = join(folder, 'clone');
  execFileSync('git', ['clone', '--quiet', root, clone]);
  for (const path of ['package.json', 'src', 'bin']) cpSync(join(root, path), join(clone, path), { recursive: true });
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@localhost', ...args], { cwd: clone });
  git('add', '--all');
  git('commit', '--quiet', '--allow-empty', '--message', 'as it is');
  const project = newProject('from-git');
  npm(project, 'install', '--no-audit', '--no-fund', `git+file://${clone}`);
  assert.equal(run(project, ['node_modules/.bin/assetlog', '--version']).output, `assetlog ${version}\n`);
  const names = run(project, [process.execPath, '-p', 'Object.keys(require("assetlog"))']);
  assert.match(names.output, /startService/);
});

test('an install of the repository without its development tools succeeds without a build', () => {
  const bare = newProject('bare');
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(root, name), join(bare, name));
  npm(bare, 'ci', '--omit=dev', '--no-audit', '--no-fund', '--offline');
});

/** The same test for each runner: it reports, waits, reads, and leaves no resource open. */
const BODY = `
  const reply = await fetch(service.url + '/report_asset_check/warehouse/orders?check_name=fresh&passed=true', { method: 'POST' });
  if (reply.status !== 200) throw new Error(await reply.text());
  const event = await service.waitFor({ type: 'AssetCheckEvaluation', assetKey: 'warehouse/orders' });
  if (!event.passed || event.check_name !== 'fresh') throw new Error(event.line);
  if ((await service.events()).length !== 1) throw new Error('it has events of others');
  const wrong = await service.waitFor({ checkName: 'stale' }, { timeoutMs: 20 }).catch((error) => error.message);
  if (!wrong.includes('another checkName: seq 1')) throw new Error(wrong);
  await service.reset();
  const fault = service.fail({ times: 1, then: { status: 503, body: { error: 'busy' }, retry_after: 1 } });
  const busy = await fetch(service.url + '/report_asset_observation/a?metadata={"n":{"m":[1]}}', { method: 'POST' });
  if (busy.status !== 503 || (await busy.json()).error !== 'busy' || fault.met !== 1) throw new Error('it did not fail');
  await fetch(busy.url, { method: 'POST' });
  const [first] = await service.waitFor({ metadata: { n: { m: [1n] } } }, { count: 1 });
  if (first.seq !== 1 || service.refused().length !== 0) throw new Error(first.line);
`;
const WITH_AFTER = `async () => { const service = await startService({ test: true }); try { ${BODY} } finally { await service.stop(); } }`;
const WITH_USING = `async () => { await using service = await startService({ test: true }); ${BODY} }`;

/** A test that fakes all that its runner can: the service runs on, and its events have the time of the test. */
function faked(fake: string, restore: string): string {
  const body = `${BODY} if (Date.parse(first.time) > 60_000) throw new Error(first.time);`;
  return `async () => { ${fake}; try { await (${WITH_AFTER.replace(BODY, () => body)})(); } finally { ${restore}; } }`;
}

/** The first JavaScript example of the front page. */
const example = /^```js\n(.*?)^```$/ms.exec(readme)?.[1] ?? '';

const projectFiles: Readonly<Record<string, string>> = {
  'readme/orders.test.mjs': example,
  'readme/load-orders.mjs': `export async function loadOrders(url) {
    setTimeout(() => fetch(url + '/report_asset_materialization/warehouse/orders?partition=2026-11-20', { method: 'POST' }), 50);
  }`,
  'node/esm.test.mjs': `import { test } from 'node:test'; import { startService } from 'assetlog'; test('esm', ${WITH_AFTER});`,
  'node/cjs.test.cjs': `const { test } = require('node:test'); const { startService } = require('assetlog'); test('cjs', ${WITH_AFTER});`,
  'node/forgotten.test.mjs': `import { test } from 'node:test'; import { startService } from 'assetlog';
    test('forgotten', async () => { const service = await startService({ test: true }); console.log('folder ' + service.data); ${BODY} });`,
  'node/faked.test.mjs': `import { test } from 'node:test'; import FakeTimers from '@sinonjs/fake-timers'; import { startService } from 'assetlog';
    test('fake timers', ${faked("const clock = FakeTimers.install({ now: 0, toNotFake: ['nextTick', 'queueMicrotask'] })", 'clock.uninstall()')});`,
  'node/all-faked.mjs': `import FakeTimers from '@sinonjs/fake-timers'; import { startService } from 'assetlog';
    const clock = FakeTimers.install();
    try { await startService(); } finally { clock.uninstall(); }`,
  'node/late.mjs': `import FakeTimers from '@sinonjs/fake-timers';
    const clock = FakeTimers.install({ toNotFake: ['nextTick', 'queueMicrotask'] });
    try { await (await import('assetlog')).startService(); } finally { clock.uninstall(); }`,
  'jest/cjs.test.cjs': `const { startService } = require('assetlog'); test('cjs', ${WITH_AFTER});
    test('fake timers', ${faked('jest.useFakeTimers({ now: 0 })', 'jest.useRealTimers()')});`,
  'jest/esm.test.mjs': `import { startService } from 'assetlog'; test('esm', ${WITH_AFTER});`,
  'jest/jest.config.json': '{"testEnvironment": "node"}',
  'vitest/using.test.ts': `import { test, vi } from 'vitest'; import { startService } from 'assetlog'; test('using', ${WITH_USING});
    test('fake timers', ${faked('vi.useFakeTimers({ now: 0 })', 'vi.useRealTimers()')});
    test('fake clock', async () => { vi.useFakeTimers({ toFake: ['Date'] }); await (${WITH_AFTER})(); });`,
  'types/consumer.test.mts': `import { type EventFilter, type RecordedEvent, type RunningService, type StartOptions, type TestService, startService } from 'assetlog';
    const options: StartOptions = { logLevel: 'warn', onNotice: ({ message }) => { messages.push(message); } };
    const messages: string[] = [];
    await using service = await startService(options);
    const filter: EventFilter = { assetKey: ['a', 'b'], metadata: { rows: 10n, source: { columns: ['id', null] } } };
    const all: RecordedEvent[] = await service.events(filter);
    const several: Promise<RecordedEvent[]> = service.waitFor(filter, { count: 2, timeoutMs: 0 });
    several.catch(() => {});
    const hosted = await startService({ deployments: ['prod', { name: 'staging', may: ['report'] }] });
    const tokens: readonly [string, string] = [hosted.tokens.prod, hosted.tokens.staging];
    // @ts-expect-error: no such deployment
    hosted.tokens.production;
    // @ts-expect-error: only a service in test mode can be reset
    void service.reset;
    // @ts-expect-error: or fails
    void hosted.fail;
    // @ts-expect-error: or counts its faults
    void service.met;
    await using failing: TestService = await startService({ test: true });
    const fault = failing.fail({ match: { type: 'check', asset_key: ['a'] }, times: 1, then: { status: 503, delay_ms: [1, 2] } });
    const counts: readonly [number, number, string | undefined] = [fault.met, fault.matched, fault.nearest?.path];
    // @ts-expect-error: a reply is dropped as a whole, in its middle, or with the request
    try { failing.fail({ then: { drop: 'all' } }); } catch { await failing.reset(); }
    const stoppable: RunningService[] = [service, hosted, failing];
    await stoppable[1]?.stop();
    const wait = service.waitFor({ type: 'AssetCheckEvaluation', passed: true }, { timeoutMs: 0 });
    const passed: boolean = await wait.then((check) => check.passed, () => false);
    const how: 'stopped' | 'disk failed' | undefined = passed ? await service.ended : undefined;
    for (const event of all) if (event.type !== 'AssetCheckEvaluation') { const version: string | undefined = event.tags?.data_version; version; }
    // @ts-expect-error: no such type of event
    try { await service.events({ type: 'Nothing' }); } catch { await failing.reset(); }
    // @ts-expect-error: no metadata holds a Date
    await service.events({ metadata: { at: new Date() } }).catch(() => [tokens, counts]);
    // @ts-expect-error: a filter has other members than a line
    await service.events({ asset_key: 'a' }).catch(() => how);
  `,
  'types/consumer.test.cts': `import assetlog = require('assetlog');
    async function main(): Promise<void> { await using service = await assetlog.startService(); await service.events(); }
    void main();
  `,
};

test('the example of the README runs as written in a project that npm init made', () => {
  const project = newProject('beginner');
  rmSync(join(project, 'package.json'));
  npm(project, 'init', '-y');
  npm(project, 'install', '--offline', '--no-audit', '--no-fund', '--save-dev', tarball);
  write(project, {
    'orders.test.mjs': example,
    'load-orders.mjs': `export const loadOrders = (url) =>
      fetch(url + '/report_asset_materialization/warehouse/orders?partition=2026-11-20', { method: 'POST' });`,
  });
  assertPassed(run(project, [process.execPath, '--test', 'orders.test.mjs']), /pass 1\b/);
  write(project, { 'load-orders.mjs': 'export const loadOrders = async () => {};' });
  const failed = run(project, [process.execPath, '--test', 'orders.test.mjs']);
  assert.match(
    failed.output,
    /no event matched \{"assetKey":"warehouse\/orders","partition":"2026-11-20"\} within 5000 ms/,
  );
});

test('node:test, Jest, Vitest and a strict compiler work with the package, on the oldest Node and on the newest', {
  skip: withoutRegistry,
  timeout: 3 * HANG_MS,
}, async (t) => {
  const project = newProject('consumer', projectFiles);
  const quiet = ['--no-audit', '--no-fund', '--no-package-lock', '--no-save'];
  npm(project, 'install', ...quiet, tarball, ...RUNNERS);
  const nodes = NODES.map((major) => {
    const place = newProject(`node-${major}`);
    npm(place, 'install', ...quiet, `node@${major}`);
    return join(place, 'node_modules/node/bin/node');
  });
  const newest = nodes.at(-1) ?? '';
  const bin = (name: string) => join(project, 'node_modules', name);
  const jest = (name: string) => [
    bin('jest/bin/jest.js'),
    '--rootDir',
    'jest',
    '--config',
    'jest/jest.config.json',
    name,
  ];

  for (const node of nodes) {
    const name = run(project, [node, '--version']).output.trim();
    await t.test(`the example of the README, on Node ${name}`, () => {
      assertPassed(run(project, [node, '--test', 'readme/orders.test.mjs']), /pass 1\b/);
    });
    await t.test(`node:test, ES modules and CommonJS, on Node ${name}`, () => {
      assertPassed(run(project, [node, '--test', 'node/esm.test.mjs', 'node/cjs.test.cjs']), /pass 2\b/);
    });
    await t.test(`fake timers of Sinon, on Node ${name}`, () => {
      assertPassed(run(project, [node, '--test', 'node/faked.test.mjs']), /pass 1\b/);
      const refused = (file: string) => run(project, [node, file]).output;
      assert.match(refused('node/all-faked.mjs'), /process\.nextTick is faked, and without it Node sends nothing; /);
      assert.match(refused('node/late.mjs'), /timers were faked before the package assetlog was loaded; load it first/);
    });
    await t.test(`a service that is never stopped, on Node ${name}`, () => {
      const ended = run(project, [node, '--test', '--test-reporter=tap', 'node/forgotten.test.mjs']);
      assertPassed(ended, /pass 1\b/);
      const data = /folder (\S+)/.exec(ended.output)?.[1] ?? '/';
      assert.equal(existsSync(data), false, data);
    });
    await t.test(`Jest, ES modules and CommonJS, on Node ${name}`, () => {
      assertPassed(run(project, [node, ...jest('cjs')]), /Tests: +2 passed, 2 total/);
      assertPassed(run(project, [node, '--experimental-vm-modules', ...jest('esm')]), /Tests: +1 passed, 1 total/);
    });
  }

  await t.test('Vitest, with await using, with fake timers and with a fake clock', () => {
    assertPassed(run(project, [newest, bin('vitest/vitest.mjs'), 'run', '--root', 'vitest']), /Tests +3 passed/);
  });

  await t.test('ts-jest with CommonJS, whose resolution ignores exports', () => {
    const old = newProject('ts-jest', {
      'package.json': '{"private": true, "jest": {"preset": "ts-jest", "testEnvironment": "node"}}',
      'tsconfig.json':
        '{"compilerOptions": {"module": "commonjs", "moduleResolution": "node10", "strict": true, "lib": ["es2022"]}}',
      'cjs.test.ts': `import { type RunningService, startService } from 'assetlog';
        test('cjs', async () => { const service: RunningService = await startService(); await service.stop(); });`,
    });
    npm(old, 'install', ...quiet, tarball, ...TS_JEST);
    assertPassed(run(old, [newest, join(old, 'node_modules/jest/bin/jest.js')]), /Tests: +1 passed, 1 total/);
  });

  await t.test('tsc --strict, without types of Node or of a browser; its output runs on each Node', () => {
    const strict = [
      ...['--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--lib', 'es2022', '--module'],
      'nodenext',
    ];
    const files = ['types/consumer.test.mts', 'types/consumer.test.cts'];
    const compiled = run(project, [newest, bin('typescript/bin/tsc'), ...strict, '--outDir', 'compiled', ...files]);
    assert.deepEqual(compiled, { status: 0, output: '' });
    for (const node of nodes) {
      const ended = run(project, [node, '--test', 'compiled/consumer.test.mjs', 'compiled/consumer.test.cjs']);
      assertPassed(ended, /pass 2\b/);
    }
  });
});
