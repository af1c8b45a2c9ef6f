/** A search for a text in what was reported: what it finds, in which bytes, and what damage does to it. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { differences, type Filter } from '../../../src/event/search.ts';
import { readTextFilter, textPattern } from '../../../src/event/text-filter.ts';
import { openDisk, type ReadableDisk } from '../../../src/journal/disk.ts';
import { readNewest } from '../../../src/journal/look/reader.ts';
import { rounds } from '../../support/long.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { processorMs } from '../../support/processor-time.ts';
import { newFolder } from '../../support/program.ts';
import { randomFrom } from '../../support/random.ts';
import { progressOf, readerLimits, readLines } from '../../support/read-lines.ts';
import { diskWith, FIRST, makeLines, START } from '../../support/segments.ts';

const containing = (text: string) => readTextFilter(text, limits.searchCharactersMax);

/** @returns the seqs of a search, and its remarks; each line that it shows matches, and so do the newest ones */
async function find(disk: ReadableDisk, filter: Filter, isSearch = true) {
  const { lines, seqs, remarks } = await readLines(disk, filter, { isSearch });
  for (const line of lines) assert.deepEqual(differences(line, filter), []);
  const reading = { filter, isSearch, progress: progressOf(), limits: readerLimits };
  const last = await readNewest(disk, reading, () => {}, 2, 1e9);
  assert.deepEqual(
    last.map(({ seq }) => seq),
    seqs.slice(-2),
  );
  return { seqs, remarks };
}

/** One event for each text of JSON, in its metadata. */
function diskOf(...metadata: readonly string[]) {
  const eventOf = (seq: number): PlainEvent => ({
    type: 'AssetObservation',
    assetKey: ['k'],
    metadata: metadata[seq - 1]!,
  });
  return diskWith({ [FIRST]: makeLines(metadata.length, START, eventOf).bytes });
}

test('a text is found as the page shows it: in either case, with keys, times and members as people write them', async () => {
  const rows: readonly (readonly [json: string, found: readonly string[], others: readonly string[]])[] = [
    [
      '{"Rows":12,"by":"Ann"}',
      ['rows', 'ROWS 12', 'rows 12, by ann', '"rows":12,"by":"ann"', 's":1'],
      ['rows12', 'rows  12'],
    ],
    ['{"a":"x"}', ['a x', 'a "x"', 'a :"x', '{"A":"X"}'], ['a: x', 'ax', '"a" "x']],
    ['["w","o/p","q"]', ['w/o/p/q', 'W/O', '"w","o', 'q"]'], ['w/p', 'w o']],
    [
      '{"at":"2026-11-20T15:04:05Z"}',
      ['2026-11-20 15:04', '20t15', '15:04:05 UTC', '15:04:05Z'],
      ['2026-11-20  15', '05 utc'],
    ],
    ['{"say":"he said \\"no\\""}', ['said "no"', 'said \\"no'], ['said no', 'said \\\\no']],
    ['{"json":"{\\"a\\":\\"b\\\\\\"c\\"}"}', ['{"a":"b"c"}', 'b\\"c'], ['b c']],
    ['{"path":"C:\\\\dir"}', ['c:\\DIR'], ['c:dir', 'c:\\\\dir']],
    ['{"path":"a\\/b\\u002fc"}', ['a/b/c'], ['a\\/b']],
    ['{"two":"a\\nb\\u000ac\\td"}', ['a\nb\nc\td', 'a\\u000ab'], ['a b', 'anb']],
    ['{"esc":"\\u001b[0m \\u0041\\u00E9\\ud83d\\ude00"}', ['\u001b[0m', '\\u001B[0', 'aé😀', 'Aé', 'AÉ'], ['é a']],
    ['{"odd":"\\ud800"}', ['\ud800', '\\uD800'], ['\ud801']],
    [
      '{"raw":"Straße ÉTÉ ΣΊΣΥΦΟΣ Жук 😀"}',
      ['straße été', 'σίσυφος', 'ΣΊΣΥΦΟς', 'жУК 😀', '\\u00e9t'],
      ['strasse', 'ete', '😁'],
    ],
    ['{"expr":"a.*b|c(d)[e]^$?+{2}-"}', ['A.*B|C(D)[E]^$?+{2}-'], ['a.b', 'aab']],
  ];
  const disk = diskOf(...rows.map(([json]) => `{"value":${json}}`));
  for (const [index, [json, found, others]] of rows.entries()) {
    const line = JSON.stringify({ value: 0 }).replace('0', () => json);
    for (const text of [...found, ...others]) {
      const isFound = found.includes(text);
      for (const isSearch of [true, false]) {
        const { seqs } = await find(disk, { contains: containing(text) }, isSearch);
        assert.equal(seqs.includes(index + 1), isFound, `${JSON.stringify(text)} in ${json}`);
      }
      assert.equal(textPattern(text)?.test(line), isFound, `${JSON.stringify(text)} in the characters of ${json}`);
    }
  }
});

test('each character is found in the same cases as by a regular expression that ignores case', () => {
  const characters = Array.from({ length: 0xd800 - 0x20 }, (_, at) => String.fromCharCode(at + 0x20));
  for (const character of 'aZkiséßÿµσςǅıİſЖ\u2126\u212aᾳ') {
    const [any, ours] = [new RegExp(character, 'i'), textPattern(character)!];
    const utf8 = containing(character);
    for (const one of characters) {
      if (one === '\\') continue;
      assert.equal(ours.test(one), any.test(one), `${character} in ${one}`);
      if (any.test(one)) assert.equal(utf8.find(Buffer.from(one).toString('latin1'), 0), 0, `${character} in ${one}`);
    }
  }
});

test('the members that the service adds to a line are not searched', async () => {
  const { bytes, lines } = makeLines(50);
  const disk = diskWith({ [FIRST]: bytes });
  const last = JSON.parse(`${lines[49]}`);
  for (const text of [
    '"seq":50',
    last.id,
    '"time"',
    last.time.slice(0, 12),
    '"crc":',
    `"crc":"${last.crc}"`,
    '"}}',
    '},"crc',
    '",typ',
    'Z","type"',
  ]) {
    const expected = text === '"crc":' ? 50 : 0; // the metadata has that member
    assert.equal((await find(disk, { contains: containing(text) })).seqs.length, expected, text);
  }
  for (const text of ['"type"', '"type":"AssetMat', 'crc":"00000000"}', 'a/50']) {
    assert.equal((await find(disk, { contains: containing(text) })).seqs.at(-1), 50, text);
  }
});

test('a text is found across the end of any chunk', async (t) => {
  const folder = newFolder(t);
  const random = randomFrom(5);
  const count = rounds({ long: 700, short: 350 });
  const { bytes, lines } = makeLines(count, START, (seq) => ({
    type: 'AssetObservation',
    assetKey: ['k', `${seq}`],
    description: `${'x'.repeat(random() * (seq % 100 === 9 ? 90_000 : 400))}Nädel/${seq}!`,
  }));
  assert.ok(bytes.length > 3 * 64 * 1024);
  writeFileSync(join(folder, FIRST), bytes);
  for (const chunkBytes of [777, 70_001, 256 * 1024]) {
    const disk = openDisk(folder, undefined, chunkBytes);
    const step = chunkBytes < 1_000 ? 97 : 35; // nearly each line has the end of a small chunk
    let end = 0;
    for (let seq = 1; seq <= count; seq += 1) {
      const begin = end;
      end += lines[seq - 1]!.length;
      const isCut = Math.floor(begin / chunkBytes) < Math.floor(end / chunkBytes);
      if (seq % step !== 1 && (chunkBytes < 1_000 || !isCut)) continue;
      const { seqs, remarks } = await find(disk, { contains: containing(`nÄDEL/${seq}!`) });
      assert.deepEqual([seqs, remarks], [[seq], []], `${chunkBytes}`);
    }
    assert.equal((await find(disk, { contains: containing('nädel') })).seqs.length, count);
  }
  // A third of each line is the text, so some of the 7 or 15 parts of 64 KiB end in it.
  const long = 'y'.repeat(95);
  const all = rounds({ long: 3_000, short: 1_500 });
  const many = makeLines(all, START, () => ({ type: 'AssetObservation', assetKey: ['k'], description: long }));
  writeFileSync(join(folder, FIRST), many.bytes);
  assert.equal((await find(openDisk(folder), { contains: containing(long) })).seqs.length, all);
});

test('with other filters a line has to match these and contain the text', async () => {
  const disk = diskWith({
    [FIRST]: makeLines(30, START, (seq) => ({
      type: seq % 2 === 0 ? 'AssetObservation' : 'AssetMaterialization',
      assetKey: ['a', `${seq % 3}`],
      description: seq % 5 === 0 ? 'a Needle' : '"needle',
      metadata: '{"asset_key":["a","1"]}',
    })).bytes,
  });
  const contains = containing('a needle');
  for (const isSearch of [true, false]) {
    assert.deepEqual((await find(disk, { contains }, isSearch)).seqs, [5, 10, 15, 20, 25, 30]);
    assert.deepEqual((await find(disk, { contains, assetKey: ['a', '1'] }, isSearch)).seqs, [10, 25]);
    assert.deepEqual((await find(disk, { contains, type: 'AssetObservation' }, isSearch)).seqs, [10, 20, 30]);
    assert.deepEqual((await find(disk, { contains, afterSeq: 7, untilSeq: 20 }, isSearch)).seqs, [10, 15, 20]);
    assert.deepEqual((await find(disk, { contains, until: '2000-01-01T00:00:00.000Z' }, isSearch)).seqs, []);
  }
});

test('no text and no JSON makes a search backtrack by more than the length of the text', () => {
  const texts = [
    ...['   ,', '  ,', ' ,', ' ', '"', '",', ',"', ' "', ': ', ' :'],
    ...['\\', '\\ ', '/', '/ ', 'a"', '" UTC', 'a a"'],
  ];
  const jsons = [
    ...['"":"",', '":",', '":"', '": ', '""', '","', '"', ' '],
    ...['\\', 'a\\\\\\"', 'a"', 'a":"', '":', 'T1T', '1T1'],
  ];
  for (const text of texts) {
    const long = text.repeat(limits.searchCharactersMax / text.length - 2);
    for (const json of jsons) {
      const many = json.repeat(3_000 / json.length);
      for (const [sought, where] of [
        [`x${long}!`, `x${many}`],
        [`${long}!`, `${json.repeat(15)}!`.repeat(30)], // looked for from its end
      ] as const) {
        assert.equal(containing(sought).find(where, 0), -1, `${sought} in ${json}`);
      }
    }
  }
});

test('a text with repetitions is found where a simple search finds it, from any index on', () => {
  const rows: readonly (readonly [text: string, json: string, at: readonly number[]])[] = [
    ['/////x', '["x","","","",""]"\\/","///x', [18, 19]],
    ['aaaaa', 'a aaaaaaa aaaaa', [2, 3, 4, 10]],
    ['ababababa', 'abababababa', [0, 2]],
    ['abababacab', 'abababababacabababacab', [4, 12]],
    ['""""""!', '\\"\\"\\"\\"\\"\\"\\"!', [3]],
    [' " " "!', '"""""""!', [1]],
    ['tttttttt"tttttttt', 'ttttttttt"tttttttt', [1]],
    ['00000000-', '000000000000-', [4]],
    ['ÉÉÉÉÉÉe', 'éééé\\u00e9ée', [0]],
  ];
  for (const [text, json, at] of rows) {
    const latin1 = Buffer.from(json).toString('latin1');
    const { find: findIn } = containing(text);
    const found: number[] = [];
    for (let hit = findIn(latin1, 0); hit !== -1; hit = findIn(latin1, hit + 1)) found.push(hit);
    assert.deepEqual(found, at, `${text} in ${json}`);
    assert.equal(textPattern(text)?.test(json), true, text);
    assert.equal(textPattern(text)?.test(json.slice(at.at(-1)! + 1)), false, text);
  }
});

test('a near match at each position of a long line takes a few steps at each', () => {
  const most = limits.searchCharactersMax - 1;
  const cases: readonly (readonly [repeated: string, end: string, json: string])[] = [
    ['/', 'x', '\\/'],
    ['/', '', `${'/'.repeat(most)}y`],
    ['"', 'x', '\\\\\\"'],
    [' ', 'x', '":"'],
    [' UTC', 'x', 'Z'],
    ['\\', 'x', '\\'],
    ['ab', 'aa', 'ab'],
    ['Ab', `/${'ab'.repeat(20)}`, '\\u0041b'],
  ];
  const startedMs = processorMs();
  for (const [repeated, end, json] of cases) {
    const text = `${repeated.repeat((most + 1 - end.length) / repeated.length)}${end}`;
    assert.equal(containing(text).find(json.repeat(2 ** 20 / json.length), 0), -1, `${text} in ${json}`);
  }
  assert.ok(processorMs() - startedMs < 2_000); // step by step it would be three times as much or more
});
