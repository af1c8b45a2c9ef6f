/** A damaged journal in a start, in `assetlog verify` and in `assetlog repair`. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { segmentName } from '../../../src/journal/segments.ts';
import { runHere } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
import { newFolder, run, startService } from '../../support/program.ts';
import { FIRST, flip, makeLines, segment } from '../../support/segments.ts';
import { ask, post } from '../../support/wire.ts';

const TARGET = '/report_asset_materialization/';

const SECOND = segmentName(11);

function journal(t: TestContext, first = makeLines(10).bytes): string {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), first);
  writeFileSync(join(data, SECOND), segment(11, 5));
  return data;
}

function damaged(): Buffer {
  const { bytes, lines } = makeLines(10);
  return flip(bytes, lines.slice(0, 3).join('').length + 99);
}

test('verify prints the contents of a good journal, as text and as JSON, and ends with 0', async (t) => {
  const data = journal(t);
  await runRows({ DATA: data }, [
    [
      'verify $DATA',
      0,
      /^\$DATA is good\n {2}files {3}2, 0\.0 MB\n {2}events {2}15\n {2}seq {5}1 to 15\n {2}time {4}\d{4}-\S+Z to \d{4}-\S+Z\n$/,
    ],
  ]);
  const json = await runHere(['verify', data, '--data', `${data}/`, '--json']);
  assert.deepEqual([json.code, json.stderr], [0, '']);
  const { bytes, first_time, last_time, ...found } = JSON.parse(json.stdout);
  assert.deepEqual(found, {
    good: true,
    folder: data,
    files: 2,
    events: 15,
    first_seq: 1,
    last_seq: 15,
    lost: [],
    removed_to_seq: 0,
    findings: [],
    good_lines: 15,
    bad_lines: 0,
    erased_lines: 0,
    bad_places: [],
    bad_places_count: 0,
  });
  assert.equal(bytes, readFileSync(join(data, FIRST)).length + readFileSync(join(data, SECOND)).length);
  assert.ok(Date.parse(first_time) <= Date.parse(last_time));
});

test('verify counts good and bad lines also after the first bad one, and shows the first places of damage', async (t) => {
  const { lines } = makeLines(100);
  const at = (line: number) => lines.slice(0, line - 1).join('').length;
  const bytes = [4, 9, 10, 50].reduce<Buffer>((bytes, line) => flip(bytes, at(line) + 99), Buffer.concat(lines));
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), Buffer.concat([bytes.subarray(0, at(60)), bytes.subarray(at(61))]));
  writeFileSync(join(data, segmentName(101)), segment(101, 5).subarray(0, -1));
  writeFileSync(join(data, segmentName(106)), segment(106, 1));
  const { code, stdout } = await runHere(['verify', '--data', data]);
  assert.equal(code, 3);
  assert.match(stdout, /^\S+ is damaged\n {2}lines {3}99 good, 6 bad\n/); // the line after the missing one cannot be verified
  const places = [...stdout.matchAll(/^ {2}bad {5}(\S+), line (\d+), byte (\d+): .*; (\d+) lines?$/gm)];
  assert.deepEqual(
    places.map((place) => place.slice(1)),
    [
      [FIRST, '4', String(at(4)), '1'],
      [FIRST, '9', String(at(9)), '2'],
      [FIRST, '50', String(at(50)), '1'],
      [FIRST, '60', String(at(60)), '1'],
      [segmentName(101), '5', String(segment(101, 4).length), '1'],
    ],
  );
  const json = JSON.parse((await runHere(['verify', '--data', data, '--json'])).stdout);
  assert.deepEqual([json.good_lines, json.bad_lines, json.bad_places_count, json.bad_places.length], [99, 6, 5, 5]);

  writeFileSync(join(data, FIRST), Buffer.concat(lines.flatMap((line) => [line, Buffer.from('what?\n')])));
  const many = await runHere(['verify', '--data', data]);
  assert.match(
    many.stdout,
    /\n {2}lines {3}105 good, 101 bad\n(?:.*\n)+?( {2}bad {5}.*; 1 line\n){20} {2}bad {5}and 81 more places\n/,
  );
});

test('repair prints its plan, carries it out with --yes, and then has nothing to do', async (t) => {
  const data = journal(t, damaged());
  const before = readdirSync(data);
  await runRows({ DATA: data }, [
    [
      'repair --data $DATA',
      3,
      /^this is to be done; nothing was changed, add --yes to do it:\n(.*\n)* {2}move {4}events-0+1\.jsonl whole to damaged-\d{8}T\d{6}Z; keep 9 good lines, leave out \d+ of \d+ bytes in 1 place\n(.*\n)* {2}note {4}seq 4 as lost\n/,
    ],
  ]);
  assert.deepEqual(readdirSync(data), before);

  const done = await run(['repair', '--data', data, '--yes']);
  assert.equal(done.code, 0, done.stdout + done.stderr);
  assert.match(done.stdout, /^this was done:\n/);
  assert.match(
    done.stdout,
    / is good\n.*\n {2}events {2}14\n {2}seq {5}1 to 15\n.*\n {2}lost {4}seq 4: a repair could not find them\n$/s,
  );
  const [side = ''] = readdirSync(data).filter((name) => name.startsWith('damaged-'));
  assert.deepEqual(readdirSync(join(data, side)).sort(), [FIRST, 'repair.json']);
  assert.equal(JSON.parse(readFileSync(join(data, side, 'repair.json'), 'utf8')).damaged[0].kept, 9);

  const after = readdirSync(data);
  const again = await runHere(['repair', '--data', data, '--yes', '--json']);
  assert.equal(again.code, 0);
  assert.deepEqual([JSON.parse(again.stdout).done, JSON.parse(again.stdout).after.good], [false, true]);
  await runRows({ DATA: data }, [['repair --data $DATA', 0, /^nothing to repair\n/]]);
  assert.deepEqual(readdirSync(data), after);

  const service = await startService(t, { data });
  assert.equal((await ask(service.port, post(`${TARGET}a`))).status, 200);
  assert.equal(service.events().at(-1)?.['seq'], 16);
});

test('events of a compressed segment are not marked as lost, and events of a restored one are no longer lost', async (t) => {
  const data = newFolder(t);
  const packed = join(data, `${SECOND}.gz`);
  writeFileSync(join(data, FIRST), makeLines(10).bytes);
  writeFileSync(packed, gzipSync(segment(11, 5)));
  writeFileSync(join(data, segmentName(16)), segment(16, 2));
  const before = readdirSync(data);
  const problem =
    / {2}lines {3}12 good, 0 bad\n(.*\n)*.*: events-0+11\.jsonl\.gz, line 1, byte 0: events-0+11\.jsonl is missing, and this file might be it; restore it, for example with gunzip\n/;
  await runRows({ DATA: data }, [
    ['verify $DATA', 3, problem],
    [
      'repair $DATA --yes',
      3,
      /^this is to be done; nothing was changed:\n {2}note {4}seq 11 to 15 as lost\n/,
      /^assetlog: \S+\.gz might have events that this repair would mark as lost, .* such as with gunzip,/,
    ],
  ]);
  const { done, renamed } = JSON.parse((await runHere(['repair', data, '--yes', '--json'])).stdout);
  assert.deepEqual([done, renamed, readdirSync(data)], [false, [`${SECOND}.gz`], before]);

  renameSync(packed, join(newFolder(t), 'packed'));
  assert.equal((await runHere(['repair', data, '--yes'])).code, 0);
  const lost = async () => /\n {2}lost.*/.exec((await runHere(['verify', data])).stdout)?.[0];
  assert.equal(await lost(), '\n  lost    seq 11 to 15: a repair could not find them');
  writeFileSync(join(data, SECOND), segment(11, 3));
  assert.equal(await lost(), '\n  lost    seq 14 to 15: a repair could not find them');
  writeFileSync(join(data, SECOND), segment(11, 5));
  assert.equal(await lost(), undefined);
  const { good, events, lost: none } = JSON.parse((await runHere(['verify', data, '--json'])).stdout);
  assert.deepEqual([good, events, none], [true, 17, []]);
});
