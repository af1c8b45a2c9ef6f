/** The model of a plain upstream, or of a hook, in virtual time. It refuses some events for good, and fails as the plan of a life says. */

import { crc32 } from 'node:zlib';
import { type HttpRequest, replyOf, type Scripted } from '../world/http.ts';
import type { Delivered, Network } from '../world/network.ts';
import { FAILED, PlainModel } from '../world/plain-upstream.ts';
import { Incarnation, type World } from '../world/time.ts';
import type { SeenLine } from './oracle/journal-view.ts';
import { type HookName, hooks } from './services.ts';

/** It refuses one of so many events, and all of one of so many stretches of 4 s. */
const REFUSED = { events: 80, stretches: 100 };
/** The beginning of an id, which is the time at which the event was recorded, without its last 12 bits. */
const STRETCH_CHARACTERS = 10;
/** With a JSON `error`, as the reference answers. */
const REFUSALS = [200, 400, 413, 422];
/** To a hook 200 is a success, whatever the body says. */
const REFUSALS_OF_HOOK = [400, 413, 415, 422];

export class Upstream {
  readonly name: string;
  /** Of a hook: whether it wants an event. */
  readonly wants: ((line: SeenLine) => boolean) | undefined;
  /** By id of an event, which the sender gives as the idempotency key: its first request, and how often it was recorded. */
  readonly received = new Map<string, { readonly request: Delivered; count: number }>();
  /** For the next reports: a 500, before or after it recorded, or none. */
  readonly faults: ('before' | 'after' | 'none')[] = [];
  readonly #onFault: () => void;
  readonly #model = new PlainModel();

  constructor(world: World, network: Network, name: string, onFault: () => void) {
    this.name = name;
    this.wants = hooks[name as HookName]?.wants;
    this.#onFault = onFault;
    const process = new Incarnation(world, name, { offsetMs: 0 });
    network.listen(name, { process, handle: async (request) => replyOf(this.#handle(request)) });
  }

  /** How many reports it recorded. */
  get recorded(): number {
    return this.#model.events.length;
  }

  #handle(request: Delivered): Scripted {
    const { method, target, body } = request;
    const before = this.recorded;
    let fault: Upstream['faults'][number] = 'none';
    const asked: HttpRequest = { method, url: target, body: body.toString() };
    const answer = this.#model.answer(asked, () => {
      fault = this.faults.shift() ?? 'none';
      if (fault !== 'none') this.#onFault();
      if (fault === 'none') return this.#refusalOf(request);
      return fault === 'before' ? FAILED : undefined;
    });
    if (this.recorded > before) this.#count(request);
    return fault === 'none' ? answer : FAILED;
  }

  /** @returns what an event gets that it refuses, each time it is sent */
  #refusalOf(request: Delivered): Scripted | undefined {
    const id = idOf(request);
    const [own, stretch] = [id, id.slice(0, STRETCH_CHARACTERS)].map((text) => crc32(`${this.name} ${text}`));
    if (own! % REFUSED.events > 0 && stretch! % REFUSED.stretches > 0) return undefined;
    const statuses = this.wants === undefined ? REFUSALS : REFUSALS_OF_HOOK;
    const status = statuses[own! % statuses.length]!;
    // A hook takes it without the metadata that made it too long.
    if (status === 413 && request.body.includes(SHORTENED)) return undefined;
    return [status, '{"error":"it is refused"}'];
  }

  #count(request: Delivered): void {
    const id = idOf(request);
    const known = this.received.get(id) ?? { request, count: 0 };
    known.count += 1;
    this.received.set(id, known);
  }
}

/** In the line of an event that a hook gets without its metadata. */
export const SHORTENED = '"metadata_bytes":';
/** Of an event that has passed no hook before. */
const KEY = /^"(?:hook\/1\/)?(.*)"$/;

/** @returns the id of an event, which is its idempotency key, for a hook with how many hooks it has passed */
export function idOf({ headers }: Delivered): string {
  const [, id = ''] = KEY.exec(headers[headers.indexOf('Idempotency-Key') + 1] ?? '') ?? [];
  return id;
}
