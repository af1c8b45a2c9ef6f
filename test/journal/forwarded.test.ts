/** Events that another assetlog recorded first: their ids and their idempotency keys. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import type { Event } from '../../src/event/event.ts';
import type { RecordResult } from '../../src/event/record-result.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { KeyMemory } from '../../src/journal/idempotency-memory.ts';
import { Journal } from '../../src/journal/journal.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { type Line, readJournal } from '../../src/journal/reader.ts';
import { sidecarName } from '../../src/journal/segments.ts';
import { verify } from '../../src/journal/verify.ts';
import { newFolder } from '../support/program.ts';
import { quiet } from '../support/segments.ts';

const SOURCE = '0193e0c2-7f3a-7000-8000-000000000000';
const RECORDED = '2026-11-20T15:19:45.266Z';

function idOf(seq: number): string {
  return `01a1fb95-ce62-7e59-9364-${String(seq).padStart(12, '0')}`;
}

function own(name: string, idempotencyKey?: string): Event {
  return { type: 'AssetObservation', assetKey: [name], idempotencyKey };
}

function forwarded(seq: number, idempotencyKey?: string): Event {
  return { ...own(`f${seq}`, idempotencyKey), origin: { id: idOf(seq), source: SOURCE, seq, recorded: RECORDED } };
}

async function open(disk: Disk, segmentBytes = 1_000_000): Promise<Journal> {
  const keyMemory = new KeyMemory(1_000);
  const journal = new Journal({ disk, notices: quiet, segmentBytes, limits, keyMemory, onFailed: () => {} });
  await journal.open();
  return journal;
}

function append(journal: Journal, ...events: Event[]): Promise<RecordResult> {
  return new Promise((resolve) => journal.append(events, 0, resolve));
}

async function read(disk: Disk): Promise<Line[]> {
  const lines: Line[] = [];
  const remarks: unknown[] = [];
  const reading = { progress: new OwnProgress().of(disk.folder), limits };
  for await (const page of readJournal(disk, reading, (remark) => remarks.push(remark))) lines.push(...page);
  assert.deepEqual(remarks, []);
  assert.deepEqual((await verify(disk)).findings, []);
  return lines;
}

test('a forwarded line has the id and the time of its first recorder, also beside own lines in one batch [forwarded-1]', async (t) => {
  const disk = openDisk(newFolder(t));
  const journal = await open(disk);
  const together = [
    append(journal, own('a')),
    append(journal, forwarded(7), forwarded(8)),
    append(journal, own('b')),
    append(journal, own('c'), forwarded(9)),
  ];
  for (const result of await Promise.all(together)) assert.deepEqual(result, { kind: 'recorded' });
  await journal.close();
  const events = (await read(disk)).map(({ event }) => event);
  assert.deepEqual(
    events.map(({ asset_key }) => asset_key[0]),
    ['a', 'f7', 'f8', 'b', 'c', 'f9'],
  );
  assert.equal(new Set(events.map(({ time }) => time)).size, 1, 'one batch');
  assert.equal(new Set(events.map(({ id }) => id)).size, 6);
  const kept = events.map(({ id, from, recorded }) => from && [id, from[0], from[1], recorded]);
  const expected = (seq: number) => [idOf(seq), SOURCE, seq, RECORDED];
  assert.deepEqual(kept, [undefined, expected(7), expected(8), undefined, undefined, expected(9)]);
});

for (const segmentBytes of [1_000_000, 1]) {
  const where = segmentBytes === 1 ? 'in sidecars' : 'in the last file';
  test(`the idempotency key of a forwarded event is recorded and not looked up, ${where} [forwarded-2]`, async (t) => {
    const disk = openDisk(newFolder(t));
    const yes = { kind: 'recorded' };
    const before = await open(disk, segmentBytes);
    assert.deepEqual(await append(before, forwarded(1, 'k'), forwarded(2, 'k')), yes);
    assert.deepEqual(await append(before, own('a', 'own')), yes);
    assert.deepEqual(await append(before, forwarded(3, 'own')), yes, 'no conflict with an own event');
    await before.close();
    if (segmentBytes === 1) assert.ok((await disk.list()).includes(sidecarName(1)));
    const after = await open(disk, segmentBytes);
    assert.deepEqual(await append(after, own('b', 'k')), yes, 'it is not taken for the forwarded one');
    assert.deepEqual(await append(after, own('a', 'own')), { ...yes, replayed: [0] });
    const mixed = await append(after, own('a', 'own'), forwarded(4, 'k'), own('c', 'new'));
    assert.deepEqual(mixed, { ...yes, replayed: [0] });
    await after.close();
    const lines = (await read(disk)).map(({ event }) => [event.asset_key[0], event.idempotency_key, event.from?.[1]]);
    assert.deepEqual(lines, [
      ...[
        ['f1', 'k', 1],
        ['f2', 'k', 2],
        ['a', 'own', undefined],
        ['f3', 'own', 3],
      ],
      ...[
        ['b', 'k', undefined],
        ['f4', 'k', 4],
        ['c', 'new', undefined],
      ],
    ]);
    const [f4] = (await read(disk)).filter(({ event }) => event.from?.[1] === 4);
    assert.equal(f4?.event.id, idOf(4), 'an id stays with its event if others of its report were recorded before');
  });
}
