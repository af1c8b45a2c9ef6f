/**
 * A service that records keyed reports over rotations, with sidecars, a stop and a start, on a disk that loses its power or fails
 * at the first call, then at the second … After each of them all reports are sent again: each key must be there once.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../src/config/limits.ts';
import type { Event } from '../../src/event/event.ts';
import type { RecordResult } from '../../src/event/record-result.ts';
import { KeyMemory } from '../../src/journal/idempotency-memory.ts';
import { readSidecar } from '../../src/journal/idempotency-sidecar.ts';
import { Journal } from '../../src/journal/journal.ts';
import { segmentFirstSeq, sidecarFirstSeq } from '../../src/journal/segments.ts';
import { verify } from '../../src/journal/verify.ts';
import { quiet, splitLines } from '../support/segments.ts';
import { failingCall, type Remains, SimulatedDisk } from '../support/simulated-disk.ts';

const limits = { ...standardLimits, probeMs: 200 };
const SEGMENT_BYTES = 900;
const KEYS = Array.from({ length: 14 }, (_, index) => `k${index}`);

function eventOf(key: string): Event {
  return { type: 'AssetObservation', assetKey: [key], idempotencyKey: key, description: 'x'.repeat(40) };
}

function openJournal(disk: SimulatedDisk): Journal {
  const keyMemory = new KeyMemory(1_000);
  return new Journal({ disk, notices: quiet, segmentBytes: SEGMENT_BYTES, limits, keyMemory, onFailed: () => {} });
}

function append(journal: Journal, keys: readonly string[]): Promise<RecordResult> {
  return new Promise((resolve) => journal.append(keys.map(eventOf), 0, resolve));
}

interface Script {
  /** Keys of the reports that got a 200. */
  readonly acknowledged: Set<string>;
  /** Never resolves if the power fails. */
  readonly end: Promise<void>;
}

/** Sends each report up to twice, some of them together, over a stop and a start. */
function play(disk: SimulatedDisk): Script {
  const acknowledged = new Set<string>();
  async function session(batches: readonly (readonly string[])[]): Promise<void> {
    const journal = openJournal(disk);
    await journal.open();
    for (const keys of batches) {
      const result = await append(journal, keys);
      if (result.kind === 'recorded') for (const key of keys) acknowledged.add(key);
    }
    await journal.close();
  }
  async function all(): Promise<void> {
    await session([['k0'], ['k1', 'k2'], ['k3'], ['k0'], ['k4'], ['k5', 'k1'], ['k6'], ['k7']]);
    await session([['k2'], ['k8'], ['k9', 'k10'], ['k5'], ['k11'], ['k12'], ['k13']]);
  }
  return { acknowledged, end: all().catch(() => {}) };
}

function keysIn(disk: SimulatedDisk): string[] {
  const names = disk.names().filter((name) => segmentFirstSeq(name) !== undefined);
  return names.flatMap((name) =>
    splitLines(disk.bytes(name) as Buffer).map((line): string => JSON.parse(line.toString()).idempotency_key),
  );
}

/** Starts again, sends all reports again, and looks for each key. */
async function assertOnce(disk: SimulatedDisk, { acknowledged }: Script, when: string): Promise<void> {
  const journal = openJournal(disk);
  await journal.open();
  const before = new Set(keysIn(disk));
  for (const key of KEYS) {
    const result = await append(journal, [key]);
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

const REMAINS: readonly Remains[] = (['none', 'half', 'all'] as const).flatMap((entries) =>
  [0, 0.5, 1].flatMap((share) => (['nothing', 'zeros'] as const).map((behind) => ({ entries, share, behind }))),
);

test('the power goes at any call, also of writing sidecars: each key is there once', async () => {
  const steps = new Set<string>();
  for (let cutting = 1; ; cutting += 1) {
    const disk = new SimulatedDisk();
    const { fault, struck } = failingCall(cutting, 'power');
    disk.fault = fault;
    const script = play(disk);
    await Promise.race([script.end, settled()]);
    const when = `call ${cutting}, ${disk.calls[cutting - 1]}`;
    if (when.includes('.idx')) steps.add(disk.calls[cutting - 1]?.split(' ', 1)[0] ?? '');
    await assertOnce(disk.afterCrash(), script, `${when}, a kill`);
    for (const remains of REMAINS) {
      await assertOnce(disk.afterPowerCut(remains), script, `${when}, ${JSON.stringify(remains)}`);
    }
    if (struck() === 0) break;
  }
  assert.deepEqual([...steps].sort(), ['close', 'create', 'read', 'remove', 'rename', 'size', 'sync', 'write']);
});

for (const code of ['EIO', 'ENOSPC']) {
  test(`${code} at any call, once: each key is there once after the next start`, async () => {
    for (let failing = 1; ; failing += 1) {
      const disk = new SimulatedDisk();
      const { fault, struck } = failingCall(failing, 'once', code);
      disk.fault = fault;
      const script = play(disk);
      await Promise.race([script.end, settled()]);
      disk.fault = failingCall(1, 'power').fault;
      const when = `call ${failing}, ${disk.calls[failing - 1]}`;
      await assertOnce(disk.afterCrash(), script, when);
      await assertOnce(disk.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' }), script, `${when}, power`);
      if (struck() === 0) break;
    }
  });
}

/** Resolves when everything that can still happen has: the simulated disk takes no time. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 300; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
