/**
 * What a pipe requires of a destination: that it can be asked how far it is, and that events can be sent to it. Each
 * kind of destination implements this interface.
 */

import type { OpenClient } from '../../client/connection.ts';
import type { Limits } from '../../config/limits.ts';
import type { Line } from '../../journal/look/reading.ts';
import type { Position, SeqRange } from '../position.ts';
import type { Deployment, DestinationSettings } from '../settings.ts';
import type { Era } from '../source.ts';

/** Lines of one journal to send. */
export interface Shipment {
  /** At least one, with consecutive seqs. A destination can send only the first lines: see `Sent`. */
  readonly lines: readonly Line[];
  /** The events directly before the first line that the journal no longer has. */
  readonly lost: SeqRange | undefined;
  /** The id of the event directly before the first line, if the destination has confirmed that it has it. */
  readonly after?: string | undefined;
  /** The last seq of the journal. */
  readonly lastSeq?: number;
  /** Resolves when the rate limit permits a second request for the lines. */
  readonly turn?: () => Promise<void>;
}

/** An alarm for a hook with `on`. */
export interface AlarmPost {
  /** The idempotency key of the post. */
  readonly key: string;
  /** The alarm that started or ended, as a JSON object. */
  readonly alarm: string;
  /** The line whose members follow; without a line the members of `members`, a JSON object, follow. */
  readonly line: Line | undefined;
  readonly members: string;
  /** Like `Shipment.turn`. */
  readonly turn: () => Promise<void>;
}

/** Why nothing can be sent until an operator acts. */
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

/** Nothing was recorded, or the next `ask` determines what was recorded. */
export interface Again {
  readonly kind: 'again';
  readonly reason: string;
  /** The delay that the destination requested with `Retry-After`, in milliseconds. */
  readonly afterMs?: number | undefined;
}

/** Which events of this journal a destination reports to have. */
export type Asked =
  | ({
      readonly kind: 'at';
      /** Whether this includes events under earlier ids of the journal. */
      readonly knowsIds?: boolean;
    } & Position)
  /**
   * It cannot be asked, because it is not a hub. The page of a proxy can look the same, so this is certain only after an
   * event was recorded or refused there.
   */
  | { readonly kind: 'no hub' }
  | Again
  | Stopped;

/** The result of sending lines. */
export type Sent =
  /** The destination has all lines up to this one. */
  | ({ readonly kind: 'recorded' } & Position)
  /** The first line was refused, and would be refused again. */
  | { readonly kind: 'refused'; readonly status: number; readonly reason: string }
  /**
   * The first line might have been recorded. With `isFinal` it must not be sent again, whatever `inDoubt` of the settings is,
   * since as far as is known it was recorded.
   */
  | {
      readonly kind: 'in doubt';
      readonly status?: number | undefined;
      readonly reason: string;
      readonly isFinal: boolean;
    }
  /** The destination is at an unexpected seq: the pipe must ask, and continue there. */
  | { readonly kind: 'elsewhere'; readonly reason: string }
  | Again
  | Stopped;

/** What a journal reports about itself. */
export interface About {
  /** The last seq of the journal. */
  readonly lastSeq: number;
  /** While it is stopped: the reason, such as `fork`, and the number of events that it has not sent. */
  readonly stopped?: string | undefined;
  readonly unsent: number;
}

/** A destination of one journal, with one connection. Its methods throw only for errors of the journal's own disk. */
export interface Destination {
  /**
   * Absent if only the cursor shows how far the destination is.
   * @param signal ends the request; the result is then an `again`
   * @param about information that a hub shows
   */
  ask?(signal: AbortSignal, about?: About): Promise<Asked>;
  send(batch: Shipment, signal: AbortSignal): Promise<Sent>;
  /**
   * Used where `ask` is absent: checks whether the destination works, and changes nothing there.
   * @returns undefined if it works
   */
  test?(signal: AbortSignal): Promise<Again | Stopped | undefined>;
  /** Posts an alarm. Only a hook has this method. */
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
  /** All ids of the journal, the current one last. */
  readonly eras?: readonly Era[];
  /** The name by which a hub lists the service. */
  readonly sourceName?: string | undefined;
  /** The deployment of the journal. */
  readonly deployment?: Deployment;
  /** By default the function of `client/connection.ts`. */
  readonly openClient?: OpenClient | undefined;
  readonly limits: Limits;
}
