import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkLine, rechain } from '../../../src/journal/line/chain.ts';
import { type Erasure, erasedLine, isErased } from '../../../src/journal/line/erased.ts';
import { hasSlot, readRecorded, reportedOf } from '../../../src/journal/line/members.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { makeLines, START } from '../../support/segments.ts';

const TIME = '2026-11-20T15:19:45.266Z';
const ONE: Erasure = { time: TIME, all: false };
const ORIGIN = {
  id: '01a1fb95-ce62-7e59-9364-610bf5613940',
  source: '0193e0c2-7f3a-7000-8000-000000000000',
  seq: 7,
  recorded: '2026-11-19T00:00:00.000Z',
  first: ['0193e0c2-7f3a-7000-8000-000000000009', 4] as const,
};
const SAID = {
  partition: 'said-1',
  metadata: '{"text":"said-2,\\"erased\\":"}',
  eventTime: '2026-11-18T00:00:00Z',
  idempotencyKey: 'said-3',
};
const MADE: PlainEvent = {
  type: 'AssetMaterialization',
  assetKey: ['shop', 'kéy "x"\u2028'],
  description: 'said-4,"erased":"',
  dataVersion: 'said-5',
  ...SAID,
};
const CHECK: PlainEvent = {
  type: 'AssetCheckEvaluation',
  assetKey: ['shop'],
  checkName: 'no "nulls"',
  passed: false,
  severity: 'WARN',
  ...SAID,
};

function lineOf(event: PlainEvent): Buffer {
  return makeLines(1, START, () => event).lines[0]!;
}

function erase(line: Buffer, erasure = ONE): Buffer | undefined {
  const made = erasedLine(line, 0, line.length - 1, erasure);
  if (made === undefined) return undefined;
  rechain(made, 0, made.length - 1, START.crc);
  assert.equal(checkLine(made, 0, made.length - 1, START).kind, 'good');
  return made;
}

function membersOf(line: Buffer) {
  return readRecorded(line, 0, line.length - 1);
}

test('an erased line keeps its place, what the event was about and where it came from, and no text of it', () => {
  for (const event of [MADE, CHECK, { ...CHECK, origin: ORIGIN, slot: ',"site":"said-6","by":"said-7"' }]) {
    const before = lineOf(event);
    const made = erase(before)!;
    const { partition, description, tags, idempotency_key, by, ...kept } = membersOf(before);
    const { site, ...given } = kept as typeof kept & { readonly site?: string };
    assert.deepEqual(membersOf(made), { ...given, erased: TIME });
    assert.ok(!`${made}`.includes('said'), `${made}`);
    assert.deepEqual([isErased(before, 0, before.length - 1), isErased(made, 0, made.length - 1)], [false, true]);
    assert.ok(hasSlot(made, 0, made.length - 1), 'only a hub of today gets it');
    const said = reportedOf(made, 0, made.length - 1, kept.seq);
    assert.deepEqual([said.type, said.source, said.eventTime], [kept.type, kept.origin?.[0], SAID.eventTime]);
  }
});

test('an event is erased once, and its key and the name of its check also later', () => {
  const made = erase(lineOf(CHECK))!;
  assert.equal(erase(made, { time: '2026-12-01T00:00:00.000Z', all: false }), undefined);
  const more = erase(made, { time: '2026-12-01T00:00:00.000Z', all: true })!;
  const { asset_key, check_name, passed, erased } = membersOf(more);
  assert.deepEqual([asset_key, check_name, passed, erased], [['erased'], 'erased', false, TIME]);
  assert.equal(erase(more, { time: TIME, all: true }), undefined);
});
