/** Events that another assetlog recorded first: their ids and their idempotency keys. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SourceFilter } from '../../src/event/search.ts';
import { type Disk, openDisk } from '../../src/journal/disk.ts';
import { KeyMemory } from '../../src/journal/keys/memory.ts';
import type { Line } from '../../src/journal/look/reading.ts';
import { sidecarName } from '../../src/journal/segments.ts';
import { openJournal } from '../support/journal.ts';
import type { PlainEvent } from '../support/plain-event.ts';
import { newFolder } from '../support/program.ts';
import { readLines } from '../support/read-lines.ts';
import { verify } from '../support/standard-limits.ts';

const SOURCE = '0193e0c2-7f3a-7000-8000-000000000000';
const RECORDED = '2026-11-20T15:19:45.266Z';

function idOf(seq: number): string {
  return `01a1fb95-ce62-7e59-9364-${String(seq).padStart(12, '0')}`;
}

function own(name: string, idempotencyKey?: string): PlainEvent {
  return { type: 'AssetObservation', assetKey: [name], idempotencyKey };
}

function forwarded(seq: number, idempotencyKey?: string): PlainEvent {
  return { ...own(`f${seq}`, idempotencyKey), origin: { id: idOf(seq), source: SOURCE, seq, recorded: RECORDED } };
}

const open = (disk: Disk, segmentBytes = 1_000_000) =>
  openJournal(disk, { segmentBytes, keyMemory: new KeyMemory(1_000) });

async function read(disk: Disk): Promise<Line[]> {
  const { lines, remarks } = await readLines(disk);
  assert.deepEqual(remarks, []);
  assert.deepEqual((await verify(disk)).findings, []);
  return lines;
}

for (const segmentBytes of [1_000_000, 1]) {
  const where = segmentBytes === 1 ? 'in sidecars' : 'in the last file';
  test(`the idempotency key of a forwarded event is recorded but not looked up, ${where} [forwarded-2]`, async (t) => {
    const disk = openDisk(newFolder(t));
    const ok = { kind: 'recorded' };
    const before = await open(disk, segmentBytes);
    assert.deepEqual(await before.append(forwarded(1, 'k'), forwarded(2, 'k')), ok);
    assert.deepEqual(await before.append(own('a', 'own')), ok);
    assert.deepEqual(await before.append(forwarded(3, 'own')), ok, 'no conflict with an own event');
    await before.journal.close();
    if (segmentBytes === 1) assert.ok((await disk.list()).includes(sidecarName(1)));
    const after = await open(disk, segmentBytes);
    assert.deepEqual(await after.append(own('b', 'k')), ok, 'the forwarded event is a different one');
    assert.deepEqual(await after.append(own('a', 'own')), { ...ok, replayed: [0] });
    const mixed = await after.append(own('a', 'own'), forwarded(4, 'k'), own('c', 'new'));
    assert.deepEqual(mixed, { ...ok, replayed: [0] });
    await after.journal.close();
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
    assert.equal(
      f4?.event.id,
      idOf(4),
      'an id stays with its event if other events of the report were recorded earlier',
    );
  });
}

test('a filter finds an event by its origin and its sender, and not by its metadata', async (t) => {
  const disk = openDisk(newFolder(t));
  const journal = await open(disk);
  const [device, site, other] = [1, 2, 3].map(idOf) as [string, string, string];
  const event = (seq: number, source: string, first: string | undefined, metadata?: string): PlainEvent => ({
    ...own(`f${seq}`),
    metadata,
    origin: { id: idOf(seq), source, seq, recorded: RECORDED, first: first === undefined ? undefined : [first, seq] },
  });
  await journal.append(
    own('own'),
    event(1, site, device),
    event(2, site, device, `{"origin":["${other}",1],"from":["${other}",1]}`),
    event(3, device, undefined),
    event(4, other, undefined, `{"a":{"origin":["${device}",1],"b":["${site}",1]}}`),
  );
  const names = new Map([device, site, other].map((id, at) => [id, ['roof', 'site', 'other'][at]!]));
  for (const [id, found] of [
    [device, ['f1', 'f2', 'f3']],
    [site, ['f1', 'f2']],
    [other, ['f4']],
  ] as const) {
    const name = names.get(id)!;
    const named = (text: string): SourceFilter => ({ text, has: (one) => names.get(one) === text });
    for (const source of [{ text: id, has: (one: string) => one === id }, named(name)]) {
      for (const isSearch of [true, false]) {
        const { lines } = await readLines(disk, { source }, { isSearch });
        assert.deepEqual(
          lines.map((line) => line.event.asset_key[0]),
          found,
          `${name} ${source.text} ${isSearch}`,
        );
      }
    }
  }
  await journal.journal.close();
});
