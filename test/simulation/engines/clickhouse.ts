/** The model of a table of ClickHouse at three servers. One that did not take part in an insert gets its parts later. */

import { crc32 } from 'node:zlib';
import {
  done,
  exception,
  lastIn,
  type Part,
  partsIn,
  positionIn,
  sourceAskedIn,
  Table,
} from '../../world/clickhouse.ts';
import { type HttpRequest, replyOf, type Scripted } from '../../world/http.ts';
import { type JournalLine, readLine } from '../../world/journal-line.ts';
import type { Delivered, Network } from '../../world/network.ts';
import type { World } from '../../world/time.ts';
import type { EngineState } from '../runner/expected.ts';
import { Engine } from './engine.ts';

const SERVERS = 3;
const FIRST_PORT = 8123;
/** Too much memory, too many parts, no connection to Keeper, no such table. */
const EXCEPTIONS = [241, 252, 999, 60];
/** A row that it cannot read, and one of so many events that are such rows for good. */
const BAD_ROW = 27;
const BAD_EVENTS = 40;
/** Its quorum did not answer in time. */
const UNKNOWN_STATUS = 319;

export class Clickhouse extends Engine {
  readonly isTable = true;
  readonly #table = new Table(({ id }) => crc32(id) % BAD_EVENTS === 0);
  /** By server: when it has the part. */
  readonly #thereMs = new Map<Part, readonly number[]>();
  /** By source: what a server said when it lacked events, and the last seq that others had. */
  readonly #saidTooLow = new Map<string, { readonly seq: number; readonly last: number }[]>();

  constructor(world: World, network: Network, name: string, met: (state: EngineState) => void) {
    super(world, network, name, met);
    network.listen(name, { process: this.process, handle: async (request) => replyOf(await this.#handle(request)) });
  }

  linesIn(request: Delivered): JournalLine[] {
    return partsIn(readable(request)).flatMap(linesOf);
  }

  async #handle(request: Delivered): Promise<Scripted> {
    const { chance } = this.process;
    const [, port] = request.headers[request.headers.indexOf('Host') + 1]!.split(':');
    const server = Number(port) - FIRST_PORT;
    await this.world.wait(chance.exponentialMs(5), 'works', this.process);
    const source = sourceAskedIn(readable(request));
    // Else those of an insert would be used up by the asks that follow one.
    const fault = source !== undefined && chance.happens(0.5) ? 'none' : this.nextFault();
    if (source !== undefined) return fault === 'none' ? this.#position(source, server) : failed(chance.happens(0.3));
    const parts = partsIn(readable(request));
    if (fault === 'before') {
      const tear = chance.integer(0, 3);
      // After a copy the request itself would be answered with success, and no sender could know that its rows are not there.
      if (tear === 0 && !request.isCopy) this.#remember(parts);
      else if (tear === 1) this.#insert([parts[Math.floor(chance.share() * parts.length)]!], server);
      if (tear <= 2) throw new Error('the server was killed');
      return exception(chance.oneOf(EXCEPTIONS));
    }
    if (this.#table.hasBad(parts)) {
      this.met('clickhouse bad row');
      return exception(BAD_ROW, 400);
    }
    this.#insert(parts, server);
    if (fault === 'none') return done();
    if (chance.happens(0.3)) throw new Error('the server was killed');
    await this.world.wait(chance.exponentialMs(20_000), 'is late', this.process);
    return chance.happens(0.5) ? exception(UNKNOWN_STATUS) : done();
  }

  /** Some versions write the token before the part. */
  #remember(parts: readonly Part[]): void {
    for (const { token } of parts) this.#table.tokens.add(token);
    this.met('clickhouse token without rows');
  }

  #insert(parts: readonly Part[], server: number): void {
    const { chance } = this.process;
    for (const part of parts) {
      if (!this.#table.insert(part)) {
        this.met('clickhouse token known');
        continue;
      }
      const { source, token } = part;
      const lines = linesOf(part);
      const { nowMs } = this.world;
      const late = (server + 1 + chance.integer(0, SERVERS - 2)) % SERVERS;
      const lateMs = nowMs + chance.exponentialMs(chance.happens(0.2) ? 3_000 : 20);
      this.#thereMs.set(
        part,
        Array.from({ length: SERVERS }, (_, at) => (at === late ? lateMs : nowMs)),
      );
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

  #position(source: string, server: number): Scripted {
    const own = this.#table.parts.filter((part) => part.source === source);
    const isThere = (part: Part) => this.#thereMs.get(part)![server]! <= this.world.nowMs;
    const [there, late] = [own.filter(isThere), own.filter((part) => !isThere(part))];
    for (const { rows } of late) {
      this.met('clickhouse lags');
      // "Without FINAL doubles only until a merge, after […] a node that lags."
      for (const { id } of rows) this.mayBeTwice.add(id);
    }
    if (late.length > 0) {
      const low = { seq: lastIn(there, source)?.seq ?? 0, last: lastIn(own, source)!.seq };
      this.#saidTooLow.set(source, [...(this.#saidTooLow.get(source) ?? []), low]);
    }
    return positionIn(there, source);
  }
}

function readable({ method, target, body }: Delivered): HttpRequest {
  return { method, url: target, body: body.toString() };
}

/** @returns the lines of rows, which have the source and the deployment before their members */
function linesOf({ rows }: Part): JournalLine[] {
  return rows.map(({ text }) => readLine(text.replace(/^\{"source":"[^"]+","deployment":"[^"]+",/, '{')));
}

/** What an ask gets. @param isLate whether the query fails after the beginning of its answer */
function failed(isLate: boolean): Scripted {
  const failure = exception(EXCEPTIONS[0]!);
  return isLate ? done(failure[1]) : failure;
}
