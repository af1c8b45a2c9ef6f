/**
 * A data folder, on any system: one process has it, however the one before ended, and commands read it beside a service. The tests of
 * `program/day` use nothing that a system lacks, so that the same files run on all of them, also under Wine.
 */

import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { eventsIn, newFolder, type Running, startService } from '../../support/program.ts';
import { runWithin } from '../../support/tools.ts';
import { ask, post } from '../../support/wire.ts';

/** Much longer than any command takes: a start that should be refused never ends. */
const END_MS = 60_000;
const KEYED = ['Idempotency-Key: "nightly/1"'];

/** A service that the end of its standard input stops: there is no SIGTERM on Windows. */
function serve(t: TestContext, data: string, ...args: readonly string[]): Promise<Running> {
  return startService(t, { data, args: ['--exit-with-stdin', ...args], openInput: true });
}

async function report({ port }: Running, name: string, headers: readonly string[] = []): Promise<number> {
  return (await ask(port, post(`/report_asset_observation/${name}`, undefined, headers))).status;
}

function namesIn(data: string): string[] {
  return eventsIn(data).map(({ asset_key: key }) => String(key));
}

/** @returns standard output. @throws if the command does not end with the code */
async function command(code: number, ...args: readonly string[]): Promise<string> {
  const ended = await runWithin(END_MS, args);
  assert.equal(ended.code, code, `${args.join(' ')}: ${ended.stderr}`);
  return ended.stdout;
}

async function assertRefused(data: string, pid: number): Promise<void> {
  const { code, stdout, stderr } = await runWithin(END_MS, ['serve', '--port', '0', '--data', data]);
  assert.deepEqual([code, stdout], [4, ''], stderr);
  assert.match(stderr, new RegExp(` is in use by process ${pid}; stop it, or use another --data\n$`));
}

test('a second process is refused with the pid of the first, and after a kill the next start knows the idempotency keys, also in a path of 400 characters', async (t) => {
  const data = join(newFolder(t), ...Array(4).fill('d'.repeat(100)));
  const first = await serve(t, data);
  assert.equal(await report(first, 'a', KEYED), 200);
  await assertRefused(data, first.pid);
  await first.kill('SIGKILL');
  const second = await serve(t, data);
  assert.deepEqual([await report(second, 'a', KEYED), await report(second, 'b')], [200, 200]);
  await assertRefused(data, second.pid);
  assert.deepEqual(namesIn(data), ['a', 'b']);
  const { code, stderr } = await second.endInput();
  assert.equal(code, 0, stderr);
  await command(0, 'verify', data);
});

test('events, assets, verify and backup read the folder of a running service, which starts again on its backup', async (t) => {
  const data = newFolder(t);
  const service = await serve(t, data);
  for (const name of ['a', 'b', 'a']) assert.equal(await report(service, name), 200);
  const journal = readFileSync(join(data, segmentName(1)), 'utf8');
  assert.equal(await command(0, 'events', data), journal);
  assert.match(await command(0, 'assets', data), /"a".*\n.*"b".*\n$/);
  assert.equal(JSON.parse(await command(0, 'verify', data, '--json')).last_seq, 3);
  const to = join(newFolder(t), 'backup');
  await command(4, 'repair', data, '--yes');
  await command(0, 'backup', '--data', data, '--to', to);
  assert.equal(await report(service, 'c'), 200);
  await command(0, 'backup', '--data', data, '--to', to);
  assert.equal(await report(service, 'd'), 200);
  assert.deepEqual(namesIn(to), ['a', 'b', 'a', 'c']);
  await command(0, 'verify', to);
  const restored = await serve(t, to);
  assert.equal(await report(restored, 'e'), 200);
  for (const { endInput } of [restored, service]) assert.equal((await endInput()).code, 0);
  assert.deepEqual(namesIn(to), ['a', 'b', 'a', 'c', 'e']);
});

/** Node reports Ctrl-C, Ctrl-Break and a closed window of Windows as these. */
const SIGNALS: readonly NodeJS.Signals[] =
  process.platform === 'win32' ? ['SIGINT', 'SIGBREAK', 'SIGHUP'] : ['SIGINT', 'SIGTERM'];
/** No process can send them to another one on Windows, so the process emits what it reads. */
const EMITTING = `data:text/javascript,process.stdin.once('data',(name)=>process.emit(String(name),String(name)))`;

test('each signal that a user or a system sends stops the service cleanly', async (t) => {
  for (const signal of SIGNALS) {
    const data = newFolder(t);
    const NODE_OPTIONS = `${process.env['NODE_OPTIONS'] ?? ''} --import=${EMITTING}`;
    const service = await startService(t, { data, openInput: true, env: { NODE_OPTIONS } });
    assert.equal(await report(service, 'a'), 200);
    const { code, stderr } = await service.endInput(signal);
    assert.equal(code, 0, `${signal}: ${stderr}`);
    assert.match(stderr, new RegExp(`"message":"stopping","signal":"${signal}"`));
  }
});

test('a damaged journal is refused until it is repaired', async (t) => {
  const data = newFolder(t);
  const service = await serve(t, data);
  for (const name of ['a', 'b', 'c']) assert.equal(await report(service, name), 200);
  await service.endInput();
  const copy = join(newFolder(t), 'copy');
  cpSync(data, copy, { recursive: true });
  const file = join(copy, segmentName(1));
  writeFileSync(file, readFileSync(file, 'utf8').replace('"b"', '"x"'));
  await command(3, 'serve', '--port', '0', '--data', copy);
  await command(3, 'repair', copy);
  await command(0, 'repair', copy, '--yes');
  assert.equal(await report(await serve(t, copy), 'd'), 200);
  assert.deepEqual(namesIn(copy), ['a', 'c', 'd']);
});
