/** After a crash, and after a stop under load: every acknowledged event is recorded once. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertOnce, startLoad } from '../../faults/load.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { eventsIn, newFolder, run, type Scope, startService } from '../../support/program.ts';
import { eventually } from '../../support/tools.ts';
import { ask, post } from '../../support/wire.ts';

const TARGET = '/report_asset_materialization/';

const NAMES = ['prod', 'test'];

/** Clients that report to each deployment. */
function startLoads(t: Scope, port: number, headerOf: (name: string) => string, round = 0) {
  return NAMES.map((name) => {
    const requestFor = (key: string) => post(`/${name}${TARGET}${key}`, undefined, [headerOf(name)]);
    const load = startLoad(port, { clients: 4, name: `${name}-${round}`, requestFor });
    t.after(load.stop);
    return { name, ...load };
  });
}

test('in hosted mode SIGTERM under load leaves every journal whole, with exactly the acknowledged events', async (t) => {
  const { args, headerOf } = writeDeployments(t, NAMES);
  const service = await startService(t, { args: [...args, '--segment-bytes', '20000'] });
  const loads = startLoads(t, service.port, headerOf);
  await eventually('each has several files', () => loads.every(({ acknowledged }) => acknowledged.size > 200));
  const { code, stderr } = await service.kill('SIGTERM');
  assert.equal(code, 0, stderr);
  assert.deepEqual(readdirSync(service.data).sort(), ['.hosted', ...NAMES]);
  for (const { name, acknowledged, stop } of loads) {
    await stop();
    const events = eventsIn(join(service.data, name));
    assertOnce(events, acknowledged);
    assert.equal(events.length, acknowledged.size, 'no other event is recorded');
    const [stopped, ...files] = readdirSync(join(service.data, name)).sort();
    assert.equal(stopped, '.stopped-cleanly');
    assert.ok(files.length > 2, `${files.length} files`);
    for (const file of files) assert.match(file, /^(assets\.state|events-\d{20}\.jsonl|keys-\d{20}\.idx)$/);
  }
});

test('in hosted mode no other process writes to the folder, and SIGKILL under load loses no event of any deployment', async (t) => {
  const data = newFolder(t);
  const deployments = writeDeployments(t, NAMES);
  const args = [...deployments.args, '--segment-bytes', '20000'];
  const acknowledged = new Map(NAMES.map((name): [string, string[]] => [name, []]));
  for (let round = 0; round < 2; round += 1) {
    const service = await startService(t, { data, args });
    const loads = startLoads(t, service.port, deployments.headerOf, round);
    const second = await run(['--port', '0', '--data', data, ...args]);
    assert.equal(second.code, 4, second.stderr);
    assert.match(second.stderr, /is in use by process (\d+|unknown)/);
    await eventually('reports are acknowledged', () => loads.every((load) => load.acknowledged.size > 50));
    await service.kill('SIGKILL');
    for (const load of loads) {
      await load.stop();
      acknowledged.get(load.name)?.push(...load.acknowledged);
    }
  }
  const last = await startService(t, { data, args });
  for (const [name, keys] of acknowledged) {
    const headers = [deployments.headerOf(name)]; // the first report repairs a journal
    assert.equal((await ask(last.port, post(`/${name}${TARGET}last`, undefined, headers))).status, 200);
    assertOnce(eventsIn(join(data, name)), [...keys, 'last']);
  }
});
