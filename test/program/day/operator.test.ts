/** The day of an operator, on any system: batches, retention, deployments, and a hub. */

import assert from 'node:assert/strict';
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { segmentName } from '../../../src/journal/segments.ts';
import { eventsIn, freePort, newFolder, type Running, run, startService } from '../../support/program.ts';
import { eventually, runWithin } from '../../support/tools.ts';
import { ask, post } from '../../support/wire.ts';

function serve(t: TestContext, args: readonly string[], data = newFolder(t)): Promise<Running> {
  return startService(t, { data, args: ['--exit-with-stdin', ...args], openInput: true });
}

async function report({ port }: Running, name: string, body?: string): Promise<number> {
  return (await ask(port, post(`/report_asset_observation/${name}`, body))).status;
}

test('report sends a file in batches, and a rerun records no line twice', async (t) => {
  const service = await serve(t, []);
  const file = join(newFolder(t), 'lines.jsonl');
  const lines = Array.from({ length: 1_200 }, (_, at) => `{"type": "observation", "asset_key": ["a", "${at}"]}\n`);
  writeFileSync(file, lines.join(''));
  for (let count = 0; count < 2; count += 1) {
    const { code, stderr } = await run(['report', '--from', file, '--run-id', 'nightly', '--url', service.url]);
    assert.equal(code, 0, stderr);
  }
  assert.deepEqual(
    service.events().map(({ asset_key: key }) => (key as string[])[1]),
    lines.map((_, at) => `${at}`),
  );
  assert.equal((await service.endInput()).code, 0);
});

test('retention removes a segment that a reader has open, and the reader keeps its lines', async (t) => {
  const service = await serve(t, ['--segment-bytes', '4096', '--retain-bytes', '20000']);
  const body = JSON.stringify({ description: 'x'.repeat(900) });
  const reportOne = async () => assert.equal(await report(service, 'a', body), 200, service.stderr());
  await reportOne();
  const reader = openSync(join(service.data, segmentName(1)), 'r');
  for (let count = 0; count < 40; count += 1) await reportOne();
  await eventually('the oldest segment is removed', () => !readdirSync(service.data).includes(segmentName(1)));
  assert.match(readFileSync(reader, 'utf8'), /^\{"seq":1,.*\n/);
  closeSync(reader);
  await reportOne();
  const { code, stderr } = await service.endInput();
  assert.equal(code, 0, stderr);
  const verified = await run(['verify', service.data, '--json']);
  assert.deepEqual([verified.code, JSON.parse(verified.stdout).last_seq], [0, 42], verified.stderr);
  const again = await serve(t, [], service.data);
  assert.equal(await report(again, 'a'), 200);
});

/** A deployments file with one token for all, which `assetlog token` made. */
class DeploymentsFile {
  readonly path: string;
  readonly #token: string;
  readonly #entry: unknown;

  private constructor(path: string, token: string, entry: string) {
    this.path = path;
    this.#token = token;
    this.#entry = JSON.parse(entry);
  }

  static async create(t: TestContext, names: readonly string[]): Promise<DeploymentsFile> {
    const [token = '', entry = ''] = (await run(['token', '--name', 'ci'])).stdout.split('\n');
    const file = new DeploymentsFile(join(newFolder(t), 'deployments.json'), token, entry);
    file.write(names);
    return file;
  }

  write(names: readonly string[]): void {
    writeFileSync(this.path, JSON.stringify({ deployments: names.map((name) => ({ name, tokens: [this.#entry] })) }));
  }

  async report({ port }: Running, name: string): Promise<number> {
    const headers = [`Service-Cloud-Api-Token: ${this.#token}`];
    return (await ask(port, post(`/${name}/report_asset_observation/a`, undefined, headers))).status;
  }
}

/** Names that the files of a system cannot have, or not beside each other. */
const refusedNames: Partial<Record<NodeJS.Platform, readonly (readonly string[])[]>> = {
  win32: [['prod', 'Prod'], ['CON'], ['nul'], ['Aux'], ['PRN'], ['COM1'], ['lpt9']],
  darwin: [['prod', 'Prod']],
};

test('names of deployments are refused if the system has no such folders, at the start and in a changed file', async (t) => {
  const file = await DeploymentsFile.create(t, ['prod', 'CONSOLE', 'com10']);
  const service = await serve(t, ['--deployments', file.path]);
  const refused = refusedNames[process.platform] ?? [];
  for (const names of refused) {
    file.write(names);
    const start = ['serve', '--port', '0', '--data', newFolder(t), '--deployments', file.path];
    const { code, stdout, stderr } = await runWithin(60_000, start);
    assert.deepEqual([code, stdout], [2, ''], `${names}: ${stderr}`);
    assert.ok(stderr.includes(` ${names.at(-1)}`), stderr);
  }
  const all = ['prod', 'CONSOLE', 'com10', 'Prod', 'CON', 'nul', 'COM1'];
  const served = refused.length > 0 ? all.slice(0, 3) : all;
  if (refused.length > 0) await eventually('the file is refused', () => service.stderr().includes('file is refused'));
  file.write(served);
  await eventually('the names are served', async () => (await file.report(service, served.at(-1) ?? '')) === 200);
  for (const name of served) assert.equal(await file.report(service, name), 200, name);
  assert.equal((await service.endInput()).code, 0);
  for (const name of served) assert.equal(eventsIn(join(service.data, name)).length, name === served.at(-1) ? 2 : 1);
});

test('a device forwards to a hub, again after kills of both, and commands reach them over their locks', async (t) => {
  const port = String(await freePort(t));
  const folder = newFolder(t);
  let hub = await serve(t, ['--port', port], folder);
  const args = ['--forward-to', hub.url];
  let device = await serve(t, args);
  const reported: string[] = [];
  const reportTen = async () => {
    for (let count = 0; count < 10; count += 1) {
      const name = `a${reported.length}`;
      assert.equal(await report(device, name), 200);
      reported.push(name);
    }
  };
  const isAtHub = () => eventually('all events are at the hub', () => eventsIn(folder).length >= reported.length);
  await reportTen();
  await isAtHub();
  await hub.kill('SIGKILL');
  await reportTen();
  await device.kill('SIGKILL');
  hub = await serve(t, ['--port', port], folder);
  device = await serve(t, args, device.data);
  await reportTen();
  await isAtHub();
  assert.deepEqual(
    eventsIn(folder).map(({ asset_key: key }) => String(key)),
    reported,
  );
  const told = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await runWithin(60_000, args);
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  const status = JSON.parse(await told('forward', 'status', '--json', '--data', device.data)).destinations[0];
  assert.deepEqual([status.state, status.seq, status.dead_letters], ['idle', 30, 0]);
  assert.equal(await told('forward', 'retry', '--data', device.data), '0 of 0 were accepted\n');
  assert.equal(await told('assets', 'forget', 'a0', '--data', hub.data), '1 asset is forgotten; its events are kept\n');
  assert.doesNotMatch(await told('assets', '--data', hub.data), /"a0"/);
  const { id } = JSON.parse(await told('sources', '--json', '--data', hub.data));
  assert.equal(await told('sources', 'forget', id, '--data', hub.data), `${id} is forgotten; its events are kept\n`);
  assert.equal(await told('sources', '--data', hub.data), '');
  const nothing = await runWithin(60_000, ['forward', 'skip', '--seq', '1', '--data', device.data]);
  assert.equal(nothing.code, 4, nothing.stderr);
  assert.deepEqual(
    readdirSync(hub.data).filter((name) => name.startsWith('.ask-')),
    [],
  );
  for (const { endInput } of [device, hub]) assert.equal((await endInput()).code, 0);
});
