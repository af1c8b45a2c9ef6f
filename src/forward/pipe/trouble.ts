/** The problem of a pipe: since when it has lasted, what is logged about it, and what is shown. */

import type { Sender } from './sender.ts';
import type { BlockedState, State } from './states.ts';
import type { ShownState, StatusFacts } from './status.ts';

/** A pipe, or a hook with `on`. */
export interface Troubled extends Pick<Sender, 'notices' | 'traffic'> {
  /** How far it is, for the log. */
  readonly position: Readonly<Record<string, number>>;
  /** Why it is stopped, in the form for its hub; undefined while it is not stopped. */
  stopped?: string | undefined;
}

export class TroubleLog {
  readonly #sender: Troubled;
  readonly #onChange: () => void;
  /** Undefined while events pass. */
  #state: BlockedState | undefined;
  /** The problems that were logged since events last passed. */
  readonly #logged = new Set<string>();
  #since = new Date().toISOString();
  #lastError: string | null = null;
  /** When the current pause ends. */
  #nextTry: string | null = null;

  /** @param onChange called when a problem arises, changes or ends */
  constructor(sender: Troubled, onChange: () => void) {
    this.#sender = sender;
    this.#onChange = onChange;
  }

  /** @param state the state of the pipe */
  facts(state: State): Pick<StatusFacts, Shown> {
    const shown = this.#state ?? state;
    return {
      state: shownAs(shown),
      why: shown.kind === 'stopped' ? shown.why : null,
      reason: 'reason' in shown ? shown.reason : this.#sender.traffic.unanswered,
      since: this.#since,
      next_try: this.#state === undefined ? null : this.#nextTry,
      last_error: this.#lastError,
    };
  }

  /**
   * Logs the problem, once until events pass again. @param waitMs time until the next try; undefined if it waits for an event
   */
  report(state: BlockedState, waitMs: number | undefined): void {
    const { notices } = this.#sender;
    const { kind, reason } = state;
    if (this.#state === undefined) this.#since = new Date().toISOString();
    this.#state = state;
    this.#sender.stopped = state.kind === 'stopped' ? (state.why ?? '') : undefined;
    this.#lastError = reason;
    this.#nextTry = waitMs === undefined ? null : new Date(Date.now() + waitMs).toISOString();
    this.#onChange();
    const name = kind === 'stopped' ? (state.why ?? reason) : kind;
    if (this.#logged.has(name)) return;
    this.#logged.add(name);
    if (name === reason) notices.warn('forwarding cannot start', { reason });
    else notices.warn(messages[kind], { reason, ...this.#sender.position });
  }

  /** The pause has ended, and the pipe tries again. */
  tries(): void {
    this.#nextTry = null;
  }

  /** Events pass again. */
  end(): void {
    if (this.#state === undefined) return;
    this.#state = this.#sender.stopped = undefined;
    this.#logged.clear();
    this.#sender.notices.info('events are forwarded again', { ...this.#sender.position, since: this.#since });
    this.#since = new Date().toISOString();
    this.#onChange();
  }

  /** Called when everything that could not be settled is settled. */
  endIfAt(state: State): void {
    if (this.#state !== undefined && 'next' in this.#state && this.#state.next === state) this.end();
  }
}

type Shown = 'state' | 'why' | 'reason' | 'since' | 'next_try' | 'last_error';

const messages = {
  waiting: 'events cannot be forwarded now',
  suspect: 'an event is in doubt: the next one shows whether it is an outage',
  stopped: 'forwarding is stopped',
};

function shownAs({ kind }: State): ShownState {
  if (kind === 'opening') return 'asking';
  return kind === 'settling' || kind === 'lingering' ? 'sending' : kind;
}
