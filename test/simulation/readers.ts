/**
 * A reader of a service: it follows `GET /events` with pages, long polls and streams, and asks for `GET /assets`. It gets each event
 * once and in order, but for those that the service says are removed.
 */

import type { HttpReply, NoReply } from '../../src/client/connection.ts';
import { GATEWAY, type Network } from '../world/network.ts';
import { Incarnation, type World } from '../world/time.ts';
import type { Access } from './clients.ts';

/** What the oracle knows of the journal that is read. */
export interface ReadJournal {
  /** Whether retention may have removed these events, both included. */
  readonly mayBeGone: (first: number, last: number) => boolean;
  /** Whether these events may have been lost by a repair, both included. */
  readonly isLost: (first: number, last: number) => boolean;
  readonly breaks: (problem: string) => void;
  /** How often its folder was replaced by a copy: then a reader begins again. */
  readonly restores: () => number;
}

interface Page {
  readonly events: readonly { readonly seq: number }[];
  readonly next_after_seq?: number;
}

export class Reader {
  readonly name: string;
  /** As faults name it. */
  readonly link: string;
  isStopped = false;
  /** By form, and `removed` for each time that it learnt of events that were removed. */
  readonly outcomes: Record<string, number> = {};
  readonly #world: World;
  readonly #network: Network;
  readonly #access: Access;
  readonly #journal: ReadJournal;
  readonly #process: Incarnation;
  /** It got all events up to this one, or they are removed. */
  #lastSeq = 0;
  #restores = 0;

  constructor(world: World, network: Network, access: Access, name: string, journal: ReadJournal) {
    this.#world = world;
    this.#network = network;
    this.#access = access;
    this.#journal = journal;
    this.name = name;
    this.link = `${name} to ${new URL(access.base).hostname}`;
    this.#process = new Incarnation(world, name, { offsetMs: 0 });
    world.plan(this.#process.chance.exponentialMs(500), 'begins', () => void this.#run(), this.#process);
  }

  async #run(): Promise<void> {
    const { chance } = this.#process;
    while (!this.isStopped) {
      if (this.#isRestored) this.#lastSeq = 0;
      this.#restores = this.#journal.restores();
      const turn = chance.share();
      if (turn < 0.1) await this.#readAssets();
      else if (turn < 0.4) await this.#readStream();
      else await this.#readPage();
      await this.#world.wait(chance.exponentialMs(chance.happens(0.5) ? 200 : 5_000), 'pause');
    }
  }

  async #readPage(): Promise<void> {
    const { chance } = this.#process;
    const form = chance.oneOf(['json', 'lines'] as const);
    const query = { after_seq: this.#lastSeq, limit: chance.oneOf([1, 10, 100]) };
    const waitS = chance.happens(0.3) ? chance.integer(1, 4) : 0;
    const accept = form === 'json' ? 'application/json' : 'application/x-ndjson';
    const reply = await this.#ask('/events', { ...query, ...(waitS > 0 && { wait: waitS }) }, accept);
    if (reply?.status === 410) this.#isRemovedUpTo(JSON.parse(reply.body).first_seq - 1);
    if (reply?.status !== 200) return;
    this.#count(waitS > 0 ? `long poll ${form}` : `page ${form}`);
    const page: Page =
      form === 'json'
        ? JSON.parse(reply.body)
        : {
            events: reply.body
              .split('\n')
              .filter(Boolean)
              .map((one) => JSON.parse(one)),
          };
    for (const { seq } of page.events) this.#take(seq);
    const { next_after_seq: next = this.#lastSeq } = page;
    // A repair may have lost the last events of the journal.
    const skips = next > this.#lastSeq && !this.#journal.isLost(this.#lastSeq + 1, next);
    if (next < this.#lastSeq || (query.after_seq > 0 && skips))
      this.#journal.breaks(`says that ${next} follows the page that ends with ${this.#lastSeq}`);
    this.#lastSeq = next;
  }

  async #readStream(): Promise<void> {
    const { chance } = this.#process;
    const leaving = new AbortController();
    this.#world.plan(chance.exponentialMs(4_000), 'leaves', () => leaving.abort(), this.#process);
    // Some read a little again: they begin in the middle of what others are just sent.
    if (chance.happens(0.5)) this.#lastSeq -= Math.min(chance.integer(0, 5), Math.max(0, this.#lastSeq - 1));
    let text = '';
    const onPiece = (piece: string) => {
      if (this.#isRestored) return;
      const blocks = (text + piece).split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) this.#takeBlock(block);
    };
    const isResumed = chance.happens(0.5) && this.#lastSeq > 0;
    const query = isResumed ? {} : { after_seq: this.#lastSeq };
    const headers = isResumed ? { 'Last-Event-ID': String(this.#lastSeq) } : {};
    await this.#ask('/events', query, 'text/event-stream', { headers, onPiece, signal: leaving.signal });
  }

  #takeBlock(block: string): void {
    const fields = new Map(
      block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    );
    const [event, data] = [fields.get('event'), fields.get('data')];
    if (event === undefined || data === undefined) return;
    this.#count(`stream ${event.startsWith('Asset') ? 'event' : event}`);
    if (event === 'reset') this.#journal.breaks(`says that another journal begins after event ${this.#lastSeq}`);
    else if (event === 'gap') {
      if (JSON.parse(data).first > this.#lastSeq + 1) this.#journal.breaks(`shows a gap that begins with ${data}`);
      this.#isRemovedUpTo(JSON.parse(data).last);
    } else this.#take(JSON.parse(data).seq);
  }

  async #readAssets(): Promise<void> {
    const reply = await this.#ask('/assets', {}, 'application/json');
    if (reply?.status === 200) this.#count('assets');
  }

  get #isRestored(): boolean {
    return this.#restores !== this.#journal.restores();
  }

  #take(seq: number): void {
    // A repair may have lost the events before it.
    const isNext =
      seq === this.#lastSeq + 1 || (seq > this.#lastSeq && this.#journal.isLost(this.#lastSeq + 1, seq - 1));
    if (this.#lastSeq > 0 && !isNext)
      this.#journal.breaks(`shows event ${seq} to a reader whose last one is ${this.#lastSeq}`);
    this.#lastSeq = seq;
  }

  #isRemovedUpTo(last: number): void {
    this.#count('removed');
    if (!this.#journal.mayBeGone(this.#lastSeq + 1, last))
      this.#journal.breaks(`says that the events after ${this.#lastSeq} up to ${last} are removed`);
    this.#lastSeq = Math.max(this.#lastSeq, last);
  }

  async #ask(
    path: string,
    query: Readonly<Record<string, number>>,
    accept: string,
    {
      headers = {},
      ...more
    }: { headers?: Record<string, string>; onPiece?: (text: string) => void; signal?: AbortSignal } = {},
  ): Promise<HttpReply | undefined> {
    const { base, token } = this.#access;
    const url = new URL(`${base}${path}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
    const call = { method: 'GET' as const, headers: { Accept: accept, ...headers }, token, timeoutMs: 20_000, ...more };
    const reply = await this.#network
      .clientOf(this.#process, this.name)
      .call(url, call)
      .catch((_: NoReply) => undefined);
    if (this.#isRestored) return undefined;
    if (reply?.body.startsWith('<') || reply?.body.includes(GATEWAY)) return undefined; // of a proxy
    if (reply !== undefined && ![200, 410, 503].includes(reply.status))
      this.#journal.breaks(`answers ${reply.status} to GET ${url.pathname}${url.search}: ${reply.body}`);
    return reply;
  }

  #count(name: string): void {
    this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
  }
}
