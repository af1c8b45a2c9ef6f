/** The states that lives count, with the names of the source: one that is added there is missing here, and does not compile. */

import type { StopKind } from '../../../src/forward/destinations/destination.ts';
import type { DeadLetter } from '../../../src/forward/ledger/letter.ts';
import type { ShownState } from '../../../src/forward/pipe/status.ts';
import type { FindingKind } from '../../../src/journal/open/recovery.ts';
import type { JournalState, Trouble } from '../../../src/journal/state.ts';
import { allKinds } from '../faults.ts';

/** What happened to the files that retention chose; `interrupted`: an earlier run had begun to remove them. */
type Removal = '--retain-bytes' | '--retain-days' | '--keep-free' | 'interrupted';

/** What the model of an engine counts. */
export type EngineState =
  | `nats ${'stored' | 'wrong last' | 'forgotten' | 'stale' | 'new leader'}`
  | `clickhouse ${'insert' | 'bad row' | 'token known' | 'token without rows' | 'lags'}`;

/** What a hub does with events that can come by several ways. */
export type WayState = `hub ${'left out' | 'later part first' | 'lost filled'}`;

/** What became of a request of a command over the lock. */
export type DoorState = 'door answered' | 'door refused' | 'door left unanswered';

export type StateName =
  | EngineState
  | DoorState
  | WayState
  | `journal ${JournalState['kind'] | Trouble['kind'] | 'waiting for space' | 'held back'}`
  | `start ${'in a new folder' | 'after a crash' | 'after a stop' | 'failed'}`
  | `finding ${FindingKind}`
  | `key ${'new' | 'joined' | 'replayed' | 'conflict' | 'unreadable'}`
  | `hub ${'asked' | 'all new' | 'some new' | 'none new' | 'lost' | 'fork' | 'gap' | 'restored' | 'no snapshot'}`
  | `forwarder ${ShownState | StopKind}`
  | `ack ${'open' | 'closed'}`
  | 'erase finished by a start'
  | `dead letter ${DeadLetter['outcome'] | `in doubt, ${'taken' | 'given up'}`}`
  | `retention ${Removal}`;

/** A state that some life of a whole run has to reach. */
const REACHED = '';

const RARE = 'a life gets there by more chance than a run has';
const REFUSED = 'a start refuses it: no crash and no power cut of this disk leaves it';

/** Each state, and why no life need reach it. */
const states: Readonly<Record<StateName, string>> = {
  'journal starting': REACHED,
  'journal open': REACHED,
  'journal refusing': REACHED,
  'journal stalled': RARE,
  'journal used up': 'it needs 2 ** 53 events',
  'journal closed': REACHED,
  'journal failed': REACHED,
  'journal waiting for space': RARE,
  'journal held back': REACHED,
  'start in a new folder': REACHED,
  'start after a crash': REACHED,
  'start after a stop': REACHED,
  'start failed': REACHED,
  'finding torn end': REACHED,
  'finding zeros at the end': REACHED,
  'finding bad last line': 'garbage that ends with a line feed, which few power cuts leave',
  'finding long bad end': REFUSED,
  'finding bad line inside': REACHED,
  'finding bytes between lines': REFUSED,
  'finding gap': REFUSED,
  'finding repeat': REFUSED,
  'finding swapped lines': REFUSED,
  'finding name and first seq disagree': REFUSED,
  'finding empty file': REACHED,
  'finding missing file': REACHED,
  'finding overlapping file': REFUSED,
  'finding other end than at the stop': REACHED,
  'finding foreign file': 'nothing but the services writes to their folders',
  'key new': REACHED,
  'key joined': REACHED,
  'key replayed': REACHED,
  'key conflict': REACHED,
  'key unreadable': REACHED,
  'hub asked': REACHED,
  'hub all new': REACHED,
  'hub some new': RARE,
  'hub none new': REACHED,
  'hub lost': REACHED,
  'hub fork': REACHED,
  'hub gap': REACHED,
  'hub left out': REACHED,
  'hub later part first': REACHED,
  'hub lost filled': RARE,
  'hub restored': RARE,
  'hub no snapshot': REACHED,
  'forwarder asking': REACHED,
  'forwarder idle': REACHED,
  'forwarder sending': REACHED,
  'forwarder suspect': REACHED,
  'forwarder waiting': REACHED,
  'forwarder stopped': REACHED,
  'forwarder turned away': REACHED,
  'forwarder not set up': RARE,
  'forwarder fork': REACHED,
  'forwarder damage': 'it needs a line that is damaged while the service runs',
  'forwarder not understood': REACHED,
  'forwarder cursor lost': REACHED,
  'forwarder dead letters': REACHED,
  'forwarder refusals': RARE,
  'nats stored': REACHED,
  'nats wrong last': REACHED,
  'nats forgotten': RARE,
  'nats stale': REACHED,
  'nats new leader': REACHED,
  'clickhouse insert': REACHED,
  'clickhouse bad row': REACHED,
  'clickhouse token known': REACHED,
  'clickhouse token without rows': RARE,
  'clickhouse lags': RARE,
  'door answered': REACHED,
  'door refused': RARE,
  'door left unanswered': RARE,
  'ack open': REACHED,
  'ack closed': REACHED,
  'erase finished by a start': REACHED,
  'dead letter refused': REACHED,
  'dead letter in doubt': REACHED,
  'dead letter in doubt, taken': REACHED,
  'dead letter in doubt, given up': REACHED,
  'dead letter removed': REACHED,
  'dead letter skipped': REACHED,
  'dead letter sent again': REACHED,
  'retention --retain-bytes': REACHED,
  'retention --retain-days': REACHED,
  'retention --keep-free': 'the disks of lives tell no free space that changes',
  'retention interrupted': REACHED,
};

export type Counts = Readonly<Record<string, number>>;

/** The counts of several lives. */
export class Total {
  readonly #sums = { faults: new Map<string, number>(), states: new Map<string, number>() };

  /** @param life undefined if it has printed nothing */
  add(life: { readonly faults: Counts; readonly states: Counts } | undefined): void {
    for (const name of ['faults', 'states'] as const) {
      const sums = this.#sums[name];
      for (const [key, count] of Object.entries(life?.[name] ?? {})) sums.set(key, (sums.get(key) ?? 0) + count);
    }
  }

  counts(): { readonly faults: Counts; readonly states: Counts } {
    return { faults: Object.fromEntries(this.#sums.faults), states: Object.fromEntries(this.#sums.states) };
  }

  /** @returns the faults that did not happen, and the states that were not reached although some life has to */
  missing(): string[] {
    const wanted = Object.entries(states).filter(([, why]) => why === REACHED);
    return [
      ...allKinds.filter((name) => !this.#sums.faults.has(name)),
      ...wanted.map(([name]) => name).filter((name) => !this.#sums.states.has(name)),
    ];
  }
}
