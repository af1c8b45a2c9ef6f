import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import type { ChainPosition } from '../../../src/journal/line/record.ts';
import {
  CLEAN_STOP as MARKER,
  markCleanStop,
  readLastStop,
  type StopEnd,
} from '../../../src/journal/open/clean-stop.ts';
import {
  DamagedError,
  decisions,
  type FindingKind,
  type RecoveryDecision,
  type SegmentPosition,
} from '../../../src/journal/open/recovery.ts';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { createNotices } from '../../../src/telemetry/log.ts';
import {
  diskWith,
  FIRST,
  type Files,
  filesOf,
  flip,
  makeLines,
  quiet,
  START,
  segment,
} from '../../support/segments.ts';
import { recover, verify } from '../../support/standard-limits.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const { bytes: three, lines, chain: afterThree } = makeLines(3);
const [one, two, last] = lines as [Buffer, Buffer, Buffer];
const FOURTH = segmentName(4);
const SEVENTH = segmentName(7);
const whole = { [FIRST]: three, [FOURTH]: segment(4, 3) };
const four = makeLines(4).lines as [Buffer, Buffer, Buffer, Buffer];

/** The file of the marker of a clean stop with this end. */
async function markerOf(end: StopEnd): Promise<Files> {
  const disk = new SimulatedDisk();
  await markCleanStop(disk, end);
  return { [MARKER]: disk.bytes(MARKER) as Buffer };
}

const stoppedAfterThree = await markerOf({ file: FIRST, bytes: three.length, chain: afterThree });

/** For each kind, a folder with the finding in the last file, and a folder with the finding in an earlier file. */
const examples: Readonly<Record<FindingKind, { readonly last: Files; readonly earlier: Files }>> = {
  'torn end': {
    last: { [FIRST]: Buffer.concat([one, two, last.subarray(0, 20)]) },
    earlier: { ...whole, [FIRST]: three.subarray(0, -20) },
  },
  'zeros at the end': {
    last: { [FIRST]: Buffer.concat([three, Buffer.alloc(5_000)]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([three, Buffer.alloc(5_000)]) },
  },
  'bad last line': {
    last: { [FIRST]: Buffer.concat([one, two, flip(last, 30)]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([one, two, flip(last, 8)]) },
  },
  'long bad end': {
    last: { [FIRST]: Buffer.concat([three, Buffer.alloc(limits.tornBytesMax + 1)]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([three, Buffer.alloc(limits.tornBytesMax + 1, 0xff)]) },
  },
  'bad line inside': {
    last: { [FIRST]: Buffer.concat([one, flip(two, 30), last]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([one, flip(two, 30), last]) },
  },
  'bytes between lines': {
    last: { [FIRST]: Buffer.from(three.toString().replaceAll('\n', '\r\n')) },
    earlier: { ...whole, [FIRST]: Buffer.concat([one, two, Buffer.from('\ufeff'), last]) },
  },
  gap: {
    last: { [FIRST]: Buffer.concat([four[0], four[2], four[3]]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([four[0], four[2], four[3]]) },
  },
  repeat: {
    last: { [FIRST]: Buffer.concat([one, one, two, last]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([one, two, two, last]) },
  },
  'swapped lines': {
    last: { [FIRST]: Buffer.concat([one, last, two]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([two, one, last]) },
  },
  'name and first seq disagree': {
    last: { [FIRST]: segment(5, 3) },
    earlier: { [FIRST]: segment(2, 3), [FOURTH]: segment(4, 3) },
  },
  'empty file': {
    last: { [FIRST]: three, [FOURTH]: Buffer.alloc(0) },
    earlier: { [FIRST]: Buffer.alloc(0), [FOURTH]: segment(4, 3) },
  },
  'missing file': {
    last: { [FIRST]: three, [SEVENTH]: segment(7, 2) },
    earlier: { [FOURTH]: segment(4, 3), [SEVENTH]: segment(7, 2) },
  },
  'overlapping file': {
    last: { [FIRST]: three, [segmentName(3)]: segment(3, 2) },
    earlier: { [FIRST]: three, [segmentName(3)]: segment(3, 2), [segmentName(5)]: segment(5, 1) },
  },
  'other end than at the stop': {
    last: { [FIRST]: Buffer.concat([one, two]), ...stoppedAfterThree },
    earlier: { ...whole, ...stoppedAfterThree },
  },
  'foreign file': {
    last: { [FIRST]: three, 'notes.txt': Buffer.from('mine'), 'events-1.jsonl': Buffer.from('x') },
    earlier: { ...whole, '.hidden': Buffer.from('y'), 'events-1.csv': Buffer.from('z') },
  },
};

/** A start finds these kinds only in the last file: it reads only the last line of earlier files. */
const seenByVerifyOnly: readonly FindingKind[] = ['bad line inside', 'gap', 'repeat', 'swapped lines'];

const CLEAN_STOP = { '.stopped-cleanly': Buffer.alloc(0) };

/** The examples of each kind in each position. */
function* listExamples(): Generator<[kind: FindingKind, position: SegmentPosition, files: Files]> {
  for (const [kind, { last, earlier }] of Object.entries(examples) as [FindingKind, (typeof examples)[FindingKind]][]) {
    const { '.stopped-cleanly': _, ...withoutMarker } = last;
    yield [kind, 'afterCrash', withoutMarker];
    yield [kind, 'afterStop', { ...CLEAN_STOP, ...last }];
    yield [kind, 'earlier', earlier];
  }
}

test('every kind of finding has examples, and a start decides each of them by the table', async () => {
  assert.deepEqual(Object.keys(examples).sort(), Object.keys(decisions).sort());
  const outcomes: Readonly<Record<RecoveryDecision, (files: Files, kind: FindingKind) => Promise<void>>> = {
    use: startsUnchanged,
    leave: startsUnchanged,
    truncate: startsWithoutTheEnd,
    refuse: isRefused,
  };
  for (const [kind, position, files] of listExamples()) {
    if (position === 'earlier' && seenByVerifyOnly.includes(kind)) continue;
    await outcomes[decisions[kind][position]](files, kind);
  }
});

test('verify finds each kind at the same place as a start', async () => {
  for (const [kind, position, files] of listExamples()) {
    if (kind === 'foreign file') continue; // not a finding of verify
    if (kind === 'other end than at the stop' && position !== 'afterStop') continue; // nothing to compare with
    const { findings } = await verify(diskWith(files));
    assert.equal(findings[0]?.kind, kind, position);
    assert.equal(findings[0]?.decision, decisions[kind][position]);
    const refused = await startOn(files).catch((error: DamagedError) => error.finding);
    if ('kind' in refused) assert.deepEqual(refused, findings[0]);
  }
});

test('a journal whose service starts during verify is judged like the journal of a running service', async () => {
  const disk = diskWith({ [FIRST]: three.subarray(0, -20), ...CLEAN_STOP });
  disk.fault = (call, name) => {
    if (call === 'read' && name === FIRST) disk.drop('.stopped-cleanly');
    return undefined;
  };
  assert.deepEqual(
    (await verify(disk)).findings.map(({ kind, decision }) => [kind, decision]),
    [['torn end', 'truncate']],
  );
});

interface Started {
  readonly disk: SimulatedDisk;
  readonly name: string;
  readonly bytes: number;
  readonly next: ChainPosition;
  readonly notices: string;
}

async function startOn(files: Files): Promise<Started> {
  const disk = diskWith(files);
  let notices = '';
  const found = await recover(
    disk,
    createNotices('info', false, (line) => {
      notices += line;
    }),
  );
  return { disk, name: found.file.name, bytes: found.bytes, next: found.chain, notices };
}

async function startsUnchanged(files: Files): Promise<void> {
  const { disk, name, bytes, notices } = await startOn(files);
  const { '.stopped-cleanly': _, ...journal } = files; // removed by the start
  assert.deepEqual(filesOf(disk), journal);
  assert.equal(bytes, files[name]?.length);
  assert.equal(notices, '');
}

async function startsWithoutTheEnd(files: Files, kind: FindingKind): Promise<void> {
  const { disk, name, bytes, notices } = await startOn(files);
  const before = files[name] as Buffer;
  assert.deepEqual(disk.bytes(name), before.subarray(0, bytes), kind);
  assert.deepEqual(disk.bytes(`${name}.torn`), before.subarray(bytes), kind);
  assert.match(notices, /^\{[^\n]*"level":"warn","message":"the end of the journal was truncated[^\n]*\}\n$/);
  assert.doesNotMatch(notices, /acknowledged/); // unknown
  assert.match(notices, new RegExp(`"file":"${name}","line":\\d,"byte":${bytes},.*"kept":"${name}.torn"`));
  assert.deepEqual(disk.names().sort(), [...Object.keys(files), `${name}.torn`].sort());
  const { findings } = await verify(disk);
  assert.deepEqual(findings, []);
}

async function isRefused(files: Files, kind: FindingKind): Promise<void> {
  const disk = diskWith(files);
  const refused = await refusal(disk);
  assert.equal(refused.finding.kind, kind);
  assert.match(
    refused.message,
    /^the journal is damaged: \/simulated\/events-\d{20}\.jsonl, line \d, byte \d+: [^;]+; nothing was changed\. assetlog repair --data \/simulated shows how to repair it$/,
  );
  assert.deepEqual(filesOf(disk), files, kind);
}

async function refusal(files: Files | SimulatedDisk): Promise<DamagedError> {
  const disk = files instanceof SimulatedDisk ? files : diskWith(files);
  const refused = await recover(disk, quiet).then(
    () => new Error(`not refused: ${disk.names()}`),
    (error) => error,
  );
  assert.ok(refused instanceof DamagedError, `${refused}`);
  return refused;
}

test('events that are known to be lost are not a gap', async () => {
  const lost = { [goneName({ first: 4, last: 6 }, 'lost')]: Buffer.alloc(0) };
  assert.equal((await startOn({ [FIRST]: three, ...lost, [SEVENTH]: segment(7, 2) })).next.seq, 9);
  // The file of lost events was found again.
  assert.equal((await startOn({ [FIRST]: three, ...lost, [FOURTH]: segment(4, 3) })).next.seq, 7);
  await isRefused({ [FIRST]: three, ...lost, [segmentName(8)]: segment(8, 1) }, 'missing file');
});

test('a folder with only markers of removed or lost events has missing segments', async () => {
  const markers = [
    [goneName({ first: 1, last: 3 }, 'removed')],
    [goneName({ first: 1, last: 3 }, 'lost')],
    [goneName({ first: 4, last: 6 }, 'lost'), goneName({ first: 1, last: 2 }, 'removed')],
  ];
  for (const names of markers) {
    for (const stop of [{}, CLEAN_STOP]) {
      const files = { ...Object.fromEntries(names.map((name) => [name, Buffer.alloc(0)])), ...stop };
      const disk = diskWith(files);
      const { finding, message } = await refusal(disk);
      assert.deepEqual([finding.kind, finding.file], ['missing file', names[0]]);
      const due = names.length === 1 ? 4 : 7;
      assert.match(message, new RegExp(`all segments are missing: the events from ${due} on, if not more`));
      assert.deepEqual(filesOf(disk), files);
      assert.deepEqual((await verify(disk)).findings, [finding]);
    }
  }
});

test('a segment that exists only under another name is missing, and the finding has that name', async () => {
  const gz = (seq: number) => ({ [`${segmentName(seq)}.gz`]: Buffer.from('packed') });
  const folders: readonly (readonly [Files, number])[] = [
    [{ [FIRST]: three, ...gz(4), [SEVENTH]: segment(7, 2) }, 4],
    [{ ...gz(1), ...gz(4), [SEVENTH]: segment(7, 2) }, 1],
    [{ [FIRST]: three, ...gz(4) }, 4],
    [{ [FIRST]: three, ...gz(4), ...CLEAN_STOP }, 4],
    [{ ...gz(1), ...gz(4) }, 1],
    [{ ...gz(1), ...gz(4), [goneName({ first: 1, last: 3 }, 'removed')]: Buffer.alloc(0) }, 4],
  ];
  for (const [files, seq] of folders) {
    const disk = diskWith(files);
    const { finding } = await refusal(disk);
    assert.deepEqual([finding.kind, finding.file], ['missing file', `${segmentName(seq)}.gz`]);
    assert.ok(finding.problem.startsWith(`${segmentName(seq)} is missing, and this file might be it`));
    assert.deepEqual((await verify(disk)).findings, [finding]);
    assert.deepEqual(filesOf(disk), files);
  }
  // A renamed file is ignored if retention removed its events, or if the original exists.
  const removed = { [goneName({ first: 1, last: 6 }, 'removed')]: Buffer.alloc(0) };
  assert.equal((await startOn({ ...gz(1), ...gz(4), ...removed, [SEVENTH]: segment(7, 2) })).next.seq, 9);
  assert.equal((await startOn({ ...gz(1), [FIRST]: three })).next.seq, 4);
});

test('a torn end of any length is copied to a .torn file byte for byte', async () => {
  for (let length = 1; length < last.length; length += 1) {
    await startsWithoutTheEnd({ [FIRST]: Buffer.concat([one, two, last.subarray(0, length)]) }, 'torn end');
  }
});

test('after a crash a bad last line is truncated, whichever byte outside its seq is bad', async () => {
  const digit = '{"seq":'.length;
  for (let at = 0; at < last.length - 1; at += 1) {
    const files = { [FIRST]: Buffer.concat([one, two, flip(last, at)]) };
    if (at === digit) await isRefused(files, 'repeat');
    else await startsWithoutTheEnd(files, 'bad last line');
  }
});

test('after a clean stop a last line with any bad byte is refused', async () => {
  const digit = '{"seq":'.length;
  for (let at = 0; at < last.length - 1; at += 1) {
    const files = { [FIRST]: Buffer.concat([one, two, flip(last, at)]), ...CLEAN_STOP };
    await isRefused(files, at === digit ? 'repeat' : 'bad last line');
  }
  for (let length = 1; length < last.length; length += 1) {
    await isRefused({ [FIRST]: Buffer.concat([one, two, last.subarray(0, length)]), ...CLEAN_STOP }, 'torn end');
  }
  const { finding } = await refusal({ [FIRST]: Buffer.concat([one, two, flip(last, 30)]), ...CLEAN_STOP });
  assert.match(finding.problem, /^its crc is [0-9a-f]{8}, computed [0-9a-f]{8}, although the last stop was clean$/);
});

test('after a clean stop a journal that was truncated at a line end, or lost its last file, is refused', async () => {
  const atSeven = segment(4, 3);
  const afterSix = makeLines(3, { seq: 4, crc: 0 }).chain;
  const stopped = await markerOf({ file: FOURTH, bytes: atSeven.length, chain: { ...afterSix, seq: 7 } });
  const cases: readonly [Files, file: string, line: number, byte: number, problem: RegExp][] = [
    [
      { [FIRST]: three, ...stopped },
      FIRST,
      4,
      three.length,
      /^the events 4 to 6 are missing, which the journal had at the last/,
    ],
    [{ [FIRST]: three, [FOURTH]: Buffer.alloc(0), ...stopped }, FOURTH, 1, 0, /^the events 4 to 6 are missing/],
    [
      { ...stoppedAfterThree, [FIRST]: one },
      FIRST,
      2,
      one.length,
      /^the events 2 to 3 are missing.*, in events-0{19}1/,
    ],
    [{ ...stoppedAfterThree }, FIRST, 1, 0, /^all segments are missing: the events 1 to 3$/],
    [
      { ...stoppedAfterThree, [FIRST]: makeLines(3).bytes },
      FIRST,
      4,
      three.length,
      /^it ends with other lines than at the/,
    ],
  ];
  for (const [files, file, line, byte, problem] of cases) {
    const disk = diskWith(files);
    const { finding } = await refusal(disk);
    assert.deepEqual([finding.file, finding.line, finding.byte], [file, line, byte]);
    assert.match(finding.problem, problem);
    assert.deepEqual(filesOf(disk), files);
    const refused = (await verify(disk)).findings.filter(({ decision }) => decision === 'refuse');
    assert.deepEqual(refused, [finding]);
  }
  await startsUnchanged({ ...stoppedAfterThree, [FIRST]: three });
  await startsUnchanged({ ...stoppedAfterThree, [FIRST]: three, [FOURTH]: Buffer.alloc(0) });
  assert.equal((await startOn(await markerOf({ file: FIRST, bytes: 0, chain: START }))).next.seq, 1);
});

test('a torn, changed or stale marker is ignored and is never damage; an empty marker is a clean stop', async () => {
  const marker = stoppedAfterThree[MARKER] as Buffer;
  const torn = { [FIRST]: Buffer.concat([three, Buffer.from('torn')]) };
  const notWhole = [
    ...Array.from({ length: marker.length - 1 }, (_, at) => marker.subarray(0, at + 1)),
    ...Array.from({ length: marker.length }, (_, at) => flip(marker, at)),
    ...[Buffer.alloc(marker.length), Buffer.concat([marker, marker]), Buffer.alloc(100_000, 'x')],
  ];
  for (const bytes of notWhole) {
    assert.equal(await readLastStop(diskWith({ [MARKER]: bytes }), [MARKER]), undefined, `${bytes}`);
  }
  const stale = (await markerOf({ file: FIRST, bytes: one.length, chain: { seq: 2, crc: 0 } }))[MARKER] as Buffer;
  for (const bytes of [...notWhole.slice(0, 3), stale]) {
    const { disk, next } = await startOn({ ...torn, [MARKER]: bytes });
    assert.equal(next.seq, 4);
    assert.deepEqual(disk.names().sort(), [FIRST, `${FIRST}.torn`]);
  }
  assert.equal((await startOn({ [FIRST]: one, [MARKER]: notWhole[0] as Buffer })).next.seq, 2);
  assert.equal((await startOn({ [FIRST]: one, [MARKER]: Buffer.alloc(0) })).next.seq, 2);
  await isRefused({ ...torn, [MARKER]: Buffer.alloc(0) }, 'torn end');
});

test('a stop on a full disk leaves an empty marker, so that the next start needs no space; another error leaves none', async () => {
  const end = { file: FIRST, bytes: three.length, chain: afterThree };
  for (const code of ['ENOSPC', 'EIO']) {
    for (const failing of ['write', 'sync']) {
      const disk = diskWith({ [FIRST]: three });
      disk.fault = (call) => (call === failing ? systemError(code) : undefined);
      const stopped = markCleanStop(disk, end);
      await (code === 'EIO' ? assert.rejects(stopped, { code }) : stopped);
      assert.equal(disk.names().includes(MARKER), code === 'ENOSPC');
      if (failing === 'write') assert.equal(disk.bytes(MARKER)?.length, code === 'ENOSPC' ? 0 : undefined);
    }
  }
});

test('a crash explains a bad end of at most tornBytesMax bytes', async () => {
  for (const byte of [0, 0xff]) {
    const most = { [FIRST]: Buffer.concat([three, Buffer.alloc(limits.tornBytesMax, byte)]) };
    await startsWithoutTheEnd(most, 'torn end');
    const more = { [FIRST]: Buffer.concat([three, Buffer.alloc(limits.tornBytesMax + 1, byte)]) };
    await isRefused(more, 'long bad end');
    const { finding } = await refusal(more);
    assert.match(finding.problem, / for 8388609 bytes, and a crash explains at most 8388608$/);
  }
  const disk = diskWith({ [FIRST]: Buffer.concat([three, Buffer.alloc(11)]) });
  await assert.rejects(recover(disk, quiet, { ...limits, tornBytesMax: 10 }), DamagedError);
  await recover(disk, quiet, { ...limits, tornBytesMax: 11 });
});

test('a file with converted line ends is refused at its first line, and the end that a crash leaves is not', async () => {
  const text = three.toString();
  const converted = [
    text.replaceAll('\n', '\r\n'),
    text.replaceAll('\n', '\r'),
    text.replaceAll('\n', '\r').slice(0, -1),
    text.replaceAll('\n', ' \n'),
    text.replaceAll('\n', ''),
    `\ufeff${one}`,
    `${one}`.replace('\n', '\r\n'),
    `${one}`.replace('\n', '\r'),
  ];
  for (const bytes of converted) {
    const { finding } = await refusal({ [FIRST]: Buffer.from(bytes) });
    assert.deepEqual([finding.kind, finding.line, finding.byte], ['bytes between lines', 1, 0], bytes.slice(-9));
  }
  const { finding } = await refusal({ [FIRST]: Buffer.from(converted[0] as string) });
  assert.match(
    finding.problem,
    /^its line is good but ends with a carriage return: a program converted the line ends, so turn them back before a repair$/,
  );
  const withoutNewline = three.subarray(0, -1);
  for (const rest of [Buffer.alloc(0), Buffer.alloc(1), Buffer.alloc(5_000), Buffer.from('\x07{"seq":')])
    await startsWithoutTheEnd({ [FIRST]: Buffer.concat([withoutNewline, rest]) }, 'torn end');
});

test('a last line that skips or repeats a seq is not an interrupted write, even if its crc is good', async () => {
  const rechained = (seq: number) => makeLines(1, { seq, crc: makeLinesBefore.crc }).bytes;
  const { bytes: firstTwo, chain: makeLinesBefore } = makeLines(2);
  await isRefused({ [FIRST]: Buffer.concat([firstTwo, rechained(4)]) }, 'gap');
  await isRefused({ [FIRST]: Buffer.concat([firstTwo, rechained(2)]) }, 'repeat');
  await isRefused({ [FIRST]: Buffer.concat([four[0], four[1], four[3]]) }, 'gap');
  await isRefused({ [FIRST]: Buffer.concat([four[0], four[1], four[1]]) }, 'repeat');
  await isRefused({ [FIRST]: Buffer.concat([firstTwo, rechained(4), Buffer.from('{"se')]) }, 'gap');
});

test('an existing .torn file is not overwritten', async () => {
  const before = { [FIRST]: Buffer.concat([one, Buffer.from('torn now')]), [`${FIRST}.torn`]: Buffer.from('before') };
  const { disk } = await startOn(before);
  assert.equal(disk.text(`${FIRST}.torn`), 'before');
  assert.equal(disk.text(`${FIRST}.torn-2`), 'torn now');
});

test('the command in a refusal is quoted for the shell, whatever the name of the folder', () => {
  const finding = { kind: 'gap', decision: 'refuse', file: FIRST, line: 1, byte: 0, problem: 'p' } as const;
  assert.match(new DamagedError("/a b/it's", finding).message, /repair --data '\/a b\/it'\\''s' shows/);
});

test('the last file is rewritten after an unclean stop, and only then [recovery-1]', async () => {
  const disk = diskWith({ [FIRST]: three });
  await recover(disk, quiet);
  assert.deepEqual(
    disk.calls.filter((call) => !/^(list|read|write|size)/.test(call)),
    [
      `remove ${FIRST}.rewrite`,
      `create ${FIRST}.rewrite`,
      'syncFolder ',
      `sync ${FIRST}.rewrite`,
      `close ${FIRST}.rewrite`,
      `rename ${FIRST}.rewrite`,
      'syncFolder ',
      `open ${FIRST}`,
    ],
  );

  await markCleanStop(disk, { file: FIRST, bytes: three.length, chain: afterThree });
  const before = disk.calls.length;
  await recover(disk, quiet);
  assert.deepEqual(disk.calls.slice(before), [
    'list ',
    'read .stopped-cleanly',
    `read ${FIRST}`,
    'remove .stopped-cleanly',
    'syncFolder ',
    `open ${FIRST}`,
  ]);
});

test('a start that lost its lock while reading does not replace the file, since another process might append to it', async () => {
  for (const end of ['', '{"seq":4,"torn']) {
    const files = { [FIRST]: Buffer.concat([three, Buffer.from(end)]) };
    const disk = diskWith(files);
    const appended = segment(1, 9);
    const lost = () => {
      disk.put(FIRST, appended);
      throw new Error('the lock file was removed');
    };
    await assert.rejects(recover(disk, quiet, limits, lost), /^Error: the lock file was removed$/);
    assert.deepEqual(disk.bytes(FIRST), appended);
  }
});
