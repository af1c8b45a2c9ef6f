/** Records the forwarded events of other journals in one journal of a hub, each once and in the order of its source. */

import { once } from 'node:events';
import { detach } from '../../config/memory.ts';
import type { RecordResult } from '../../event/record-result.ts';
import type { ReadItem } from '../../http/batch.ts';
import {
  type BodyReply,
  type ErrorReply,
  type Recorder,
  type Reply,
  unavailable,
  unavailableRefusal,
} from '../../http/message.ts';
import type { Follower } from '../../journal/follower.ts';
import { Mutex } from '../../waiting/mutex.ts';
import { type Position, START } from '../position.ts';
import { openSource, type Through } from '../source.ts';
import { Budget } from './budget.ts';
import { type ForwardedEvent, type ForwardRequest, readForwarded, type SaidOfSource } from './received.ts';
import { Sightings } from './sightings.ts';
import type { Snapshot } from './snapshot.ts';
import { Sources, type SourcesOptions } from './sources.ts';
import { addThrough } from './through.ts';
import { advance, decide, type Watermark } from './watermark.ts';

export interface ReceiverOptions extends SourcesOptions {
  /** For the limits of the service. */
  readonly readItem: ReadItem;
  /** @returns the journals that the events of this one reach, as far as its destinations have said */
  readonly via: () => readonly string[];
}

/** The receiving side of one journal. */
export class Receiver {
  readonly sources: Sources;
  readonly sightings: Sightings;
  /** Number of events that sources reported as lost, since the start. */
  lostEvents = 0;
  readonly #options: ReceiverOptions;
  /** By source: its requests, which are handled one after the other. */
  readonly #queues = new Map<string, Mutex>();
  /** For the bodies that are parsed and not recorded yet. */
  readonly #parsing: Budget;
  /** The id of the journal, empty before `#load`. A source hears it before it sends its first event. */
  #source = '';
  /** For the file with the id. */
  readonly #mutex = new Mutex();
  /** Whether it was logged that there are nearly as many sources as the limit allows. */
  #hasWarned = false;
  /** Requests of new sources that are being recorded. */
  #newcomers = 0;
  /** See `#closed`: the seq of the last call, and the call that waits. */
  #closedSeq = 0;
  #closing: Promise<void> | undefined;
  readonly #closings = new Mutex();

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#parsing = new Budget(options.limits.forwardParsedBytesMax);
    this.sources = new Sources(options);
    this.sightings = new Sightings(options);
  }

  /**
   * Forgets the journal that was open before.
   * @param removes whether files of the journal are ever removed
   * @returns the follower of the journal that is opened now
   */
  reopen(removes: boolean): Follower {
    const { sources, sightings } = this;
    sources.forget();
    sightings.forget();
    return {
      ...(removes && { opened: (lastSeq) => sources.opened(lastSeq) }),
      removing: (lastSeq) => sources.removing(lastSeq),
      rotated: ({ chain }) => void this.#closed(chain.seq - 1),
      closing: (lastSeq) => this.#closed(lastSeq),
    };
  }

  /** After a file was closed, and before a clean stop. One call at a time, and of those that wait only the last. Never rejects. */
  #closed(lastSeq: number): Promise<void> {
    this.#closedSeq = lastSeq;
    this.#closing ??= this.#closings.run(async () => {
      this.#closing = undefined;
      try {
        await this.sightings.write();
        await this.sources.closed(this.#closedSeq);
      } catch (error) {
        const { notices } = this.#options;
        const problem = (error as Error).message;
        notices.warn('forwarding could not record the last seq of the journal', { last_seq: this.#closedSeq, problem });
      }
    });
    return this.#closing;
  }

  /** @returns the id of the journal, which is made if there is none. @throws Error like `openSource` */
  source(): Promise<string> {
    return this.#mutex.run(() => openSource(this.#options.disk));
  }

  /** @throws Error if the journal is not open, or the error of a system call */
  async through(): Promise<Through> {
    return (await this.#load()).through;
  }

  /** @returns the last event of a source that is here: `{"seq":7,"id":"…","via":[]}`. @throws Refusal 503 */
  async ask(source: string, journal: Recorder, said: SaidOfSource = {}): Promise<Reply> {
    const { sources } = await this.#ready(journal);
    if (sources.has(source)) this.sightings.add(source, said);
    const body = JSON.stringify({ ...this.#position(sources.get(source)), gzip: true });
    return { kind: 'body', status: 200, body };
  }

  /** Records the events of a request that are not here yet. @returns 200, 409, 413 or 503. @throws Refusal 400 or 503 */
  async take(request: ForwardRequest, journal: Recorder): Promise<Reply> {
    const { limits, readItem } = this.#options;
    const { source, body } = request;
    if ((this.#queues.get(source)?.size ?? 0) > limits.forwardWaitingMax) {
      return unavailable('requests of this journal wait for earlier ones; wait for their replies');
    }
    const next = async () => this.#takeNext(request, readForwarded(request, readItem, limits), journal);
    return this.#inTurn(source, () => this.#parsing.run(body.length, next));
  }

  /** Forgets a source, durably and between its requests. @returns whether it was known. @throws Error like `through` */
  async forget(source: string): Promise<boolean> {
    await this.#load();
    return this.#inTurn(source, async () => {
      const durable = await this.#options.progress().durable();
      const isForgotten = durable.kind === 'before' && (await this.sources.remove(source, durable.seq - 1));
      if (isForgotten) await this.sightings.remove(source);
      return isForgotten;
    });
  }

  /** Runs a task after the earlier tasks of the same source. */
  async #inTurn<Result>(source: string, task: () => Promise<Result>): Promise<Result> {
    const queue = this.#queues.get(source) ?? new Mutex();
    this.#queues.set(source, queue);
    try {
      return await queue.run(task);
    } finally {
      if (queue.size === 0) this.#queues.delete(source);
    }
  }

  async #takeNext(request: ForwardRequest, events: readonly ForwardedEvent[], journal: Recorder): Promise<Reply> {
    const { source, firstSeq } = request;
    let known: Snapshot;
    let refusal: string | undefined;
    do {
      known = await this.#ready(journal);
      refusal = journal.refusal(0);
      // Opens a journal that was closed or has failed since: its lines are read before anything is decided.
      journal.begin();
    } while (this.sources.loaded !== known);
    const mark = known.sources.get(source);
    if (mark !== undefined) this.sightings.add(source, request);
    const via = this.#via;
    if (via.has(source)) return this.#conflict('loop', this.#explainLoop(firstSeq, source), mark);
    const fresh = decide(mark, request, events);
    if (typeof fresh === 'string') return this.#conflict(fresh, explain(fresh, firstSeq, mark), mark);
    const { seq, id } = events.at(-1)!.origin;
    const next = advance(mark, { seq, id: detach(id) });
    if (fresh.length === 0) {
      known.sources.set(source, next); // the events that were missing before these are lost for good
      return this.#at(next);
    }
    const back = request.throughSources?.find((one) => via.has(one));
    const wayOf = ({ origin }: ForwardedEvent) => back ?? origin.throughSource ?? '';
    const looped = fresh.find((event) => via.has(wayOf(event)));
    if (looped !== undefined) return this.#conflict('loop', this.#explainLoop(looped.origin.seq, wayOf(looped)), mark);
    if (refusal !== undefined) return unavailable(refusal); // and `begin` might have opened nothing
    const { forwardSourcesMax: sourcesMax, forwardThroughMax } = this.#options.limits;
    const most = Math.max(known.sources.size + this.#newcomers, this.sources.throughBeside(source));
    if (mark === undefined && most >= sourcesMax) {
      return unavailable(`this hub has events of ${sourcesMax} journals and takes no further one`);
    }
    const through = addThrough(known.through.get(source), request, events, forwardThroughMax);
    if (through === undefined) return this.#record(request, fresh, next, known, journal);
    const isDurable = await this.sources.hear(source, through).catch(this.#refuse);
    if (!isDurable) return unavailable('what lines came through is written once a second; send these again');
    return this.#takeNext(request, events, journal); // the journal might have been closed by now
  }

  /** @param next the watermark after the events */
  async #record(
    request: ForwardRequest,
    events: readonly ForwardedEvent[],
    next: Watermark,
    known: Snapshot,
    journal: Recorder,
  ): Promise<Reply> {
    const { source, firstSeq, begins = 1 } = request;
    const mark = known.sources.get(source);
    const isNew = mark === undefined;
    const first = Math.max((mark?.seq ?? 0) + 1, begins);
    const lost = Math.max(0, firstSeq - first);
    if (lost > 0) {
      const message = 'a source has lost events, and its later ones are recorded';
      this.#options.notices.rated.warn(message, { source, first, last: firstSeq - 1 });
    }
    if (isNew) this.#newcomers += 1;
    const recorded = new Promise<RecordResult>((resolve) => {
      const done = (result: RecordResult) => {
        // At once: the next call of the journal might be that its file is closed. If it was opened again, its lines are read later.
        if (result.kind === 'recorded' && this.sources.loaded === known) known.sources.set(source, next);
        resolve(result);
      };
      journal.append(events, done, 'refuse all');
    });
    const result = await this.sources.waitFor(recorded);
    if (isNew) this.#newcomers -= 1;
    if (result.kind === 'too large') return { kind: 'error', status: 413, error: result.reason };
    if (result.kind !== 'recorded')
      return unavailable(result.kind === 'refused' ? result.reason : 'keys are not looked up here');
    this.lostEvents += lost;
    if (isNew) this.#warnIfFull(known);
    if (isNew || lost > 0) this.sightings.add(source, request, lost);
    return this.#at(next);
  }

  /**
   * Opens the journal and loads the watermarks, unless both was done before.
   * @throws Refusal 503 if that takes longer than `limits.openWaitMs`
   */
  async #ready(journal: Recorder): Promise<Snapshot> {
    const { loaded } = this.sources;
    if (loaded !== undefined) return loaded;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.#options.limits.openWaitMs);
    const passed = once(late.signal, 'abort');
    try {
      await this.#waitUntilOpen(journal, late.signal);
      const known = await Promise.race([this.#load().catch(this.#refuse), passed.then(() => undefined)]);
      if (known === undefined) throw unavailableRefusal('what this hub has of other journals is being read');
      return known;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @throws Refusal 503, for an error of the disk */
  readonly #refuse = ({ message: problem }: Error): never => {
    const reason = 'what this hub has of others could not be read or written';
    this.#options.notices.rated.error(reason, { problem });
    throw unavailableRefusal(reason);
  };

  async #load(): Promise<Snapshot> {
    const { disk, notices } = this.#options;
    if (this.sources.loaded !== undefined) return this.sources.loaded;
    this.#source = await this.source();
    await this.sightings.load().catch(({ message }: Error) => {
      notices.warn('what the devices said of themselves cannot be read', { folder: disk.folder, reason: message });
    });
    const known = await this.sources.load();
    this.sightings.complete(known);
    this.#warnIfFull(known);
    return known;
  }

  /** Until a start has recovered the journal, its last lines can be truncated. */
  async #waitUntilOpen(journal: Recorder, late: AbortSignal): Promise<void> {
    const progress = this.#options.progress();
    journal.begin();
    const refusal = journal.refusal(0);
    if (refusal !== undefined) throw unavailableRefusal(refusal);
    await progress.more(late); // resolves at once if the journal is open
    if ((await progress.durable()).kind === 'before') return;
    throw unavailableRefusal(journal.refusal(0) ?? 'the journal is being opened');
  }

  #warnIfFull({ sources }: Snapshot): void {
    const { disk, limits, notices } = this.#options;
    const { forwardSourcesMax: most, forwardSourcesWarnedPercent } = limits;
    if (this.#hasWarned || 100 * sources.size < forwardSourcesWarnedPercent * most) return;
    this.#hasWarned = true;
    const message = 'soon no further journal is taken; assetlog sources forget ID makes space';
    notices.warn(message, { folder: disk.folder, journals: sources.size, most });
  }

  /** The journals that the events reach, this one first. */
  get #via(): ReadonlySet<string> {
    return new Set([this.#source, ...this.#options.via()]);
  }

  #at(mark: Watermark | undefined): BodyReply {
    return { kind: 'body', status: 200, body: JSON.stringify(this.#position(mark)) };
  }

  #conflict(reason: 'fork' | 'gap' | 'loop', error: string, mark: Watermark | undefined): ErrorReply {
    return { kind: 'error', status: 409, error, members: { reason, ...this.#position(mark) } };
  }

  #position({ seq, id }: Position = START): Readonly<Record<string, unknown>> {
    return { seq, id, via: [...this.#via] };
  }

  #explainLoop(seq: number, source: string): string {
    const way =
      source === this.#source ? 'was here before' : `came through the journal ${source}, which this hub forwards to`;
    return `event ${seq} of this journal ${way}: it would be here twice`;
  }
}

function explain(kind: 'fork' | 'gap', firstSeq: number, { seq, id }: Position = START): string {
  if (kind === 'fork') return `event ${seq} of this journal is here with the id ${id}, and the request has another one`;
  const next = seq + 1;
  return `the next event that this hub needs of this journal is ${next}, and the request begins with ${firstSeq}; send from ${next}, or say which are lost with Assetlog-Lost: ${next}-${firstSeq - 1}`;
}
