/** The file with the state of assets: what was written is read again, and nothing else is. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { assetJson } from '../../src/assets/asset-json.ts';
import { lineTexts } from '../../src/assets/asset-line.ts';
import { AssetStates } from '../../src/assets/asset-state.ts';
import { isSaved, type Kept, readState, writeState } from '../../src/assets/state-file.ts';
import { limits } from '../../src/config/limits.ts';
import { type Reported, readReported } from '../../src/journal/line/reported.ts';
import { sealed } from '../../src/journal/sealed.ts';
import { STATE_FILE } from '../../src/journal/segments.ts';
import { encodeMembers, type PlainEvent } from '../support/plain-event.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

const END_ID = '01a1fb95-ce62-7e59-9364-610bf5613940';
const LINE_FEED = 0x0a;
const noPause = async () => {};
const newStates = () => new AssetStates({ limits });

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

const shown = ({ states }: Kept) => [...states.inOrder()].map((asset) => [...lineTexts(asset)].join('')).join('\n');

test('a state file is read back as it was written, in the order of the keys', async () => {
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

/** @returns the file as it is read: the number of assets, and of those whose line is broken; undefined if it is of no use */
async function readFrom(disk: SimulatedDisk, bytes: Buffer): Promise<readonly [number, number] | undefined> {
  await disk.replace(STATE_FILE, bytes);
  const found = await readState(disk, newStates(), limits);
  return found && [found.kept.states.size, found.broken];
}

test('a truncated state file is not read, and a wrong byte costs only the asset of its line', async () => {
  const disk = new SimulatedDisk();
  assert.equal(await readState(disk, newStates(), limits), undefined);
  assert.equal(await isSaved(disk, undefined), true);
  const saved = await writeState(disk, keptUntil(20), noPause);
  const whole = Buffer.from(disk.bytes(STATE_FILE)!);
  assert.deepEqual(await readFrom(disk, whole), [20, 0]);
  const headEnd = whole.indexOf('\n');
  const endStart = whole.lastIndexOf('\n', -2) + 1;
  for (let at = 0; at < whole.length; at += 1) {
    assert.equal(await readFrom(disk, whole.subarray(0, at)), undefined, `${at} bytes`);
    const flipped = Buffer.from(whole);
    flipped[at]! ^= 1;
    const isAsset = at > headEnd && at < endStart - 1 && whole[at] !== LINE_FEED && flipped[at] !== LINE_FEED;
    const expected = isAsset ? [19, 1] : undefined;
    const about = `the byte ${at} is wrong: ${whole.subarray(at - 20, at + 20)}`;
    assert.deepEqual(await readFrom(disk, flipped), expected, about);
  }
  const other = Buffer.from(whole);
  other[other.length - 5]! ^= 1;
  await disk.replace(STATE_FILE, other);
  assert.equal(await isSaved(disk, saved), false, 'another file of the same size');
});

test('an overlong line costs only its asset, and a missing line the whole state file', async () => {
  const disk = new SimulatedDisk();
  await writeState(disk, keptUntil(20), noPause);
  const lines = disk.text(STATE_FILE).split('\n');
  const withLine = (line: string) => Buffer.from([...lines.slice(0, 7), line, ...lines.slice(8)].join('\n'));
  const few = { ...limits, assetLineBytesMax: 10_000 };
  await disk.replace(STATE_FILE, withLine(lines[7]!.replace('{', `{"x":"${'y'.repeat(200_000)}",`)));
  const found = await readState(disk, newStates(), few);
  assert.deepEqual([found?.kept.states.size, found?.broken], [19, 1]);
  assert.equal(await readFrom(disk, Buffer.from(lines.toSpliced(7, 1).join('\n'))), undefined);
  assert.equal(await readFrom(disk, Buffer.from([...lines.slice(0, -1), lines[7], ''].join('\n'))), undefined);
});

test('an asset of the largest size is written as a line that can be read', async () => {
  const states = newStates();
  const text = (n: number) => `${n}${'\u0001'.repeat(260)}`;
  const result = (seq: number, checkName: string, partition: string): Reported => ({
    type: 'AssetCheckEvaluation',
    key: text(0),
    partition,
    checkName,
    passed: false,
    severity: 'ERROR',
    dataVersion: text(seq),
    eventTime: undefined,
    isErased: false,
    source: END_ID,
    sourceSeq: seq,
    recorded: '2026-11-20T15:19:45.266Z',
  });
  for (let n = 0; n < 2_000; n += 1) states.take(n + 1, 1_800_000_000_000, result(n + 1, text(n % 1_100), text(n)));
  const [asset] = [...states.inOrder()];
  assert.deepEqual([asset?.checks?.size, asset?.partitions], [1_000, 1_000]);
  const bytes = Buffer.byteLength([...lineTexts(asset!)].join(''));
  assert.ok(bytes > 4 * 1024 * 1024 && 2 * bytes < limits.assetLineBytesMax, `${bytes}`);
  const disk = new SimulatedDisk();
  const kept = { ...keptUntil(0), states, seq: 2_000 };
  await writeState(disk, kept, noPause);
  const found = await readState(disk, newStates(), limits);
  assert.deepEqual([found?.broken, shown(found!.kept)], [0, shown(kept)]);
});

test('a state file of version 0.3 is read, and its failing checks still fail', async () => {
  const latest = { count: 3, seq: 7, time: '2026-11-20T15:00:07.000Z', partition: 'p' };
  const since = { since_seq: 5, since: '2026-11-20T15:00:05.000Z', in_a_row: 2 };
  const failed = { passed: false, severity: 'WARN' };
  const head = { format: 1, seq: 9, since_seq: 1, unseen: [[2, 3]], refused: 4 };
  const asset = {
    asset_key: ['a'],
    materialization: { ...latest, seq: 9, event_time: '2026-11-20T14:00:00Z', source: END_ID },
    checks: [
      { check_name: 'c', ...failed, ...latest, ...since, before: since },
      { check_name: 'd', passed: true, severity: 'ERROR', ...latest, seq: 8 },
    ],
  };
  const lines = `${JSON.stringify(head)}\n${JSON.stringify(asset)}\n`;
  const end = JSON.stringify({ assets: 1, seq: 9, id: END_ID, line_crc: '9ae0daaf' }).slice(0, -1);
  const disk = new SimulatedDisk();
  await disk.replace(STATE_FILE, Buffer.from(`${lines}${sealed(end, crc32(lines))}\n`));
  const found = await readState(disk, newStates(), limits);
  assert.deepEqual([found?.kept.seq, found?.kept.unseen, found?.kept.states.refused], [9, [{ first: 2, last: 3 }], 4]);
  const read = found!.kept.states.get('a')!;
  assert.deepEqual([read.seen, new Date(read.aliveMs).toISOString(), read.aliveSeq], [9, latest.time, 8]);
  const json = assetJson(read, 0).checks.map(({ check_name, failing, failed_partitions }) => [
    check_name,
    failing,
    failed_partitions,
  ]);
  assert.deepEqual(json, [
    ['c', true, [{ partition: 'p', severity: 'WARN', ...since }]],
    ['d', false, undefined],
  ]);
  await disk.replace(STATE_FILE, Buffer.from(`${lines.replace('"p"', '"q"')}${sealed(end, crc32(lines))}\n`));
  assert.equal(await readState(disk, newStates(), limits), undefined);
});

test('events that arrive while the state file is written are counted once when the lines are read again', async () => {
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
