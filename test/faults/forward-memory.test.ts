/** What a backlog may cost a device: its memory does not grow with what is still to be sent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { writeJournal } from '../bench/growth.ts';
import { assertAtHub, reachesHub } from '../support/forwarded.ts';
import { memoryMib } from '../support/memory.ts';
import { newFolder, startService } from '../support/program.ts';
import { createMemoryGroup, withoutMemoryGroups } from '../support/tools.ts';
import { startLoad } from './load.ts';

const MIB = 1024 * 1024;
const GROUP_MIB = 64;
/** About 110 MB in files of 23 MB. */
const EVENTS = 500_000;
const SEGMENT_EVENTS = 100_000;
const PATIENCE_MS = 150_000;

test(`in a cgroup of ${GROUP_MIB} MiB a device forwards ${EVENTS} events while clients report to it`, {
  skip: withoutMemoryGroups,
}, async (t) => {
  const hub = await startService(t);
  const data = newFolder(t);
  writeJournal(data, EVENTS, SEGMENT_EVENTS);
  const group = createMemoryGroup(GROUP_MIB * MIB);
  const { under } = group;
  const args = ['--forward-to', hub.url, '--max-connections', '100'];
  const device = await startService(t, { data, args, under }).finally(() => t.after(() => group.remove()));
  const load = startLoad(device.port, { clients: 16, name: 'live', bodyBytes: 2_000, restMs: 20 });
  t.after(load.stop);
  await reachesHub(hub, data, EVENTS, PATIENCE_MS);
  await load.stop();
  const others = [...load.statuses.keys()].filter((status) => status !== 200 && status !== 503);
  assert.deepEqual(others, []);
  assert.ok(load.acknowledged.size > 100, `${load.acknowledged.size} acknowledged meanwhile`);
  await reachesHub(hub, data, EVENTS + load.acknowledged.size, PATIENCE_MS);
  t.diagnostic(`peak ${memoryMib(device.pid)} MiB, the hub ${memoryMib(hub.pid)} MiB`);
  const { code, stderr } = await device.kill();
  assert.equal(code, 0, stderr);
  assertAtHub(hub.data, data);
});
