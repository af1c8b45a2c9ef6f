/** Events that are erased in a folder: what stays, what is gone, and what a crash at any call leaves. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assetJson } from '../../src/assets/asset-json.ts';
import { loadingOf, readKept } from '../../src/assets/kept.ts';
import { limits } from '../../src/config/limits.ts';
import { newToldFile, writeTold } from '../../src/forward/alarms/told-file.ts';
import { encodeDeadLetter } from '../../src/forward/ledger/letter.ts';
import { readDeadLetters } from '../../src/forward/ledger/letters.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import type { EraseParts } from '../../src/journal/erase/erase.ts';
import { type EraseOrder, readAnew, SeqSet } from '../../src/journal/erase/order.ts';
import { KeyMemory } from '../../src/journal/keys/memory.ts';
import { backUp, OtherJournalError } from '../../src/journal/look/backup.ts';
import { planRepair, sideName } from '../../src/journal/look/repair.ts';
import { AT_REST } from '../../src/journal/progress.ts';
import { contentsOf, segmentName } from '../../src/journal/segments.ts';
import { erase, finishErase } from '../../src/service/erasing.ts';
import { openJournal } from '../support/journal.ts';
import { openKept } from '../support/kept-assets.ts';
import type { PlainEvent } from '../support/plain-event.ts';
import { newFolder } from '../support/program.ts';
import { readLines } from '../support/read-lines.ts';
import { FIRST, flip, quiet } from '../support/segments.ts';
import { carryOut, verify } from '../support/standard-limits.ts';
import { eachCall, remainsOf, settled } from '../world/power.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';

/** Each event with a text that tells whose it is. */
function eventAt(seq: number): PlainEvent {
  const own = `said-${seq}-`;
  const reported = { partition: own, metadata: `{"text":"${own}"}`, idempotencyKey: own };
  return seq % 3 === 0
    ? { type: 'AssetCheckEvaluation', assetKey: ['shop'], checkName: 'c', passed: false, severity: 'WARN', ...reported }
    : {
        type: 'AssetMaterialization',
        assetKey: ['shop', `${seq % 2}`],
        description: own,
        dataVersion: own,
        ...reported,
      };
}

const COUNT = 20;
/** In a closed segment, two that are adjacent, and the last event. */
const ERASED = [2, 3, 12, COUNT];
const ORDER: EraseOrder = { time: '2026-11-20T15:19:45.266Z', all: false, seqs: SeqSet.of(ERASED) };

function partsOf(disk: Disk): EraseParts {
  return { disk, openDisk, notices: quiet, limits, checkHeld: () => {} };
}

/** A journal with state, keys, dead letters, the alarms of a hook and the rest of an interrupted write. */
async function build(disk: SimulatedDisk): Promise<void> {
  const kept = await openKept(disk, { journal: { segmentBytes: 1_500, keyMemory: new KeyMemory(1_000) } });
  for (let seq = 1; seq <= COUNT; seq += 1) assert.equal(await kept.report([eventAt(seq)]), undefined);
  await settled();
  await kept.journal.close();
  const letters: string[] = [];
  for (const { seq, text: line } of (await readLines(disk)).lines)
    if (seq % 2 === 0)
      letters.push(encodeDeadLetter({ time: ORDER.time, outcome: 'refused', reason: `said-${seq}-`, line }));
  disk.put('dead-hub.jsonl', Buffer.from(letters.map((letter) => `${letter}\n`).join('')));
  const told = newToldFile();
  for (const sinceSeq of [3, 6]) {
    const alarm = { asset: 'shop', check: 'c', partition: `said-${sinceSeq}-`, severity: 'WARN', sinceMs: 0, sinceSeq };
    told.told.set(`${sinceSeq}`, { on: 'failed', posted: null, ...alarm });
  }
  await writeTold(disk, 'hook', told);
  disk.put('forward-hub.state', Buffer.from('{"to":"http://h","state":"stopped","reason":"said-12-"}\n'));
  disk.put(`${segmentName(1)}.torn`, Buffer.from('{"seq":21,"said-20-'));
}

/** @returns the files that have the text of an event */
function filesWith(disk: SimulatedDisk, seqs: readonly number[]): string[] {
  return disk.names().filter((name) => seqs.some((seq) => disk.text(name).includes(`said-${seq}-`)));
}

/** Checks each line: the journal is whole, and each event but the erased ones says what it said. */
async function checkLines(disk: SimulatedDisk, areErased: 'all' | 'some', about: string): Promise<void> {
  const { findings, erasedLines } = await verify(disk);
  assert.deepEqual(
    findings.filter(({ kind }) => kind !== 'empty file'),
    [],
    about,
  );
  const { lines, remarks } = await readLines(disk);
  assert.deepEqual([lines.length, remarks], [COUNT, []], about);
  for (const { seq, text, event } of lines) {
    const isErased = event.erased !== undefined;
    assert.equal(text.includes(`said-${seq}-`), !isErased, about);
    assert.ok(ERASED.includes(seq) ? isErased || areErased === 'some' : !isErased, `${about}: ${text}`);
  }
  if (areErased === 'all') assert.equal(erasedLines, ERASED.length, about);
}

async function assetsOf(disk: SimulatedDisk) {
  const remarks: string[] = [];
  const { kept } = await readKept(loadingOf(disk, limits), AT_REST, ({ text }) => remarks.push(text));
  assert.deepEqual(remarks, []);
  return JSON.parse(JSON.stringify([...kept.states.inOrder()].map((asset) => assetJson(asset, 0, true))));
}

test('an erased text is in no file, and what the events counted for stays', async () => {
  const disk = new SimulatedDisk();
  await build(disk);
  const before = await assetsOf(disk);
  assert.ok(filesWith(disk, ERASED).length > 6, 'segments, dead letters, alarms, state, assets, rest');
  await erase(partsOf(disk), ORDER);
  assert.deepEqual(filesWith(disk, ERASED), []);
  assert.deepEqual(filesWith(disk.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' }), ERASED), []);
  await checkLines(disk, 'all', '');
  const { segments } = contentsOf(disk.names());
  assert.ok(
    (await readAnew(disk)).size >= 3 && (await readAnew(disk)).size < segments.length - 1,
    'others are as before',
  );
  const names = [...disk.names()].filter((name) => name.startsWith('keys-'));
  assert.ok(names.length >= segments.length - 2, `${names}`);
  const after = await assetsOf(disk);
  const shown = (assets: typeof before) =>
    assets.map(({ asset_key, checks, materialization = {} }: (typeof after)[0]) => [
      asset_key,
      materialization.count,
      materialization.seq,
      checks.length,
      checks[0]?.passed,
      checks[0]?.count,
    ]);
  assert.deepEqual(shown(after), shown(before));
  const letters: (string | undefined)[] = [];
  for await (const { line, reason } of readDeadLetters(disk, 'hub', limits))
    letters.push(JSON.parse(line!).erased ?? reason);
  assert.deepEqual(
    letters,
    [2, 4, 6, 8, 10, 12, 14, 16, 18, 20].map((seq) => (ERASED.includes(seq) ? ORDER.time : `said-${seq}-`)),
  );
});

test('a crash or an error at any call leaves each segment old or new, and the next start finishes [erase-1]', async () => {
  const built = new SimulatedDisk();
  await build(built);
  for (const what of ['power', 'once', 'always'] as const) {
    for (const trial of eachCall(what, undefined, 3)) {
      const disk = built.afterCrash();
      const end = await trial.run(disk, () => erase(partsOf(disk), ORDER));
      const lefts =
        what === 'power' ? remainsOf([0, 1], ['nothing']).map((remains) => disk.afterPowerCut(remains)) : [];
      for (const [index, left] of [disk.afterCrash(), ...lefts].entries()) {
        left.fault = () => undefined;
        const about = `${what} at ${trial.when}, remains ${index}`;
        await checkLines(left, 'some', about);
        await finishErase(partsOf(left));
        await checkLines(left, 'some', about);
        const isBegun = filesWith(left, ERASED).length === 0;
        assert.ok(
          isBegun || filesWith(left, ERASED).length === filesWith(built, ERASED).length,
          `${about}: all or nothing`,
        );
        if (end.kind === 'done') assert.ok(isBegun, about);
        await erase(partsOf(left), ORDER);
        assert.deepEqual(filesWith(left, ERASED), [], about);
        await checkLines(left, 'all', about);
        const again = await openKept(left, { journal: { keyMemory: new KeyMemory(1_000) } });
        assert.deepEqual(await again.report([eventAt(5)]), undefined, 'its key is known');
        assert.deepEqual(await again.report([eventAt(3)]), undefined, 'its key is forgotten');
        assert.equal(again.journal.lastSeq, COUNT + 1, about);
        await again.journal.close();
      }
    }
  }
});

test('with its key, an asset and a check are forgotten unless another event is about them', async () => {
  const disk = new SimulatedDisk();
  await build(disk);
  // All events of shop/1 but one, and all results of the check.
  const seqs = [1, 5, 7, 11, 13, 17, ...[3, 6, 9, 12, 15, 18]];
  await erase(partsOf(disk), { ...ORDER, all: true, seqs: SeqSet.of(seqs) });
  const keys = (await assetsOf(disk)).map(({ asset_key }: { asset_key: string[] }) => asset_key.join('/'));
  assert.deepEqual(keys, ['shop/0', 'shop/1']);
  assert.ok(disk.names().every((name) => !disk.text(name).includes('"check_name":"c"')));
  await erase(partsOf(disk), { ...ORDER, all: true, seqs: SeqSet.of([19]) });
  assert.deepEqual((await assetsOf(disk)).length, 1);
  assert.deepEqual(
    disk.names().filter((name) => disk.text(name).includes('["shop","1"]')),
    [],
  );
  assert.deepEqual((await verify(disk)).erasedLines, seqs.length + 1);
});

test('copies of damaged segments keep their good lines, and nothing that cannot be verified', async (t) => {
  const disk = openDisk(newFolder(t));
  await disk.prepare();
  const { journal, append } = await openJournal(disk, { segmentBytes: 1_500 });
  for (let seq = 1; seq <= COUNT; seq += 1) await append(eventAt(seq));
  await journal.close();
  const path = join(disk.folder, FIRST);
  const [line = ''] = readFileSync(path, 'utf8').split('\n');
  writeFileSync(path, flip(readFileSync(path), line.length + 60)); // in line 2
  const side = sideName([], new Date());
  await carryOut(disk, await planRepair(disk, await verify(disk), limits), side, '{}');
  const copy = join(disk.folder, side, FIRST);
  assert.match(readFileSync(copy, 'utf8'), /said-2-.*\n.*said-3-/);
  await erase(partsOf(disk), ORDER);
  const texts = readdirSync(disk.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'));
  for (const seq of ERASED)
    assert.ok(
      texts.every((text) => !text.includes(`said-${seq}-`)),
      `${seq}`,
    );
  assert.match(readFileSync(copy, 'utf8'), /said-1-.*\n.*"erased".*\n.*said-4-/);
  assert.deepEqual(
    (await verify(disk)).findings.filter(({ decision }) => decision === 'refuse'),
    [],
  );
  const before = readFileSync(copy);
  await erase(partsOf(disk), ORDER);
  assert.deepEqual(readFileSync(copy), before, 'once is enough');
});

test('the next backup forgets what was erased, also if it is interrupted at any call', async () => {
  const source = new SimulatedDisk();
  await build(source);
  source.drop(`${segmentName(1)}.torn`);
  const backed = new SimulatedDisk();
  const to = (target: SimulatedDisk) => backUp({ source, target, progress: AT_REST, limits });
  assert.equal((await to(backed)).events, COUNT);
  await erase(partsOf(source), ORDER);
  assert.ok(filesWith(backed, ERASED).length > 3);
  for (const trial of eachCall('power', undefined, 3)) {
    const target = backed.afterCrash();
    await trial.run(target, () => to(target));
    for (const left of [target.afterCrash(), target.afterPowerCut({ entries: 'half', share: 0, behind: 'nothing' })]) {
      await checkLines(left, 'some', trial.when);
      assert.equal((await to(left)).events, 0, trial.when);
      assert.deepEqual(filesWith(left, ERASED), [], trial.when);
      await checkLines(left, 'all', trial.when);
      left.calls.length = 0;
      await to(left);
      assert.equal(left.calls.filter((call) => call.startsWith('rename events-')).length, 0, 'once is enough');
    }
  }
  source.drop('erased.json');
  await assert.rejects(() => to(backed), OtherJournalError);
});

test('in parts the journal is opened in between, with its state, and a crash in between is finished', async () => {
  const disk = new SimulatedDisk();
  await build(disk);
  const parts = { ...partsOf(disk), limits: { ...limits, eraseSegmentsMax: 1 } };
  const done = new Set<number>();
  const left: number[] = [];
  for (let isAll = false; !isAll; ) {
    isAll = await erase(parts, ORDER, done);
    left.push(filesWith(disk, ERASED).length);
    const crashed = disk.afterCrash();
    await finishErase(partsOf(crashed));
    assert.deepEqual(filesWith(crashed, ERASED), []);
    const kept = await openKept(disk, { journal: { segmentBytes: 1_500 } });
    assert.equal(await kept.report([{ type: 'AssetObservation', assetKey: ['other'] }]), undefined);
    const { assets, sinceSeq } = await kept.state();
    assert.deepEqual([assets.length, sinceSeq], [4, 1]);
    await kept.journal.close();
    assert.deepEqual(
      kept.log.filter((line) => line.includes('is rebuilt from the events')),
      [],
    );
  }
  assert.equal(left.length, 3);
  assert.ok(left[0]! > left[1]! && left[1]! > 0 && left[2] === 0, `${left}`);
  const { erasedLines, goodLines } = await verify(disk);
  assert.deepEqual([erasedLines, goodLines], [ERASED.length, COUNT + left.length]);
});
