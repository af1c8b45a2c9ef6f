/** A plain upstream: it behaves as the reference does where forwarding relies on it. It deduplicates nothing, and knows no journal. */

import type { HttpReply } from '../../src/client/connection.ts';
import type { Delivered, Network } from './network.ts';
import { Incarnation, type World } from './world.ts';

export class Upstream {
  readonly name: string;
  /** How many reports it recorded. */
  recorded = 0;
  /** The ids of the events that it recorded: the sender gives the id of a line as the idempotency key. */
  readonly ids = new Set<string>();
  /** For the next reports: a 500, before or after it recorded. */
  readonly faults: ('before' | 'after')[] = [];
  readonly #onFault: () => void;

  constructor(world: World, network: Network, name: string, onFault: () => void) {
    this.name = name;
    this.#onFault = onFault;
    const process = new Incarnation(world, name, { offsetMs: 0 });
    network.listen(name, { process, handle: async (request) => this.#handle(request) });
  }

  #handle({ method, target, headers }: Delivered): HttpReply {
    const html = { 'content-type': 'text/html' };
    if (method !== 'POST' || !target.includes('/report_asset_'))
      return { status: method === 'GET' ? 200 : 405, headers: html, body: '<html>' };
    const fault = this.faults.shift();
    if (fault !== undefined) this.#onFault();
    if (fault !== 'before') {
      const key = headers[headers.findIndex((name) => name.toLowerCase() === 'idempotency-key') + 1] ?? '';
      this.recorded += 1;
      this.ids.add(key.slice(1, -1)); // quoted
    }
    if (fault !== undefined) return { status: 500, headers: html, body: 'Internal Server Error' };
    return { status: 200, headers: { 'content-type': 'application/json' }, body: '{}' };
  }
}
