import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Table } from '../../../src/commands/cli/table.ts';

const COLUMNS = [{ title: 'n', whole: 3 }, { title: 'name' }, { title: 'rest' }];

test('a text is never cut inside of a character', () => {
  const lines = new Table(COLUMNS, 80).print([
    ['1', '日本語'.repeat(20), 'x'],
    ['12345', 'plain', `👍 ${'and more than fits '.repeat(5)}`],
  ]);
  const [titles, first, second, rest] = lines.split('\n');
  assert.deepEqual([titles, rest], [`n      name${' '.repeat(33)}rest`, '']);
  assert.equal(first, `1      ${'日本語'.repeat(11)}日…  x`);
  assert.equal(second, `12345  plain${' '.repeat(32)}👍 and more than fits and more than …`);
});

test('a column widens for a later page and stays wide, never beyond the terminal', () => {
  const table = new Table(COLUMNS, 80);
  assert.equal(table.print([['1', 'a', 'b']]), 'n    name  rest\n1    a     b\n');
  assert.equal(table.print([]), '');
  assert.equal(table.print([['2', 'x'.repeat(9), 'y']]), `2    ${'x'.repeat(9)}     y\n`);
  assert.equal(table.print([['123456', 'x', 'y']]), `123456    x${' '.repeat(13)}y\n`);
  const wide = table.print([
    ['4', 'x'.repeat(500), 'y'.repeat(500)],
    ['5', 'x', 'y'],
  ]);
  const [long = '', short = ''] = wide.split('\n');
  assert.equal(long.length, 80);
  assert.equal(long.indexOf('y'), short.indexOf('y'), 'aligned');
  assert.ok(long.indexOf('y') < 50, 'the last column keeps its share');
});

test('below 80 columns each value that is not empty is on a line of its own, and takes at most three', () => {
  const table = new Table(COLUMNS, 40);
  assert.equal(table.print([['1', '', 'b']]), 'n     1\nrest  b\n');
  assert.equal(table.print([['2', '日本', '']]), '\nn     2\nname  日本\n');
  const long = table.print([['3', 'x'.repeat(1_000), '']]);
  assert.equal(long, `\nn     3\nname  ${'x'.repeat(119)}…\n`);
});

test('a terminal too narrow for the columns that are never cut shows each value on its own line', () => {
  const columns = [{ title: 'name' }, { title: 'time', whole: 40 }, { title: 'id', whole: 36 }];
  const print = (width: number) => new Table(columns, width).print([['roof-17', 'now', 'x'.repeat(36)]]);
  assert.equal(print(85), `name  roof-17\ntime  now\nid    ${'x'.repeat(36)}\n`);
  assert.ok(print(86).endsWith(`  ${'x'.repeat(36)}\n`), print(86));
});
