import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { RecordResult } from '../../../src/event/record-result.ts';
import type { Disk } from '../../../src/journal/disk.ts';
import { KeyMemory } from '../../../src/journal/keys/memory.ts';
import type { JournalOptions } from '../../../src/journal/options.ts';
import { segmentFirstSeq, sidecarName } from '../../../src/journal/segments.ts';
import { Metrics } from '../../../src/telemetry/metrics.ts';
import { createJournal, quickLimits, type TestJournal } from '../../support/journal.ts';
import { eventOf, type PlainEvent } from '../../support/plain-event.ts';
import { FIRST, splitLines } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { hold } from '../../world/gate.ts';
import { settled } from '../../world/power.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

function event(idempotencyKey: string | undefined, description = 'x', metadata?: string): PlainEvent {
  return { type: 'AssetMaterialization', assetKey: ['a'], description, metadata, idempotencyKey };
}

interface Opened extends TestJournal {
  readonly memory: KeyMemory;
  readonly metrics: Metrics;
}

function create(disk: Disk, options: Partial<JournalOptions> = {}): Opened {
  const [memory, metrics] = [options.keyMemory ?? new KeyMemory(1_000), new Metrics()];
  return { ...createJournal(disk, { keyMemory: memory, metrics, ...options }), memory, metrics };
}

async function open(disk: Disk, options?: Partial<JournalOptions>): Promise<Opened> {
  const created = create(disk, options);
  await created.journal.open();
  return created;
}

async function openNew(options?: Partial<JournalOptions>): Promise<Opened & { readonly disk: SimulatedDisk }> {
  const disk = new SimulatedDisk();
  return { disk, ...(await open(disk, options)) };
}

const RECORDED: RecordResult = { kind: 'recorded' };
const REPLAYED: RecordResult = { kind: 'recorded', replayed: [0] };

function conflict(key: string, member: string, index = 0, first?: number): RecordResult {
  return { kind: 'conflict', conflicts: [{ index, key, member, first }] };
}

/** The keys of all lines, in order; undefined for a line without one. */
function recordedKeys(disk: SimulatedDisk): (string | undefined)[] {
  const names = disk
    .names()
    .filter((name) => segmentFirstSeq(name) !== undefined)
    .sort();
  const lines = names.flatMap((name) => splitLines(disk.bytes(name) as Buffer));
  return lines.map((line) => JSON.parse(line.toString()).idempotency_key);
}

test('a repeated report is recorded once, gets the result of the first, and is counted [journal-idempotency-1]', async () => {
  const { disk, append, journal, metrics, memory } = await openNew();
  assert.deepEqual(await append(event('a')), RECORDED);
  assert.deepEqual(await append(event('a')), REPLAYED);
  assert.deepEqual(await append(event('b')), RECORDED);
  assert.deepEqual(await append(event('a')), REPLAYED);
  assert.deepEqual(recordedKeys(disk), ['a', 'b']);
  assert.equal(memory.held, 2);
  assert.equal(metrics.replays, 2);
  assert.equal(journal.queueBytes, 0);
  await journal.close();
  assert.equal(memory.held, 0);
});

test('another event under the same key is a conflict that names the first differing member', async () => {
  const { disk, append } = await openNew();
  const first = event('k', 'd', '{"rows":1.0}');
  await append(first);
  for (const [other, member] of [
    [{ ...first, metadata: '{"rows":1.00}' }, 'metadata'],
    [{ ...first, metadata: undefined }, 'metadata'],
    [{ ...first, metadata: '{"rows":1.0}', partition: 'p' }, 'partition'],
    [{ ...first, description: undefined }, 'description'],
    [{ ...first, description: 'D' }, 'description'],
    [{ ...first, assetKey: ['a', 'b'] }, 'asset_key'],
    [{ ...first, dataVersion: 'v' }, 'tags'],
    [{ ...first, type: 'AssetObservation' }, 'type'],
    [{ ...first, eventTime: '2026-11-20T15:19:45Z' }, 'event_time'],
    [{ ...first, type: 'AssetCheckEvaluation', checkName: 'c', passed: true, severity: 'WARN' }, 'type'],
  ] as [PlainEvent, string][]) {
    assert.deepEqual(await append(other), conflict('k', member), JSON.stringify(other));
  }
  assert.deepEqual(await append(first), REPLAYED);
  assert.deepEqual(recordedKeys(disk), ['k']);
});

test('a report joins an earlier report with its key that waits for the disk, and is not answered before it [journal-idempotency-3]', async () => {
  const { disk, append, journal } = await openNew();
  const release = hold(disk, 'sync');
  const answers: string[] = [];
  const first = append(event('k')).then((result) => answers.push(`first ${result.kind}`));
  const inQueue = append(event('k')).then((result) => answers.push(`second ${result.kind}`));
  await eventually('the sync', () => disk.count('sync') === 1);
  const inSync = append(event('k')).then((result) => answers.push(`third ${result.kind}`));
  assert.deepEqual(await append(event('k', 'other')), conflict('k', 'description'));
  for (let count = 0; count < 20; count += 1) await turn();
  assert.deepEqual(answers, []);
  assert.ok(journal.queueBytes > 3 * quickLimits.queueEventBytes, 'waiting reports count');
  release();
  await Promise.all([first, inQueue, inSync]);
  assert.deepEqual(answers, ['first recorded', 'second recorded', 'third recorded']);
  assert.deepEqual(recordedKeys(disk), ['k']);
  assert.equal(journal.queueBytes, 0);
});

test('a failed sync refuses a report and all that joined it', async () => {
  const { disk, append } = await openNew();
  disk.fault = (call) => (call === 'sync' ? systemError('EIO') : undefined);
  const results = await Promise.all([append(event('k')), append(event('k'))]);
  assert.deepEqual(
    results.map(({ kind }) => kind),
    ['refused', 'refused'],
  );
  assert.equal((await append(event('k'))).kind, 'refused');
});

test('conflicts can be left out: the other events are recorded, and the key still belongs to its event', async () => {
  const { disk, append, journal } = await openNew();
  assert.deepEqual(await append(event('a')), RECORDED);
  const rest = (...events: PlainEvent[]) =>
    new Promise<RecordResult>((resolve) => journal.append(events.map(eventOf), resolve, 'leave out'));
  const left = (index: number, key: string, first?: number) => ({ index, key, member: 'description', first });
  assert.deepEqual(await rest(event('a', '1'), event('b'), event('a', '1'), event('a'), event('b'), event(undefined)), {
    kind: 'recorded',
    replayed: [3, 4],
    conflicts: [left(0, 'a'), left(2, 'a')],
  });
  assert.deepEqual(await rest(event('a'), event('a', '2')), {
    kind: 'recorded',
    replayed: [0],
    conflicts: [left(1, 'a', 0)],
  });
  assert.deepEqual(await rest(event('a', '1'), event('b', '2')), {
    kind: 'conflict',
    conflicts: [left(0, 'a'), left(1, 'b')],
  });
  assert.deepEqual(await rest(event('c'), event('d')), RECORDED);
  assert.deepEqual(recordedKeys(disk), ['a', 'b', undefined, 'c', 'd']);
});

test('the events of a report can join several earlier reports, and are answered after the last of these', async () => {
  const { disk, append } = await openNew({ limits: { ...quickLimits, batchBytesMax: 1 } });
  const answers: string[] = [];
  const note = (name: string) => (result: RecordResult) => answers.push(`${name} ${JSON.stringify(result)}`);
  await Promise.all([
    append(event('a')).then(note('a')),
    append(event('b')).then(note('b')),
    append(event('b'), event('c'), event('a')).then(note('c')),
    append(event('a')).then(note('a again')),
  ]);
  assert.deepEqual(answers, [
    'a {"kind":"recorded"}',
    'a again {"kind":"recorded","replayed":[0]}',
    'b {"kind":"recorded"}',
    'c {"kind":"recorded","replayed":[0,2]}',
  ]);
  assert.deepEqual(recordedKeys(disk), ['a', 'b', 'c']);
});

test('colliding hashes lose no report, and parallel lookups record no key twice', async () => {
  const { disk, append } = await openNew({ hashKey: (text) => ({ text, high: 1, low: 1 }), segmentBytes: 700 });
  const keys = Array.from({ length: 12 }, (_, index) => `k${index % 6}`);
  for (let round = 0; round < 3; round += 1) {
    const results = await Promise.all(keys.map((key) => append(event(key))));
    assert.equal(results.filter(({ kind }) => kind === 'recorded').length, 12);
  }
  await Promise.all(['x', 'y', 'x', 'y', 'x'].map((key) => append(event(key), event(`${key}2`))));
  assert.deepEqual(await append(event('k3', 'other')), conflict('k3', 'description'));
  const sorted = recordedKeys(disk).sort();
  assert.deepEqual(sorted, ['k0', 'k1', 'k2', 'k3', 'k4', 'k5', 'x', 'x2', 'y', 'y2']);
});

test('a report without a key is queued at once and in order while another report looks up its key', async () => {
  const { disk, append } = await openNew();
  await append(event('k', 'first'));
  const release = hold(disk, 'read');
  let isAnswered = false;
  const again = append(event('new', '3'), event('k', 'first')).then((result) => {
    isAnswered = true;
    return result;
  });
  assert.deepEqual(await Promise.all([append(event(undefined, '1')), append(event(undefined, '2'))]), [
    RECORDED,
    RECORDED,
  ]);
  assert.equal(isAnswered, false);
  release();
  assert.deepEqual(await again, { kind: 'recorded', replayed: [1] });
  const descriptions = splitLines(disk.bytes(FIRST) as Buffer).map((line) => JSON.parse(line.toString()).description);
  assert.deepEqual(descriptions, ['first', '1', '2', '3']);
});

test('keyReadsMax reports look up lines at a time, waiting ones count, and a silent disk is a 503', async () => {
  const { disk, append, journal } = await openNew({ limits: { ...quickLimits, diskAnswerMs: 300, keyReadsMax: 2 } });
  for (const key of ['a', 'b', 'c', 'd']) await append(event(key));
  disk.calls.length = 0;
  disk.fault = (call) => (call === 'read' ? new Promise(() => {}) : undefined);
  const again = ['a', 'b', 'c', 'd'].map((key) => append(event(key)));
  await turn();
  assert.equal(disk.count('read'), 2);
  assert.ok(journal.queueBytes >= 4 * quickLimits.queueEventBytes);
  const closed = journal.close();
  const results = await Promise.all(again);
  for (const result of results) {
    assert.equal(result.kind, 'refused');
    assert.match(
      'reason' in result ? result.reason : '',
      /the disk has not answered for 0\.3 s; send the report again/,
    );
  }
  assert.equal(journal.queueBytes, 0);
  await closed;
  assert.deepEqual(recordedKeys(disk), ['a', 'b', 'c', 'd']);
});

test('a stop finishes pending lookups, and records their events', async () => {
  const { disk, append, journal } = await openNew({ hashKey: (text) => ({ text, high: 1, low: 1 }) });
  await append(event('a'));
  const fresh = append(event('b'));
  const known = append(event('a'));
  await journal.close();
  assert.deepEqual(await Promise.all([fresh, known]), [RECORDED, REPLAYED]);
  assert.deepEqual(recordedKeys(disk), ['a', 'b']);
  assert.equal((await append(event('a'))).kind, 'refused');
});

test('an unreadable or damaged line is a 503 and an entry in the log', async () => {
  const { disk, append, notices } = await openNew();
  await append(event('a'));
  await append(event('b'));
  disk.fault = (call) => (call === 'read' ? systemError('EIO') : undefined);
  assert.equal((await append(event('a'))).kind, 'refused');
  disk.fault = () => undefined;
  const bytes = disk.bytes(FIRST) as Buffer;
  bytes[bytes.indexOf('"idempotency_key":"b"') + 19] = 'c'.charCodeAt(0);
  const damaged = await append(event('b'));
  assert.match(
    'reason' in damaged ? damaged.reason : '',
    /the earlier report with this idempotency key cannot be read/,
  );
  assert.deepEqual(await append(event('a')), REPLAYED);
  const logged = notices.filter((line) => line.includes('cannot be read'));
  assert.equal(logged.length, 1, 'at most once a minute');
  assert.match(logged[0] ?? '', /EIO/);
});

test('reports with a key that arrive while the journal is being opened wait for its keys', async () => {
  const disk = new SimulatedDisk();
  const first = await open(disk);
  await first.append(event('k'));
  await first.journal.close();
  const second = create(disk, { openWaitMs: 60_000 });
  const early = [second.append(event('k')), second.append(event('l')), second.append(event('l'))];
  await turn();
  assert.ok(second.journal.queueBytes > 0);
  await second.journal.open();
  assert.deepEqual(await Promise.all(early), [REPLAYED, RECORDED, REPLAYED]);
  assert.deepEqual(recordedKeys(disk), ['k', 'l']);
  await second.journal.close();
  const third = create(disk, { openWaitMs: 1 });
  const late = third.append(event('k'));
  await eventually('the end of the wait', () => third.journal.queueBytes === 0);
  assert.equal((await late).kind, 'refused');
  await third.journal.close();
  assert.equal(third.journal.queueBytes, 0);
});

const SMALL = { segmentBytes: 1_000 };

test('keys are known after rotations and restarts, with and without sidecars [journal-idempotency-10]', async () => {
  const disk = new SimulatedDisk();
  const first = await open(disk, SMALL);
  const keys = Array.from({ length: 30 }, (_, index) => `k${index}`);
  for (const key of keys) assert.deepEqual(await first.append(event(key)), RECORDED);
  for (const key of keys) assert.deepEqual(await first.append(event(key)), REPLAYED, key);
  await first.journal.close();
  const sidecars = disk.names().filter((name) => name.endsWith('.idx'));
  assert.ok(sidecars.length >= 4, disk.names().join());
  for (const drop of [[], sidecars.slice(0, 2), sidecars]) {
    for (const name of drop) disk.drop(name);
    disk.calls.length = 0;
    const again = await open(disk, SMALL);
    const read = disk.calls.filter((call) => call.startsWith('read events-'));
    const whole = new Set(read).size + drop.length;
    assert.ok(read.length <= 3 * whole, read.join());
    for (const key of keys) assert.deepEqual(await again.append(event(key)), REPLAYED, key);
    assert.deepEqual(await again.append(event(keys[0], 'other')), conflict('k0', 'description'));
    await again.journal.close();
    assert.deepEqual(
      disk.names().filter((name) => name.endsWith('.idx')),
      disk.names().filter((name) => sidecars.includes(name)),
    );
    assert.equal(
      disk.names().filter((name) => sidecars.includes(name)).length,
      sidecars.length,
      'a sidecar is written for each file that was read',
    );
  }
  assert.deepEqual(recordedKeys(disk), keys);
});

test('a journal that is closed while it opens writes nothing, and holds no keys afterwards [journal-idempotency-15]', async () => {
  const disk = new SimulatedDisk();
  const { append, journal } = await open(disk, SMALL);
  for (let count = 0; count < 20; count += 1) await append(event(count < 10 ? `k${count}` : undefined));
  await journal.close();
  const sidecars = () => disk.names().filter((name) => name.startsWith('keys-'));
  for (const name of sidecars()) disk.drop(name); // the start writes some sidecars again
  const again = create(disk, SMALL);
  const opening = again.journal.open();
  await again.journal.close();
  await opening;
  assert.equal(again.memory.held, 0);
  const written = sidecars();
  assert.ok(written.length > 0);
  await settled();
  assert.deepEqual(sidecars(), written);
});

test('a start that remembers more keys than the last run reads the segments whose sidecars are incomplete', async () => {
  const disk = new SimulatedDisk();
  const first = await open(disk, { ...SMALL, keyMemory: new KeyMemory(2) });
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
  for (const key of keys) await first.append(event(key));
  assert.equal(first.memory.held, 2);
  await first.journal.close();
  const second = await open(disk, { ...SMALL, keyMemory: new KeyMemory(7) });
  assert.equal(second.memory.held, 7);
  for (const key of keys.slice(-7)) assert.deepEqual(await second.append(event(key)), REPLAYED);
  assert.deepEqual(await second.append(event(keys[12])), RECORDED, 'the window is the last 7');
  await second.journal.close();
  const third = await open(disk, SMALL);
  for (const key of keys) assert.deepEqual(await third.append(event(key)), REPLAYED);
  await third.journal.close();
});

test('without sidecars a start reads a limited number of bytes, and logs how far back keys are known', async () => {
  const disk = new SimulatedDisk();
  const first = await open(disk, SMALL);
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
  for (const key of keys) await first.append(event(key));
  await first.journal.close();
  for (const name of disk.names().filter((one) => one.endsWith('.idx'))) disk.drop(name);
  const { length: bytes } = disk.bytes(FIRST) as Buffer;
  const keyScanBytesMax = Math.floor(1.5 * bytes);
  const second = await open(disk, { ...SMALL, limits: { ...quickLimits, keyScanBytesMax } });
  const logged = second.notices.find((line) => line.includes('keys of older events are unknown')) ?? '{}';
  const known = second.memory.held;
  assert.ok(known > 5 && known < 18, `${known} keys`);
  assert.equal(JSON.parse(logged).before_seq, 20 - known + 1);
  for (const key of keys.slice(-known)) assert.deepEqual(await second.append(event(key)), REPLAYED);
  assert.deepEqual(await second.append(event(keys[20 - known - 1])), RECORDED);
  await second.journal.close();
});

test('a closed segment that cannot be read is tried up to three times before reports with keys are answered', async () => {
  for (const failures of [2, 3]) {
    const disk = new SimulatedDisk();
    const first = await open(disk, SMALL);
    const keys = Array.from({ length: 30 }, (_, index) => `k${index}`);
    for (const key of keys) await first.append(event(key));
    await first.journal.close();
    for (const name of disk.names().filter((one) => one.endsWith('.idx'))) disk.drop(name);
    let reads = 0;
    disk.fault = (call, name) => {
      if (call === 'read' && name === FIRST) reads += 1;
      const isScan = reads > 1; // the first read is of its last line
      return call === 'read' && name === FIRST && isScan && reads <= 1 + failures ? systemError('EIO') : undefined;
    };
    const { append, journal, notices } = await open(disk, SMALL);
    const isKnown = failures < 3;
    for (const key of ['k0', 'k29']) {
      assert.deepEqual(await append(event(key)), isKnown || key === 'k29' ? REPLAYED : RECORDED, `${failures} ${key}`);
    }
    const logged = notices.filter((line) => line.includes('a segment cannot be read for its idempotency keys'));
    assert.equal(logged.length, failures);
    assert.equal(
      notices.some((line) => line.includes('keys of older events are unknown')),
      !isKnown,
    );
    await journal.close();
  }
});

test('the good lines of a damaged segment give their keys, and no sidecar is written for it', async () => {
  const disk = new SimulatedDisk();
  const first = await open(disk, SMALL);
  const keys = Array.from({ length: 12 }, (_, index) => `k${index}`);
  for (const key of keys) await first.append(event(key));
  await first.journal.close();
  const bytes = disk.bytes(FIRST) as Buffer;
  for (const key of ['k1', 'k2']) bytes.write('X', bytes.indexOf(`"idempotency_key":"${key}"`) + 20);
  disk.drop(sidecarName(1));
  const second = await open(disk, SMALL);
  for (const key of ['k3', 'k4', 'k11']) assert.deepEqual(await second.append(event(key)), REPLAYED, key);
  assert.deepEqual(
    await second.append(event('kX')),
    RECORDED,
    'the key of a bad line is not known, also after a bad line',
  );
  await second.journal.close();
  assert.equal(disk.bytes(sidecarName(1)), undefined);
});
