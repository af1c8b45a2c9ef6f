/** The parts of the page for browsers that need no browser. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { pageLimits } from '../../src/config/limits.ts';
import { ageOf } from '../../src/event/moment.ts';
import { indented, jsonMembers } from '../../src/history/json-text.ts';
import { addressOf, hashOf, readAddress, views } from '../../src/http/page/browser/address.ts';
import { EventStore } from '../../src/http/page/browser/event-store.ts';
import { MessageParser } from '../../src/http/page/browser/stream.ts';
import { buildPage } from '../../src/http/page/build.ts';
import { character } from '../support/arbitraries.ts';

const line = (seq: number, more = '') =>
  `{"seq":${seq},"type":"AssetObservation","asset_key":["warehouse","orders"],"description":"${more}","crc":"00000000"}`;
const seqsOf = (lines: readonly { readonly seq: number }[]) => lines.map(({ seq }) => seq);

test('the members of an object are returned as JSON texts, in order, with repeated ones', () => {
  const members = jsonMembers('{"a":1.0,"b\\"c":{"d":[1e400,"}"],"a":null},"a":"x\\\\","e":-0,"f":[]}');
  assert.deepEqual(
    members.map(({ name, value }) => [name, value]),
    [
      ['a', '1.0'],
      ['b"c', '{"d":[1e400,"}"],"a":null}'],
      ['a', '"x\\\\"'],
      ['e', '-0'],
      ['f', '[]'],
    ],
  );
  assert.deepEqual(jsonMembers('{}'), []);
});

test('any JSON is indented as by JSON.stringify, with its tokens unchanged', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (text) => {
      const value = JSON.parse(text);
      const packed = JSON.stringify(value);
      const tokens = [...indented(packed)];
      assert.equal(tokens.map((token) => token.text).join(''), JSON.stringify(value, undefined, 2));
      for (const { kind, text: own } of tokens) if (kind !== 'mark') assert.ok(packed.includes(own));
      if (value === null || typeof value !== 'object' || Array.isArray(value)) return;
      const again = jsonMembers(packed).map((member) => `${JSON.stringify(member.name)}:${member.value}`);
      assert.equal(`{${again.join()}}`, packed);
    }),
  );
});

test('a stream is parsed into the same messages wherever it is cut', () => {
  const text = `retry: 4550\n\nid: 1\nevent: AssetObservation\ndata: ${line(1)}\n\n: still here\n\nevent: gap\ndata: {"first":1,\ndata: "last":3}\n\ndata: open`;
  const expected = [
    { event: 'AssetObservation', data: line(1) },
    { event: 'gap', data: '{"first":1,\n"last":3}' },
  ];
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parser = new MessageParser();
    const found = [...parser.parse(text.slice(0, cut)), ...parser.parse(text.slice(cut))];
    assert.deepEqual([found, parser.retryMs], [expected, 4_550], `cut at ${cut}`);
  }
});

test('the events in the memory of the page are bounded by number and by size', () => {
  const store = new EventStore();
  for (let seq = 1; seq <= 3 * pageLimits.linesMax; seq += 500) {
    store.add(Array.from({ length: 500 }, (_, index) => line(seq + index)));
    assert.ok(store.lines.length <= pageLimits.linesMax * 1.05, `${store.lines.length} lines`);
    assert.equal(store.lines.at(-1)?.seq, seq + 499);
  }
  assert.ok(store.isFull);
  store.clear();
  const megabyte = 'x'.repeat(2 ** 20);
  for (let seq = 1; seq <= 100; seq += 1) store.add([line(seq, megabyte)]);
  const characters = store.lines.reduce((sum, { line }) => sum + line.length, 0);
  assert.ok(characters <= pageLimits.charactersMax && store.lines.length > 25, `${store.lines.length} large lines`);
  assert.deepEqual([store.lines.at(-1)?.seq, store.matching.at(-1)?.seq], [100, 100]);
  assert.equal(store.lines.length, store.matching.length);
});

test('each event is kept once and in order, and a search covers the reported values', () => {
  const store = new EventStore();
  store.search('HOUSE/orders');
  assert.equal(store.add([line(5), line(6, 'a.b')]), 2);
  assert.equal(store.add([line(6, 'a.b'), line(7)]), 1);
  store.search('');
  assert.equal(store.addOlder([line(3), line(4, 'A.B'), line(5)], 3), 2);
  assert.deepEqual(seqsOf(store.lines), [3, 4, 5, 6, 7]);
  store.search('a.b');
  assert.deepEqual(seqsOf(store.matching), [4, 6]);
  assert.equal(store.add([line(8, 'axb'), line(9, 'xa.bx')]), 1);
  assert.deepEqual(seqsOf(store.matching), [4, 6, 9]);
  store.search('');
  assert.deepEqual(store.matching, store.lines);
});

test('a text copied from the page finds its line', () => {
  const store = new EventStore();
  const sent =
    '{"seq":1,"id":"id1","time":"2025-01-01T00:00:00.000Z","type":"AssetObservation","asset_key":["a","b/c","d\u202e \\"e\\""],' +
    '"tags":{"data_version":"v2"},"metadata":{"rows":12,"note":"x\\u00e9\\u001b y","ok":true},' +
    '"event_time":"2026-11-20T15:19:45.266Z","crc":"0000cafe"}';
  store.add([sent, line(2)]);
  for (const [text, isFound] of [
    ['a/b/c', true],
    ['["a","b/c","d\\u202e \\"e\\""]', true],
    ['d\\u202e "e"', true],
    ['D\u202e', true],
    ['11-20 15:19:45', true],
    ['2026-11-20 15:19:45.266 UTC', true],
    ['version v2', true],
    ['rows 12, note xé', true],
    ['xé\\u001b y, ok true', true],
    ['rows 1 2', false],
    ['2025-01-01', false],
    ['id1', false],
    ['cafe', false],
    ['rows12', false],
    ['a.b', false],
    ['a b', false],
  ] as const) {
    store.search(text);
    assert.deepEqual(seqsOf(store.matching), isFound ? [1] : [], text);
  }
});

test('a search keeps the older events that the service finds, within a limit', () => {
  const store = new EventStore();
  const lines = (from: number, to: number, more = '') =>
    Array.from({ length: to - from }, (_, index) => line(from + index, more));
  store.add(lines(50_000, 51_000));
  store.search('needle');
  assert.deepEqual([store.lowestSeq, store.matching], [50_000, []]);
  assert.equal(store.addOlder([line(49_999, 'needle'), line(50_000, 'needle')], 49_000), 1);
  assert.equal(store.addOlder([line(7, 'needle')], 1), 1);
  assert.deepEqual([store.lowestSeq, seqsOf(store.matching)], [1, [7, 49_999]]);
  assert.equal(store.add([line(51_000), line(51_001, 'needle')]), 1);
  assert.deepEqual(seqsOf(store.matching), [7, 49_999, 51_001]);
  store.search('need');
  assert.deepEqual([store.lowestSeq, seqsOf(store.matching)], [50_000, [51_001]]);
  for (let first = 49_000; !store.isFull; first -= 1_000)
    assert.equal(store.addOlder(lines(first, first + 1_000, 'needle'), first), 1_000);
  assert.equal(store.matching.length, 1 + pageLimits.linesMax);
  store.search('');
  assert.deepEqual([store.matching.length, store.lowestSeq], [1_002, 50_000]);
});

test('an address is restored from its hash, and an unknown view shows the events', () => {
  const text = fc.string({ unit: character }).map((one) => one.toWellFormed());
  const filters = fc.record({ text, key_prefix: text, partition: text, open: text });
  fc.assert(
    fc.property(fc.constantFrom(...views), filters, (view, chosen) => {
      const address = addressOf(view, chosen);
      assert.deepEqual(readAddress(hashOf(address)), address);
    }),
  );
  for (const hash of ['', '#', '#nothing', '#__proto__?x']) assert.deepEqual(readAddress(hash), addressOf('events'));
});

test('an age is shown in the largest unit with a value of at least two', () => {
  const now = Date.parse('2026-11-20T15:00:00Z');
  const ages = [0, 119, 120, 7_199, 7_200, 172_799, 172_800, -1, -7_200].map((seconds) =>
    ageOf(new Date(now - seconds * 1_000).toISOString(), now),
  );
  const past = ['0 s', '119 s', '2 min', '119 min', '2 h', '47 h', '2 d'].map((age) => `${age} ago`);
  assert.deepEqual(ages, [...past, 'in 1 s', 'in 2 h']);
});

test('the page has at most 28,900 bytes compressed, 12 KB of them for assets over time', async () => {
  const { length } = brotliCompressSync(await buildPage());
  assert.ok(length <= 28_900, `${length} bytes`);
});
