/** The HTTP answers of a ClickHouse server, and a table that stores and deduplicates rows like one. */

import assert from 'node:assert/strict';
import type { Got, Scripted } from './sent-lines.ts';

/** The answer of a server to a query that throws. */
export const exception = (code: number, status = 500, text = 'it is so. (SOME_NAME)'): Scripted => [
  status,
  `Code: ${code}. DB::Exception: ${text} (version 26.9.2.1)\n`,
  { 'X-ClickHouse-Exception-Code': `${code}` },
];
export const done = (body = ''): Scripted => [200, body, { 'X-ClickHouse-Summary': '{}' }];

/** A table of one server, with the deduplication tokens that the server remembers. */
export class Table {
  /** Partitions of the events, in the order of storing. */
  stored: string[] = [];
  seq = 0;
  id = '00000000-0000-0000-0000-000000000000';
  /** The rows of each token that an insert had. */
  readonly tokens = new Map<string, string>();
  /** Tokens of stored inserts: an insert with one of them is not stored again. */
  readonly known = new Set<string>();
  isBad: (partition: string) => boolean = () => false;

  answer({ url, body }: Got): Scripted {
    const parameters = new URL(url ?? '/', 'http://localhost').searchParams;
    if (parameters.get('query')?.startsWith('SELECT')) return done(`[${this.seq}, "${this.id}", "26.9.2.1"]\n`);
    const token = parameters.get('insert_deduplication_token') ?? '';
    assert.equal(this.tokens.get(token) ?? body, body, 'a token has the same rows each time');
    this.tokens.set(token, body);
    const rows = body
      .split('\n')
      .slice(0, -1)
      .map((row) => JSON.parse(row));
    assert.equal(new Set(rows.map(({ time }) => time.slice(0, 7))).size, 1, 'an insert has one month');
    if (rows.some(({ partition }) => this.isBad(partition)))
      return exception(41, 400, 'a row. (CANNOT_PARSE_DATETIME)');
    if (!this.known.has(token)) this.store(rows);
    this.known.add(token);
    return done();
  }

  store(rows: readonly { readonly seq: number; readonly id: string; readonly partition: string }[]): void {
    this.stored.push(...rows.map(({ partition }) => partition));
    const last = rows.at(-1)!;
    if (last.seq > this.seq) [this.seq, this.id] = [last.seq, last.id];
  }
}
