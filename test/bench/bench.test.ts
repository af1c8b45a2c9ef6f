/** The computations of the benchmark. `npm run bench -- --quick` shows that it runs. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { beforeBatches } from '../support/older-program.ts';
import { newFolder, run } from '../support/program.ts';
import { spreadOf } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { readLoadResult, reportOf } from './load.ts';
import { lineOf } from './machine.ts';
import { beside, type Figure } from './rounds.ts';
import { Scratch } from './scratch.ts';
import { ASSETLOG, buildVersions, countLines, type Version } from './subjects.ts';

function figure(rate: number, more: Partial<Figure> = {}): Figure {
  return { rate, p99Ms: 1, memoryBytes: 1, processorUs: 1, userUs: 1, errors: 0, ...more };
}

test('the median and the quartiles lie between the figures that they separate', () => {
  assert.deepEqual(spreadOf([5, 1, 3, 2, 4]), { median: 3, low: 2, high: 4 });
  assert.deepEqual(spreadOf([10, 20]), { median: 15, low: 12.5, high: 17.5 });
  assert.equal(spreadOf([]), undefined);
});

test('a ratio is the median of the ratios of the rounds, not the ratio of the medians', () => {
  const base = [figure(100, { userUs: 10 }), figure(1000, { userUs: 40 }), figure(10, { userUs: 20 })];
  const own = [figure(50, { userUs: 9 }), figure(100, { userUs: 20 }), figure(9, { userUs: 22 })];
  const { ratio, rate, userRatio, userUs } = beside(base, own, 'x', 1);
  assert.deepEqual([ratio?.median, rate], [0.5, 50]);
  assert.deepEqual([userRatio?.median, userUs], [0.9, 20]);
});

test('a void round on either side makes the figure void', () => {
  const good = [figure(2), figure(2)];
  const bad = [figure(2), figure(2, { void: '3 errors' })];
  for (const [base, own] of [
    [good, bad],
    [bad, good],
  ] as const) {
    const { ratio, userRatio, voids } = beside(base, own, 'x', 1);
    assert.deepEqual([ratio, userRatio], [undefined, undefined]);
    assert.deepEqual(voids, ['3 errors']);
  }
});

test("wrk's result is read, and other output is refused and quoted", () => {
  const result = readLoadResult('Running 1s test\nRESULT requests 120 microseconds 2000000 errors 1 p99 1500\n');
  assert.deepEqual(result, { requests: 120, seconds: 2, errors: 1, p99Ms: 1.5 });
  assert.throws(() => readLoadResult('unable to connect'), /wrk gave no result: unable to connect/);
});

test('a report has the requested size, and its line has all its values', () => {
  for (const bytes of [200, 20_000]) {
    assert.equal(reportOf(bytes).length, bytes);
    const { metadata, tags } = JSON.parse(lineOf(reportOf(bytes)).toString());
    assert.deepEqual([metadata, tags.data_version], [JSON.parse(reportOf(bytes)).metadata, 'v1']);
    const spaced = reportOf(bytes, true);
    assert.deepEqual([spaced.length, spaced.match(/[,:] /g)?.length], [bytes, 13]);
    assert.deepEqual({ ...JSON.parse(spaced), metadata }, { ...JSON.parse(reportOf(bytes)), metadata });
  }
});

test('two commits are compared by their built programs', { skip: beforeBatches.isMissing }, (t) => {
  const scratch = new Scratch(newFolder(t));
  t.after(() => scratch.end());
  assert.throws(() => buildVersions(scratch, 'nowhere'), /^Error: nowhere is no commit of this repository$/);
  const [{ name, program }, own] = buildVersions(scratch, 'HEAD') as [Version, Version];
  assert.match(name, /^[0-9a-f]{7,}$/);
  assert.deepEqual(own, { ...own, name: 'the work tree', program: ASSETLOG });
  assert.match(execFileSync(process.execPath, [program, '--version'], { encoding: 'utf8' }), /^assetlog \d/);
});

test('a journal made for a measurement is good', async (t) => {
  const data = newFolder(t);
  writeJournal(data, 25, 10);
  assert.equal(countLines(data), 25);
  const { code, stdout } = await run(['verify', '--json', '--data', data]);
  assert.equal(code, 0, stdout);
  assert.equal(JSON.parse(stdout).events, 25);
});
