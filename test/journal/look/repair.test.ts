import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Limits, limits } from '../../../src/config/limits.ts';
import { type Plan, planRepair, sideName } from '../../../src/journal/look/repair.ts';
import type { Verdict } from '../../../src/journal/look/verify.ts';
import { markCleanStop, type StopEnd } from '../../../src/journal/open/clean-stop.ts';
import { afterGone, goneName, goneRange, segmentName } from '../../../src/journal/segments.ts';
import { damaged } from '../../support/damage.ts';
import { rounds } from '../../support/long.ts';
import { type Finished, newFolder, run } from '../../support/program.ts';
import { randomFrom } from '../../support/random.ts';
import { readLines } from '../../support/read-lines.ts';
import {
  diskWith,
  eventWithLaterMembers,
  FIRST,
  type Files,
  filesOf,
  flip,
  makeLines,
  quiet,
  START,
  segment,
  splitLines,
} from '../../support/segments.ts';
import { carryOut, recover, verify } from '../../support/standard-limits.ts';
import { eachCall } from '../../world/power.ts';
import { type Remains, SimulatedDisk } from '../../world/simulated-disk.ts';

const SIDE = 'damaged-now';
const LINES = 12;
const plain = makeLines(LINES);
const { lines, bytes: all } = plain;
/** Lines that are damaged by chance. */
const samples = [
  { kind: 'plain lines', ...plain },
  { kind: 'lines with members after the metadata', ...makeLines(LINES, START, eventWithLaterMembers) },
];
const FOLLOWING = segmentName(LINES + 1);

function needed({ findings }: Verdict): boolean {
  return findings.some(({ decision }) => decision === 'refuse');
}

/** Repairs until nothing is left to do, which has to be at once. */
async function repair(disk: SimulatedDisk, side = SIDE, within: Limits = limits): Promise<Plan> {
  const verdict = await verify(disk);
  const plan = await planRepair(disk, verdict, within);
  if (needed(verdict)) await carryOut(disk, plan, side, 'report');
  const after = await verify(disk);
  assert.equal(needed(after), false, JSON.stringify(after.findings));
  return plan;
}

/** The content of each event, without what its place decides, by seq. */
function contentOf(lines: readonly (Buffer | string)[]): Map<number, string> {
  const events = new Map<number, string>();
  for (const line of lines) {
    const { seq, crc: _, ...event } = JSON.parse(line.toString());
    assert.equal(events.has(seq), false, `seq ${seq} twice`);
    events.set(seq, JSON.stringify(event));
  }
  return events;
}

/** The content of each event in the journal. */
function eventsOf(disk: SimulatedDisk): Map<number, string> {
  const names = disk.names().filter((name) => /^events-\d{20}\.jsonl$/.test(name));
  return contentOf(names.flatMap((name) => splitLines(disk.bytes(name) as Buffer)));
}

/** Every seq up to the end is there or said to be lost, and nothing is both. */
function assertAccounted(disk: SimulatedDisk, next: number): void {
  const events = eventsOf(disk);
  const lost = disk.names().flatMap((name) => goneRange(name, 'lost') ?? []);
  for (let seq = 1; seq < next; seq += 1) {
    const isLost = afterGone(seq, lost) !== seq;
    assert.notEqual(events.has(seq), isLost, `seq ${seq}`);
  }
}

for (const { kind, lines, bytes: all } of samples) {
  test(`${kind}: a flipped bit costs only its line, or two lines if it joins them [repair-1]`, async () => {
    const wanted = contentOf(lines);
    const ends = [lines[0]!.length - 1, lines[0]!.length + lines[1]!.length - 1];
    for (let at = 0; at <= ends[1]!; at += rounds({ long: 1, short: 7 })) {
      const disk = diskWith({ [FIRST]: flip(all, at) });
      await repair(disk);
      const events = eventsOf(disk);
      const lost = at <= ends[0]! ? [1] : [2];
      if (ends.includes(at)) lost.push(lost[0]! + 1);
      for (const [seq, event] of wanted)
        if (!lost.includes(seq)) assert.equal(events.get(seq), event, `byte ${at}, seq ${seq}`);
      assertAccounted(disk, LINES + 1);
    }
  });

  test(`${kind}: after any damage a repair keeps each line that a reader shows, and the journal can be continued`, async () => {
    const wanted = contentOf(lines);
    const random = randomFrom(7);
    for (let round = 0; round < rounds({ long: 750, short: 70 }); round += 1) {
      let bytes = all;
      for (let count = 1 + Math.floor(3 * random()); count > 0; count -= 1) bytes = damaged(bytes, random);
      const files: Files = { [FIRST]: bytes, ...(random() < 0.5 ? {} : { [FOLLOWING]: segment(LINES + 1, 2) }) };
      const disk = diskWith(files);
      const shown = contentOf((await readLines(disk)).texts);
      const { badLines } = await verify(disk);
      const { files: changed } = await repair(disk);
      const once = filesOf(disk);
      await repair(disk);
      assert.deepEqual(filesOf(disk), once, 'a second repair changed something');
      for (const { name } of changed) assert.deepEqual(disk.bytes(`${SIDE}/${name}`), files[name]);
      assert.ok(badLines === 0 || changed.length === 1, `round ${round}`);

      const { chain: next } = await recover(disk, quiet);
      assertAccounted(disk, next.seq);
      const events = eventsOf(disk);
      assert.deepEqual(events, shown, `round ${round}`);
      for (const [seq, event] of events)
        if (seq <= LINES) assert.equal(event, wanted.get(seq), `round ${round}, ${seq}`);
    }
  });
}

test('a file with converted line ends is kept, and has no good line until they are turned back', async () => {
  const converted = Buffer.from(all.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
  const files = { [FIRST]: converted, [FOLLOWING]: segment(LINES + 1, 2) };
  const disk = diskWith(files);
  const plan = await planRepair(disk, await verify(disk), limits);
  assert.deepEqual([plan.files[0]?.kept, plan.lost], [0, [{ first: 1, last: LINES }]]);
  assert.match(
    plan.files[0]?.finding.problem ?? '',
    /a program converted the line ends, so turn them back before a repair$/,
  );
  await repair(disk);
  assert.deepEqual(disk.bytes(`${SIDE}/${FIRST}`), converted);
});

const junkBetween = Buffer.concat(lines.flatMap((line) => [line, Buffer.from('junk\n')]));

test('long lists of removed ranges are cut, and their sums are of all of them', async () => {
  const disk = diskWith({ [FIRST]: junkBetween });
  const within = { ...limits, repairListMax: 2 };
  const all = (await planRepair(disk, await verify(disk), limits)).files[0]!;
  const cut = (await planRepair(disk, await verify(disk), within)).files[0]!;
  assert.equal(all.removed.length, LINES);
  assert.deepEqual(cut, { ...all, removed: all.removed.slice(0, 2) });
  const removedBytes = all.removed.reduce((sum, { bytes }) => sum + bytes, 0);
  assert.deepEqual([LINES, removedBytes], [all.removedRanges, all.removedBytes]);
});

test('a file with more damaged ranges than the limit is refused, and the error says what to do', async () => {
  const disk = diskWith({ [FIRST]: junkBetween });
  const within = { ...limits, stretchesMax: LINES - 1 };
  await assert.rejects(planRepair(disk, await verify(disk), within), {
    message: `${FIRST} has over ${LINES - 1} damaged ranges; move it out of the folder and run the repair again`,
  });
  await repair(disk, SIDE, { ...limits, stretchesMax: LINES });
  assert.deepEqual(disk.bytes(FIRST), all);
});

test('repairs in the same second have folders of their own', () => {
  const now = new Date('2026-11-20T15:19:45.266Z');
  const first = sideName([FIRST], now);
  assert.equal(first, 'damaged-20261120T151945Z');
  assert.equal(sideName([first], now), `${first}-2`);
  assert.equal(sideName([first, `${first}-2`], now), `${first}-3`);
});

/** The most memory that a command took, in bytes, in an old space of 64 MiB. */
async function memoryOf(args: readonly string[]): Promise<{ maxRssBytes: number; finished: Finished }> {
  const tell = `process.on('exit', () => process.stderr.write('RSS ' + process.resourceUsage().maxRSS + '\\n'))`;
  const env = {
    NODE_OPTIONS: `--max-old-space-size=64 --import=data:text/javascript,${encodeURIComponent(tell)}`,
    NODE_V8_COVERAGE: '', // it would be measured as well
  };
  const finished = await run(args, { env });
  return { maxRssBytes: Number(/^RSS (\d+)$/m.exec(finished.stderr)?.[1]) * 1024, finished };
}

test('a repair takes little memory, whatever the size of the file and of the damage', async (t) => {
  const data = newFolder(t);
  const path = join(data, FIRST);
  const count = rounds({ long: 150_000, short: 30_000 });
  const { bytes, chain } = makeLines(count);
  assert.ok(bytes.length > count * 250);
  writeFileSync(path, flip(bytes, bytes.length >> 1));
  // A hole that is larger than the memory, in the long version also than the longest string, and lines after it.
  const hole = rounds({ long: 600, short: 150 }) * 1024 * 1024;
  truncateSync(path, bytes.length + hole);
  writeFileSync(path, Buffer.concat([Buffer.from('\n'), makeLines(3, chain).bytes]), { flag: 'a' });
  writeFileSync(join(data, segmentName(chain.seq + 3)), segment(chain.seq + 3, 1));
  const { maxRssBytes: base } = await memoryOf(['repair', '--help']);
  const { maxRssBytes, finished } = await memoryOf(['repair', '--json', '--data', data]);
  assert.equal(finished.code, 3, finished.stderr);
  const { damaged, newly_lost } = JSON.parse(finished.stdout);
  assert.deepEqual([damaged[0].kept, damaged[0].removed_places, newly_lost.length], [count + 3 - 1, 2, 1]);
  t.diagnostic(`${maxRssBytes} bytes, and ${base} to show its help`);
  assert.ok(maxRssBytes - base < 100e6, `${maxRssBytes} bytes, and ${base} to show its help`);
});

test('a file that lost no line is restored byte for byte', async () => {
  const following = { [FOLLOWING]: segment(LINES + 1, 2) };
  const table: Readonly<Record<string, Files>> = {
    'a doubled line': { [FIRST]: Buffer.concat([...lines.slice(0, 3), lines[1]!, ...lines.slice(3)]) },
    'the name of its second line': { [segmentName(2)]: all, ...following },
    'the name of its fifth line': { [segmentName(5)]: all, ...following },
    'a name after all files': { [segmentName(50)]: all, ...following },
    'a second file with some of its lines': { [FIRST]: all, [segmentName(5)]: Buffer.concat(lines.slice(4, 9)) },
  };
  for (const [what, files] of Object.entries(table)) {
    const disk = diskWith(files);
    const plan = await repair(disk);
    assert.deepEqual([disk.bytes(FIRST), plan.lost], [all, []], what);
    assert.equal(eventsOf(disk).size, FOLLOWING in files ? LINES + 2 : LINES, what);
  }
});

test('an event that is damaged in one file is taken from another file that has it', async () => {
  const disk = diskWith({ [FIRST]: flip(all, 500), [segmentName(2)]: flip(all, 5) });
  const plan = await repair(disk);
  assert.deepEqual([eventsOf(disk), plan.lost], [contentOf(lines), []]);
});

test('a journal of which only the marker of removed events is left continues after these', async () => {
  const disk = diskWith({ [goneName({ first: 1, last: 8 }, 'removed')]: Buffer.alloc(0) });
  await repair(disk);
  assert.equal((await recover(disk, quiet)).chain.seq, 9);
});

/** The marker of a clean stop after which the journal ended so. */
async function stoppedAt(end: StopEnd): Promise<Files> {
  const disk = new SimulatedDisk();
  await markCleanStop(disk, end);
  return { '.stopped-cleanly': disk.bytes('.stopped-cleanly') as Buffer };
}

test('events missing since the last clean stop are accounted for, and no event gets their seqs [repair-5]', async () => {
  const marker = await stoppedAt({ file: FIRST, bytes: all.length, chain: makeLines(LINES).chain });
  const cases: readonly [Files, firstLost: number][] = [
    [{ [FIRST]: Buffer.concat(lines.slice(0, 9)) }, 10],
    [{ [FIRST]: Buffer.concat([...lines.slice(0, 9), Buffer.from('{"seq":10,')]) }, 10], // more were cut off than are seen
    [{ [FIRST]: Buffer.alloc(0) }, 1],
    [{ [FIRST]: Buffer.from('x\n'.repeat(50)) }, 1],
    [{}, 1],
  ];
  for (const [files, first] of cases) {
    const disk = diskWith({ ...files, ...marker });
    const plan = await repair(disk);
    assert.deepEqual(plan.lost, [{ first, last: LINES }], JSON.stringify(files));
    assert.equal(disk.names().includes('.stopped-cleanly'), false);
    assert.equal((await recover(disk, quiet)).chain.seq, LINES + 1);
    assertAccounted(disk, LINES + 1);
  }
  const changed = diskWith({ [FIRST]: makeLines(LINES).bytes, ...marker });
  const { runs, files, lost } = await repair(changed);
  assert.deepEqual([runs, files, lost], [[], [], []]);
  assert.equal((await recover(changed, quiet)).chain.seq, LINES + 1);
});

test('a bad last line counts as a lost event, also if nothing of its form is left', async () => {
  const [good, line] = [Buffer.concat(lines.slice(0, 11)), lines[11]!];
  const ends: readonly [Buffer, lost: number][] = [
    [line.subarray(0, 1), 1],
    [line.subarray(0, -20), 1],
    [flip(line, 0), 1],
    [Buffer.alloc(line.length), 1],
    [Buffer.concat([flip(line, 0), flip(line, 0)]), 2],
    [Buffer.from('\r\n\r\n\n\r'), 0],
  ];
  for (const [end, lost] of ends) {
    const disk = diskWith({ [FIRST]: Buffer.concat([good, end]), '.stopped-cleanly': Buffer.alloc(0) });
    const plan = await repair(disk);
    assert.deepEqual(plan.lost, lost === 0 ? [] : [{ first: 12, last: 11 + lost }], end.toString());
    assert.equal((await recover(disk, quiet)).chain.seq, 12 + lost);
  }
});

const REMAINS: readonly Remains[] = [
  { entries: 'none', share: 0, behind: 'nothing' },
  { entries: 'none', share: 1, behind: 'nothing' },
  { entries: 'half', share: 0.5, behind: 'garbage' },
  { entries: 'all', share: 0, behind: 'zeros' },
  { entries: 'all', share: 1, behind: 'nothing' },
];

/** Damaged in ways that need every kind of step: several runs, a lost range, a renamed and an overlapping file. */
const hard: Files = {
  [FIRST]: Buffer.concat([...lines.slice(0, 3), flip(lines[3]!, 99), ...lines.slice(4)]),
  [segmentName(10)]: segment(10, 3),
  [segmentName(13)]: segment(16, 2),
  [segmentName(14)]: Buffer.alloc(0),
};

/** The same, and more was there at the last clean stop. */
const harder: Files = {
  ...hard,
  ...(await stoppedAt({ file: segmentName(13), bytes: 9_000, chain: { seq: 25, crc: 1 } })),
};

test('if any call of a repair fails or is the last before a power cut, the next repair loses nothing', async () => {
  const reference = diskWith(hard);
  await repair(reference);
  const good = eventsOf(reference);
  assert.equal(good.size, LINES - 1 + 2);
  for (const [what, files, nextSeq] of [
    ...(['once', 'always', 'power'] as const).map((what) => [what, hard, 18] as const),
    ...(['once', 'power'] as const).map((what) => [what, harder, 25] as const),
  ]) {
    for (const trial of eachCall(what, 'EIO', rounds({ long: 1, short: 7 }))) {
      const disk = diskWith(files);
      const verdict = await verify(disk);
      const plan = await planRepair(disk, verdict, limits);
      await trial.run(disk, () => carryOut(disk, plan, SIDE, 'report'));
      const remains = REMAINS.map((each) => disk.afterPowerCut(each));
      for (const left of what === 'power' ? remains : [disk.afterCrash(), ...remains]) {
        await repair(left, 'damaged-later');
        for (const [seq, event] of good)
          assert.equal(eventsOf(left).get(seq), event, `${what}, ${trial.when}, seq ${seq}`);
        const { chain } = await recover(left, quiet);
        assert.equal(chain.seq, nextSeq, `${what}, ${trial.when}`);
        assertAccounted(left, chain.seq);
      }
    }
  }
});
