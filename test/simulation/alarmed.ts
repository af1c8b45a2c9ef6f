/**
 * The model of a hook with `on`, in virtual time. It believes that a check fails from a post that says so until one that says that it
 * ended, and knows each post by its idempotency key.
 */

import { replyOf, type Scripted } from '../world/http.ts';
import type { Delivered, Network } from '../world/network.ts';
import { FAILED } from '../world/plain-upstream.ts';
import { Incarnation, type World } from '../world/time.ts';
import type { Machine } from './machine.ts';
import { ALARMED } from './services.ts';
import { idOf } from './upstream.ts';

/** The share of its requests that it fails, before or after it took them, or refuses for now, until all heals. */
const FAILED_SHARE = 0.2;

/** A check in the reply of `GET /assets`. */
interface CheckJson {
  readonly check_name: string;
  readonly failing?: boolean;
  readonly failed_partitions?: readonly { readonly partition: string }[];
}

export class Alarmed {
  /** For what strikes requests: a page of a proxy is no answer of a hook. */
  readonly faults: never[] = [];
  readonly wants = () => true;
  isHealed = false;
  /** What fails as far as it knows: the severity by asset, check and partition. */
  readonly #believed = new Map<string, string>();
  /** By idempotency key. */
  readonly #known = new Map<string, string>();
  /** All that it ever heard of, and what of it its service may have heard otherwise. */
  readonly #heard = new Set<string>();
  readonly #unsure = new Set<string>();
  readonly #world: World;
  readonly #breaks: (problem: string) => void;

  constructor(world: World, network: Network, breaks: (problem: string) => void) {
    this.#world = world;
    this.#breaks = breaks;
    const process = new Incarnation(world, ALARMED, { offsetMs: 0 });
    network.listen(ALARMED, { process, handle: async (request) => replyOf(this.#answer(request)) });
  }

  /** How many posts it has taken. */
  get posts(): number {
    return this.#known.size;
  }

  /** Its service does not know any more what it had posted: a restored folder has an older file of it, or none. */
  forget(): void {
    for (const key of this.#heard) this.#unsure.add(key);
  }

  #answer(request: Delivered): Scripted {
    if (request.method !== 'POST') return [200, ''];
    const chance = this.#world.chance(`answers of ${ALARMED} ${this.#known.size} ${Math.floor(this.#world.nowMs)}`);
    const fault = !this.isHealed && chance.happens(FAILED_SHARE) ? chance.oneOf(['before', 'after', 'later']) : 'none';
    if (fault === 'later') return [503, 'later'];
    if (fault === 'before') return FAILED;
    this.#take(request);
    return fault === 'after' ? FAILED : [200, 'ok'];
  }

  #take(request: Delivered): void {
    const { alarm, asset_key, check_name, partition, severity } = JSON.parse(request.body.toString());
    const key = JSON.stringify([asset_key, check_name, partition]);
    const content = JSON.stringify([alarm, key]);
    const id = idOf(request);
    const known = this.#known.get(id);
    if (known !== undefined && known !== content) this.#breaks(`posts ${content} with the key of ${known}`);
    if (known !== undefined) return;
    this.#known.set(id, content);
    const before = this.#believed.get(key);
    this.#heard.add(key);
    if (alarm.on === 'failed' && before === severity && !this.#unsure.has(key))
      this.#breaks(`posts ${content} twice, with two keys`);
    if (alarm.on === 'failed') this.#believed.set(key, severity);
    else this.#believed.delete(key);
  }

  /** Called at rest. @returns what it believes that is not so, or does not know */
  async problemWith(machine: Machine): Promise<string | undefined> {
    const { status, body } = await machine.ask('/assets?failing=true&limit=1000');
    if (status !== 200) return `${status} for /assets`;
    const left = new Map<string, Set<string | null>>();
    for (const key of this.#believed.keys()) {
      if (this.#unsure.has(key)) continue;
      const [asset, check, partition] = JSON.parse(key) as [string[], string, string | null];
      const subject = JSON.stringify([asset, check]);
      left.set(subject, (left.get(subject) ?? new Set()).add(partition));
    }
    const { assets } = JSON.parse(body) as { assets: { asset_key: string[]; checks: CheckJson[] }[] };
    for (const { asset_key, checks } of assets)
      for (const { check_name, failed_partitions = [] } of checks) {
        const subject = JSON.stringify([asset_key, check_name]);
        const partitions = left.get(subject) ?? new Set();
        left.delete(subject);
        const isSure = (partition: string) => !this.#unsure.has(JSON.stringify([asset_key, check_name, partition]));
        const sure = failed_partitions.filter(({ partition }) => isSure(partition));
        const failed = new Set<string | null>(sure.map(({ partition }) => partition));
        const isOther = [...partitions].some((one) => one !== null && !failed.has(one));
        if (isOther || [...failed].some((one) => !partitions.has(one)))
          return `that ${[...failed]} of ${subject} fail, and the hook believes ${[...partitions]}`;
      }
    const [first] = left.keys();
    return first && `nothing of ${first}, which the hook believes to fail`;
  }
}
