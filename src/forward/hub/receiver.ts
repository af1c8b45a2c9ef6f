/** Takes forwarded events into one journal of a hub, each once and in the order of its source. */

import { once } from 'node:events';
import { Mutex } from '../../config/mutex.ts';
import type { RecordResult } from '../../event/record-result.ts';
import {
  type BodyReply,
  type ErrorReply,
  type Recorder,
  type Reply,
  unavailable,
  unavailableRefusal,
} from '../../http/message.ts';
import { openSource, type Through } from '../source.ts';
import { Budget } from './budget.ts';
import type { Received, SaidOfSource, Unparsed } from './received.ts';
import { apart, Sightings } from './sightings.ts';
import { Sources, type SourcesOptions } from './sources.ts';
import { heard } from './through.ts';
import { advanced, decide, type Watermark } from './watermark.ts';

export interface ReceiverOptions extends SourcesOptions {
  /** @returns the journals that the events of this one reach, as far as its destinations have said */
  readonly via: () => readonly string[];
}

/** The requests of one source, which are handled one after the other. */
interface SourceQueue {
  count: number;
  readonly mutex: Mutex;
}

/** The events of other journals that one journal takes. */
export class Receiver {
  /** Its snapshot is written when the journal says so. */
  readonly sources: Sources;
  readonly sightings: Sightings;
  /** Number of events that journals said are lost, since the start. */
  lostEvents = 0;
  readonly #options: ReceiverOptions;
  readonly #queues = new Map<string, SourceQueue>();
  /** Of the bodies that are parsed and not recorded yet. */
  readonly #parsing: Budget;
  /** The id of the journal, once the watermarks are loaded. A source hears it before it sends its first event. */
  #source: string | undefined;
  /** For the id. */
  readonly #mutex = new Mutex();
  /** Whether it was logged that there are nearly as many sources as there may be. */
  #hasWarned = false;
  /** Requests that are being handled and whose sources are new. */
  #newcomers = 0;

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#parsing = new Budget(options.limits.forwardParsedBytesMax);
    this.sources = new Sources(options);
    this.sightings = new Sightings(options);
  }

  /** @returns the id of the journal, which is made if there is none. @throws as `openSource` */
  source(): Promise<string> {
    return this.#mutex.run(() => openSource(this.#options.disk));
  }

  /** @returns what the lines of each source came through. @throws Error if the journal is not open, or the error of a system call */
  async through(): Promise<Through> {
    if (this.sources.loaded === undefined) await this.#load();
    return this.sources.through;
  }

  /**
   * @param said of the source
   * @returns the reply to a source that asks how far the hub is: `{"seq":7,"id":"…","via":[]}`
   * @throws Refusal 503
   */
  async ask(source: string, journal: Recorder, said: SaidOfSource = {}): Promise<Reply> {
    const marks = await this.#ready(journal);
    if (marks.has(source)) this.sightings.add(source, said);
    return this.#at(marks.get(source));
  }

  /** Records what is new of the lines. @returns 200, 409, 413 or 503. @throws Refusal 400 or 503 */
  async take(unparsed: Unparsed, bodyBytes: number, journal: Recorder): Promise<Reply> {
    const { limits } = this.#options;
    const { source } = unparsed;
    if ((this.#queues.get(source)?.count ?? 0) > limits.forwardWaitingMax) {
      return unavailable('requests of this journal wait for earlier ones; wait for their replies');
    }
    const { read, said = {}, ...rest } = unparsed;
    const next = async () => this.#takeNext({ ...rest, events: read() }, said, journal);
    return this.#inTurn(source, () => this.#parsing.run(bodyBytes, next));
  }

  /** Forgets a source, durably and between its requests. @returns whether it was known. @throws Error if the journal is not open, or the error of a system call */
  async forget(source: string): Promise<boolean> {
    if (this.sources.loaded === undefined) await this.#load();
    return this.#inTurn(source, async () => {
      const said = await this.#options.progress().durable();
      const isForgotten = said.kind === 'before' && (await this.sources.remove(source, said.seq - 1));
      if (isForgotten) await this.sightings.remove(source);
      return isForgotten;
    });
  }

  /** Runs a task after those of the same source before it. */
  async #inTurn<Result>(source: string, task: () => Promise<Result>): Promise<Result> {
    const queue = this.#queues.get(source) ?? { count: 0, mutex: new Mutex() };
    this.#queues.set(source, queue);
    queue.count += 1;
    try {
      return await queue.mutex.run(task);
    } finally {
      queue.count -= 1;
      if (queue.count === 0) this.#queues.delete(source);
    }
  }

  async #takeNext(received: Received, said: SaidOfSource, journal: Recorder): Promise<Reply> {
    const { limits } = this.#options;
    const { source, events } = received;
    let marks = await this.#ready(journal);
    let refusal = journal.refusal(0);
    // A journal that was closed or has failed since is opened again before anything is decided: its lines say what it has.
    for (journal.begin(); this.sources.loaded !== marks; journal.begin()) {
      marks = await this.#ready(journal);
      refusal = journal.refusal(0);
    }
    if (marks.has(source)) this.sightings.add(source, said);
    const known = marks.get(source);
    const via = new Set(this.#via);
    if (via.has(source)) return this.#conflict('loop', cameBack(received.firstSeq, source, this.#source), known);
    const decision = decide(known, received);
    if (decision.kind !== 'record')
      return this.#conflict(decision.kind, explained(decision.kind, received, known), known);
    const { fresh } = decision;
    const last = events.at(-1)!.origin;
    const mark = last.seq > (known?.seq ?? 0) ? advanced(known, { seq: last.seq, id: apart(last.id) }) : known!;
    if (fresh.length === 0) {
      if (mark !== known) marks.set(source, mark); // what was missing before these is lost for good
      return this.#at(mark);
    }
    const named = received.throughSources?.find((one) => via.has(one));
    const back = fresh.find(
      ({ origin: { throughSource } }) => named !== undefined || (throughSource !== undefined && via.has(throughSource)),
    );
    if (back !== undefined) {
      const { seq, throughSource } = back.origin;
      return this.#conflict('loop', cameBack(seq, named ?? throughSource!, this.#source), known);
    }
    if (refusal !== undefined) return unavailable(refusal); // and `begin` might have opened nothing
    const { forwardSourcesMax: sourcesMax } = limits;
    const most = Math.max(marks.size + this.#newcomers, this.sources.throughBeside(source));
    if (known === undefined && most >= sourcesMax) {
      return unavailable(`this hub has events of ${sourcesMax} journals and takes no further one`);
    }
    const before = this.sources.through.get(source) ?? NONE;
    const names = heard(before, received, limits.forwardThroughMax);
    if (names !== before) {
      const isHeard = await this.sources.hear(source, names).catch(this.#refuse);
      if (!isHeard) return unavailable('what lines came through is written once a second; send these again');
      return this.#takeNext(received, said, journal); // the journal might have been closed by now
    }
    const first = Math.max((known?.seq ?? 0) + 1, received.begins ?? 1);
    const lostCount = Math.max(0, received.firstSeq - first);
    if (lostCount > 0) {
      const last = received.firstSeq - 1;
      const message = 'a source has lost events, and its later ones are recorded';
      this.#options.notices.rated.warn(message, { source, first, last });
    }
    if (known === undefined) this.#newcomers += 1;
    const recorded = new Promise<RecordResult>((resolve) => {
      const done = (result: RecordResult) => {
        // At once: the next call of the journal might be that its file is closed. Marks that are forgotten are read from its lines.
        if (result.kind === 'recorded' && this.sources.loaded === marks) marks.set(apart(source), mark);
        resolve(result);
      };
      journal.append(fresh, done, 'refuse all');
    });
    const result = await this.sources.waitFor(recorded);
    if (known === undefined) this.#newcomers -= 1;
    if (result.kind === 'recorded') {
      this.lostEvents += lostCount;
      if (known === undefined) this.#warnIfFull(marks);
      if (known === undefined || lostCount > 0) this.sightings.add(source, said, lostCount);
      return this.#at(mark);
    }
    if (result.kind === 'too large') return { kind: 'error', status: 413, error: result.reason };
    return unavailable(result.kind === 'refused' ? result.reason : 'keys are not looked up here');
  }

  /**
   * Opens the journal if it is not open, and reads the watermarks if they are not known.
   * @throws Refusal 503 if that takes longer than `limits.openWaitMs`
   */
  async #ready(journal: Recorder): Promise<Map<string, Watermark>> {
    const { limits } = this.#options;
    let known = this.sources.loaded;
    if (known !== undefined) return known;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), limits.openWaitMs);
    const passed = once(late.signal, 'abort');
    try {
      await this.#opened(journal, late.signal);
      while (known === undefined) {
        const loading = this.#load().catch(this.#refuse);
        await Promise.race([loading, passed]);
        if (late.signal.aborted) throw unavailableRefusal('what this hub has of other journals is being read');
        known = this.sources.loaded;
      }
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

  async #load(): Promise<void> {
    const { disk, notices } = this.#options;
    this.#source = await this.source();
    await this.sightings.load().catch(({ message }: Error) => {
      notices.warn('what the devices said of themselves cannot be read', { folder: disk.folder, reason: message });
    });
    const marks = await this.sources.load();
    this.sightings.complete(marks, this.sources.times);
    this.#warnIfFull(marks);
  }

  /** Until a start has recovered the journal, its last lines can be truncated. */
  async #opened(journal: Recorder, late: AbortSignal): Promise<void> {
    const { progress } = this.#options;
    journal.begin();
    const refuse = (reason = 'the journal is being opened') => {
      throw unavailableRefusal(reason);
    };
    const reason = journal.refusal(0);
    if (reason !== undefined) refuse(reason);
    const own = progress();
    const isOpen = async () => (await own.durable()).kind === 'before';
    if (await isOpen()) return;
    await own.more(late);
    if (!(await isOpen())) refuse(journal.refusal(0));
  }

  #warnIfFull({ size }: ReadonlyMap<string, Watermark>): void {
    const { disk, limits, notices } = this.#options;
    const { forwardSourcesMax: most, forwardSourcesWarnedPercent } = limits;
    if (this.#hasWarned || 100 * size < forwardSourcesWarnedPercent * most) return;
    this.#hasWarned = true;
    const message = 'soon no further journal is taken; assetlog sources forget ID makes space';
    notices.warn(message, { folder: disk.folder, journals: size, most });
  }

  get #via(): readonly string[] {
    const via = this.#options.via();
    return [...new Set(this.#source === undefined ? via : [this.#source, ...via])];
  }

  #at(mark: Watermark | undefined): BodyReply {
    return { kind: 'body', status: 200, body: JSON.stringify(this.#position(mark)) };
  }

  #conflict(reason: 'fork' | 'gap' | 'loop', error: string, mark: Watermark | undefined): ErrorReply {
    return { kind: 'error', status: 409, error, members: { reason, ...this.#position(mark) } };
  }

  #position(mark: Watermark | undefined): Readonly<Record<string, unknown>> {
    return { seq: mark?.seq ?? 0, id: mark?.id ?? null, via: this.#via };
  }
}

function cameBack(seq: number, name: string, own: string | undefined): string {
  const way = name === own ? 'was here before' : `came through the journal ${name}, which this hub forwards to`;
  return `event ${seq} of this journal ${way}: it would be here twice`;
}

function explained(kind: 'fork' | 'gap', { firstSeq }: Received, known: Watermark | undefined): string {
  if (kind === 'fork')
    return `event ${known!.seq} of this journal is here with the id ${known!.id}, and the request has another one`;
  const next = (known?.seq ?? 0) + 1;
  return `the next event that this hub needs of this journal is ${next}, and the request begins with ${firstSeq}; send from ${next}, or say which are lost with Assetlog-Lost: ${next}-${firstSeq - 1}`;
}

const NONE: readonly string[] = [];
