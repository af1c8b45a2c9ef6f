/**
 * A script of what a service does (batches, a write that comes out short, rotations, a stop and a start) on a disk that fails
 * or loses its power at the first call, then at the second, the third …, until the script goes through untouched.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../src/config/limits.ts';
import type { Event } from '../../src/event/event.ts';
import { Journal } from '../../src/journal/journal.ts';
import { verify } from '../../src/journal/verify.ts';
import { quiet, splitLines } from '../support/segments.ts';
import { failingCall, type Remains, SimulatedDisk } from '../support/simulated-disk.ts';

const limits = { ...standardLimits, probeMs: 200 };
const SEGMENT_BYTES = 900;

interface Script {
  /** What got a yes before the trouble. */
  readonly acknowledged: string[];
  readonly asked: Set<string>;
  /** Never resolves where the power went. */
  readonly end: Promise<void>;
}

/** Ends early where the journal fails, as the service does. */
function play(disk: SimulatedDisk): Script {
  const acknowledged: string[] = [];
  const asked = new Set<string>();
  let failed = false;

  async function session(name: string, batches: readonly number[]): Promise<void> {
    const journal = new Journal({ disk, notices: quiet, segmentBytes: SEGMENT_BYTES, limits, onFailed: () => {} });
    try {
      await journal.open();
    } catch {
      failed = true;
      return;
    }
    let count = 0;
    for (const size of batches) {
      const answers = Array.from({ length: size }, () => {
        count += 1;
        const together = Array.from({ length: 1 + (count % 3) }, (_, item) => `${name}${count}.${item}`);
        for (const asset of together) asked.add(asset);
        const description = 'x'.repeat(100 * (size % 3));
        const events = together.map((asset): Event => ({ type: 'AssetObservation', assetKey: [asset], description }));
        return new Promise<void>((resolve) => {
          journal.append(events, 0, (result) => {
            if (result.kind === 'recorded') acknowledged.push(...together);
            else if (result.kind === 'refused' && result.reason.startsWith('the disk failed')) failed = true;
            resolve();
          });
        });
      });
      await Promise.all(answers);
      if (failed) return;
    }
    await journal.close();
  }

  async function all(): Promise<void> {
    await session('a', [1, 3, 1, 5, 2]);
    if (!failed) await session('b', [2, 4, 1]);
  }
  return { acknowledged, asked, end: all() };
}

/** The fourth write of the script comes out short, and the system writes all of it to the disk before it is cut off. */
function withShortWrite(disk: SimulatedDisk, fault: SimulatedDisk['fault']): SimulatedDisk['fault'] {
  let writes = 0;
  return (call, name) => {
    if (call === 'truncate') disk.writeBack();
    if (call === 'write') writes += 1;
    return fault(call, name) ?? (call === 'write' && writes === 4 ? { shortBy: 20 } : undefined);
  };
}

/** What a start finds, goes on with and may not have lost. */
async function assertIntact(disk: SimulatedDisk, { acknowledged, asked }: Script, when: string): Promise<void> {
  const journal = new Journal({ disk, notices: quiet, segmentBytes: SEGMENT_BYTES, limits, onFailed: () => {} });
  await journal.open();
  const result = await new Promise((resolve) =>
    journal.append([{ type: 'AssetObservation', assetKey: ['after'] }], 0, resolve),
  );
  assert.deepEqual(result, { kind: 'recorded' }, when);
  await journal.close();
  const verdict = await verify(disk);
  assert.deepEqual(verdict.findings, [], when);
  const assets = verdict.segments.flatMap(({ name }) =>
    splitLines(disk.bytes(name) as Buffer).map((line): string => JSON.parse(line.toString()).asset_key[0]),
  );
  assert.equal(new Set(assets).size, assets.length, `${when}: something is there twice: ${assets}`);
  for (const asset of acknowledged) assert.ok(assets.includes(asset), `${when}: ${asset} was acknowledged and is lost`);
  for (const asset of assets) assert.ok(asset === 'after' || asked.has(asset), `${when}: nobody reported ${asset}`);
}

const REMAINS: readonly Remains[] = (['none', 'half', 'all'] as const).flatMap((entries) =>
  [0, 0.2, 0.5, 0.9, 1].flatMap((share) =>
    (['nothing', 'zeros', 'garbage'] as const).map((behind) => ({ entries, share, behind })),
  ),
);

test('the script goes through on a disk that only writes short once, and all but that batch is acknowledged', async () => {
  const disk = new SimulatedDisk();
  disk.fault = withShortWrite(disk, () => undefined);
  const script = play(disk);
  await script.end;
  disk.fault = () => undefined;
  assert.ok(script.acknowledged.length >= 13 && script.acknowledged.length < script.asked.size);
  assert.ok(disk.names().filter((name) => name.endsWith('.jsonl')).length >= 3);
  await assertIntact(disk, script, 'untouched');
});

for (const what of ['once', 'always'] as const) {
  for (const code of ['EIO', 'ENOSPC']) {
    test(`${code} at any call, ${what}: what was acknowledged is there after the next start, also after a power cut [power-1]`, async () => {
      for (let failing = 1; ; failing += 1) {
        const disk = new SimulatedDisk();
        const { fault, struck } = failingCall(failing, what, code);
        disk.fault = withShortWrite(disk, fault);
        const script = play(disk);
        await Promise.race([script.end, settled()]); // a start on a full disk waits
        disk.fault = failingCall(1, 'power').fault; // whoever still waits for space never hears of it
        const when = `call ${failing} of ${disk.calls.length}, ${disk.calls[failing - 1]}`;
        await assertIntact(disk.afterCrash(), script, when);
        for (const share of [0, 0.5, 1]) {
          const cut = disk.afterPowerCut({ entries: 'none', share, behind: 'zeros' });
          await assertIntact(cut, script, `${when}, then a power cut`);
          // What the next start trusted has to be on the disk by then.
          const restarted = disk.afterCrash();
          const journal = new Journal({ disk: restarted, notices: quiet, segmentBytes: 1, limits, onFailed: () => {} });
          await journal.open();
          await assertIntact(
            restarted.afterPowerCut({ entries: 'none', share, behind: 'zeros' }),
            script,
            `${when}, then a start and a power cut`,
          );
        }
        if (struck() === 0) break;
      }
    });
  }
}

test('the power goes at any call: what was acknowledged is there, whatever is left of the rest', async () => {
  for (let cutting = 1; ; cutting += 1) {
    const disk = new SimulatedDisk();
    const { fault, struck } = failingCall(cutting, 'power');
    disk.fault = withShortWrite(disk, fault);
    const script = play(disk);
    await Promise.race([script.end, settled()]);
    const when = `call ${cutting}, ${disk.calls[cutting - 1]}`;
    for (const remains of REMAINS)
      await assertIntact(disk.afterPowerCut(remains), script, `${when}, ${JSON.stringify(remains)}`);
    if (struck() === 0) break;
  }
});

/** Resolves when everything that can still happen has: the simulated disk takes no time. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 300; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
