import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csvRecord } from '../../../src/commands/cli/csv.ts';
import { processorMs } from '../../support/processor-time.ts';

/** Splits like a spreadsheet in a locale with another separator: quotes count only at the start of a cell. */
function cellsOf(record: string, separator: string): string[] {
  const cells: string[] = [];
  for (let at = 0; at < record.length; at += 1) {
    let cell = '';
    if (record[at] === '"') {
      for (at += 1; at < record.length && (record[at] !== '"' || record[at + 1] === '"'); at += 1) {
        if (record[at] === '"') at += 1;
        cell += record[at];
      }
      at += 1;
    }
    for (; at < record.length && record[at] !== separator && record[at] !== '\n' && record[at] !== '\r'; at += 1)
      cell += record[at];
    cells.push(cell);
  }
  return cells;
}

test('no cell of a CSV record is a formula, with any separator', () => {
  assert.deepEqual(cellsOf('1,"a;=b"\r\n', ';'), ['1,"a', '=b"', ''], 'quotes alone do not help');
  const starts = ['', ';', '; ', ';"', ';""', '\t', '\n', '\r\n', ';;', ';\n', '" ', 'a;b;', ' ', 'x\u00a0;\u00a0'];
  for (const start of starts) {
    for (const formula of ['=1', '+1', '-1', '@x', '＝1']) {
      for (const cells of [[`${start}${formula}`], [7, `${start}${formula}`, 'z'], ['a', `"${start}${formula}"`]]) {
        const record = csvRecord(cells);
        for (const separator of [',', ';', '\t']) {
          for (const cell of cellsOf(record, separator)) {
            assert.doesNotMatch(cell, /^[\s"]*[=+\-@＝]/, JSON.stringify([record, separator]));
          }
        }
      }
    }
  }
  assert.equal(csvRecord(['a;b', 'cold;-5', 'x-y=z', -1]), `"a;b","cold;'-5",x-y=z,-1\r\n`);
  const startedMs = processorMs();
  csvRecord(['\n'.repeat(1_000_000), ';'.repeat(1_000_000), `;${' '.repeat(1_000_000)}`]);
  assert.ok(processorMs() - startedMs < 5_000, 'a long run of separators takes too long');
});
