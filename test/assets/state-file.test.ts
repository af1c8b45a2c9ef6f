/** The file with the state of assets: what was written is read again, and nothing else is. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { savedJson } from '../../src/assets/asset-json.ts';
import { AssetStates } from '../../src/assets/asset-state.ts';
import { isSaved, type Kept, readState, writeState } from '../../src/assets/state-file.ts';
import { limits } from '../../src/config/limits.ts';
import { readReported } from '../../src/journal/line/reported.ts';
import { STATE_FILE } from '../../src/journal/segments.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const END_ID = '01a1fb95-ce62-7e59-9364-610bf5613940';
const noPause = async () => {};
const newStates = () => new AssetStates({ by: 'time' });

function eventAt(seq: number): PlainEvent {
  const assetKey = ['é"\\', `k${seq % 50}`];
  const eventTime = '2026-11-19T10:00:00.1Z';
  if (seq % 3 === 0)
    return { type: 'AssetMaterialization', assetKey, partition: `p${seq}`, dataVersion: 'v', eventTime };
  if (seq % 3 === 1) return { type: 'AssetObservation', assetKey };
  return { type: 'AssetCheckEvaluation', assetKey, checkName: `c${seq % 4}`, passed: seq % 16 > 7, severity: 'WARN' };
}

function take(kept: Kept, untilSeq: number): void {
  for (let seq = kept.seq + 1; seq <= untilSeq; seq += 1)
    kept.states.take(seq, 1_700_000_000_000 + seq, readReported(encodeMembers(eventAt(seq))));
  kept.seq = untilSeq;
  kept.end = { seq: untilSeq, id: END_ID, crc: '9ae0daaf' };
}

function keptUntil(seq: number): Kept {
  const kept: Kept = { states: newStates(), seq: 0, end: { seq: 0, id: '', crc: '' }, sinceSeq: 1, unseen: [] };
  take(kept, seq);
  return kept;
}

const shown = ({ states }: Kept) => JSON.stringify([...states.inOrder()].map(savedJson));

test('what is written is read again, in the order of the keys', async () => {
  const disk = new SimulatedDisk();
  const kept = { ...keptUntil(1_000), sinceSeq: 4, unseen: [{ first: 7, last: 9 }] };
  kept.states.refused = 3;
  const saved = await writeState(disk, kept, noPause);
  const found = await readState(disk, newStates(), limits);
  assert.ok(found);
  assert.deepEqual(found.saved, saved);
  assert.equal(shown(found.kept), shown(kept));
  const { seq, end, sinceSeq, unseen, states } = found.kept;
  const read = { seq, end, sinceSeq, unseen, refused: states.refused, bytes: states.bytes };
  const { end: written } = kept;
  const expected = { seq: 1_000, end: written, sinceSeq: 4, unseen: kept.unseen, refused: 3, bytes: kept.states.bytes };
  assert.deepEqual(read, expected);
  assert.deepEqual([await isSaved(disk, saved), await isSaved(disk, undefined)], [true, false]);
  const lines = disk.text(STATE_FILE).split('\n').slice(1, -2);
  const keys = lines.map((line) => JSON.parse(line).asset_key.join('\0'));
  assert.deepEqual(keys, keys.toSorted());
  const after = disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
  assert.ok(await readState(after, newStates(), limits), 'it is durable');
});

test('a file that is cut or has a wrong byte is not read [state-file-2]', async () => {
  const disk = new SimulatedDisk();
  assert.equal(await readState(disk, newStates(), limits), undefined);
  assert.equal(await isSaved(disk, undefined), true);
  const saved = await writeState(disk, keptUntil(20), noPause);
  const whole = Buffer.from(disk.bytes(STATE_FILE)!);
  const isRead = async (bytes: Buffer) => {
    await disk.replace(STATE_FILE, bytes);
    return (await readState(disk, newStates(), limits)) !== undefined;
  };
  assert.ok(await isRead(whole));
  for (let at = 0; at < whole.length; at += 1) {
    assert.equal(await isRead(whole.subarray(0, at)), false, `${at} bytes`);
    const flipped = Buffer.from(whole);
    flipped[at]! ^= 1;
    assert.equal(await isRead(flipped), false, `the byte ${at} is wrong: ${whole.subarray(at - 20, at + 20)}`);
  }
  const other = Buffer.from(whole);
  other[other.length - 5]! ^= 1;
  await disk.replace(STATE_FILE, other);
  assert.equal(await isSaved(disk, saved), false, 'another file of the same size');
});

test('events that come while it is written count once, after the lines were taken again', async () => {
  const disk = new SimulatedDisk();
  const kept = keptUntil(0);
  for (let n = 1; n <= 3_000; n += 1) {
    const [key, name] = [`k${n}`, 'x'.repeat(200)];
    const event: PlainEvent = { type: 'AssetObservation', assetKey: [key, name] };
    kept.states.take(n, n, readReported(encodeMembers(event)));
  }
  kept.seq = 3_000;
  let seq = 3_000;
  const late: PlainEvent[] = [];
  const saved = await writeState(disk, kept, async () => {
    for (const n of [1, 999, 2_999, 5_000 + seq]) {
      const event: PlainEvent = { type: 'AssetObservation', assetKey: [`k${n}`, 'x'.repeat(200)] };
      seq += 1;
      late.push(event);
      kept.states.take(seq, seq, readReported(encodeMembers(event)));
      kept.seq = seq;
      kept.end = { seq, id: END_ID, crc: '9ae0daaf' };
    }
  });
  assert.ok(late.length >= 8, 'it is written in parts');
  const found = await readState(disk, newStates(), limits);
  assert.ok(found);
  assert.deepEqual([saved.seq, found.kept.seq], [3_000, 3_000]);
  assert.ok(found.kept.end.seq > 3_000);
  assert.notEqual(shown(found.kept), shown(kept));
  for (const [index, event] of late.entries())
    found.kept.states.take(3_001 + index, 3_001 + index, readReported(encodeMembers(event)));
  assert.equal(shown(found.kept), shown(kept));
});
