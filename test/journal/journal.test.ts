import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { limits as standardLimits } from '../../src/config/limits.ts';
import { saveMemory } from '../../src/config/memory.ts';
import type { Event } from '../../src/event/event.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { Journal, type JournalOptions } from '../../src/journal/journal.ts';
import { type ChainPosition, checkLine, SEQ_MAX } from '../../src/journal/record.ts';
import { goneName, segmentFirstSeq, segmentName } from '../../src/journal/segments.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { newFolder } from '../support/program.ts';
import { diskWith, makeLines, segment } from '../support/segments.ts';
import { SimulatedDisk, systemError } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';

const FIRST = segmentName(1);
const limits = { ...standardLimits, probeMs: 20, openRetryMs: 20 };

function event(name: string): Event {
  return { type: 'AssetMaterialization', assetKey: ['a'], description: name };
}

interface Opened {
  readonly journal: Journal;
  readonly notices: string[];
  readonly failures: Error[];
  /** Resolves with undefined when the event is durable, else with why it was not recorded. */
  append(name: string, bodyBytes?: number): Promise<string | undefined>;
}

async function open(disk: Disk, options: Partial<JournalOptions> = {}): Promise<Opened> {
  const notices: string[] = [];
  const failures: Error[] = [];
  const journal = new Journal({
    disk,
    notices: createNotices('debug', false, (line) => notices.push(line)),
    segmentBytes: 64 * 1024 * 1024,
    limits,
    onFailed: (error) => failures.push(error),
    ...options,
  });
  await journal.open();
  return {
    journal,
    notices,
    failures,
    append: (name, bodyBytes = 0) => appendAll(journal, [event(name)], bodyBytes),
  };
}

/** @returns undefined when all events are durable, else why none was recorded */
function appendAll(journal: Journal, events: readonly Event[], bodyBytes = 0): Promise<string | undefined> {
  return new Promise((resolve) => {
    journal.append(events, bodyBytes, (result) => resolve('reason' in result ? result.reason : undefined));
  });
}

async function textOf(disk: Disk, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of disk.read(name)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** The descriptions of all events in the folder; checks every line, every crc and every seq on the way. */
async function recorded(disk: Disk): Promise<string[]> {
  const names = (await disk.list()).filter((name) => segmentFirstSeq(name) !== undefined).sort();
  const descriptions: string[] = [];
  let seq = segmentFirstSeq(names[0] ?? '') ?? 1;
  for (const name of names) {
    let chain: ChainPosition = { seq, crc: 0 };
    assert.equal(segmentFirstSeq(name), seq);
    const text = await textOf(disk, name);
    assert.ok(text === '' || text.endsWith('\n'), `${name} ends in the middle of a line`);
    for (const line of text.split('\n').slice(0, -1)) {
      const check = checkLine(Buffer.from(line), 0, Buffer.byteLength(line), chain);
      assert.ok(check.kind === 'good', `${name}: ${JSON.stringify(check)}`);
      chain = check.chain;
      descriptions.push(JSON.parse(line).description);
    }
    seq = chain.seq;
  }
  return descriptions;
}

/** A promise and the way to resolve it from outside. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const disks: Record<string, (t: TestContext) => Disk> = {
  'the real disk': (t) => openDisk(newFolder(t)),
  'the simulated disk': () => new SimulatedDisk(),
};

for (const [kind, makeDisk] of Object.entries(disks)) {
  test(`${kind}: what is appended is recorded in order, and a start goes on where the last one stopped`, async (t) => {
    const disk = makeDisk(t);
    const first = await open(disk);
    assert.deepEqual(await Promise.all(['a', 'b', 'c'].map((name) => first.append(name))), [
      undefined,
      undefined,
      undefined,
    ]);
    assert.equal(await first.append('d'), undefined);
    await first.journal.close();
    const second = await open(disk);
    assert.equal(await second.append('e'), undefined);
    await second.journal.close();
    assert.deepEqual(await recorded(disk), ['a', 'b', 'c', 'd', 'e']);
  });

  test(`${kind}: a full file is followed by the next, and lines continue over files and starts [journal-1]`, async (t) => {
    const disk = makeDisk(t);
    const names: string[] = [];
    for (let start = 0; start < 3; start += 1) {
      const { journal, append } = await open(disk, { segmentBytes: 500 });
      for (let count = 0; count < 5; count += 1) {
        names.push(`${start}.${count}`);
        assert.equal(await append(`${start}.${count}`), undefined);
      }
      await journal.close();
    }
    assert.deepEqual(await recorded(disk), names);
    const files = (await disk.list()).filter((name) => name.endsWith('.jsonl'));
    assert.ok(files.length >= 4, files.join());
  });

  test(`${kind}: a close finishes what was taken [journal-15]`, async (t) => {
    const disk = makeDisk(t);
    const { journal, append } = await open(disk);
    const taken = ['a', 'b', 'c'].map((name) => append(name));
    await journal.close();
    assert.deepEqual(await Promise.all(taken), [undefined, undefined, undefined]);
    assert.deepEqual(await recorded(disk), ['a', 'b', 'c']);
  });

  test(`${kind}: a closed journal takes nothing`, async (t) => {
    const { journal, append } = await open(makeDisk(t));
    await journal.close();
    assert.equal(await append('late'), 'the service is stopping');
    await journal.close();
  });
}

test('nothing is acknowledged before the sync that covers it has returned', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk);
  const { opened, open: release } = gate();
  disk.fault = (call) => (call === 'sync' ? opened : undefined);
  let acknowledged = false;
  const done = append('a').then(() => {
    acknowledged = true;
  });
  await eventually('the sync', () => disk.count('sync') === 1);
  assert.match(disk.text(FIRST), /"description":"a"/);
  assert.equal(acknowledged, false);
  release();
  await done;
  assert.equal(acknowledged, true);
  await journal.close();
});

test('what arrives during a sync is one batch: one write and one sync for all of it', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk);
  const { opened, open: release } = gate();
  disk.fault = (call) => (call === 'sync' ? opened : undefined);
  const first = append('0');
  await eventually('the first sync', () => disk.count('sync') === 1);
  const rest = Array.from({ length: 50 }, (_, index) => append(`${index + 1}`));
  await turn();
  assert.equal(disk.count('write'), 1, 'a second operation started before the first had ended');
  release();
  await Promise.all([first, ...rest]);
  assert.equal(disk.count('write'), 2);
  assert.equal(disk.count('sync'), 2);
  assert.deepEqual(
    await recorded(disk),
    Array.from({ length: 51 }, (_, index) => `${index}`),
  );
  await journal.close();
});

test('a batch has a size, and acknowledgements keep the order of arrival', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk, { limits: { ...limits, batchBytesMax: 400 } });
  const order: number[] = [];
  await Promise.all(Array.from({ length: 20 }, (_, index) => append(`${index}`).then(() => order.push(index))));
  assert.ok(disk.count('write') >= 4, `${disk.count('write')} writes`);
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
  );
  await append('x'.repeat(20_000));
  assert.equal((await recorded(disk)).length, 21);
  await journal.close();
});

test('no write has more bytes than a batch may have, whatever the characters, unless it is one line [journal-11]', async () => {
  const batchBytesMax = 20_000;
  for (const text of ['x', 'é', '\u2028', '😀']) {
    const disk = new SimulatedDisk();
    const { append, journal } = await open(disk, { limits: { ...limits, batchBytesMax } });
    let [before, lines, most] = [0, 0, 0];
    disk.fault = (call) => {
      if (call !== 'sync') return undefined;
      const written = (disk.bytes(FIRST) as Buffer).subarray(before);
      before += written.length;
      lines = written.toString().split('\n').length - 1;
      if (lines > 1) most = Math.max(most, written.length);
      return undefined;
    };
    // As text and as bytes: a large body is let go.
    const sizes = Array.from({ length: 300 }, (_, index) => (index % 2 === 0 ? 0 : 1024 * 1024));
    const answers = sizes.map((bodyBytes, index) => append(text.repeat(index % 100), bodyBytes));
    assert.deepEqual(new Set(await Promise.all(answers)), new Set([undefined]));
    assert.equal(await append(text.repeat(30_000)), undefined);
    assert.equal(lines, 1);
    assert.ok(most > batchBytesMax / 8 && most <= batchBytesMax, `${most} bytes of ${text}`);
    await journal.close();
  }
});

test('an event from a large body does not keep the body while it waits for the disk [journal-14]', async () => {
  const collect = saveMemory();
  const disk = new SimulatedDisk();
  const { journal } = await open(disk);
  const { opened, open: release } = gate();
  disk.fault = (call) => (call === 'write' ? opened : undefined);
  const bodyBytes = 512 * 1024;
  const [results, count]: [string[], number] = [[], 20];
  const done = ({ kind }: { readonly kind: string }) => results.push(kind); // made here, so that it does not keep an event
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let number = 0; number < count; number += 1) {
    const body = Buffer.alloc(bodyBytes, `{"the number of the body":${number}}`).toString('latin1');
    journal.append([{ ...event('a'), metadata: body.slice(0, body.indexOf('}') + 1) }], bodyBytes, done);
    await turn();
  }
  collect();
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(grown < 4 * bodyBytes, `${grown} bytes for ${count} events`);
  release();
  await eventually('all are durable', () => results.length === count);
  assert.deepEqual(new Set(results), new Set(['recorded']));
  await journal.close();
});

test('more than may wait for the disk is refused at once, and what waits is recorded [journal-12]', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk, { limits: { ...limits, queueBytesMax: 10_000 } });
  const { opened, open: release } = gate();
  disk.fault = (call) => (call === 'sync' ? opened : undefined);
  const first = append('first');
  await eventually('the sync', () => disk.count('sync') === 1);
  const waiting = Array.from({ length: 10 }, (_, index) => append(`${index}`));
  const refused = await Promise.all(waiting.slice(3)); // the one that is on its way is counted as well
  assert.deepEqual(new Set(refused), new Set(['the disk does not keep up: too many reports are waiting for it']));
  release();
  assert.deepEqual(await Promise.all([first, ...waiting.slice(0, 3)]), Array(4).fill(undefined));
  assert.deepEqual(await recorded(disk), ['first', '0', '1', '2']);
  assert.equal(await append('again'), undefined);
  await journal.close();
});

test('journals that share a backlog share its bound, and each gives back what it took [journal-13]', async () => {
  const disks = [new SimulatedDisk(), new SimulatedDisk()] as const;
  const shared = { backlog: { bytes: 0 }, limits: { ...limits, backlogBytesMax: 10_000 } };
  const [slow, other] = [await open(disks[0], shared), await open(disks[1], shared)];
  const { opened, open: release } = gate();
  disks[0].fault = (call) => (call === 'sync' ? opened : undefined);
  const waiting = Array.from({ length: 4 }, (_, index) => slow.append(`${index}`));
  assert.match((await other.append('no room')) ?? '', /too many reports are waiting/);
  release();
  assert.deepEqual(await Promise.all(waiting), Array(4).fill(undefined));
  assert.equal(await other.append('room'), undefined);
  assert.equal(shared.backlog.bytes, 0);
  await Promise.all([slow.journal.close(), other.journal.close()]);
});

test('what waits counts as what it holds: not as the large body that it was cut from, which it lets go', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk, { limits: { ...limits, queueBytesMax: 100_000 } });
  const cut = Array.from({ length: 20 }, (_, index) => append(`${index}`, 1024 * 1024));
  assert.deepEqual(await Promise.all(cut), Array(20).fill(undefined));
  assert.equal(await append('\u2028é', 1024 * 1024), undefined);
  assert.match((await append('x'.repeat(100_000), 100_000)) ?? '', /too many reports/);
  assert.match((await append('x'.repeat(2_000), 60_000)) ?? 'taken', /^taken$/);
  assert.equal((await recorded(disk))[20], '\u2028é');
  await journal.close();
});

test('a failed write is cut back and refused, and the next one is recorded without a gap [journal-5]', async () => {
  for (const fault of [systemError('ENOSPC'), { shortBy: 1 }, { shortBy: 100 }]) {
    const disk = new SimulatedDisk();
    const { append, journal, notices } = await open(disk);
    await append('a');
    disk.fault = (call) => (call === 'write' ? fault : undefined);
    assert.equal(await append('lost'), 'the disk refuses writes; send the report again later');
    assert.equal(journal.trouble, 'the disk refuses writes; send the report again later');
    assert.deepEqual(await recorded(disk), ['a']);
    disk.fault = () => undefined;
    assert.equal(await append('b'), undefined);
    assert.equal(journal.trouble, undefined);
    assert.deepEqual(await recorded(disk), ['a', 'b']);
    await journal.close();
    assert.equal(notices.filter((line) => line.includes('the disk refuses writes')).length, 1);
    assert.equal(notices.filter((line) => line.includes('the disk takes writes again')).length, 1);
  }
});

test('a disk that takes writes again is noticed without a report', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk);
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  await append('lost');
  await eventually('an attempt to write', () => disk.count('write') > 1);
  assert.notEqual(journal.trouble, undefined);
  disk.fault = () => undefined;
  await eventually('writes are taken again', () => journal.trouble === undefined);
  assert.equal(disk.text(FIRST), '', 'the attempt left something behind');
  assert.equal(await append('a'), undefined);
  assert.deepEqual(await recorded(disk), ['a']);
  await journal.close();
});

test('a failed sync is never believed again: everybody is refused and the journal has failed [journal-2]', async () => {
  const disk = new SimulatedDisk();
  const { append, journal, failures } = await open(disk);
  await append('a');
  let syncs = 0;
  disk.fault = (call) => {
    if (call === 'sync') syncs += 1;
    return call === 'sync' && syncs === 1 ? systemError('EIO') : undefined;
  };
  const during = append('b');
  await turn();
  const behind = append('c');
  const reason = 'the disk failed; send the report again when the service is back';
  assert.deepEqual(await Promise.all([during, behind]), [reason, reason]);
  assert.equal(await append('d'), reason);
  assert.equal(syncs, 1, 'the sync was tried again');
  await turn();
  assert.deepEqual(
    failures.map(({ message }) => message),
    ["EIO: simulated, 'file'"],
  );
  assert.equal(journal.trouble, reason);
  await journal.close();
  assert.equal(disk.names().includes('.stopped-cleanly'), false);
});

test('memory that can not be allocated is not a failed disk: the batch is refused, and the journal continues', async (t) => {
  const disk = new SimulatedDisk();
  const { journal, append, notices, failures } = await open(disk);
  const large = standardLimits.heldBodyBytesMax + 1;
  const outOfMemory = () => {
    throw new RangeError('Array buffer allocation failed');
  };
  for (const method of ['allocUnsafeSlow', 'from'] as const) {
    // `allocUnsafeSlow` makes the buffer of a batch, `from` packs a large report before it waits.
    const mocked = t.mock.method(Buffer, method, outOfMemory);
    assert.equal(await append(method, large), 'the service is short of memory; send the report again later');
    mocked.mock.restore();
    assert.deepEqual([journal.trouble, journal.queueBytes, failures], [undefined, 0, []]);
    assert.equal(await append(`after ${method}`, large), undefined);
  }
  assert.deepEqual(await recorded(disk), ['after allocUnsafeSlow', 'after from']);
  assert.equal(notices.filter((line) => line.includes('Array buffer allocation failed')).length, 1);
  await journal.close();
});

test('a callback that throws keeps no report from an answer, is logged, and does not stop the journal [journal-4]', async () => {
  const disk = new SimulatedDisk();
  let recordedTo = 0;
  const throwing = {
    onRecorded: (nextSeq: number) => {
      recordedTo = nextSeq;
      throw new Error('onRecorded is broken');
    },
    onFailed: () => {
      throw new Error('onFailed is broken');
    },
  };
  const { journal, append, notices } = await open(disk, throwing);
  journal.append([event('thrown at')], 0, () => {
    throw new Error('done is broken');
  });
  const behind = append('in the same batch');
  assert.equal(await behind, undefined);
  assert.equal(await append('in the next batch'), undefined);
  assert.deepEqual([recordedTo, journal.trouble, journal.queueBytes], [4, undefined, 0]);
  assert.deepEqual(await recorded(disk), ['thrown at', 'in the same batch', 'in the next batch']);
  disk.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);
  assert.match((await append('lost')) ?? '', /^the disk failed/);
  await journal.close();
  for (const name of ['done', 'onRecorded', 'onFailed'])
    assert.ok(
      notices.some((line) => line.includes(`${name} is broken`)),
      name,
    );
});

test('a write that can not be cut back is as bad as a failed sync', async () => {
  const disk = new SimulatedDisk();
  const { append, failures } = await open(disk);
  disk.fault = (call) => (call === 'write' || call === 'truncate' ? systemError('EIO') : undefined);
  assert.match((await append('a')) ?? '', /^the disk failed/);
  await turn();
  assert.equal(failures.length, 1);
});

test('a disk that refused and then failed is told of once', async () => {
  const disk = new SimulatedDisk();
  const { append, failures } = await open(disk);
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  assert.match((await append('a')) ?? '', /^the disk refuses writes/);
  disk.fault = (call) => (call === 'write' || call === 'truncate' ? systemError('EIO') : undefined);
  assert.match((await append('b')) ?? '', /^the disk failed/);
  await sleep(5 * limits.probeMs);
  assert.equal(failures.length, 1);
});

test('what is recorded is told when the journal is open and after each sync, and never before', async () => {
  const disk = new SimulatedDisk();
  const told: number[] = [];
  const { append, journal } = await open(disk, { onRecorded: (nextSeq) => told.push(nextSeq) });
  assert.deepEqual(told, [1]);
  const { opened, open: release } = gate();
  disk.fault = (call) => (call === 'sync' ? opened : undefined);
  const batch = Promise.all(['a', 'b'].map((name) => append(name)));
  while (!disk.calls.includes(`sync ${FIRST}`)) await turn();
  assert.deepEqual(told, [1]);
  release();
  await batch;
  assert.deepEqual(told, [1, 3]);
  disk.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  await append('c');
  assert.deepEqual(told, [1, 3]);
  await journal.close();
});

test('a new file is acknowledged from only after its directory entry is synced', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk, { segmentBytes: 100 });
  await append('a');
  const before = disk.calls.length;
  await append('b');
  assert.deepEqual(disk.calls.slice(before), [
    `create ${segmentName(2)}`,
    'syncFolder ',
    `close ${FIRST}`,
    `write ${segmentName(2)}`,
    `sync ${segmentName(2)}`,
  ]);
  await journal.close();
});

test('a new file that can not be made is refused and tried again; an unsynced entry is a failed disk [journal-3]', async () => {
  const disk = new SimulatedDisk();
  const { append, failures } = await open(disk, { segmentBytes: 100 });
  await append('a');
  disk.fault = (call) => (call === 'create' ? systemError('EMFILE') : undefined);
  assert.match((await append('lost')) ?? '', /^the disk refuses writes/);
  disk.fault = () => undefined;
  assert.equal(await append('b'), undefined);
  assert.deepEqual(await recorded(disk), ['a', 'b']);
  disk.fault = (call) => (call === 'syncFolder' ? systemError('EIO') : undefined);
  assert.match((await append('c')) ?? '', /^the disk failed/);
  await turn();
  assert.equal(failures.length, 1);
});

test('a disk that does not answer is told, further reports are refused, and those that wait still count', async () => {
  const disk = new SimulatedDisk();
  const { append, journal, notices } = await open(disk, { limits: { ...limits, diskAnswerMs: 50 } });
  const { opened, open: release } = gate();
  disk.fault = (call) => (call === 'sync' ? opened : undefined);
  const first = append('a');
  await eventually('the sync', () => disk.count('sync') === 1);
  const waiting = append('b');
  await eventually('the delay is noticed', () => journal.trouble !== undefined);
  const reason = 'the disk has not answered for 0.05 s; send the report again later';
  assert.equal(journal.trouble, reason);
  assert.equal(await append('late'), reason);
  release();
  assert.deepEqual(await Promise.all([first, waiting]), [undefined, undefined]);
  assert.equal(journal.trouble, undefined);
  assert.equal(await append('c'), undefined);
  assert.deepEqual(await recorded(disk), ['a', 'b', 'c']);
  assert.equal(notices.filter((line) => line.includes('the disk does not answer')).length, 1);
  await journal.close();
});

test('a start on a full disk waits for space, says so once, and then goes on', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk);
  await append('a');
  const crashed = disk.afterCrash();
  void journal.close();
  crashed.fault = (call) => (call === 'write' ? systemError('ENOSPC') : undefined);
  const told: string[] = [];
  const second = new Journal({
    disk: crashed,
    notices: createNotices('info', false, (line) => told.push(line)),
    segmentBytes: 1_000_000,
    limits,
    onFailed: () => {},
  });
  const opening = second.open();
  await eventually('a second attempt', () => crashed.count('write') >= 3);
  const reason = 'the disk is full; the service waits for space to open its journal';
  assert.equal(second.trouble, reason);
  assert.equal(told.filter((line) => line.includes(reason)).length, 1);
  crashed.fault = () => undefined;
  await opening;
  assert.equal(second.trouble, undefined);
  assert.deepEqual(await recorded(crashed), ['a']);
  await second.close();
});

/** A journal file of which the next start makes a copy, and a start on it that waits for space. */
function openWithoutSpace(disk: SimulatedDisk, options: Partial<JournalOptions> = {}) {
  const told: string[] = [];
  const journal = new Journal({
    disk,
    notices: createNotices('info', false, (line) => told.push(line)),
    segmentBytes: 1_000_000,
    limits: { ...limits, probeMs: 1, openRetryMs: 1, openRetryMsMax: 4 },
    onFailed: () => {},
    ...options,
  });
  const waits = () => eventually('it waits', () => journal.trouble?.startsWith('the disk is full') === true);
  return { journal, opening: journal.open(), told, waits };
}

test('a start looks at the free space before it copies, and opens as soon as there is enough', async () => {
  const { bytes } = makeLines(20);
  const torn = Buffer.from('{"seq":21,');
  const disk = diskWith({ [FIRST]: Buffer.concat([bytes, torn]) });
  const neededBytes = bytes.length + torn.length + limits.openReserveBytes;
  disk.freeSpace = { ...disk.freeSpace, usableBytes: neededBytes - 1 };
  const { journal, opening, told, waits } = openWithoutSpace(disk, {
    limits: { ...limits, probeMs: 1, openRetryMs: 3_600_000, openRetryMsMax: 3_600_000 },
  });
  await waits();
  assert.deepEqual([disk.count('write'), disk.count('create')], [0, 0]);
  assert.equal(told.filter((line) => line.includes(`that needs ${neededBytes} bytes, and`)).length, 1);
  disk.freeSpace = { ...disk.freeSpace, usableBytes: neededBytes };
  await opening;
  assert.equal(journal.trouble, undefined);
  assert.deepEqual(disk.bytes(FIRST), bytes);
  await journal.close();
});

test('each attempt to open on a full disk doubles the pause before the next, up to a limit', async () => {
  const disk = diskWith({ [FIRST]: makeLines(2).bytes });
  const attemptsMs: number[] = [];
  disk.fault = (call) => {
    if (call !== 'create') return undefined;
    attemptsMs.push(performance.now());
    return attemptsMs.length < 7 ? systemError('ENOSPC') : undefined;
  };
  const { opening, journal } = openWithoutSpace(disk, {
    limits: { ...limits, probeMs: 1, openRetryMs: 4, openRetryMsMax: 32 },
  });
  await opening;
  const pausesMs = attemptsMs.slice(1).map((atMs, index) => atMs - (attemptsMs[index] ?? 0));
  for (const [index, leastMs] of [4, 8, 16, 32, 32, 32].entries())
    assert.ok((pausesMs[index] ?? 0) >= leastMs - 1, `${pausesMs}`);
  await journal.close();
});

test('a close ends the wait for space', async () => {
  const disk = diskWith({ [FIRST]: makeLines(2).bytes });
  disk.freeSpace = { ...disk.freeSpace, usableBytes: 0 };
  const { journal, opening, waits } = openWithoutSpace(disk, {
    limits: { ...limits, probeMs: 1, openRetryMs: 3_600_000, openRetryMsMax: 3_600_000 },
  });
  await waits();
  await journal.close();
  await opening;
  assert.deepEqual([disk.count('write'), disk.names()], [0, [FIRST]]);
});

test('what retention may remove makes space for a start, also on a disk without an inode for a marker', async () => {
  const files = Object.fromEntries([9, 12, 15].map((firstSeq) => [segmentName(firstSeq), segment(firstSeq, 3)]));
  const marker = goneName({ first: 1, last: 8 }, 'removed');
  const disk = diskWith({ ...files, [marker]: Buffer.alloc(0) });
  disk.freeSpace = { ...disk.freeSpace, usableBytes: 0 };
  let full = true;
  disk.fault = (call, name) => {
    if (call === 'remove' && name === segmentName(12)) {
      disk.freeSpace = { ...disk.freeSpace, usableBytes: 1_000_000 };
      full = false;
    }
    return call === 'create' && full ? systemError('ENOSPC') : undefined;
  };
  const { opening, journal } = openWithoutSpace(disk, { retain: { retainBytes: 1, retainDays: undefined } });
  await opening;
  assert.equal(journal.lastSeq, 17);
  assert.equal(journal.files, 1);
  assert.deepEqual(disk.names().sort(), [goneName({ first: 1, last: 14 }, 'removed'), segmentName(15)].sort());
  await journal.close();
});

test('a journal whose last seq is taken refuses what comes, says why, and so does the next start', async () => {
  const disk = new SimulatedDisk();
  const name = segmentName(SEQ_MAX - 2);
  disk.put(name, Buffer.alloc(0));
  disk.put(goneName({ first: 1, last: SEQ_MAX - 3 }, 'removed'), Buffer.alloc(0));
  const reason = /^the journal is full: its last event has seq 9007199254740991, the largest there is/;
  const first = await open(disk);
  const answers = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => first.append(name)));
  assert.deepEqual(answers.slice(0, 3), [undefined, undefined, undefined]);
  for (const answer of answers.slice(3)) assert.match(answer ?? 'recorded', reason);
  assert.match(first.journal.trouble ?? '', reason);
  assert.match(first.journal.refusal(1) ?? '', reason);
  assert.match((await first.append('f')) ?? 'recorded', reason);
  assert.equal(first.notices.filter((line) => line.includes('the journal is full')).length, 1);
  await first.journal.close();

  const second = await open(disk, { segmentBytes: 1 });
  assert.match((await second.append('g')) ?? 'recorded', reason);
  await second.journal.close();
  assert.deepEqual(await recorded(disk), ['a', 'b', 'c']);
});

test('a stop that can not be noted is still a stop', async () => {
  const disk = new SimulatedDisk();
  const { append, journal, notices } = await open(disk);
  await append('a');
  disk.fault = (call) => (call === 'create' ? systemError('ENOSPC') : undefined);
  await journal.close();
  assert.match(notices.at(-1) ?? '', /the stop could not be noted/);
});

test('a journal that another program removes, replaces, moves or cuts is noticed before the next 200 [journal-8]', async (t) => {
  const attacks: Record<string, (path: string) => void> = {
    removes: (path) => rmSync(path),
    replaces: (path) => {
      writeFileSync(`${path}.new`, '');
      renameSync(`${path}.new`, path);
    },
    moves: (path) => renameSync(path, `${path}.old`),
    cuts: (path) => truncateSync(path, 0),
    'appends to': (path) => appendFileSync(path, 'x'.repeat(1000)),
  };
  for (const [verb, attack] of Object.entries(attacks)) {
    // Also where the next batch begins the next file.
    for (const segmentBytes of [64 * 1024 * 1024, 100]) {
      const folder = newFolder(t);
      const { append, failures, journal } = await open(openDisk(folder), { segmentBytes });
      assert.equal(await append('a'), undefined);
      attack(join(folder, FIRST));
      assert.match((await append('b')) ?? 'acknowledged', /^the disk failed/, verb);
      await turn();
      assert.match(
        failures[0]?.message ?? '',
        /was removed or replaced by another program|another program changed it/,
        verb,
      );
      await journal.close();
    }
  }
});

test('a journal that is removed while its sync runs is not acknowledged either', async () => {
  const disk = new SimulatedDisk();
  const { append, failures } = await open(disk);
  disk.fault = (call) => {
    if (call === 'sync') disk.drop(FIRST);
    return undefined;
  };
  assert.match((await append('a')) ?? 'acknowledged', /^the disk failed/);
  await turn();
  assert.match(failures[0]?.message ?? '', /was removed or replaced by another program/);
});

/** What `Lock.checkHeld` does once the lock file is gone. */
function lost(): never {
  throw new Error('the lock file was removed');
}

test('a batch during whose sync the lock is lost is refused, and the journal has failed [journal-6]', async () => {
  const disk = new SimulatedDisk();
  let checkHeld = () => {};
  const { append, failures, journal } = await open(disk, { checkHeld: () => checkHeld() });
  assert.equal(await append('a'), undefined);
  disk.fault = (call) => {
    if (call === 'sync') checkHeld = lost;
    return undefined;
  };
  assert.match((await append('b')) ?? 'acknowledged', /^the disk failed/);
  await turn();
  assert.deepEqual(failures.map(String), ['Error: the lock file was removed']);
  journal.abandon(new Error('it is noticed again'));
  assert.equal(failures.length, 1);
});

test('without the lock no file is begun, and no stop is noted, in a folder that another process may have [journal-7]', async () => {
  const disk = new SimulatedDisk();
  let checkHeld = () => {};
  const options = { checkHeld: () => checkHeld(), segmentBytes: 1 };
  const { append } = await open(disk, options);
  assert.equal(await append('a'), undefined);
  checkHeld = lost;
  assert.match((await append('b')) ?? 'acknowledged', /^the disk failed/);
  assert.deepEqual(disk.names(), [FIRST]);

  checkHeld = () => {};
  const { journal, notices } = await open(disk, options);
  checkHeld = lost;
  await journal.close();
  assert.deepEqual(disk.names(), [FIRST]);
  assert.match(notices.at(-1) ?? '', /the stop could not be noted.*the lock file was removed/);
});

test('a journal with nothing to write fails when it is abandoned; a batch on its way finds out itself', async () => {
  const error = new Error('the lock file was removed');
  const idle = await open(new SimulatedDisk());
  idle.journal.abandon(error);
  assert.deepEqual(idle.failures, [error]);
  assert.match((await idle.append('a')) ?? 'acknowledged', /^the disk failed/);

  const disk = new SimulatedDisk();
  const busy = await open(disk);
  const { opened, open: finish } = gate();
  disk.fault = (call) => (call === 'sync' ? opened : undefined);
  const appended = busy.append('a');
  await turn();
  busy.journal.abandon(error);
  assert.deepEqual(busy.failures, []);
  finish();
  assert.equal(await appended, undefined);
});

test('files and folder are for their owner only', async (t) => {
  const { statSync } = await import('node:fs');
  const folder = join(newFolder(t), 'a/b');
  const disk = openDisk(folder);
  await disk.prepare();
  const { journal } = await open(disk);
  await journal.close();
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  for (const name of readdirSync(folder)) assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name);
});

/** The events `a0`, `a1`, … for the name `a`. */
function batch(name: string, count: number): Event[] {
  return Array.from({ length: count }, (_, index) => event(`${name}${index}`));
}

const tenA = Array.from({ length: 10 }, (_, index) => `a${index}`);

for (const [kind, makeDisk] of Object.entries(disks)) {
  test(`${kind}: events that are appended together follow each other, beside others, and have one result`, async (t) => {
    const disk = makeDisk(t);
    const { journal, append } = await open(disk);
    let results = 0;
    const together = new Promise<void>((resolve) => {
      const before = append('before');
      journal.append(batch('a', 10), 0, (result) => {
        results += 1;
        assert.deepEqual(result, { kind: 'recorded' });
        resolve(before.then(() => {}));
      });
    });
    await Promise.all([together, append('after')]);
    assert.equal(await append('later'), undefined);
    await journal.close();
    assert.equal(results, 1);
    assert.deepEqual(await recorded(disk), ['before', ...tenA, 'after', 'later']);
  });
}

test('events that are appended together share one write, also if they are larger than a batch [journal-9]', async () => {
  const disk = new SimulatedDisk();
  const nextSeqs: number[] = [];
  const onRecorded = (nextSeq: number) => nextSeqs.push(nextSeq);
  const { journal, append } = await open(disk, { limits: { ...limits, batchBytesMax: 400 }, onRecorded });
  const before = disk.count('write');
  assert.deepEqual(await Promise.all([append('x'), appendAll(journal, batch('a', 10)), append('y')]), [
    undefined,
    undefined,
    undefined,
  ]);
  assert.equal(disk.count('write') - before, 3);
  assert.deepEqual(nextSeqs, [1, 2, 12, 13]);
  await journal.close();
  assert.deepEqual(await recorded(disk), ['x', ...tenA, 'y']);
});

for (const fault of ['ENOSPC', 'short'] as const) {
  test(`of events that are appended together none is recorded if their write fails (${fault})`, async () => {
    const disk = new SimulatedDisk();
    const { journal, append } = await open(disk, { limits: { ...limits, batchBytesMax: 400 } });
    assert.equal(await append('before'), undefined);
    disk.fault = (call) => (call !== 'write' ? undefined : fault === 'short' ? { shortBy: 500 } : systemError(fault));
    assert.match((await appendAll(journal, batch('a', 10))) ?? '', /^the disk refuses writes/);
    disk.fault = () => undefined;
    assert.equal(await appendAll(journal, batch('b', 2)), undefined);
    await journal.close();
    assert.deepEqual(await recorded(disk), ['before', 'b0', 'b1']);
  });
}

test('events that are appended together count against the queue before any of them is taken [journal-10]', async () => {
  const disk = new SimulatedDisk();
  const { journal, append } = await open(disk, { limits: { ...limits, queueBytesMax: 10_000, queueLineBytes: 1_000 } });
  assert.match(
    (await appendAll(journal, batch('never', 10))) ?? '',
    /^the 10 events take \d+ bytes .* 10000 .* in parts$/,
  );
  const [first, second] = [appendAll(journal, batch('a', 2), 1024 * 1024), appendAll(journal, batch('b', 6))];
  assert.match((await second) ?? '', /too many reports are waiting/);
  assert.equal(await first, undefined);
  assert.equal(journal.queueBytes, 0);
  assert.equal(await append('alone'), undefined);
  await journal.close();
  assert.deepEqual(await recorded(disk), ['a0', 'a1', 'alone']);
});

test('events that would be a longer write than a crash explains are refused, with what to do', async () => {
  const disk = new SimulatedDisk();
  const { journal, append } = await open(disk, { limits: { ...limits, tornBytesMax: 2_000 } });
  assert.match(
    (await appendAll(journal, batch('a', 10))) ?? '',
    /^the 10 events take up to \d+ bytes .* at most 2000 .*; send them in parts$/,
  );
  assert.equal(await append('x'.repeat(3_000)), undefined);
  await journal.close();
});

test('events that are appended together are refused together if the journal has too few seqs left', async () => {
  const disk = new SimulatedDisk();
  disk.put(segmentName(SEQ_MAX - 2), Buffer.alloc(0));
  disk.put(goneName({ first: 1, last: SEQ_MAX - 3 }, 'removed'), Buffer.alloc(0));
  const { journal, append } = await open(disk);
  const results = await Promise.all([append('x'), appendAll(journal, batch('a', 10)), append('y')]);
  assert.equal(results[0], undefined);
  assert.match(results[1] ?? '', /^the journal is full/);
  assert.equal(results[2], undefined);
  await journal.close();
  assert.deepEqual(await recorded(disk), ['x', 'y']);
});
