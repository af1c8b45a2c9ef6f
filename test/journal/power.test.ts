/**
 * A script of a service (batches, a short write, rotations, a stop and a start) on a disk that fails or loses its power at the
 * first call, then at the second, the third …, until the script ends without a fault.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { createJournal, openJournal } from '../support/journal.ts';
import { eventOf, type PlainEvent } from '../support/plain-event.ts';
import { splitLines } from '../support/segments.ts';
import { verify } from '../support/standard-limits.ts';
import { eachCall, remainsOf } from '../world/power.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const limits = { ...standardLimits, probeMs: 200 };
const SEGMENT_BYTES = 900;

interface Script {
  /** Reports that got a 200. */
  readonly acknowledged: string[];
  readonly reported: Set<string>;
}

const newScript = (): Script => ({ acknowledged: [], reported: new Set() });

/** Ends early if the journal fails, as the service does. */
async function play(disk: SimulatedDisk, { acknowledged, reported }: Script): Promise<void> {
  let failed = false;

  async function session(name: string, batches: readonly number[]): Promise<void> {
    const { journal } = createJournal(disk, { segmentBytes: SEGMENT_BYTES, limits });
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
        for (const asset of together) reported.add(asset);
        const description = 'x'.repeat(100 * (size % 3));
        const events = together.map(
          (asset): PlainEvent => ({ type: 'AssetObservation', assetKey: [asset], description }),
        );
        return new Promise<void>((resolve) => {
          journal.append(events.map(eventOf), (result) => {
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

  await session('a', [1, 3, 1, 5, 2]);
  if (!failed) await session('b', [2, 4, 1]);
}

/** A disk on which the fourth write is short, and its bytes are on stable storage before they are truncated. */
function diskWithShortWrite(): SimulatedDisk {
  const disk = new SimulatedDisk();
  let writes = 0;
  disk.fault = (call) => {
    if (call === 'truncate') disk.writeBack();
    if (call === 'write') writes += 1;
    return call === 'write' && writes === 4 ? { shortBy: 20 } : undefined;
  };
  return disk;
}

/** Asserts that a start succeeds, and that the journal has all acknowledged events, each once, and no others. */
async function assertIntact(disk: SimulatedDisk, { acknowledged, reported }: Script, when: string): Promise<void> {
  const { journal, append } = await openJournal(disk, { segmentBytes: SEGMENT_BYTES, limits });
  const result = await append({ type: 'AssetObservation', assetKey: ['after'] });
  assert.deepEqual(result, { kind: 'recorded' }, when);
  await journal.close();
  const verdict = await verify(disk);
  assert.deepEqual(verdict.findings, [], when);
  const assets = verdict.segments.flatMap(({ name }) =>
    splitLines(disk.bytes(name) as Buffer).map((line): string => JSON.parse(line.toString()).asset_key[0]),
  );
  assert.equal(new Set(assets).size, assets.length, `${when}: an event is recorded twice: ${assets}`);
  for (const asset of acknowledged) assert.ok(assets.includes(asset), `${when}: ${asset} was acknowledged and is lost`);
  for (const asset of assets)
    assert.ok(asset === 'after' || reported.has(asset), `${when}: ${asset} was never reported`);
}

test('without a fault the script ends well, although one write is short', async () => {
  const disk = diskWithShortWrite();
  const script = newScript();
  await play(disk, script);
  disk.fault = () => undefined;
  assert.ok(script.acknowledged.length >= 13 && script.acknowledged.length < script.reported.size);
  assert.ok(disk.names().filter((name) => name.endsWith('.jsonl')).length >= 3);
  await assertIntact(disk, script, 'without a fault');
});

for (const what of ['once', 'always'] as const) {
  for (const code of ['EIO', 'ENOSPC']) {
    test(`${code} at any call, ${what}: the next start has all acknowledged events, even after a power cut`, async () => {
      for (const trial of eachCall(what, code)) {
        const disk = diskWithShortWrite();
        const script = newScript();
        await trial.run(disk, () => play(disk, script)); // a start on a full disk waits
        const { when } = trial;
        await assertIntact(disk.afterCrash(), script, when);
        for (const share of [0, 0.5, 1]) {
          const cut = disk.afterPowerCut({ entries: 'none', share, behind: 'zeros' });
          await assertIntact(cut, script, `${when}, then a power cut`);
          // The bytes that the next start relied on must be on stable storage by then.
          const restarted = disk.afterCrash();
          await openJournal(restarted, { segmentBytes: 1, limits });
          await assertIntact(
            restarted.afterPowerCut({ entries: 'none', share, behind: 'zeros' }),
            script,
            `${when}, then a start and a power cut`,
          );
        }
      }
    });
  }
}

test('a kill or a power cut at any call: the next start has all acknowledged events', async () => {
  for (const trial of eachCall('power', undefined, 2)) {
    const disk = diskWithShortWrite();
    const script = newScript();
    await trial.run(disk, () => play(disk, script));
    await assertIntact(disk.afterCrash(), script, `${trial.when}, a kill`);
    for (const remains of remainsOf([0, 0.2, 0.5, 0.9, 1]))
      await assertIntact(disk.afterPowerCut(remains), script, `${trial.when}, ${JSON.stringify(remains)}`);
  }
});
