/** An engine that services forward to, as far as the oracle and the faults of a life know it: the lines that it has stored. */

import type { JournalLine } from '../../world/journal-line.ts';
import type { Delivered, Network } from '../../world/network.ts';
import { Incarnation, type World } from '../../world/time.ts';
import type { EngineState } from '../runner/expected.ts';

/** An event that is durable at an engine or a hub, as the journal recorded it that it came from, and the id of that journal. */
export interface Stored extends Pick<JournalLine, 'seq' | 'id' | 'time' | 'members'> {
  readonly source: string;
  /** The line that was reported, if it is another one. */
  readonly origin?: JournalLine['origin'];
}

/** What happens to a request before it has an effect, or after it, once. */
export type EngineFault = 'before' | 'after' | 'none';

export abstract class Engine {
  /** The host of its URL, also if it has several servers. */
  readonly name: string;
  /** In the order in which it stored them. */
  readonly stored: Stored[] = [];
  /** By the id of an event: how often it is there. */
  readonly counts = new Map<string, number>();
  /** The ids of the events that may be there twice. */
  readonly mayBeTwice = new Set<string>();
  /** So many of its lines were right. */
  checked = 0;
  /** For the next requests, one each. */
  readonly faults: EngineFault[] = [];
  protected readonly world: World;
  protected readonly network: Network;
  protected readonly process: Incarnation;
  readonly #met: (state: EngineState) => void;

  /** @param met called with what it went through */
  constructor(world: World, network: Network, name: string, met: (state: EngineState) => void) {
    this.name = name;
    this.world = world;
    this.network = network;
    this.process = new Incarnation(world, name, { offsetMs: 0 });
    this.#met = met;
  }

  /** Whether it is asked for the largest seq, so that the order in which it stored events means nothing. */
  abstract readonly isTable: boolean;

  /** @returns the lines that a request of a service has; none if it stores nothing */
  abstract linesIn(request: Delivered): JournalLine[];

  /** The ids of the journals that it has events of. */
  sources(): Set<string> {
    return new Set(this.stored.map(({ source }) => source));
  }

  protected store(source: string, lines: readonly JournalLine[]): void {
    for (const { seq, id, time, members } of lines) {
      this.stored.push({ source, seq, id, time, members });
      this.counts.set(id, (this.counts.get(id) ?? 0) + 1);
    }
  }

  protected met(state: EngineState): void {
    this.#met(state);
  }

  /** @returns what happens to the request that arrives now */
  protected nextFault(): EngineFault {
    const fault = this.faults.shift() ?? 'none';
    if (fault !== 'none') this.network.onFault('upstream error');
    return fault;
  }
}
