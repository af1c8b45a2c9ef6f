/**
 * A service that records keyed reports over rotations, with sidecars, a stop and a start, on a disk that loses its power or fails
 * at the first call, then at the second … After each of them all reports are sent again: each key must be there once.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import type { Event } from '../../../src/event/event.ts';
import { KeyMemory } from '../../../src/journal/keys/memory.ts';
import { segmentFirstSeq, sidecarFirstSeq } from '../../../src/journal/segments.ts';
import { openJournal, type TestJournal } from '../../support/journal.ts';
import { eachCall, remainsOf } from '../../support/power.ts';
import { splitLines } from '../../support/segments.ts';
import { SimulatedDisk } from '../../support/simulated-disk.ts';
import { readSidecar, verify } from '../../support/standard-limits.ts';

const limits = { ...standardLimits, probeMs: 200 };
const SEGMENT_BYTES = 900;
const KEYS = Array.from({ length: 14 }, (_, index) => `k${index}`);

function eventOf(key: string): Event {
  return { type: 'AssetObservation', assetKey: [key], idempotencyKey: key, description: 'x'.repeat(40) };
}

function open(disk: SimulatedDisk): Promise<TestJournal> {
  return openJournal(disk, { segmentBytes: SEGMENT_BYTES, limits, keyMemory: new KeyMemory(1_000) });
}

/** Sends each report up to twice, some of them together, over a stop and a start. @param acknowledged gets the keys of the reports that got a 200 */
async function play(disk: SimulatedDisk, acknowledged: Set<string>): Promise<void> {
  async function session(batches: readonly (readonly string[])[]): Promise<void> {
    const { journal, append } = await open(disk);
    for (const keys of batches) {
      const result = await append(...keys.map(eventOf));
      if (result.kind === 'recorded') for (const key of keys) acknowledged.add(key);
    }
    await journal.close();
  }
  await session([['k0'], ['k1', 'k2'], ['k3'], ['k0'], ['k4'], ['k5', 'k1'], ['k6'], ['k7']]);
  await session([['k2'], ['k8'], ['k9', 'k10'], ['k5'], ['k11'], ['k12'], ['k13']]);
}

function keysIn(disk: SimulatedDisk): string[] {
  const names = disk.names().filter((name) => segmentFirstSeq(name) !== undefined);
  return names.flatMap((name) =>
    splitLines(disk.bytes(name) as Buffer).map((line): string => JSON.parse(line.toString()).idempotency_key),
  );
}

/** Starts again, sends all reports again, and looks for each key. */
async function assertOnce(disk: SimulatedDisk, acknowledged: ReadonlySet<string>, when: string): Promise<void> {
  const { journal, append } = await open(disk);
  const before = new Set(keysIn(disk));
  for (const key of KEYS) {
    const result = await append(eventOf(key));
    assert.equal(result.kind, 'recorded', `${when}: ${key}`);
    const isReplayed = result.kind === 'recorded' && result.replayed !== undefined;
    assert.equal(isReplayed, before.has(key), `${when}: ${key} is ${isReplayed ? '' : 'not '}known`);
    if (acknowledged.has(key)) assert.ok(isReplayed, `${when}: ${key} was acknowledged and is lost`);
  }
  await journal.close();
  assert.deepEqual(keysIn(disk).sort(), [...KEYS].sort(), when);
  assert.deepEqual((await verify(disk)).findings, [], when);
  assert.deepEqual(
    disk.names().filter((name) => name.endsWith('.new')),
    [],
    when,
  );
  for (const name of disk.names().filter((one) => sidecarFirstSeq(one) !== undefined)) {
    assert.ok((await readSidecar(disk, sidecarFirstSeq(name) as number))?.isComplete, `${when}: ${name}`);
  }
}

test('the power goes at any call, also of writing sidecars: each key is there once', async () => {
  const steps = new Set<string>();
  for (const trial of eachCall('power')) {
    const [disk, acknowledged] = [new SimulatedDisk(), new Set<string>()];
    await trial.run(disk, () => play(disk, acknowledged));
    const { when } = trial;
    if (when.includes('.idx')) steps.add(disk.calls[trial.number - 1]?.split(' ', 1)[0] ?? '');
    await assertOnce(disk.afterCrash(), acknowledged, `${when}, a kill`);
    for (const remains of remainsOf([0, 0.5, 1], ['nothing', 'zeros'])) {
      await assertOnce(disk.afterPowerCut(remains), acknowledged, `${when}, ${JSON.stringify(remains)}`);
    }
  }
  assert.deepEqual([...steps].sort(), ['close', 'create', 'read', 'remove', 'rename', 'size', 'sync', 'write']);
});

for (const code of ['EIO', 'ENOSPC']) {
  test(`${code} at any call, once: each key is there once after the next start`, async () => {
    for (const trial of eachCall('once', code)) {
      const [disk, acknowledged] = [new SimulatedDisk(), new Set<string>()];
      await trial.run(disk, () => play(disk, acknowledged));
      await assertOnce(disk.afterCrash(), acknowledged, trial.when);
      const cut = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' });
      await assertOnce(cut, acknowledged, `${trial.when}, power`);
    }
  });
}
