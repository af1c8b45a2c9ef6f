/** What a pipe needs of a destination: to ask how far it is, and to send. Each kind of destination implements it. */

import type { OpenClient } from '../../client/connection.ts';
import type { Limits } from '../../config/limits.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { Position, SeqRange } from '../position.ts';
import type { Deployment, DestinationSettings } from '../settings.ts';
import type { Era } from '../source.ts';

/** Lines of one journal to send. */
export interface Shipment {
  /** At least one, with consecutive seqs. A destination can send only the first ones: see `Sent`. */
  readonly lines: readonly Line[];
  /** The events directly before the first line that the journal does not have any more. */
  readonly lost: SeqRange | undefined;
  /** The id of the event directly before the first line, if the destination has said that it has it. */
  readonly after?: string | undefined;
  /** The last seq of the journal. */
  readonly lastSeq?: number;
  /** Resolves when the rate limit permits a second request for the lines. */
  readonly turn?: () => Promise<void>;
}

/** What a hook with `on` gets. */
export interface AlarmPost {
  /** Its idempotency key. */
  readonly key: string;
  /** What began or ended, as a JSON object. */
  readonly alarm: string;
  /** Its members follow; without a line those of `members`, a JSON object. */
  readonly line: Line | undefined;
  readonly members: string;
  /** Like `Shipment.turn`. */
  readonly turn: () => Promise<void>;
}

/** Why nothing can be sent until an operator has done something. */
export type StopKind =
  | 'turned away'
  | 'not set up'
  | 'fork'
  | 'damage'
  | 'not understood'
  | 'cursor lost'
  | 'dead letters'
  | 'refusals';

/** The destination cannot be used. */
export interface Stopped {
  readonly kind: 'stopped';
  readonly why: StopKind;
  /** One sentence: what is wrong, and what to do. */
  readonly reason: string;
}

/** Nothing was recorded, or the next `ask` finds out what was. */
export interface Again {
  readonly kind: 'again';
  readonly reason: string;
  /** What the destination asked for with `Retry-After`, in milliseconds. */
  readonly afterMs?: number | undefined;
}

/** What a destination says it has of this journal. */
export type Asked =
  | ({
      readonly kind: 'at';
      /** Whether it also counts what it has under earlier ids of the journal. */
      readonly knowsIds?: boolean;
    } & Position)
  /**
   * It cannot be asked: it is no hub. The page of a proxy can look the same, so that this is certain only after an event was
   * recorded or refused there.
   */
  | { readonly kind: 'no hub' }
  | Again
  | Stopped;

/** What became of the lines that were sent. */
export type Sent =
  /** The destination has all lines up to this one. */
  | ({ readonly kind: 'recorded' } & Position)
  /** The first line was refused and will be refused again. */
  | { readonly kind: 'refused'; readonly status: number; readonly reason: string }
  /**
   * The first line might have been recorded. With `isFinal` it is not to be sent again, whatever `inDoubt` of the settings says,
   * since it was recorded as far as is known.
   */
  | {
      readonly kind: 'in doubt';
      readonly status?: number | undefined;
      readonly reason: string;
      readonly isFinal: boolean;
    }
  /** The destination is at another seq than expected: ask, and continue there. */
  | { readonly kind: 'elsewhere'; readonly reason: string }
  | Again
  | Stopped;

/** What a journal says of itself. */
export interface About {
  /** Its last seq. */
  readonly lastSeq: number;
  /** While it is stopped, why: `fork`; and how many events it has not sent. */
  readonly stopped?: string | undefined;
  readonly unsent: number;
}

/** A destination of one journal, with one connection. No method throws but for an error of the journal's own disk. */
export interface Destination {
  /**
   * Absent if only the cursor says how far it is.
   * @param signal ends the request; the result is then an `again`
   * @param about what a hub is to show
   */
  ask?(signal: AbortSignal, about?: About): Promise<Asked>;
  send(batch: Shipment, signal: AbortSignal): Promise<Sent>;
  /**
   * Where `ask` is absent: finds out whether it works, and changes nothing there.
   * @returns undefined if it works
   */
  test?(signal: AbortSignal): Promise<Again | Stopped | undefined>;
  /** Of a hook: posts an alarm. */
  post?(alarm: AlarmPost, signal: AbortSignal): Promise<Sent>;
  /**
   * Whether a file such as the token file has changed since it was read; false before the first request, and if the files cannot be
   * read.
   * @param signal ends the wait for the files
   */
  haveFilesChanged(signal: AbortSignal): Promise<boolean>;
  /** Closes the connection. */
  close(): void;
}

/** A hub or an engine. */
export interface AskableDestination extends Destination {
  ask(signal: AbortSignal, about?: About): Promise<Asked>;
}

/** What a destination is opened with. */
export interface Opening
  extends Pick<
    DestinationSettings,
    'to' | 'hookPath' | 'tokenFile' | 'tokenHeader' | 'headers' | 'user' | 'passwordFile' | 'proxy' | 'caFile' | 'stamp'
  > {
  /** The id of the journal that is forwarded. */
  readonly source: string;
  /** The first event of the journal under that id. */
  readonly beginSeq?: number;
  /** Its ids, this one last. */
  readonly eras?: readonly Era[];
  /** What the service calls itself at a hub. */
  readonly sourceName?: string | undefined;
  /** That of the journal. */
  readonly deployment?: Deployment;
  /** That of `client/connection.ts` if it is absent. */
  readonly openClient?: OpenClient | undefined;
  readonly limits: Limits;
}
