/** A plain upstream: it behaves as the reference does where forwarding relies on it. It deduplicates nothing, and knows no journal. */

import { crc32 } from 'node:zlib';
import type { HttpReply } from '../../src/client/connection.ts';
import type { Delivered, Network } from './network.ts';
import { Incarnation, type World } from './world.ts';

/** It refuses one of so many events, and all of one of so many stretches of 4 s. */
const REFUSED = { events: 80, stretches: 100 };
/** The beginning of an id, which is the time at which the event was recorded, without its last 12 bits. */
const STRETCH_CHARACTERS = 10;
/** With a JSON `error`, as the reference answers. */
const REFUSALS = [200, 400, 413, 422];

export class Upstream {
  readonly name: string;
  /** How many reports it recorded. */
  recorded = 0;
  /** By id of an event, which the sender gives as the idempotency key: its first request, and how often it was recorded. */
  readonly received = new Map<string, { readonly request: Delivered; count: number }>();
  /** For the next reports: a 500, before or after it recorded, or none. */
  readonly faults: ('before' | 'after' | 'none')[] = [];
  readonly #onFault: () => void;

  constructor(world: World, network: Network, name: string, onFault: () => void) {
    this.name = name;
    this.#onFault = onFault;
    const process = new Incarnation(world, name, { offsetMs: 0 });
    network.listen(name, { process, handle: async (request) => this.#handle(request) });
  }

  #handle(request: Delivered): HttpReply {
    const { method, target } = request;
    const html = { 'content-type': 'text/html' };
    if (method !== 'POST' || !target.includes('/report_asset_'))
      return { status: method === 'GET' ? 200 : 405, headers: html, body: '<html>' };
    const next = this.faults.shift();
    const fault = next === 'none' ? undefined : next;
    if (fault !== undefined) this.#onFault();
    const refusal = fault === undefined ? this.#refusalOf(idOf(request)) : undefined;
    if (refusal !== undefined) return refusal;
    const isRepeated = fault !== 'before' && this.#record(request) > 1;
    // A check that is repeated with its partition is stored, and answered with 500.
    if (fault !== undefined || (isRepeated && target.startsWith('/report_asset_check/')))
      return { status: 500, headers: html, body: 'Internal Server Error' };
    return { status: 200, headers: { 'content-type': 'application/json' }, body: '{}' };
  }

  /** @returns what an event gets that it refuses, each time it is sent */
  #refusalOf(id: string): HttpReply | undefined {
    const [own, stretch] = [id, id.slice(0, STRETCH_CHARACTERS)].map((text) => crc32(`${this.name} ${text}`));
    if (own! % REFUSED.events > 0 && stretch! % REFUSED.stretches > 0) return undefined;
    const status = REFUSALS[own! % REFUSALS.length]!;
    return { status, headers: { 'content-type': 'application/json' }, body: '{"error":"it is refused"}' };
  }

  /** @returns how often the event was recorded */
  #record(request: Delivered): number {
    const id = idOf(request);
    const known = this.received.get(id) ?? { request, count: 0 };
    known.count += 1;
    this.recorded += 1;
    this.received.set(id, known);
    return known.count;
  }
}

/** @returns the id of an event, which is its idempotency key */
function idOf({ headers }: Delivered): string {
  const key = headers[headers.indexOf('Idempotency-Key') + 1] ?? '';
  return key.slice(1, -1); // quoted
}
