/**
 * A table of ClickHouse, as far as a sender relies on it. An insert becomes one part for each month, stored as a whole, and has a token:
 * a known one is answered with success, and stores nothing whatever its rows are. That a server lags, fails or is killed is up to those
 * who use it: tests, and `simulation/engines/clickhouse.ts`.
 */

import assert from 'node:assert/strict';
import type { HttpRequest, Scripted } from './http.ts';

export interface Row {
  readonly source: string;
  readonly seq: number;
  readonly id: string;
  readonly time: string;
  readonly partition: string;
  /** As it was sent. */
  readonly text: string;
}

export interface Part {
  readonly source: string;
  /** With the month of its rows. */
  readonly token: string;
  readonly rows: readonly Row[];
}

type InsertOrAsk = Pick<HttpRequest, 'url' | 'body'>;

const NO_ID = '00000000-0000-0000-0000-000000000000';
const VERSION = '26.9.2.1';

export class Table {
  /** In the order in which they were stored. */
  readonly parts: Part[] = [];
  /** Those that the server knows: an insert with one of them is not stored again. */
  readonly tokens = new Set<string>();
  isBad: (row: Row) => boolean;
  readonly #bodies = new Map<string, string>();

  /** @param isBad whether the table takes no insert that has the row */
  constructor(isBad: (row: Row) => boolean = () => false) {
    this.isBad = isBad;
  }

  /** Partitions of the events, in the order in which they were stored. */
  get stored(): string[] {
    return this.parts.flatMap(({ rows }) => rows.map(({ partition }) => partition));
  }

  /** The answer of a single server. @throws AssertionError for what no sender may send */
  answer(request: InsertOrAsk): Scripted {
    const source = sourceAskedIn(request);
    if (source !== undefined) return positionIn(this.parts, source);
    const [part, ...more] = partsIn(request) as [Part];
    assert.equal(more.length, 0, 'an insert has one month');
    assert.equal(this.#bodies.get(part.token) ?? request.body, request.body, 'a token has the same rows each time');
    this.#bodies.set(part.token, request.body);
    if (this.hasBad([part])) return exception(41, 400, 'a row. (CANNOT_PARSE_DATETIME)');
    this.insert(part);
    return done();
  }

  hasBad(parts: readonly Part[]): boolean {
    return parts.some(({ rows }) => rows.some(this.isBad));
  }

  /** @returns whether it is stored: its token was not known */
  insert(part: Part): boolean {
    if (this.tokens.has(part.token)) return false;
    this.tokens.add(part.token);
    this.parts.push(part);
    return true;
  }
}

/** @returns the source whose position is asked for; undefined for an insert */
export function sourceAskedIn(request: InsertOrAsk): string | undefined {
  return /WHERE source = '([^']+)'/.exec(parametersOf(request).get('query') ?? '')?.[1];
}

/** @returns the parts of an insert */
export function partsIn(request: InsertOrAsk): Part[] {
  const rows = request.body.split('\n').filter(Boolean).map(readRow);
  const token = parametersOf(request).get('insert_deduplication_token') ?? rows[0]?.id;
  const months = new Set(rows.map(monthOf));
  return [...months].map((month) => {
    const own = rows.filter((row) => monthOf(row) === month);
    return { source: own[0]!.source, token: `${month} ${token}`, rows: own };
  });
}

/** @returns the row with the largest seq of a source */
export function lastIn(parts: readonly Part[], source: string): Row | undefined {
  const rows = parts.flatMap((part) => (part.source === source ? part.rows : []));
  return rows.reduce<Row | undefined>((last, row) => (row.seq > (last?.seq ?? 0) ? row : last), undefined);
}

/** The answer of a server that has these parts to the question how far a source is. */
export function positionIn(parts: readonly Part[], source: string): Scripted {
  const { seq = 0, id = NO_ID } = lastIn(parts, source) ?? {};
  return done(`${JSON.stringify([seq, id, VERSION])}\n`);
}

export function done(body = ''): Scripted {
  return [200, body, { 'x-clickhouse-summary': '{}' }];
}

/** The answer to a query that throws. */
export function exception(code: number, status = 500, text = 'simulated. (SIMULATED)'): Scripted {
  const body = `Code: ${code}. DB::Exception: ${text} (version ${VERSION})\n`;
  return [status, body, { 'x-clickhouse-exception-code': `${code}` }];
}

function readRow(text: string): Row {
  const { source, seq, id, time, partition } = JSON.parse(text);
  return { source, seq, id, time, partition, text };
}

function monthOf({ time }: Row): string {
  return time.slice(0, '2026-11'.length);
}

function parametersOf({ url }: InsertOrAsk): URLSearchParams {
  return new URL(url ?? '/', 'http://localhost').searchParams;
}
