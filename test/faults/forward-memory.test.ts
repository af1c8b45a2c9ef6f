/** The memory cost of forwarding: it does not grow with the number of unsent events, neither on a device nor on a hub. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBatch } from '../../src/journal/line/record.ts';
import { writeJournal } from '../bench/large-journal.ts';
import { assertAtHub, reachesHub } from '../support/forwarded.ts';
import { createMemoryGroup, withoutMemoryGroups } from '../support/machine.ts';
import { memoryMib } from '../support/memory.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { newFolder, startService } from '../support/program.ts';
import { startLoad } from './load.ts';

const MIB = 1024 * 1024;
const GROUP_MIB = 64;
/** About 110 MB in files of 23 MB. */
const EVENTS = 500_000;
const SEGMENT_EVENTS = 100_000;
const SOURCES = 200;
/** The size of all bodies together. */
const BODIES_MIB = 200;
const KEPT_MIB_MAX = 160;

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
  await reachesHub(hub, data, EVENTS);
  await load.stop();
  const others = [...load.statuses.keys()].filter((status) => status !== 200 && status !== 503);
  assert.deepEqual(others, []);
  assert.ok(load.acknowledged.size > 100, `${load.acknowledged.size} acknowledged in the meantime`);
  await reachesHub(hub, data, EVENTS + load.acknowledged.size);
  t.diagnostic(`peak ${memoryMib(device.pid)} MiB, the hub ${memoryMib(hub.pid)} MiB`);
  const { code, stderr } = await device.kill();
  assert.equal(code, 0, stderr);
  assertAtHub(hub.data, data);
});

test(`a hub keeps the positions of ${SOURCES} sources in memory, but not their ${BODIES_MIB} MiB`, {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const hub = await startService(t);
  const event: PlainEvent = {
    type: 'AssetObservation',
    assetKey: ['a'],
    metadata: JSON.stringify({ text: 'x'.repeat(60_000) }),
  };
  const { bytes } = encodeBatch(
    new Array(Math.floor((BODIES_MIB / SOURCES) * 17)).fill(encodeMembers(event)),
    { seq: 1, crc: 0 },
    new Date(),
  );
  const before = memoryMib(hub.pid, 'VmRSS');
  for (let source = 0; source < SOURCES; source += 1) {
    const path = `/forward/01a1fb95-0000-7000-8000-${String(source).padStart(12, '0')}/1`;
    const reply = await fetch(`${hub.url}${path}`, {
      method: 'PUT',
      body: bytes,
      headers: { 'Content-Type': 'application/x-ndjson' },
    });
    assert.equal(reply.status, 200, await reply.text());
  }
  const grown = memoryMib(hub.pid, 'VmRSS') - before;
  t.diagnostic(`${grown} MiB`);
  assert.ok(grown < KEPT_MIB_MAX, `it keeps ${grown} MiB`);
});
