/** Which state a hub has to list for each of its sources: what the last request of the source said, or what the hub answered it. */

import type { Reply } from '../../../src/http/message.ts';
import type { Delivered } from '../../world/network.ts';
import { headerOf, senderOf } from './sent.ts';

export type ShownState = 'stopped' | null;

export class ShownStates {
  /** By source. Nothing is known of the others: two of their requests were handled at once, or none since the start. */
  readonly states = new Map<string, ShownState>();
  /** How many requests came and were answered. */
  changes = 0;
  /** By source: its requests without a reply. */
  readonly #open = new Map<string, number>();
  /** Sources with two requests at once, until none is open. */
  readonly #overlapping = new Set<string>();

  /** A process starts. */
  starts(): void {
    for (const all of [this.states, this.#open, this.#overlapping]) all.clear();
  }

  received(request: Delivered): void {
    const source = senderOf(request);
    if (source === undefined) return;
    this.changes += 1;
    const open = this.#open.get(source) ?? 0;
    this.#open.set(source, open + 1);
    if (open === 0) this.#overlapping.delete(source);
    else this.#overlapping.add(source);
    this.states.delete(source);
  }

  replied(request: Delivered, reply: Reply): void {
    const source = senderOf(request);
    if (source === undefined) return;
    this.changes += 1;
    this.#open.set(source, (this.#open.get(source) ?? 1) - 1);
    for (const id of headerOf(request, 'Assetlog-Before')?.match(ID) ?? []) this.states.delete(id);
    const state = this.#overlapping.has(source) ? undefined : stateAfter(request, reply);
    if (state === undefined) this.states.delete(source);
    else this.states.set(source, state);
  }
}

/** A hub lists a source only once it has an event of it. */
function stateAfter(request: Delivered, reply: Reply): ShownState | undefined {
  if (reply.kind !== 'body' || (reply.status !== 200 && reply.status !== 409)) return undefined;
  const { seq, reason } = JSON.parse(reply.body);
  if (seq === 0) return undefined;
  if (reply.status === 409) return reason === 'fork' ? 'stopped' : null;
  return headerOf(request, 'Assetlog-State')?.startsWith('stopped') === true ? 'stopped' : null;
}

const ID = /[0-9a-f]{8}-[0-9a-f-]{27}/g;
