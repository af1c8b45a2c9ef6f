/** Kills and stops under load: every acknowledged event is recorded once. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertOnce, startLoad } from '../../faults/load.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { eventsIn, newFolder, run, startService } from '../../support/program.ts';
import { eventually } from '../../support/tools.ts';
import { post } from '../../support/wire.ts';

test('in hosted mode no other process writes to the folder, and SIGKILL and SIGTERM under load lose no event of any deployment', async (t) => {
  const data = newFolder(t);
  const { args: deployments, headerOf } = writeDeployments(t, ['prod', 'test']);
  const args = [...deployments, '--segment-bytes', '20000'];
  const acknowledged = { prod: new Set<string>(), test: new Set<string>() };
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const service = await startService(t, { data, args });
    const loads = (['prod', 'test'] as const).map((name) => {
      const requestFor = (key: string) =>
        post(`/${name}/report_asset_materialization/${key}`, undefined, [headerOf(name)]);
      const load = startLoad(service.port, { clients: 4, name: `${name}-${signal}`, requestFor });
      t.after(load.stop);
      return { name, ...load };
    });
    const second = await run(['--port', '0', '--data', data, ...args]);
    assert.equal(second.code, 4, second.stderr);
    assert.match(second.stderr, /is in use by process (\d+|unknown)/);
    await eventually('each has several files', () => loads.every((load) => load.acknowledged.size > 200));
    const { code, stderr } = await service.kill(signal);
    assert.equal(code, signal === 'SIGTERM' ? 0 : null, stderr);
    for (const load of loads) {
      await load.stop();
      for (const key of load.acknowledged) acknowledged[load.name].add(key);
    }
  }
  assert.deepEqual(readdirSync(data).sort(), ['.hosted', 'prod', 'test']);
  for (const [name, keys] of Object.entries(acknowledged)) {
    assertOnce(eventsIn(join(data, name)), keys);
    const names = readdirSync(join(data, name));
    assert.ok(
      names.includes('.stopped-cleanly') && names.filter((one) => one.endsWith('.jsonl')).length > 2,
      `${names}`,
    );
  }
});
