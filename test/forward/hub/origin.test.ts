/** An event has one origin, whatever way it comes: the cases in which a hub would have it twice, or leave it out for good. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ForwardedEvent } from '../../../src/forward/hub/received.ts';
import {
  addLine,
  bounded,
  countMissing,
  decide,
  isHere,
  NOTHING,
  note,
  type Own,
  settleTo,
  type Watermark,
  watermarkOf,
} from '../../../src/forward/hub/watermark.ts';
import type { Era } from '../../../src/forward/source.ts';
import { observation, SentJournal, sourceOf } from '../../support/forwarding.ts';
import { upTo } from '../../support/tools.ts';
import { gate } from '../../world/gate.ts';
import { eventsOf, OWN, TestHub } from '../../world/hub.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const [DEVICE, SITE, OTHER] = [1, 2, 3].map(sourceOf) as [string, string, string];
const RECORDED = '2020-01-01T00:00:00.000Z';

const idOf = (source: string, seq: number) =>
  `${source.slice(0, 24)}${source.slice(-6)}${String(seq).padStart(6, '0')}`;

/** A journal with events that it has from another one: the lines of the device with these seqs, or own events for 0. */
function siteWith(source: string, seqs: readonly number[], device = DEVICE): SentJournal {
  return new SentJournal(seqs.length, source, (seq) => {
    const n = seqs[seq - 1]!;
    if (n === 0) return observation(`${source}/${seq}`);
    return {
      ...observation(`${device}/${n}`),
      origin: { id: idOf(device, n), source: device, seq: n, recorded: RECORDED },
    };
  });
}

/** The journal of a device, whose lines have the ids that `siteWith` gives them. */
function device(count: number, source = DEVICE): SentJournal {
  const own = (seq: number) => ({
    ...observation(`${source}/${seq}`),
    origin: { id: idOf(source, seq), source, seq, recorded: RECORDED },
  });
  return new SentJournal(count, source, own);
}

/** @returns the seqs of the events of a device, in the order of the hub's journal */
function seqsOf(disk: SimulatedDisk, source = DEVICE): number[] {
  return eventsOf(disk).flatMap(({ from, origin = from }) => (origin?.[0] === source ? [origin[1]] : []));
}

const NEW = () => TestHub.open(new SimulatedDisk());

test('events that their device has lost are recorded when another site sends them [one-origin-1]', async () => {
  const hub = await NEW();
  assert.equal((await hub.put(device(5), 5, 5, { lost: { first: 1, last: 4 } })).seq, 5);
  const site = siteWith(SITE, upTo(5));
  assert.equal((await hub.put(site, 1, 5)).seq, 5);
  assert.deepEqual(seqsOf(hub.disk), [5, 1, 2, 3, 4]);
  const again = await TestHub.open(hub.disk.afterCrash());
  assert.equal((await again.put(siteWith(OTHER, upTo(5)), 1, 5)).seq, 5);
  assert.deepEqual(seqsOf(again.disk), [5, 1, 2, 3, 4], 'also after a crash');
});

test('a later event that arrives first does not hide the earlier ones', async () => {
  const hub = await NEW();
  await hub.put(siteWith(SITE, [5]), 1, 1);
  assert.equal((await hub.ask(DEVICE)).seq, 0);
  await hub.put(siteWith(OTHER, upTo(4)), 1, 4);
  assert.deepEqual(seqsOf(hub.disk), [5, 1, 2, 3, 4]);
  assert.deepEqual(await hub.ask(DEVICE), { status: 200, seq: 5, id: idOf(DEVICE, 5), gzip: true, origins: true });
  assert.equal((await hub.put(device(6), 4, 6)).seq, 6);
  assert.deepEqual(seqsOf(hub.disk), [5, 1, 2, 3, 4, 6]);
});

test('two sources that send the same event take turns, and it is recorded once [one-origin-3]', async () => {
  const hub = await NEW();
  await hub.ask(SITE);
  const sync = gate();
  hub.disk.fault = (call) => (call === 'sync' ? sync.opened : undefined);
  const replies = [SITE, OTHER].map((source) => hub.put(siteWith(source, upTo(3)), 1, 3));
  await new Promise((resolve) => setTimeout(resolve, 20));
  sync.open();
  for (const { status, seq } of await Promise.all(replies)) assert.deepEqual([status, seq], [200, 3]);
  assert.deepEqual(seqsOf(hub.disk), upTo(3));
});

test('an event whose write failed is not taken as recorded, and the next source has to send it', async () => {
  const hub = await NEW();
  await hub.ask(SITE);
  let isFull = true;
  hub.disk.fault = (call, name) =>
    call === 'write' && name.startsWith('events-') && isFull ? systemError('ENOSPC') : undefined;
  const replies = [SITE, OTHER].map((source) => hub.put(siteWith(source, upTo(3)), 1, 3));
  assert.deepEqual(
    (await Promise.all(replies)).map(({ status }) => status),
    [503, 503],
  );
  isFull = false;
  assert.equal((await hub.put(siteWith(OTHER, upTo(3)), 1, 3)).status, 200);
  assert.deepEqual(seqsOf(hub.disk), upTo(3));
});

test('a journal with a new id is known by its earlier ids: no event is sent again, and none is lost [one-origin-5]', async () => {
  const hub = await NEW();
  await hub.put(siteWith(SITE, upTo(3)), 1, 3);
  const renamed = new SentJournal(6, OTHER);
  const eras: readonly Era[] = [
    [1, DEVICE],
    [5, OTHER],
  ];
  const asked = await hub.ask(OTHER, eras);
  assert.deepEqual([asked.seq, asked.id], [3, idOf(DEVICE, 3)]);
  assert.equal((await hub.put(renamed, 4, 6, { eras })).seq, 6);
  assert.deepEqual(
    [seqsOf(hub.disk), seqsOf(hub.disk, OTHER)],
    [
      [1, 2, 3, 4],
      [5, 6],
    ],
  );
  const late = await NEW();
  await late.put(siteWith(SITE, upTo(9)), 1, 9);
  assert.deepEqual(
    [(await late.ask(OTHER, eras)).seq, (await late.ask(OTHER, eras)).id],
    [4, null],
    'the original went on',
  );
  await late.put(renamed, 5, 6, { eras });
  assert.equal((await late.ask(OTHER, eras)).seq, 6);
  assert.deepEqual([seqsOf(late.disk), seqsOf(late.disk, OTHER)], [upTo(9), [5, 6]]);
});

test("events of the hub's own journal are left out on any way, and an unknown one shows that it was restored [one-origin-8]", async () => {
  const hub = await NEW();
  for (let count = 0; count < 3; count += 1) await hub.report();
  const site = siteWith(SITE, [0, 1, 2, 3, 0], OWN);
  assert.equal((await hub.put(site, 1, 5)).seq, 5);
  assert.equal(eventsOf(hub.disk).length, 5);
  const again = await TestHub.open(hub.disk.afterCrash());
  assert.equal((await again.put(site, 1, 5)).seq, 5);
  assert.equal(eventsOf(again.disk).length, 5);
  const restored = await again.put(siteWith(OTHER, [0, 6], OWN), 1, 2);
  assert.equal(restored.status, 503);
  assert.match(restored.error ?? '', /this folder was restored or copied/);
  assert.match(again.notices.join('\n'), /identity --new.*"seq":6,"last_seq":5/);
  const itself = await again.put(new SentJournal(1, OWN), 1, 1);
  assert.equal(itself.status, 403);
  assert.match(itself.error ?? '', /^this is the journal of the hub itself; .*identity --new$/);
  assert.equal((await again.ask(OWN)).status, 403);
});

test('lines that are left out advance the position of their source [one-origin-10]', async () => {
  const hub = await NEW();
  await hub.put(device(5), 1, 5);
  const site = siteWith(SITE, [1, 2, 0, 3, 4, 5]);
  assert.deepEqual(await hub.put(site, 1, 6), { status: 200, seq: 6, id: site.id(6) });
  assert.equal(eventsOf(hub.disk).length, 6);
  assert.deepEqual(eventsOf(hub.disk).at(-1)?.from, [SITE, 3]);
  assert.equal((await hub.put(site, 5, 6)).status, 200, 'a late request');
  assert.equal(eventsOf(hub.disk).length, 6);
});

test('another event with a known name is left out with a warning, and does not stop its source', async () => {
  const hub = await NEW();
  await hub.put(siteWith(SITE, upTo(3)), 1, 3);
  const clone = new SentJournal(1, OTHER, () => ({
    ...observation('x'),
    origin: { id: idOf(OTHER, 99), source: DEVICE, seq: 3, recorded: RECORDED },
  }));
  assert.equal((await hub.put(clone, 1, 1)).seq, 1);
  assert.deepEqual(seqsOf(hub.disk), upTo(3));
  assert.match(
    hub.notices.join('\n'),
    new RegExp(`has an event with another id.*"seq":3,"sent":"${idOf(OTHER, 99)}","here":"${idOf(DEVICE, 3)}"`),
  );
});

test('a hub without its file, whose first lines were removed, takes the events before them as recorded', async () => {
  const parts = { retain: { retainBytes: 3_000 }, segmentBytes: 1_500 };
  const hub = await TestHub.open(new SimulatedDisk(), parts);
  const site = siteWith(SITE, upTo(30));
  for (let seq = 1; seq <= 30; seq += 1) await hub.put(site, seq, seq);
  await hub.journal.close();
  const left = hub.disk.afterCrash();
  const before = seqsOf(left);
  assert.ok(before[0]! > 1);
  left.drop('forward-sources.json');
  const again = await TestHub.open(left);
  assert.equal((await again.put(device(31), 1, 31)).seq, 31);
  assert.deepEqual(seqsOf(again.disk), [...before, 31]);
});

/** A hub as a map of watermarks. */
function pure(own: Partial<Own> = {}) {
  const marks = new Map<string, Watermark>();
  const all = { eras: [[1, OWN]] as const, lastSeq: 0, losses: [], ...own };
  /** @param lines of a sender: the name and the id of each. @returns the fresh names, or why there are none */
  const take = (source: string, firstSeq: number, names: readonly (readonly [string, number])[], more: object = {}) => {
    const events = names.map(([journal, n], at) => {
      const seq = firstSeq + at;
      const first = journal === source && n === seq ? undefined : [journal, n];
      return { origin: { id: `${journal}/${n}`, source, seq, first } } as unknown as ForwardedEvent;
    });
    const request = { eras: [[1, source]] as const, firstSeq, lost: undefined, after: undefined, ...more };
    const decision = decide({ marks, own: all, partsMax: 64 }, request, events);
    if (decision.kind !== 'taken') return decision.kind;
    for (const [journal, mark] of decision.marks) marks.set(journal, mark);
    return decision.fresh.map(({ origin }) => origin.id);
  };
  return { marks, own: all, take };
}

test('after a repair of the hub the gaps of a source are asked for again, since a left out line might be lost', () => {
  const read = (isAfterLoss: boolean) => {
    const marks = new Map<string, Watermark>();
    for (const n of [20, 31])
      addLine(
        marks,
        { from: ['D', n], origin: ['D', n], id: `D/${n}` },
        { isAfterLoss: isAfterLoss && n > 20, isFirst: n === 20, bound: (mark) => mark },
      );
    return marks.get('D');
  };
  assert.deepEqual(read(true), { seq: 20, id: 'D/20', lost: [], ahead: [{ first: 31, last: 31, id: 'D/31' }] });
  assert.deepEqual(read(false), { seq: 31, id: 'D/31', lost: [{ first: 21, last: 30 }], ahead: [] });
});

test('a line of this journal that a repair lost comes back through a circle once, and is forwarded [one-origin-7]', () => {
  const hub = pure({ lastSeq: 8, losses: [{ first: 3, last: 3 }] });
  const back = [2, 3, 4].map((n) => [OWN, n] as const);
  assert.deepEqual(hub.take('B', 5, back, { lost: { first: 1, last: 4 } }), [`${OWN}/3`]);
  assert.deepEqual(hub.take('C', 1, back), []);
  // The next hub has line 3 from before the repair, or as line 9 after it.
  const next = pure({ eras: [[1, 'NEXT']] });
  assert.deepEqual(next.take(OWN, 4, [[OWN, 4]], { lost: { first: 1, last: 3 } }), [`${OWN}/4`]);
  assert.deepEqual(next.take(OWN, 5, [[OWN, 3]]), [`${OWN}/3`]);
  assert.deepEqual(next.take('C', 1, [[OWN, 3]]), []);
});

test('the lines under an id that two journals share are known up to the line where they part', () => {
  const ahead = [
    { first: 3, last: 3, id: 'x' },
    { first: 6, last: 10, id: 'y' },
    { first: 12, last: 12, id: 'z' },
  ];
  const marks = new Map([[OWN, { ...NOTHING, ahead }]]);
  const eras: readonly Era[] = [
    [1, OWN],
    [9, 'N'],
  ];
  const cut = [ahead[0]!, { first: 6, last: 8, id: null }];
  assert.deepEqual(watermarkOf(marks, pure({ eras: [[1, 'HUB']] }).own, eras), { ...NOTHING, ahead: cut });
  const losses = [
    { first: 3, last: 4 },
    { first: 8, last: 12 },
  ];
  const copy = { eras, lastSeq: 15, losses };
  const lost = [losses[0]!, { first: 8, last: 8 }];
  assert.deepEqual(watermarkOf(new Map(), copy, [[1, OWN]]), { ...NOTHING, seq: 8, lost });
  assert.deepEqual(watermarkOf(marks, copy, [[1, OWN]]), {
    ...{ seq: 10, id: 'y', lost: [{ first: 4, last: 4 }] },
    ahead: [ahead[2]],
  });
});

test('watermarks say which lines are recorded, in any order of arrival', () => {
  for (let round = 0; round < 300; round += 1) {
    let mark = NOTHING;
    const here = new Set<number>();
    let settled = 0;
    for (let step = 0; step < 30; step += 1) {
      const seq = 1 + ((round * 7_919 + step * 104_729 + ((round * step) % 11)) % 25);
      const isOwn = (round + step) % 3 === 0;
      mark = isOwn ? settleTo(mark, seq, `${seq}`) : note(mark, seq, `${seq}`);
      here.add(seq);
      if (isOwn) settled = Math.max(settled, seq);
      for (const n of upTo(26)) assert.equal(isHere(mark, n), here.has(n), `${n} ${JSON.stringify(mark)}`);
      assert.ok(mark.seq >= settled);
      const end = Math.max(mark.seq, ...here);
      assert.equal(countMissing(mark), upTo(end).filter((n) => !here.has(n)).length, JSON.stringify(mark));
      assert.ok(mark.ahead.every(({ first }, at) => first > (mark.ahead[at - 1]?.last ?? mark.seq) + 1));
    }
  }
});

test('beyond the limit the oldest missing ranges count as lost, and the oldest lost ones as recorded [one-origin-9]', async () => {
  const dropped: string[] = [];
  let mark = NOTHING;
  for (const seq of [2, 4, 6, 8])
    mark = bounded(note(mark, seq, 'x'), 2, ({ first, last }, counts) => dropped.push(`${first}-${last} ${counts}`));
  assert.deepEqual(
    [mark.seq, mark.lost, mark.ahead.map(({ first }) => first)],
    [
      4,
      [
        { first: 1, last: 1 },
        { first: 3, last: 3 },
      ],
      [6, 8],
    ],
  );
  mark = bounded(settleTo(mark, 10, 'x'), 2, ({ first, last }, counts) => dropped.push(`${first}-${last} ${counts}`));
  assert.deepEqual(
    [mark.seq, mark.lost],
    [
      10,
      [
        { first: 7, last: 7 },
        { first: 9, last: 9 },
      ],
    ],
  );
  assert.deepEqual(dropped, ['1-1 lost', '3-3 lost', '1-1 here', '3-3 here', '5-5 here']);
  const hub = await TestHub.open(new SimulatedDisk(), { limits: { forwardPartsMax: 3 } as never });
  const odd = upTo(20).filter((n) => n % 2 === 0);
  await hub.put(siteWith(SITE, odd), 1, odd.length);
  const warned = hub.notices.filter((text) => text.includes('too many gaps')).join('\n');
  assert.match(warned, new RegExp(`"journal":"${DEVICE}","first":1,"last":1,"counts":"here"`));
  assert.doesNotMatch(warned, /lost"/); // of a journal that another one brings, they are recorded when they come
  const { ahead, lost } = hub.receiver.sources.loaded!.sources.get(DEVICE)!;
  assert.deepEqual([ahead.length, lost.length], [3, 3]);
});
