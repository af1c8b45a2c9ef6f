import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDisk, SyncError } from '../src/disk.ts';
import { goneName, type Place, segmentName } from '../src/event.ts';
import { createNotices } from '../src/notice.ts';
import { DamagedError, type Decision, decisions, type Kind, recover, rememberCleanStop } from '../src/recovery.ts';
import { verify } from '../src/verify.ts';
import { newFolder } from './program.ts';
import { diskWith, FIRST, type Files, filesOf, flip, makeLines, quiet, START, segment } from './segments.ts';
import { failingCall, SimulatedDisk, systemError } from './simulated-disk.ts';

const { bytes: three, lines, place: afterThree } = makeLines(3);
const [one, two, last] = lines as [Buffer, Buffer, Buffer];
const FOURTH = segmentName(4);
const SEVENTH = segmentName(7);
const whole = { [FIRST]: three, [FOURTH]: segment(4, 3) };
const four = makeLines(4).lines as [Buffer, Buffer, Buffer, Buffer];

/** Of each kind, a folder in which the last file is so, and one in which an earlier file is. */
const examples: Readonly<Record<Kind, { readonly last: Files; readonly earlier: Files }>> = {
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
  'bad line inside': {
    last: { [FIRST]: Buffer.concat([one, flip(two, 30), last]) },
    earlier: { ...whole, [FIRST]: Buffer.concat([one, flip(two, 30), last]) },
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
  'foreign file': {
    last: { [FIRST]: three, 'notes.txt': Buffer.from('mine'), 'events-1.jsonl': Buffer.from('x') },
    earlier: { ...whole, '.hidden': Buffer.from('y'), 'events-1.csv': Buffer.from('z') },
  },
};

/** What a start finds only in the last file: of those before it, it reads the last line. */
const seenByVerifyOnly: readonly Kind[] = ['bad line inside', 'gap', 'repeat', 'swapped lines'];

test('every kind of finding has its examples, and a start decides about each as the table says', async () => {
  assert.deepEqual(Object.keys(examples).sort(), Object.keys(decisions).sort());
  const outcomes: Readonly<Record<Decision, (files: Files, kind: Kind) => Promise<void>>> = {
    use: startsUnchanged,
    leave: startsUnchanged,
    cut: startsWithoutTheEnd,
    refuse: isRefused,
  };
  for (const [kind, example] of Object.entries(examples) as [Kind, (typeof examples)[Kind]][]) {
    for (const which of ['last', 'earlier'] as const) {
      if (which === 'earlier' && seenByVerifyOnly.includes(kind)) continue;
      await outcomes[decisions[kind][which]](example[which], kind);
    }
  }
});

test('reading everything finds each kind as well, at the same place', async () => {
  for (const [kind, example] of Object.entries(examples) as [Kind, (typeof examples)[Kind]][]) {
    if (kind === 'foreign file') continue; // nothing is wrong with it
    for (const which of ['last', 'earlier'] as const) {
      const { findings } = await verify(diskWith(example[which]));
      assert.equal(findings[0]?.kind, kind, which);
      assert.equal(findings[0]?.decision, decisions[kind][which]);
      const refused = await startOn(example[which]).catch((error: DamagedError) => error.finding);
      if ('kind' in refused) assert.deepEqual(refused, findings[0]);
    }
  }
});

interface Started {
  readonly disk: SimulatedDisk;
  readonly name: string;
  readonly bytes: number;
  readonly next: Place;
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
  return { disk, name: found.file.name, bytes: found.bytes, next: found.place, notices };
}

async function startsUnchanged(files: Files): Promise<void> {
  const { disk, name, bytes, notices } = await startOn(files);
  assert.deepEqual(filesOf(disk), files);
  assert.equal(bytes, files[name]?.length);
  assert.equal(notices, '');
}

async function startsWithoutTheEnd(files: Files, kind: Kind): Promise<void> {
  const { disk, name, bytes, notices } = await startOn(files);
  const before = files[name] as Buffer;
  assert.deepEqual(disk.bytes(name), before.subarray(0, bytes), kind);
  assert.deepEqual(disk.bytes(`${name}.torn`), before.subarray(bytes), kind);
  assert.match(notices, /^\{[^\n]*"level":"warn","message":"the end of the journal was cut off[^\n]*\}\n$/);
  assert.match(notices, new RegExp(`"file":"${name}","line":\\d,"byte":${bytes},.*"kept":"${name}.torn"`));
  assert.deepEqual(disk.names().sort(), [...Object.keys(files), `${name}.torn`].sort());
  const { findings } = await verify(disk);
  assert.deepEqual(findings, []);
}

async function isRefused(files: Files, kind: Kind): Promise<void> {
  const disk = diskWith(files);
  const refused = await recover(disk, quiet).then(
    () => assert.fail(`${kind} was not refused`),
    (error) => error,
  );
  assert.ok(refused instanceof DamagedError, `${refused}`);
  assert.equal(refused.finding.kind, kind);
  assert.match(
    refused.message,
    /^the journal is damaged: \/simulated\/events-\d{20}\.jsonl, line \d, byte \d+: [^;]+; nothing was changed\. assetlog repair --data \/simulated shows how to mend it$/,
  );
  assert.deepEqual(filesOf(disk), files, kind);
}

test('an empty folder begins at 1, and good lines are gone on from', async () => {
  assert.deepEqual((await startOn({})).next, START);
  const found = await startOn({ [FIRST]: three });
  assert.deepEqual([found.next, found.notices], [afterThree, '']);
});

test('events that are known to be lost are no gap', async () => {
  const lost = { [goneName({ first: 4, last: 6 }, 'lost')]: Buffer.alloc(0) };
  assert.equal((await startOn({ [FIRST]: three, ...lost, [SEVENTH]: segment(7, 2) })).next.seq, 9);
  assert.equal((await startOn(lost)).next.seq, 1);
  assert.equal((await startOn({ [goneName({ first: 1, last: 3 }, 'lost')]: Buffer.alloc(0) })).next.seq, 4);
  // A file that was found again stands where its events were lost.
  assert.equal((await startOn({ [FIRST]: three, ...lost, [FOURTH]: segment(4, 3) })).next.seq, 7);
  await isRefused({ [FIRST]: three, ...lost, [segmentName(8)]: segment(8, 1) }, 'missing file');
});

test('a torn end is kept aside byte for byte, wherever it was torn', async () => {
  for (let length = 1; length < last.length; length += 1) {
    await startsWithoutTheEnd({ [FIRST]: Buffer.concat([one, two, last.subarray(0, length)]) }, 'torn end');
  }
});

test('a last line that is bad but reached its newline is cut, whichever byte of it is bad', async () => {
  for (let at = 0; at < last.length - 1; at += 1) {
    await startsWithoutTheEnd({ [FIRST]: Buffer.concat([one, two, flip(last, at)]) }, 'bad last line');
  }
});

test('what is cut off after a clean stop may have been acknowledged, and that is told', async () => {
  const { notices } = await startOn({
    [FIRST]: Buffer.concat([one, two, flip(last, 30)]),
    '.stopped-cleanly': Buffer.alloc(0),
  });
  assert.match(notices, /cut off: it is not as a clean stop left it, so it may have been acknowledged/);
});

test('a file with nothing but a torn end begins again', async () => {
  const found = await startOn({ [FIRST]: last.subarray(0, 10) });
  assert.deepEqual([found.bytes, found.next], [0, START]);
});

test('bytes kept aside before are not overwritten', async () => {
  const before = { [FIRST]: Buffer.concat([one, Buffer.from('torn now')]), [`${FIRST}.torn`]: Buffer.from('before') };
  const { disk } = await startOn(before);
  assert.equal(disk.text(`${FIRST}.torn`), 'before');
  assert.equal(disk.text(`${FIRST}.torn-2`), 'torn now');
});

test('the command in a refusal can be pasted whatever the folder is called', () => {
  const finding = { kind: 'gap', decision: 'refuse', file: FIRST, line: 1, byte: 0, problem: 'p' } as const;
  assert.match(new DamagedError("/a b/it's", finding).message, /repair --data '\/a b\/it'\\''s' shows/);
});

test('after any stop but a clean one the last file is rewritten, and only then', async () => {
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

  await rememberCleanStop(disk);
  const before = disk.calls.length;
  await recover(disk, quiet);
  assert.deepEqual(disk.calls.slice(before), [
    'list ',
    `read ${FIRST}`,
    'remove .stopped-cleanly',
    'syncFolder ',
    `open ${FIRST}`,
  ]);
});

test('what is only in the cache because a sync failed is on the disk after the next start', async () => {
  const disk = new SimulatedDisk();
  const { file } = await recover(disk, quiet);
  disk.fault = failingCall(2, 'once').fault;
  await assert.rejects(file.append(three, 0), SyncError);
  disk.fault = () => undefined;
  const again = disk.afterCrash();
  assert.equal((await recover(again, quiet)).place.seq, 4);
  const cut = again.afterPowerCut({ entries: 'none', share: 0, behind: 'nothing' });
  assert.deepEqual(cut.bytes(FIRST), three);
});

test('a torn end is durable beside the journal before it is cut off', async () => {
  const { disk } = await startOn({ [FIRST]: Buffer.concat([three, Buffer.from('x')]) });
  const aside = disk.calls.indexOf(`sync ${FIRST}.torn`);
  const cut = disk.calls.indexOf(`rename ${FIRST}.rewrite`);
  assert.ok(aside !== -1 && aside < cut, disk.calls.join());
});

test('whatever call fails during a start, the next start finds every good line', async () => {
  for (const what of ['once', 'always'] as const) {
    for (let failing = 1; ; failing += 1) {
      const disk = diskWith({ [FIRST]: Buffer.concat([three, Buffer.from('torn')]) });
      const { fault, struck } = failingCall(failing, what);
      disk.fault = fault;
      await recover(disk, quiet).catch(() => {});
      disk.fault = () => undefined;
      const found = await recover(disk, quiet);
      assert.deepEqual(disk.bytes(FIRST), three, `call ${failing}`);
      assert.equal(found.place.seq, 4);
      assert.ok(
        disk.names().some((name) => name.includes('.torn') && disk.text(name) === 'torn'),
        `call ${failing}`,
      );
      if (struck() === 0) break;
    }
  }
});

test('a start that finds no space leaves nothing half-made behind', async () => {
  for (let failing = 1; ; failing += 1) {
    const disk = diskWith({ [FIRST]: Buffer.concat([three, Buffer.from('torn')]) });
    let writes = 0;
    disk.fault = (call) => {
      writes += call === 'write' || call === 'create' ? 1 : 0;
      return (call === 'write' || call === 'create') && writes === failing ? systemError('ENOSPC') : undefined;
    };
    const failed = await recover(disk, quiet).then(
      () => false,
      (error) => error.code === 'ENOSPC',
    );
    if (!failed) break;
    disk.fault = () => undefined;
    await recover(disk, quiet);
    assert.deepEqual(disk.names().sort(), [FIRST, `${FIRST}.torn`], `call ${failing}`);
  }
});

test('a folder with many files is started on by their last lines', async (t) => {
  const disk = openDisk(newFolder(t));
  for (let firstSeq = 1; firstSeq <= 40; firstSeq += 2) {
    const file = await disk.create(segmentName(firstSeq));
    await file.write(segment(firstSeq, 2), 0);
    await file.close();
  }
  const found = await recover(disk, quiet);
  await found.file.close();
  assert.equal(found.place.seq, 41);
});
