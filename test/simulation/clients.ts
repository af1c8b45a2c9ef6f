/**
 * Clients of a service: they send reports and batches over a link with faults, and repeat what has a key until it is recorded, or
 * refused because its key belongs to another event.
 */

import type { HttpCall, NoReply } from '../../src/client/connection.ts';
import type { Network } from '../world/network.ts';
import { Incarnation, type World } from '../world/time.ts';

/** What a client wants recorded. */
export interface Wanted {
  /** Unique; it is the partition of the event. */
  readonly mark: string;
  readonly key: string | undefined;
}

/** The journal that a client reports to. */
export interface Access {
  /** `http://hub`, or in hosted mode with the deployment: `http://hub/d0`. */
  readonly base: string;
  /** Hosted mode. */
  readonly token: HttpCall['token'];
}

/** A report of one event. */
interface Report {
  readonly wanted: Wanted;
  readonly type: (typeof TYPES)[number];
  readonly event: object;
}

/** One event of a batch. */
interface Item {
  readonly wanted: Wanted;
  readonly body: object;
}

/** After another status, or none, a report whose events have keys is sent again. */
const ANSWERS: readonly unknown[] = [200, 207, 400, 422];
/** Of so many lives in a row the clients of one make mistakes in batches. */
const LIVES = 3;
/** In one of so many lives clients say when something happened, some by a wrong clock. */
const TIMED_LIVES = 5;
const MINUTE_MS = 60_000;
const TYPES = ['materialization', 'observation', 'check'] as const;
/** In a body the text of a number that JavaScript cannot represent: it is recorded digit by digit. */
const NUMBER = '<number>';

function bodyOf(value: object): string {
  return JSON.stringify(value).replaceAll(`"${NUMBER}"`, '12345678901234567890.10');
}

export class Client {
  readonly #world: World;
  readonly #network: Network;
  readonly #access: Access;
  readonly #edgeKeys: () => readonly string[];
  readonly name: string;
  readonly #process: Incarnation;
  readonly #earlier: Report[] = [];
  #count = 0;
  #waiting = 0;
  /** As faults name it. */
  readonly link: string;
  isStopped = false;
  /** By status, or `no reply`. */
  readonly outcomes: Record<string, number> = {};

  /** @param edgeKeys the keys of the journal that a mistake is most likely about */
  constructor(world: World, network: Network, access: Access, name: string, edgeKeys: () => readonly string[]) {
    this.#edgeKeys = edgeKeys;
    this.#world = world;
    this.#network = network;
    this.#access = access;
    this.name = name;
    this.link = `${name} to ${new URL(access.base).hostname}`;
    this.#process = new Incarnation(world, name, { offsetMs: 0 });
    world.plan(this.#process.chance.exponentialMs(50), 'begins', () => void this.#run(), this.#process);
  }

  async #run(): Promise<void> {
    const { chance } = this.#process;
    while (!this.isStopped) {
      if (this.#earlier.length > 0 && chance.happens(0.1)) await this.#sendAgain();
      else if (chance.happens(0.2)) await this.#sendBatch();
      else await Promise.all(Array.from({ length: chance.happens(0.1) ? 4 : 1 }, () => this.#sendOne()));
      await this.#world.wait(chance.exponentialMs(chance.happens(0.1) ? 10_000 : 150), 'pause');
    }
  }

  #next(): Wanted {
    this.#count += 1;
    const mark = `${this.name}-${this.#count}`;
    return { mark, key: this.#process.chance.happens(0.5) ? `key-${mark}` : undefined };
  }

  async #sendOne(): Promise<void> {
    const wanted = this.#next();
    const { chance } = this.#process;
    const { type, ...event } = this.#event(wanted.mark);
    if (wanted.key !== undefined) this.#earlier.push({ wanted, type, event });
    const reports: Report[] = [{ wanted, type, event }];
    // Some do not wait for the first reply before they send it again, or another event with its key.
    if (wanted.key !== undefined && chance.happens(0.05))
      reports.push(chance.happens(0.5) ? reports[0]! : this.#otherWith(wanted.key));
    await Promise.all(reports.map((report) => this.#sendReport(report)));
  }

  /** One of the last 60 reports with a key, or one at the edge of a file. */
  #chooseEarlier(): Report {
    const { chance } = this.#process;
    const keys = chance.happens(0.5) ? new Set(this.#edgeKeys()) : undefined;
    const edges = this.#earlier.filter(({ wanted }) => keys?.has(wanted.key ?? ''));
    return chance.oneOf(edges.length > 0 ? edges : this.#earlier.slice(-60));
  }

  /** An earlier report, or another event with its key, which is recorded only if retention removed the earlier one. */
  async #sendAgain(): Promise<void> {
    const { chance } = this.#process;
    const earlier = this.#chooseEarlier();
    await this.#sendReport(chance.happens(0.8) ? earlier : this.#otherWith(earlier.wanted.key));
  }

  #otherWith(key: string | undefined): Report {
    const { mark } = this.#next();
    const { type, ...event } = this.#event(mark);
    return { wanted: { mark, key }, type, event };
  }

  async #sendBatch(): Promise<void> {
    const { chance } = this.#process;
    const fresh = Array.from({ length: chance.integer(2, 12) }, () => this.#next());
    const items = fresh.map((wanted) => this.#itemOf(wanted));
    const put = (item: Item) => items.splice(chance.integer(0, items.length), 0, item);
    if (this.#earlier.length > 0 && chance.happens(0.2)) {
      const { wanted, type, event } = this.#chooseEarlier();
      put({ wanted, body: { type, ...event, idempotency_key: wanted.key } });
    }
    const prefer = this.#world.seed % LIVES === LIVES - 1 ? this.#mistakeIn(items, put) : {};
    const wanted = items.map((item) => item.wanted);
    await this.#send('/report_asset_batch/', wanted, bodyOf(items.map(({ body }) => body)), prefer);
  }

  #itemOf(wanted: Wanted): Item {
    return { wanted, body: { ...this.#event(wanted.mark), idempotency_key: wanted.key } };
  }

  /**
   * Puts into some batches what is no report, or another event with the key of an earlier one or of one of the batch, once or twice.
   * @returns headers: half of the batches are recorded without what is wrong
   */
  #mistakeIn(items: readonly Item[], put: (item: Item) => void): HttpCall['headers'] {
    const { chance } = this.#process;
    if (chance.happens(0.3)) {
      const { mark, key = `key-${mark}` } = this.#next();
      const isEarlier = this.#earlier.length > 0 && chance.happens(0.5);
      const { wanted: other } = isEarlier ? this.#chooseEarlier() : chance.oneOf(items);
      const item = this.#itemOf({ mark, key: other.key ?? key });
      const wrong = { wanted: { mark, key }, body: { partition: mark, idempotency_key: key } };
      const mistake = chance.happens(0.3) ? wrong : item;
      for (let left = chance.integer(1, 2); left > 0; left -= 1) put(mistake);
    }
    return chance.happens(0.5) ? { Prefer: 'handling=lenient' } : {};
  }

  /** An event with each member that its type may have, as likely with as without. */
  #event(mark: string): { readonly type: (typeof TYPES)[number] } & Readonly<Record<string, unknown>> {
    const { chance } = this.#process;
    const type = chance.oneOf(TYPES);
    const maybe = (members: object) => (chance.happens(0.5) ? members : {});
    return {
      type,
      asset_key: ['a', chance.oneOf(['a', 'b "c"'])],
      partition: mark,
      ...(type === 'check'
        ? { check_name: 'c', passed: chance.happens(0.5), severity: chance.oneOf(['WARN', 'ERROR']) }
        : { ...maybe({ description: 'größer\n\u2028' }), ...maybe({ data_version: `v${chance.integer(1, 9)}` }) }),
      ...(this.#world.seed % TIMED_LIVES === 0 && maybe({ event_time: this.#eventTime() })),
      ...maybe({ metadata: { pad: 'x'.repeat(chance.integer(0, 400)), number: NUMBER } }),
    };
  }

  /** Just now, some days ago as in a job that catches up, in the future, or 1970 as on a device that has no time yet. */
  #eventTime(): string {
    const { chance } = this.#process;
    const far = [chance.integer(-3 * 24 * 60, 0), chance.integer(-30, 30), chance.integer(16, 600)];
    const minutes = chance.happens(0.5) ? 0 : chance.oneOf(far);
    return new Date(chance.happens(0.05) ? minutes : this.#world.wallMs() + minutes * MINUTE_MS).toISOString();
  }

  /** Sends one more report, and no other: an event that is in doubt at a plain upstream is decided by the next one. */
  stop(): void {
    this.isStopped = true;
    const wanted = { ...this.#next(), key: `last-${this.name}` };
    this.#waiting += 1;
    const send = async () => {
      const { type, ...event } = this.#event(wanted.mark);
      await this.#sendReport({ wanted, type, event });
      this.#waiting -= 1;
    };
    this.#world.plan(0, 'the last report', () => void send(), this.#process);
  }

  /** Ends it at once. */
  end(): void {
    this.isStopped = true;
    this.#waiting = 0;
    this.#process.end();
  }

  /** Whether a report has no answer yet. */
  get isWaiting(): boolean {
    return this.#waiting > 0;
  }

  async #sendReport({ wanted, type, event }: Report): Promise<void> {
    const headers = wanted.key === undefined ? {} : { 'Idempotency-Key': wanted.key };
    await this.#send(`/report_asset_${type}/`, [wanted], bodyOf(event), headers);
  }

  async #send(path: string, wanted: readonly Wanted[], body: string, more: HttpCall['headers']): Promise<void> {
    this.#waiting += 1;
    await this.#sendUntilAnswered(path, wanted, body, more);
    this.#waiting -= 1;
  }

  async #sendUntilAnswered(
    path: string,
    wanted: readonly Wanted[],
    body: string,
    more: HttpCall['headers'],
  ): Promise<void> {
    const mayRepeat = wanted.every((one) => one.key !== undefined);
    const headers = { 'Content-Type': 'application/json', ...more };
    const { base, token } = this.#access;
    const url = new URL(`${base}${path}`);
    const call = async () => {
      const client = this.#network.clientOf(this.#process, this.name);
      const outcome = await client.call(url, { method: 'POST', headers, token, body, timeoutMs: 5_000 }).then(
        ({ status }) => status,
        (error: NoReply) => error,
      );
      const name = typeof outcome === 'number' ? String(outcome) : 'no reply';
      this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
      return outcome;
    };
    for (let tries = 1; ; tries += 1) {
      // Two that wait for one line share its result, also while the disk refuses it.
      const calls = tries > 1 && this.#process.chance.happens(0.3) ? [call(), call()] : [call()];
      const isAnswered = (await Promise.all(calls)).some((outcome) => ANSWERS.includes(outcome));
      if (isAnswered || !mayRepeat) return;
      await this.#world.wait(Math.min(5_000, 100 * 2 ** tries), 'retry');
    }
  }
}
