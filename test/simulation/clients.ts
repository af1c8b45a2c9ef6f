/**
 * Clients of a service: they send reports and batches over a link with faults, and repeat what has a key until it is recorded, or
 * refused because its key belongs to another event.
 */

import type { HttpCall, NoReply } from '../../src/client/connection.ts';
import type { Network } from './network.ts';
import { Incarnation, type World } from './world.ts';

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

/** A report with a key. */
interface Earlier {
  readonly wanted: Wanted;
  readonly type: (typeof TYPES)[number];
  readonly event: object;
}

const TYPES = ['materialization', 'observation', 'check'] as const;
/** In a body the text of a number that JavaScript can not represent: it is recorded digit by digit. */
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
  readonly #earlier: Earlier[] = [];
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
      else await this.#sendOne();
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
    const send = () => this.#send(`/report_asset_${type}/`, [wanted], bodyOf(event), wanted.key);
    // Some do not wait for the first reply.
    await Promise.all(wanted.key !== undefined && chance.happens(0.05) ? [send(), send()] : [send()]);
  }

  /** One of the last 60 reports with a key, or one at the edge of a file. */
  #chooseEarlier(): Earlier {
    const { chance } = this.#process;
    const keys = chance.happens(0.5) ? new Set(this.#edgeKeys()) : undefined;
    const edges = this.#earlier.filter(({ wanted }) => keys?.has(wanted.key ?? ''));
    return chance.oneOf(edges.length > 0 ? edges : this.#earlier.slice(-60));
  }

  /** An earlier report, or another event with its key, which is recorded only if retention removed the earlier one. */
  async #sendAgain(): Promise<void> {
    const { chance } = this.#process;
    const { wanted, type, event } = this.#chooseEarlier();
    if (chance.happens(0.8)) return this.#send(`/report_asset_${type}/`, [wanted], bodyOf(event), wanted.key);
    const mark = this.#next().mark;
    const { type: ofOther, ...other } = this.#event(mark);
    await this.#send(`/report_asset_${ofOther}/`, [{ mark, key: wanted.key }], bodyOf(other), wanted.key);
  }

  async #sendBatch(): Promise<void> {
    const wanted = Array.from({ length: this.#process.chance.integer(2, 12) }, () => this.#next());
    const items: object[] = wanted.map(({ mark, key }) => ({ ...this.#event(mark), idempotency_key: key }));
    const { chance } = this.#process;
    if (this.#earlier.length > 0 && chance.happens(0.2)) {
      const { wanted: again, type, event } = this.#chooseEarlier();
      const at = chance.integer(0, items.length);
      wanted.splice(at, 0, again);
      items.splice(at, 0, { type, ...event, idempotency_key: again.key });
    }
    await this.#send('/report_asset_batch/', wanted, bodyOf(items), undefined);
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
      ...maybe({ metadata: { pad: 'x'.repeat(chance.integer(0, 400)), number: NUMBER } }),
    };
  }

  /** Sends one more report, and no other: an event that is in doubt at a plain upstream is decided by the next one. */
  stop(): void {
    this.isStopped = true;
    const wanted = { ...this.#next(), key: `last-${this.name}` };
    this.#waiting += 1;
    const send = async () => {
      const { type, ...event } = this.#event(wanted.mark);
      await this.#send(`/report_asset_${type}/`, [wanted], bodyOf(event), wanted.key);
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

  async #send(path: string, wanted: readonly Wanted[], body: string, key: string | undefined): Promise<void> {
    this.#waiting += 1;
    await this.#sendUntilAnswered(path, wanted, body, key);
    this.#waiting -= 1;
  }

  async #sendUntilAnswered(
    path: string,
    wanted: readonly Wanted[],
    body: string,
    key: string | undefined,
  ): Promise<void> {
    const mayRepeat = wanted.every((one) => one.key !== undefined);
    const headers = { 'Content-Type': 'application/json', ...(key !== undefined && { 'Idempotency-Key': key }) };
    const { base, token } = this.#access;
    for (let tries = 1; ; tries += 1) {
      const client = this.#network.clientOf(this.#process, this.name);
      const url = new URL(`${base}${path}`);
      const outcome = await client.call(url, { method: 'POST', headers, token, body, timeoutMs: 5_000 }).then(
        ({ status }) => status,
        (error: NoReply) => error,
      );
      const name = typeof outcome === 'number' ? String(outcome) : 'no reply';
      this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
      if (outcome === 200 || outcome === 422 || outcome === 400 || !mayRepeat) return;
      await this.#world.wait(Math.min(5_000, 100 * 2 ** tries), 'retry');
    }
  }
}
