/** Records the forwarded events of other journals in one journal of a hub, each once and in the order of its source. */

import { once } from 'node:events';
import { detach } from '../../config/memory.ts';
import type { RecordResult } from '../../event/record-result.ts';
import type { ReadItem } from '../../http/batch.ts';
import {
  type ErrorReply,
  type Recorder,
  Refusal,
  type Reply,
  unavailable,
  unavailableRefusal,
} from '../../http/message.ts';
import type { Follower } from '../../journal/follower.ts';
import { Mutex } from '../../waiting/mutex.ts';
import type { Position } from '../position.ts';
import { type Era, openSource, readEras } from '../source.ts';
import { Budget } from './budget.ts';
import { type ForwardedEvent, type ForwardRequest, readForwarded, type SaidOfSource } from './received.ts';
import { Sightings } from './sightings.ts';
import type { Snapshot } from './snapshot.ts';
import { Sources, type SourcesOptions } from './sources.ts';
import { JournalTurns } from './turns.ts';
import { decide, NOTHING, nameOf, type Own, type Taken, type Watermark, watermarkOf } from './watermark.ts';

export interface ReceiverOptions extends SourcesOptions {
  /** Applies the limits of the service. */
  readonly readItem: ReadItem;
}

/** The receiving side of one journal. */
export class Receiver {
  readonly sources: Sources;
  readonly sightings: Sightings;
  /** Number of events that sources reported as lost, since the start. */
  lostEvents = 0;
  readonly #options: ReceiverOptions;
  /** Requests by source, which are handled one after the other. */
  readonly #queues = new Map<string, Mutex>();
  /** The turns of the journals whose events are in a request. */
  readonly #turns = new JournalTurns();
  /** The memory for bodies that are parsed and not recorded yet. */
  readonly #parsing: Budget;
  /** All ids of the journal; empty before `#load`. */
  #eras: readonly Era[] = [];
  /** Protects the file with the id. */
  readonly #mutex = new Mutex();
  /** Whether a warning was logged that the number of sources is close to the limit. */
  #hasWarned = false;
  /** Number of new journals in requests that are being recorded. */
  #newcomers = 0;
  /** The seq of the last call of `#closed`, and the call that waits. */
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
   * Forgets the previous journal.
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

  /**
   * Called after a file was closed, and before a clean stop. One call runs at a time, and of the waiting ones only the last. Never
   * rejects.
   */
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

  /** @returns the id of the journal, which is created if necessary. @throws Error like `openSource` */
  source(): Promise<string> {
    return this.#mutex.run(() => openSource(this.#options.disk));
  }

  /**
   * Waits for the earlier requests of the source: what they record is never reported as missing.
   * @param eras all ids of the source, the current one last
   * @returns the last event of a source that this hub has: `{"seq":7,"id":"…","gzip":true,"origins":true}`
   * @throws Refusal 403 or 503
   */
  async ask(eras: readonly Era[], journal: Recorder, said: SaidOfSource = {}): Promise<Reply> {
    const [, source] = eras.at(-1)!;
    await this.#queues.get(source)?.ended;
    const known = await this.#ready(journal);
    const { sources } = known;
    if (source === this.#eras.at(-1)![1]) return TO_ITSELF;
    this.#checkToken(known, eras, said);
    this.sightings.replaced(eras);
    if (sources.has(source)) this.sightings.add(source, said);
    const { seq, id } = watermarkOf(sources, await this.#own(), eras) ?? NOTHING;
    return { kind: 'body', status: 200, body: JSON.stringify({ seq, id, gzip: true, origins: true }) };
  }

  /**
   * Records the events of a request that the hub does not have yet. @returns 200, 403, 409, 413 or 503. @throws Refusal 400
   * or 503
   */
  async take(request: ForwardRequest, journal: Recorder): Promise<Reply> {
    const { limits, readItem } = this.#options;
    const { source, eras, body } = request;
    if ((this.#queues.get(source)?.size ?? 0) > limits.forwardWaitingMax) {
      return unavailable('requests of this journal wait for earlier ones; wait for their replies');
    }
    return this.#inTurn(source, () =>
      this.#parsing.run(body.length, async () => {
        const events = readForwarded(request, readItem, limits);
        const journals = new Set([...eras.map(([, id]) => id), ...events.map((event) => nameOf(event)[0])]);
        return this.#turns.run(journals, () => this.#takeNext(request, events, journal));
      }),
    );
  }

  /**
   * Forgets a source, durably and between requests that contain its events.
   * @returns whether it was known. @throws Error if the journal is not open, or the error of a system call
   */
  async forget(source: string): Promise<boolean> {
    await this.#load();
    const task = async () => {
      const durable = await this.#options.progress().durable();
      const isForgotten = durable.kind === 'before' && (await this.sources.remove(source, durable.seq - 1));
      if (isForgotten) await this.sightings.remove(source);
      return isForgotten;
    };
    return this.#inTurn(source, () => this.#turns.run(new Set([source]), task));
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
    const { limits, notices } = this.#options;
    let known: Snapshot;
    let own: Own;
    let refusal: string | undefined;
    do {
      known = await this.#ready(journal);
      refusal = journal.refusal(0);
      // Opens a journal that was closed or has failed in the meantime. Its lines are read before anything is decided.
      journal.begin();
      own = await this.#own();
    } while (this.sources.loaded !== known);
    this.#checkToken(known, request.eras, request);
    const { sources } = known;
    this.sightings.replaced(request.eras);
    if (sources.has(source)) this.sightings.add(source, request);
    const decision = decide({ marks: sources, own, partsMax: limits.forwardPartsMax }, request, events);
    if (decision.kind === 'self') return TO_ITSELF;
    if (decision.kind === 'restored') {
      const [, seq] = decision.name;
      const reason =
        'this folder was restored or copied, and others have later events of it; run assetlog forward identity --new';
      notices.rated.error(reason, { seq, last_seq: own.lastSeq, source });
      return unavailable(reason);
    }
    if (decision.kind !== 'taken') {
      const { kind: why, at } = decision;
      if (why === 'fork') {
        const { here, sent } = decision;
        notices.rated.warn('a source was restored or copied, and is stopped', {
          source,
          token: request.tokenName,
          here,
          sent,
        });
        if (sources.has(source)) this.sightings.add(source, { ...request, state: 'stopped fork' });
      }
      return conflict(why, at, explain(why, firstSeq, at));
    }
    const others = [...decision.marks.keys()].filter((id) => !sources.has(id)).length;
    if (others > 0 && !this.#makePlace(known, others, decision)) {
      return unavailable(`this hub has events of ${limits.forwardSourcesMax} journals and accepts no further one`);
    }
    if (decision.fresh.length > 0 && refusal !== undefined) return unavailable(refusal); // and `begin` might not have opened it
    this.#newcomers += others;
    const failure = await this.#record(decision, known, journal).finally(() => {
      this.#newcomers -= others;
    });
    if (failure !== undefined) return failure;
    if (decision.fresh.at(-1) !== events.at(-1)) this.sources.moved();
    this.#note(request, decision, others > 0);
    this.#bind(known, request);
    if (others > 0) this.#warnIfFull(known);
    const { seq, id } = decision.marks.get(source)!;
    return { kind: 'body', status: 200, body: JSON.stringify({ seq, id }) };
  }

  /**
   * Forgets journals that have been silent for long. The others are kept, since an event could otherwise travel endlessly in a circle of hubs. @returns whether there is
   * space for new journals
   */
  #makePlace(known: Snapshot, count: number, { marks }: Taken): boolean {
    const { sources } = known;
    const { limits, notices } = this.#options;
    const { forwardSourcesMax: most, forwardForgottenMs } = limits;
    while (sources.size + this.#newcomers + count > most) {
      const old = this.sightings.oldest((source) => sources.has(source) && !marks.has(source));
      if (old === undefined || old.lastMs > Date.now() - forwardForgottenMs) return false;
      sources.delete(old.source);
      known.tokens.delete(old.source);
      this.sightings.drop(old.source);
      this.sources.moved();
      const last = new Date(old.lastMs).toISOString();
      notices.rated.warn('a journal without events for long was forgotten, for a new one', {
        source: old.source,
        last,
      });
    }
    return true;
  }

  /** Records the events, if there are any, and then sets the watermarks. @returns the reply if they cannot be recorded */
  async #record({ fresh, marks }: Taken, known: Snapshot, journal: Recorder): Promise<ErrorReply | undefined> {
    const setMarks = () => {
      if (this.sources.loaded !== known) return; // the journal was opened again, and its lines are read later
      for (const [id, mark] of marks) known.sources.set(detach(id), detached(mark));
    };
    if (fresh.length === 0) {
      setMarks();
      return undefined;
    }
    const recorded = new Promise<RecordResult>((resolve) => {
      const done = (result: RecordResult) => {
        // Done at once, since the next call of the journal might report that its file is closed.
        if (result.kind === 'recorded') setMarks();
        resolve(result);
      };
      journal.append(fresh, done, 'refuse all');
    });
    const result = await this.sources.waitFor(recorded);
    if (result.kind === 'recorded') return undefined;
    if (result.kind === 'too large') return { kind: 'error', status: 413, error: result.reason };
    return unavailable(result.kind === 'refused' ? result.reason : 'keys are not looked up here');
  }

  /** Notes the contents of a request that was carried out. @param isNew whether one of its journals was unknown */
  #note(request: ForwardRequest, { lost, other, dropped, marks }: Taken, isNew: boolean): void {
    const { source } = request;
    const { rated } = this.#options.notices;
    const [first] = lost;
    const count = lost.reduce((sum, range) => sum + range.last + 1 - range.first, 0);
    if (first !== undefined) {
      const message = 'a source has lost events, and its later ones are recorded';
      rated.warn(message, { source, first: first.first, last: lost.at(-1)!.last });
    }
    if (other !== undefined) {
      const [journal, seq] = other.name;
      const message = 'this hub has an event with another id; run forward identity --new at its journal';
      rated.warn(message, { source, journal, seq, sent: other.sent, here: other.here });
    }
    for (const { journal, range, counts } of dropped) {
      if (journal !== source && counts === 'lost') continue; // they are recorded when they arrive, and a hub on the path has such gaps
      rated.warn('a journal has too many gaps: missing events count as lost, or as here', {
        journal,
        ...range,
        counts,
      });
    }
    this.lostEvents += count;
    if (isNew || count > 0) this.sightings.add(source, request, count);
    for (const journal of marks.keys()) {
      if (journal === source || !this.sightings.brought(journal, source)) continue;
      const bound = this.sources.loaded?.tokens.get(journal);
      if (bound === undefined || bound === request.tokenName) continue;
      rated.warn('a source sends events with another token than before', {
        source: journal,
        through: source,
        bound,
        token: request.tokenName,
      });
    }
  }

  /** @throws Refusal 403 if the source, or one of its reported earlier ids, used a token of another name */
  #checkToken({ tokens }: Snapshot, eras: readonly Era[], { tokenName }: SaidOfSource): void {
    if (tokenName === undefined) return;
    for (const [, id] of eras) {
      const bound = tokens.get(id);
      if (bound === undefined || bound === tokenName) continue;
      this.#options.notices.rated.warn('a source used another token', { source: id, bound, token: tokenName });
      this.sightings.refused(id, 'stopped token');
      const [before, now] = [bound, tokenName].map((name) => JSON.stringify(name));
      const error = `the journal ${id} used the token ${before}, not ${now}; on the hub run: assetlog sources bind ${id} --token ${now}`;
      throw new Refusal(403, error);
    }
  }

  #bind({ tokens }: Snapshot, { source, tokenName }: ForwardRequest): void {
    if (tokenName === undefined || tokens.has(source)) return;
    tokens.set(source, tokenName);
    this.sources.moved();
  }

  /** Like `Sources.bind`, for an open journal. */
  async bind(...[isMeant, token]: BindArguments): Promise<number> {
    await this.#load();
    const { lastSeq } = await this.#own();
    return this.sources.bind(isMeant, token, lastSeq);
  }

  /** @throws Refusal 503 if the journal is being opened */
  async #own(): Promise<Own> {
    const durable = await this.#options.progress().durable();
    if (durable.kind !== 'before') throw unavailableRefusal('the journal is being opened');
    return { eras: this.#eras, losses: this.sources.losses, lastSeq: durable.seq - 1 };
  }

  /**
   * Opens the journal and loads the watermarks, unless both were done before.
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
      if (known === undefined) throw unavailableRefusal('the record of other journals is being read');
      return known;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @throws Refusal 503, for an error of the disk */
  readonly #refuse = ({ message: problem }: Error): never => {
    const reason = 'the record of other journals could not be read or written';
    this.#options.notices.rated.error(reason, { problem });
    throw unavailableRefusal(reason);
  };

  async #load(): Promise<Snapshot> {
    const { disk, notices } = this.#options;
    if (this.sources.loaded !== undefined) return this.sources.loaded;
    this.#eras = await readEras(disk, await this.source());
    await this.sightings.load().catch(({ message }: Error) => {
      notices.warn('what the devices reported about themselves cannot be read', {
        folder: disk.folder,
        reason: message,
      });
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
    const message = 'the limit of journals is near; assetlog sources forget ID makes space';
    notices.warn(message, { folder: disk.folder, journals: sources.size, most });
  }
}

type BindArguments = [isMeant: Parameters<Sources['bind']>[0], token: string | undefined];

/** The same reply as for a copy of the folder. */
const TO_ITSELF: ErrorReply = {
  kind: 'error',
  status: 403,
  error:
    'this is the journal of the hub itself; forward it elsewhere, or give a copy a new id with forward identity --new',
};

function conflict(reason: 'fork' | 'gap', { seq, id }: Position, error: string): ErrorReply {
  return { kind: 'error', status: 409, error, members: { reason, seq, id } };
}

/** Copies the ids, which are parts of a body and would keep it in memory. */
function detached({ seq, id, lost, ahead }: Watermark): Watermark {
  const own = (text: string | null) => text && detach(text);
  return { seq, id: own(id), lost, ahead: ahead.map((part) => ({ ...part, id: own(part.id) })) };
}

function explain(kind: 'fork' | 'gap', firstSeq: number, { seq, id }: Position): string {
  if (kind === 'fork') return `event ${seq} of this journal is here with the id ${id}, and the request has another one`;
  const next = seq + 1;
  return `the next event that this hub needs of this journal is ${next}, and the request begins with ${firstSeq}; send from ${next}, or say which are lost with Assetlog-Lost: ${next}-${firstSeq - 1}`;
}
