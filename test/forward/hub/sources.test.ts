/** What a hub has of each journal is right after every end of its process, and when its own lines are removed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { planRepair } from '../../../src/journal/look/repair.ts';
import { contentsOf } from '../../../src/journal/segments.ts';
import { SentJournal, sourceOf } from '../../support/forwarding.ts';
import { carryOut, verify } from '../../support/standard-limits.ts';
import { eventually, upTo } from '../../support/tools.ts';
import { gate } from '../../world/gate.ts';
import { forwardedIn, type HubParts, TestHub } from '../../world/hub.ts';
import { settled } from '../../world/power.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const SNAPSHOT = 'forward-sources.json';
/** Of about four events. */
const SEGMENT_BYTES = 1_500;
const NOTHING_MORE = { entries: 'none', share: 0, behind: 'nothing' } as const;

function segments(disk: SimulatedDisk): number {
  return contentsOf(disk.names()).segments.length;
}

test('a journal that receives no events reads no line at a removal, and after a crash only its last segment', async () => {
  const parts: HubParts = { segmentBytes: SEGMENT_BYTES, retain: { retainBytes: 3_000 } };
  let disk = new SimulatedDisk();
  let isAfterCrash = false;
  for (const end of ['a clean stop', 'a clean stop', 'a crash', 'a clean stop', 'a clean stop'] as const) {
    const hub = await TestHub.open(disk, parts);
    const before = disk.calls.length;
    for (let count = 0; count < 60; count += 1) await hub.report();
    await settled();
    if (end === 'a clean stop') await hub.journal.close();
    const calls = disk.calls.slice(before);
    assert.ok(calls.filter((call) => call.startsWith('remove events-')).length > 2, end);
    const lineReads = calls.filter((call) => call.startsWith('read events-'));
    assert.ok(lineReads.length <= (isAfterCrash ? 2 : 0), `${end}: ${lineReads}`);
    isAfterCrash = end === 'a crash';
    assert.ok(segments(disk) < 5);
    assert.match(disk.text(SNAPSHOT), /^\{"seq":[0-9]+,"sources":\[\],/);
    assert.deepEqual(
      hub.notices.filter((line) => line.includes('forward-sources.json')),
      [],
    );
    disk = disk.afterCrash();
  }
});

test('a copy of a hub without its file of watermarks reads the journal before retention removes lines', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { segmentBytes: SEGMENT_BYTES });
  const [one, two] = [new SentJournal(9, sourceOf(1)), new SentJournal(9, sourceOf(2))];
  await hub.put(one, 1, 7);
  for (let count = 0; count < 30; count += 1) await hub.report();
  await hub.put(two, 1, 3);
  await settled();
  for (const reports of [0, 60]) {
    const copy = disk.afterCrash();
    copy.drop(SNAPSHOT);
    // Files of the first source go at the start, those of the other one later, before either is asked for.
    const restored = await TestHub.open(copy, { segmentBytes: SEGMENT_BYTES, retain: { retainBytes: 3_000 } });
    await eventually('files go', () => !forwardedIn(copy).has(one.source));
    for (let count = 0; count < reports; count += 1) await restored.report();
    await settled();
    assert.equal(forwardedIn(copy).has(two.source), reports === 0);
    assert.equal(restored.notices.filter((line) => line.includes('rebuilt from the whole journal')).length, 1);
    const again = await TestHub.open(copy.afterCrash());
    for (const [sent, last] of [
      [one, 7],
      [two, 3],
    ] as const) {
      assert.equal((await again.ask(sent.source)).seq, last);
      assert.equal((await again.put(sent, 1, 9)).status, 200);
      assert.deepEqual(
        forwardedIn(again.disk)
          .get(sent.source)
          ?.at(-9 + last),
        last + 1,
      );
    }
  }
});

test('retention before a journal is open, on a full disk, keeps the watermarks in the file', async () => {
  const disk = new SimulatedDisk();
  const parts: HubParts = { segmentBytes: SEGMENT_BYTES, retain: { retainBytes: 6_000 } };
  const hub = await TestHub.open(disk, parts);
  const sent = new SentJournal(9);
  await hub.put(sent, 1, 7);
  for (let count = 0; count < 60; count += 1) await hub.report();
  await settled();
  await hub.journal.close();
  assert.equal(forwardedIn(disk).size, 0);
  const full = disk.afterCrash();
  full.drop('.stopped-cleanly'); // a start after that began to open it
  let hasSpace = false;
  full.fault = (call, name) => {
    if (call === 'remove' && /^events-\d+\.jsonl$/.test(name)) hasSpace = true;
    return call === 'create' && name.endsWith('.rewrite') && !hasSpace ? systemError('ENOSPC') : undefined;
  };
  const again = await TestHub.open(full, { ...parts, retain: { retainBytes: 3_000 } });
  assert.ok(hasSpace);
  assert.equal((await again.ask(sent.source)).seq, 7);
});

test('the file of watermarks is synced before retention removes lines [sources-9]', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk);
  const sent = new SentJournal(9);
  await hub.put(sent, 1, 9);
  await hub.receiver.sources.removing(7);
  const cut = disk.afterPowerCut(NOTHING_MORE);
  assert.match(cut.text(SNAPSHOT), /^\{"seq":7,"sources":\[\["0193e0c2-[^"]*",9,/);
  await hub.receiver.sources.closed(5);
  assert.match(disk.text(SNAPSHOT), /^\{"seq":7,/, 'an older one does not replace it');
});

test('a file of watermarks that is torn, stale, missing or of another journal is rebuilt from the lines', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { segmentBytes: SEGMENT_BYTES });
  const sent = new SentJournal(20);
  for (let seq = 1; seq <= 20; seq += 1) await hub.put(sent, seq, seq);
  await settled();
  await hub.journal.close();
  const good = disk.bytes(SNAPSHOT) ?? assert.fail();
  const text = good.toString();
  assert.match(text, /^\{"seq":20,"sources":\[\["0193e0c2-[^"]*",20,"[^"]*"\]\],"crc":"[0-9a-f]{8}"\}\n$/);
  const bad: [string, Buffer | undefined][] = [
    ['missing', undefined],
    ['empty', Buffer.alloc(0)],
    ['cut', good.subarray(0, -9)],
    ['zeros', Buffer.alloc(good.length)],
    ['longer', Buffer.concat([good, good])],
    ['another digit', Buffer.from(text.replace('"seq":20', '"seq":10'))],
    ['another source', Buffer.from(text.replace(',20,', ',99,'))],
  ];
  for (const [what, bytes] of bad) {
    const copy = disk.afterCrash();
    copy.drop(SNAPSHOT);
    if (bytes !== undefined) copy.put(SNAPSHOT, bytes);
    const again = await TestHub.open(copy);
    assert.equal((await again.ask(sent.source)).seq, 20, what);
    assert.ok(
      again.notices.some((line) => line.includes('rebuilt from the whole journal')),
      what,
    );
    const asked = copy.calls.length;
    await again.journal.close();
    const third = await TestHub.open(copy.afterCrash());
    assert.equal((await third.ask(sent.source)).seq, 20, what);
    assert.ok(!third.notices.some((line) => line.includes('rebuilt from the whole journal')), `${what}: ${asked}`);
  }
});

test('a hub that lost its last events asks for them again, and claims none that it lacks', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk, { segmentBytes: 1_000_000 });
  const [one, two] = [new SentJournal(10, sourceOf(1)), new SentJournal(10, sourceOf(2))];
  await hub.put(one, 1, 10);
  const yesterday = disk.afterCrash();
  await hub.put(two, 1, 10);
  await hub.journal.close();
  // The journal of yesterday beside the snapshot of today.
  yesterday.put(SNAPSHOT, disk.bytes(SNAPSHOT) ?? assert.fail());
  const restored = await TestHub.open(yesterday);
  assert.equal((await restored.ask(one.source)).seq, 10);
  assert.deepEqual((await restored.ask(two.source)).seq, 0);
  assert.equal((await restored.put(two, 1, 10)).status, 200);
  assert.deepEqual(forwardedIn(yesterday).get(two.source), upTo(10));
});

/** Fills lines of a forwarded source with zeros, and repairs the journal. */
async function loseLines(disk: SimulatedDisk, source: string, seqs: readonly number[]): Promise<void> {
  for (const { name } of contentsOf(disk.names()).segments) {
    const bytes = Buffer.from(disk.bytes(name)!);
    for (let start = 0; start < bytes.length; ) {
      const end = bytes.indexOf('\n', start);
      const [, seq] = new RegExp(`"from":\\["${source}",([0-9]+)`).exec(bytes.toString('utf8', start, end)) ?? [];
      if (seqs.includes(Number(seq))) bytes.fill(0, start, end + 1);
      start = end + 1;
    }
    disk.put(name, bytes);
  }
  const verdict = await verify(disk);
  if (verdict.findings.some(({ decision }) => decision === 'refuse')) {
    await carryOut(disk, await planRepair(disk, verdict, limits), 'damaged', '{}');
  }
}

test('after a repair any lines that a hub lost of a batch are sent again, and those that it kept are not [sources-3]', async () => {
  for (let lost = 0; lost < 16; lost += 1) {
    const torn = [4, 5, 6, 7].filter((_, index) => (lost & (1 << index)) !== 0);
    for (const harm of ['nothing', 'a stop', 'a stop without the snapshot', 'a crash', 'a new hole'] as const) {
      const [sent, other] = [new SentJournal(20, sourceOf(1)), new SentJournal(3, sourceOf(2))];
      const crashed = new SimulatedDisk();
      let hub = await TestHub.open(crashed);
      await hub.put(sent, 1, 3);
      await hub.put(other, 1, 3);
      await hub.report();
      await hub.put(sent, 4, 7);
      let disk = crashed.afterCrash();
      await loseLines(disk, sent.source, torn);
      hub = await TestHub.open(disk);
      const what = `without ${torn}, ${harm}`;
      const asks = async (after: number) => {
        assert.equal((await hub.ask(other.source)).seq, 3, what);
        const { seq, id } = await hub.ask(sent.source);
        assert.deepEqual([seq, id], [after, after === 0 ? null : sent.id(after)], what);
      };
      const least = (torn[0] ?? 8) - 1;
      await asks(least);
      if (harm.startsWith('a stop')) await hub.journal.close();
      if (harm !== 'nothing') {
        disk = disk.afterCrash();
        if (harm === 'a stop without the snapshot') disk.drop(SNAPSHOT);
        hub = await TestHub.open(disk);
        await asks(least);
      }
      assert.equal((await hub.put(sent, least, 10)).status, 200, what);
      await asks(10);
      if (harm === 'a new hole') {
        disk = disk.afterCrash();
        await loseLines(disk, sent.source, [9]);
        hub = await TestHub.open(disk);
        await asks(8);
        assert.equal((await hub.put(sent, 9, 20)).status, 200, what);
        await asks(20);
      }
      disk = disk.afterCrash();
      hub = await TestHub.open(disk);
      await asks(harm === 'a new hole' ? 20 : 10);
      const there = forwardedIn(disk).get(sent.source)!;
      assert.deepEqual(
        [...there].sort((a, b) => a - b),
        upTo(harm === 'a new hole' ? 20 : 10),
        what,
      );
    }
  }
});

test('events that a repaired hub lacks and its source no longer has count as lost, and a fork is still noticed', async () => {
  const sent = new SentJournal(12);
  const crashed = new SimulatedDisk();
  const before = await TestHub.open(crashed);
  await before.put(sent, 1, 3);
  await before.put(sent, 4, 9);
  const disk = crashed.afterCrash();
  await loseLines(disk, sent.source, [5, 6]); // and 7, which begins on the same page
  const hub = await TestHub.open(disk);
  assert.ok(hub.notices.every((line) => !line.includes('asked for them again')));
  assert.equal((await hub.ask(sent.source)).seq, 4);
  assert.match(hub.notices.join(), /"source":"[^"]+","first":5,"last":7/);
  const clone = new SentJournal(9);
  assert.equal((await hub.put(clone, 5, 9, undefined)).reason, 'fork');
  assert.equal((await hub.put(sent, 8, 9)).reason, 'gap');
  assert.equal((await hub.put(sent, 8, 9, { lost: { first: 5, last: 7 } })).seq, 9, 'nothing is to be recorded');
  assert.equal((await hub.put(sent, 9, 12)).seq, 12);
  assert.deepEqual(forwardedIn(disk).get(sent.source), [1, 2, 3, 4, 8, 9, 10, 11, 12]);
});

test('lines of a failed write do not advance a watermark [sources-1]', async () => {
  const disk = new SimulatedDisk();
  const hub = await TestHub.open(disk);
  const sent = new SentJournal(6);
  await hub.put(sent, 1, 2);
  disk.fault = (call, name) => (call === 'write' && name.startsWith('events-') ? systemError('ENOSPC') : undefined);
  assert.equal((await hub.put(sent, 3, 4)).status, 503);
  assert.equal((await hub.ask(sent.source)).seq, 2);
  disk.fault = () => undefined;
  assert.equal((await hub.put(sent, 3, 6)).status, 200);
  assert.deepEqual(forwardedIn(disk).get(sent.source), upTo(6));
});

test('a reader with an earlier end of the journal gets the same watermarks', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  const sent = new SentJournal(9);
  await hub.put(sent, 1, 9);
  await hub.journal.close();
  const { receiver, notices } = new TestHub(hub.disk.afterCrash());
  for (const lastSeq of [9, 4, 9]) {
    assert.equal((await receiver.sources.view(lastSeq)).sources.get(sent.source)?.seq, 9, `${lastSeq}`);
  }
  assert.deepEqual(notices, [], 'the lines are not read again');
});

/** What a hub has after a crash of two journals, the first of which it is to have forgotten. */
async function afterForgetting(disk: SimulatedDisk): Promise<(number | undefined)[]> {
  const again = await TestHub.open(disk.afterPowerCut(NOTHING_MORE));
  return Promise.all([1, 2].map(async (number) => (await again.ask(sourceOf(number))).seq));
}

test('a source is forgotten durably, after its earlier requests, and no other source is', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  const [one, two] = [new SentJournal(9, sourceOf(1)), new SentJournal(9, sourceOf(2))];
  await hub.put(one, 1, 3);
  const requests = [hub.put(one, 4, 6), hub.put(two, 1, 2)];
  const [isForgotten] = await Promise.all([hub.receiver.forget(one.source), ...requests]);
  assert.equal(isForgotten, true);
  assert.deepEqual(await afterForgetting(hub.disk), [0, 2]);
  assert.deepEqual([(await hub.ask(one.source)).seq, (await hub.ask(two.source)).seq], [0, 2]);
  assert.equal(await hub.receiver.forget(one.source), false);
  assert.equal((await hub.put(two, 3, 4)).status, 200);
  assert.deepEqual(await afterForgetting(hub.disk), [0, 4]);
});

test('a source is forgotten only after the lines in flight have their watermarks', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  const [one, two] = [new SentJournal(2, sourceOf(1)), new SentJournal(2, sourceOf(2))];
  await hub.put(one, 1, 2);
  const written = gate();
  hub.disk.fault = (call, name) => (call === 'write' && name.startsWith('events-') ? written.opened : undefined);
  const request = hub.put(two, 1, 2);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const forgotten = hub.receiver.sources.remove(one.source, 4);
  await new Promise((resolve) => setTimeout(resolve, 20));
  written.open();
  assert.deepEqual([await forgotten, (await request).status], [true, 200]);
  assert.deepEqual(await afterForgetting(hub.disk), [0, 2]);
});

test('a source stays known if it cannot be forgotten on disk [sources-15]', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  const one = new SentJournal(3, sourceOf(1));
  await hub.put(one, 1, 2);
  hub.disk.fault = (call, name) => (call === 'rename' && name.includes('sources') ? systemError('EIO') : undefined);
  await assert.rejects(hub.receiver.forget(one.source), /EIO/);
  assert.equal((await hub.ask(one.source)).seq, 2);
  hub.disk.fault = () => undefined;
  assert.equal((await hub.put(one, 1, 3)).seq, 3);
  assert.deepEqual(forwardedIn(hub.disk).get(one.source), upTo(3));
});
