/** The meaning of a ClickHouse's answers, by the code of its exception. */

import type { HttpReply } from '../../../client/connection.ts';
import { quoteAnswer, turnedAway } from '../answers.ts';
import type { Again, Stopped } from '../destination.ts';

export type ClickhouseAnswer =
  /** The request was carried out. */
  | { readonly kind: 'done'; readonly body: string }
  /** A row is wrong, and nothing was stored. */
  | { readonly kind: 'bad rows'; readonly status: number; readonly reason: string }
  /** A proxy accepts only smaller requests. */
  | { readonly kind: 'too large'; readonly status: number; readonly reason: string }
  | Again
  | Stopped;

/** @returns undefined for a reply that a ClickHouse does not send, such as a reply of a proxy */
export function judgeClickhouse({ status, headers, body }: HttpReply): ClickhouseAnswer | undefined {
  // A query that fails after the start of its answer has status 200, and the exception in its body.
  const code = Number(headers[EXCEPTION] ?? /\bCode: (\d+)\. DB::Exception/.exec(body)?.[1] ?? 0);
  const isOfClickhouse = Object.keys(headers).some((name) => name.startsWith('x-clickhouse-'));
  if (code === 0 && status !== 401) return status === 200 && isOfClickhouse ? { kind: 'done', body } : undefined;
  const reason = `answers ${status}: ${quoteAnswer(body)}`;
  if (status === 200) return { kind: 'again', reason };
  if (BAD_ROWS.has(code)) return { kind: 'bad rows', status, reason: `answers ${status}: ${withoutRow(code, body)}` };
  if (code === 0 || TURNED_AWAY.has(code))
    return turnedAway(`${reason}; check user and password, and what the user may do`);
  if (NO_TABLE.has(code)) return notSetUp(`${reason}; for the SQL of its table run assetlog forward ddl clickhouse`);
  if (NO_SETTING.has(code)) {
    return notSetUp(`${reason}; let the user change the settings of an insert, in ClickHouse 24.8 or later`);
  }
  return { kind: 'again', reason };
}

export function notSetUp(reason: string): Stopped {
  return { kind: 'stopped', why: 'not set up', reason };
}

/** The text of such an exception quotes the row, so only the names of the exception and of the column are used. */
function withoutRow(code: number, body: string): string {
  const name = [...body.matchAll(/\(([A-Z][A-Z_]+)\)/g)].at(-1)?.[1] ?? 'DB::Exception';
  const column = /while reading the value of key (\w+)/.exec(body)?.[1];
  return quoteAnswer(`${name} (code ${code})${column === undefined ? '' : ` at ${column}`}`);
}

const EXCEPTION = 'x-clickhouse-exception-code';

/**
 * Errors that depend only on the row and its table: a text that is not a number, time or UUID, a time out of range, a CHECK of the
 * table.
 */
const BAD_ROWS: ReadonlySet<number> = new Set([6, 25, 26, 27, 38, 41, 53, 69, 72, 117, 130, 321, 376, 407, 467, 469]);
/** The second row is from versions before 21.4. */
const TURNED_AWAY: ReadonlySet<number> = new Set([497, 516, ...[192, 193, 194]]);
/** There is no such table, database or column, or it has another type. */
const NO_TABLE: ReadonlySet<number> = new Set([16, 36, 47, 60, 81]);
/** The setting is unknown, or the user may not change it. */
const NO_SETTING: ReadonlySet<number> = new Set([115, 164, 452]);
