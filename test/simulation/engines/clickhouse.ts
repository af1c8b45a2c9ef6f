/**
 * A model of a ClickHouse with three servers and one table. An insert becomes one part for each month, stored as a whole, and has a
 * token: a known one is answered with success, and stores nothing whatever its rows are. A server that did not take part in an insert
 * gets its parts later.
 */

import { crc32 } from 'node:zlib';
import type { HttpReply } from '../../../src/client/connection.ts';
import type { Delivered, Network } from '../network.ts';
import type { SeenLine } from '../oracle/journal-view.ts';
import type { EngineState } from '../runner/expected.ts';
import type { World } from '../world.ts';
import { Engine, readLine } from './engine.ts';

interface Part {
  readonly source: string;
  readonly lines: readonly SeenLine[];
  /** By server: when it has the part. */
  readonly thereMs: readonly number[];
}

const SERVERS = 3;
const FIRST_PORT = 8123;
const NO_ID = '00000000-0000-0000-0000-000000000000';
/** Too much memory, too many parts, no connection to Keeper, no such table. */
const EXCEPTIONS = [241, 252, 999, 60];
/** A row that it cannot read, and one of so many events that are such rows for good. */
const BAD_ROW = 27;
const BAD_EVENTS = 40;
/** Its quorum did not answer in time. */
const UNKNOWN_STATUS = 319;

export class Clickhouse extends Engine {
  readonly isTable = true;
  readonly #parts: Part[] = [];
  readonly #tokens = new Set<string>();
  /** By source: what a server said when it lacked events, and the last seq that others had. */
  readonly #saidTooLow = new Map<string, { readonly seq: number; readonly last: number }[]>();

  constructor(world: World, network: Network, name: string, met: (state: EngineState) => void) {
    super(world, network, name, met);
    network.listen(name, { process: this.process, handle: (request) => this.#handle(request) });
  }

  linesIn(request: Delivered): SeenLine[] {
    return rowsIn(request).map(({ line }) => line);
  }

  async #handle(request: Delivered): Promise<HttpReply> {
    const { chance } = this.process;
    const query = queryOf(request).get('query') ?? '';
    const [, port] = request.headers[request.headers.indexOf('Host') + 1]!.split(':');
    const server = Number(port) - FIRST_PORT;
    await this.world.wait(chance.exponentialMs(5), 'works', this.process);
    const [, source] = /WHERE source = '([^']+)'/.exec(query) ?? [];
    // Else those of an insert would be used up by the asks that follow one.
    const fault = source !== undefined && chance.happens(0.5) ? 'none' : this.nextFault();
    if (source !== undefined) return fault === 'none' ? this.#position(source, server) : failed(chance.happens(0.3));
    if (fault === 'before') {
      const tear = chance.integer(0, 3);
      // After a copy the request itself would be answered with success, and no sender could know that its rows are not there.
      if (tear === 0 && !request.isCopy) this.#remember(request);
      else if (tear === 1) this.#insert(request, server, chance.share());
      if (tear <= 2) throw new Error('the server was killed');
      return exception(chance.oneOf(EXCEPTIONS), 500);
    }
    if (rowsIn(request).some(({ line }) => crc32(line.id) % BAD_EVENTS === 0)) {
      this.met('clickhouse bad row');
      return exception(BAD_ROW, 400);
    }
    this.#insert(request, server);
    if (fault === 'none') return done('');
    if (chance.happens(0.3)) throw new Error('the server was killed');
    await this.world.wait(chance.exponentialMs(20_000), 'is late', this.process);
    return chance.happens(0.5) ? exception(UNKNOWN_STATUS, 500) : done('');
  }

  /** Some versions write the token before the part. */
  #remember(request: Delivered): void {
    for (const token of partsIn(request).keys()) this.#tokens.add(token);
    this.met('clickhouse token without rows');
  }

  /** @param share chooses the part that it stores before it is killed; if it is undefined, all are stored */
  #insert(request: Delivered, server: number, share?: number): void {
    const { chance } = this.process;
    const parts = [...partsIn(request)];
    const at = share === undefined ? 0 : Math.floor(share * parts.length);
    for (const [token, rows] of share === undefined ? parts : parts.slice(at, at + 1)) {
      if (this.#tokens.has(token)) {
        this.met('clickhouse token known');
        continue;
      }
      this.#tokens.add(token);
      const { source } = rows[0]!;
      const lines = rows.map(({ line }) => line);
      const { nowMs } = this.world;
      const late = (server + 1 + chance.integer(0, SERVERS - 2)) % SERVERS;
      const lateMs = nowMs + chance.exponentialMs(chance.happens(0.2) ? 3_000 : 20);
      const thereMs = Array.from({ length: SERVERS }, (_, at) => (at === late ? lateMs : nowMs));
      this.#parts.push({ source, lines, thereMs });
      // A token of a server that did not have the rows, or one after the answer of a server that lagged: the insert before may still
      // arrive.
      const first = lines[0]!.seq;
      const isAfterLow = this.#saidTooLow.get(source)?.some(({ seq, last }) => seq < first && first <= last + 1);
      const isAnother = /^\S+ ([\w-]+:){3}\d+$/.test(token) || isAfterLow;
      if (isAnother) for (const { id } of lines) this.mayBeTwice.add(id);
      this.store(source, lines);
      this.met('clickhouse insert');
    }
  }

  #position(source: string, server: number): HttpReply {
    let last: SeenLine | undefined;
    let isLate = false;
    for (const part of this.#parts) {
      if (part.source !== source) continue;
      if (part.thereMs[server]! > this.world.nowMs) {
        isLate = true;
        this.met('clickhouse lags');
        // "Without FINAL doubles only until a merge, after […] a node that lags."
        for (const { id } of part.lines) this.mayBeTwice.add(id);
        continue;
      }
      for (const line of part.lines) if (line.seq > (last?.seq ?? 0)) last = line;
    }
    if (isLate) {
      const seqs = this.#parts.filter((part) => part.source === source).map(({ lines }) => lines.at(-1)!.seq);
      const low = { seq: last?.seq ?? 0, last: Math.max(...seqs) };
      this.#saidTooLow.set(source, [...(this.#saidTooLow.get(source) ?? []), low]);
    }
    return done(`${JSON.stringify([last?.seq ?? 0, last?.id ?? NO_ID, '26.9.2.1'])}\n`);
  }
}

interface Row {
  readonly source: string;
  readonly line: SeenLine;
}

/** @returns the rows of an insert by their tokens: those of a month have one of their own */
function partsIn(request: Delivered): Map<string, Row[]> {
  const rows = rowsIn(request);
  const token = queryOf(request).get('insert_deduplication_token') ?? rows[0]!.line.id;
  const parts = new Map<string, Row[]>();
  for (const row of rows) {
    const name = `${row.line.time.slice(0, '2026-11'.length)} ${token}`;
    parts.set(name, [...(parts.get(name) ?? []), row]);
  }
  return parts;
}

function rowsIn({ body }: Delivered): Row[] {
  const texts = body.toString().split('\n').filter(Boolean);
  return texts.map((text) => ({ source: JSON.parse(text).source, line: readLine(text) }));
}

function queryOf({ target }: Delivered): URLSearchParams {
  return new URLSearchParams(target.slice(target.indexOf('?')));
}

function done(body: string): HttpReply {
  return { status: 200, headers: { 'x-clickhouse-summary': '{}' }, body };
}

/** What an ask gets. @param isLate whether the query fails after the beginning of its answer */
function failed(isLate: boolean): HttpReply {
  const { headers, ...reply } = exception(EXCEPTIONS[0]!, 500);
  return isLate ? { ...done(''), body: reply.body } : { ...reply, headers };
}

function exception(code: number, status: number): HttpReply {
  const body = `Code: ${code}. DB::Exception: simulated. (SIMULATED) (version 26.9.2.1)\n`;
  return { status, headers: { 'x-clickhouse-exception-code': `${code}` }, body };
}
