/**
 * ClickHouse: a table with one row for each line. The largest seq in the table shows how many events of the journal it has.
 *
 * A request is one insert into one partition, with a deduplication token. It is stored completely or not at all. After a failure
 * the same rows are sent again with the same token, even while the first insert is still running. Therefore the rows of an insert
 * depend only on the lines that are passed to `send`.
 */

import { timeOf, withMembers } from '../../../journal/line/members.ts';
import { type Line, linesBefore } from '../../../journal/look/reading.ts';
import { START } from '../../position.ts';
import { isOlder, otherwise, positionOf, quoteAnswer, recordedUpTo } from '../answers.ts';
import type { AskableDestination, Asked, Opening, Sent, Shipment } from '../destination.ts';
import { engineUrlOf } from '../engine-url.ts';
import { HttpRequests } from '../http.ts';
import { type ClickhouseAnswer, judgeClickhouse, notSetUp } from './answers.ts';

/** @returns a ClickHouse, not connected yet. @throws TypeError if `to` is not a URL of a ClickHouse */
export function openClickhouse(opening: Opening): AskableDestination {
  return new Clickhouse(opening);
}

class Clickhouse implements AskableDestination {
  readonly #opening: Opening;
  /** The table's name in SQL. */
  readonly #table: string;
  readonly #servers: readonly HttpRequests<ClickhouseAnswer>[];
  /** The index of the current server. */
  #current = 0;
  /** Whether the next insert might repeat an earlier one. */
  #mayBeRepeated = true;
  /** The last event of failed inserts, whose tokens a server might know; 0 if no insert failed. */
  #failedSeq = 0;
  /** A token that the server knows although it does not have the rows. */
  #tokenInVain: string | undefined;
  /** The number of lines of which one is bad, and the id of the first of them. */
  #bad: { readonly id: string; readonly count: number } | undefined;

  constructor(opening: Opening) {
    const { scheme, hosts, path } = engineUrlOf(opening.to);
    this.#opening = opening;
    this.#table = path.replace(/^(.*)\.(.*)$/, '`$1`.`$2`');
    const protocol = scheme.slice(scheme.indexOf('+') + 1);
    const own = { ...opening, tokenHeader: 'X-ClickHouse-Key' };
    this.#servers = hosts.map(({ name }) => new HttpRequests({ ...own, to: `${protocol}://${name}` }, judgeClickhouse));
  }

  async ask(signal: AbortSignal): Promise<Asked> {
    this.#mayBeRepeated = true;
    for (let left = this.#servers.length; ; left -= 1) {
      const asked = await this.#position(signal);
      if (asked.kind !== 'again' || left === 1 || signal.aborted) return asked;
    }
  }

  /** Stores the lines. If one is bad, stores the lines before it, in smaller and smaller inserts, and refuses it. */
  async send({ lines }: Shipment, signal: AbortSignal): Promise<Sent> {
    let recorded: Sent | undefined;
    for (let rest = lines, batch = this.#nextOf(rest); ; ) {
      const answer = await this.#insert(batch, signal);
      const { length } = batch;
      if (answer.kind === 'done') {
        recorded = recordedUpTo(batch.at(-1)!);
        const count = (this.#bad?.count ?? length) - length;
        if (count === 0) return recorded;
        rest = rest.slice(length);
        this.#bad = { id: rest[0]!.event.id, count };
        batch = this.#nextOf(rest);
      } else if (answer.kind !== 'bad rows' && answer.kind !== 'too large') {
        return answer;
      } else if (length === 1) {
        return recorded ?? (answer.kind === 'bad rows' ? { ...answer, kind: 'refused' } : otherwise(answer));
      } else {
        if (answer.kind === 'bad rows') this.#bad = { id: batch[0]!.event.id, count: length };
        batch = batch.slice(0, partOf(length));
      }
    }
  }

  async haveFilesChanged(signal: AbortSignal): Promise<boolean> {
    const changed = await Promise.all(this.#servers.map((server) => server.haveFilesChanged(signal)));
    return changed.some(Boolean);
  }

  close(): void {
    for (const server of this.#servers) server.close();
  }

  async #position(signal: AbortSignal): Promise<Found> {
    const columns = 'max(seq), argMax(id, seq), version()'; // in the form of the table's projection
    const where = `source = '${this.#opening.source}'`;
    const query = `SELECT ${columns} FROM ${this.#table} WHERE ${where} FORMAT JSONCompactEachRow`;
    const answer = await this.#call({ query }, signal);
    if (answer.kind === 'done') return readPosition(answer.body);
    return answer.kind === 'stopped' ? answer : { ...answer, kind: 'again' };
  }

  async #insert(lines: readonly Line[], signal: AbortSignal): Promise<ClickhouseAnswer> {
    const last = lines.at(-1)!;
    // Ordered by id too, since a copy of the folder has other events with the same seqs. Filtered by source, since a journal with a new
    // id sends the same events as its own rows.
    const { source, deployment = '_' } = this.#opening;
    const token = `${source}:${lines[0]!.event.id}:${last.event.id}`;
    const isInVain = token === this.#tokenInVain;
    const parameters = {
      query: `INSERT INTO ${this.#table} FORMAT JSONEachRow`,
      ...SETTINGS,
      insert_deduplication_token: isInVain ? `${token}:${Date.now()}` : token,
    };
    const rows = withMembers(lines, `"source":"${source}","deployment":"${deployment}",`);
    const answer = await this.#call(parameters, signal, rows);
    if (answer.kind !== 'done') {
      const isStoredNowhere = answer.kind === 'bad rows' || answer.kind === 'too large';
      if (!isStoredNowhere) this.#failedSeq = Math.max(this.#failedSeq, last.seq);
      return answer;
    }
    // If a server that lags behind answered, earlier events are inserted again before a failed insert is repeated.
    if ((this.#mayBeRepeated || last.seq <= this.#failedSeq) && !isInVain) {
      // A server that was killed during an insert might know its token and not have its rows, since some versions write the
      // token first.
      const at = await this.#position(signal);
      if (at.kind !== 'at') return at;
      if (at.seq < last.seq) {
        this.#tokenInVain = token;
        return { kind: 'again', reason: `knows the insert of the events up to ${last.seq}, but does not have them` };
      }
    }
    this.#mayBeRepeated = false;
    if (last.seq >= this.#failedSeq) this.#failedSeq = 0;
    this.#tokenInVain = undefined;
    return answer;
  }

  async #call(
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal,
    body?: Buffer,
  ): Promise<ClickhouseAnswer> {
    const { user } = this.#opening;
    const answer = await this.#servers[this.#current]!.send({
      method: 'POST',
      path: `/?${new URLSearchParams(parameters)}`,
      ...(user !== undefined && { headers: { 'X-ClickHouse-User': user } }),
      ...(body !== undefined && { body }),
      signal,
    });
    if (answer.kind === 'done' || answer.kind === 'bad rows') return answer;
    if (answer.kind === 'answer' && answer.status === 413) return { ...answer, kind: 'too large' };
    this.#current = (this.#current + 1) % this.#servers.length;
    if (answer.kind === 'answer') return otherwise(answer);
    return answer.kind === 'unclear' ? { ...answer, kind: 'again' } : answer;
  }

  /** @returns the lines of the next insert */
  #nextOf(lines: readonly Line[]): readonly Line[] {
    const first = this.#firstOf(lines);
    if (this.#bad?.id !== lines[0]!.event.id || this.#bad.count > first.length) this.#bad = undefined;
    return this.#bad === undefined ? first : first.slice(0, partOf(this.#bad.count));
  }

  /** @returns the first lines that belong to one partition of the table, which is the month (UTC) of the first line */
  #firstOf(lines: readonly Line[]): readonly Line[] {
    const { insertLinesMax } = this.#opening.limits;
    const monthOf = ({ bytes, start, seq }: Line) => timeOf(bytes, start, seq).slice(0, '2026-11'.length);
    const month = monthOf(lines[0]!);
    return linesBefore(lines, (line, at) => at === insertLinesMax || monthOf(line) !== month);
  }
}

type Found = Exclude<Asked, { readonly kind: 'no hub' }>;

/**
 * @param count the number of lines, one of which is bad
 * @returns how many of them to try. A power of two, so that the same lines are tried after a crash, when `count` is unknown
 */
function partOf(count: number): number {
  return 2 ** Math.max(0, Math.ceil(Math.log2(count)) - 1);
}

/** Settings of an insert. */
const SETTINGS = {
  async_insert: '0',
  insert_deduplicate: '1',
  insert_quorum: 'auto',
  date_time_input_format: 'best_effort',
  input_format_skip_unknown_fields: '1',
  input_format_json_read_objects_as_strings: '1', // metadata is stored as it was sent
  wait_end_of_query: '1',
};

/** @param body `[7,"01a1fb95-…","26.9.2.1"]`; some versions quote the number */
function readPosition(body: string): Found {
  const [, digits, id = '', version = ''] = POSITION.exec(body) ?? [];
  const seq = Number(digits);
  const at = seq === 0 ? START : positionOf({ seq, id });
  if (at === undefined) {
    return { kind: 'stopped', why: 'not understood', reason: `answers ${quoteAnswer(body)} when asked; check the URL` };
  }
  if (isOlder(version, '24.8')) {
    return notSetUp(`is version ${quoteAnswer(version)}; inserts that are stored once need 24.8 or later`);
  }
  return { kind: 'at', ...at };
}

const POSITION = /^\["?(\d+)"?, ?"([^"]*)", ?"(\d+\.\d+)[^"]*"\]\s*$/;
