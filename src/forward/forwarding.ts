/**
 * All senders of a service: one for each destination of each journal. A service without destinations has no sender, no timer and no
 * file of forwarding.
 */

import type { WatchedFile } from '../config/watched-file.ts';
import { type Disk, describe, unlessAbsent } from '../journal/disk.ts';
import type { HeldBack } from '../journal/hooks.ts';
import { contentsOf, type GoneRange } from '../journal/segments.ts';
import type { ForwardFigures } from '../telemetry/metrics.ts';
import { DeadLetters } from './dead-letters/file.ts';
import type { Destination } from './destination.ts';
import { appliesTo, type ForwardOptions, tooMany, urlFor, watchDestinations } from './destinations.ts';
import { Link, type LinkOptions } from './link.ts';
import { Rounds } from './rounds.ts';
import { senderStates } from './sender/sender.ts';
import { openSource } from './source.ts';

/** Undefined in a service without deployments. */
export type Deployment = string | undefined;

/** The journals of a service, as forwarding needs them: see `Recording`. */
export interface ForwardedJournals {
  deployments(): readonly Deployment[];
  wake(deployment: Deployment): void;
  retain(deployment: Deployment): void;
}

export interface ForwardingOptions
  extends Pick<LinkOptions, 'progress' | 'limits' | 'notices' | 'onForwarded' | 'openClient'> {
  readonly config: ForwardOptions;
  /** @returns the folder of a journal */
  readonly diskOf: (deployment: Deployment) => Disk;
}

/** One journal and its destinations. */
interface Forwarded {
  readonly disk: Disk;
  /** By the names of the destinations. */
  readonly links: Map<string, Link>;
  /** The id of the journal; undefined until it is needed, and after it could not be read. */
  source: Promise<string> | undefined;
  readonly files: Files;
  /** The dead letters of destinations by their names, once they are needed: a changed destination has the same. */
  readonly letters: Map<string, Promise<DeadLetters>>;
  /** Ends of links whose destination was removed or changed. */
  readonly closing: Set<Promise<void>>;
}

/** In this order: `open`, `begin` and `close`. */
export class Forwarding {
  readonly #options: ForwardingOptions;
  #journals: ForwardedJournals | undefined;
  #file: WatchedFile<readonly Destination[]> | undefined;
  readonly #forwarded = new Map<Deployment, Forwarded>();
  readonly #rounds = new Rounds();
  #timer: NodeJS.Timeout | undefined;
  #isChecking = false;
  #isClosed = false;
  #closed: Promise<void> | undefined;
  #loggedExcess = 0;
  /** Names that were logged because no deployment has them. */
  #loggedNames = '';

  constructor(options: ForwardingOptions) {
    this.#options = options;
  }

  /**
   * Reads the destinations, and how far they are: before any journal is opened, so that nothing is removed that one still needs.
   * @throws Error with one line for each problem of the options or the file
   */
  async open(journals: ForwardedJournals): Promise<void> {
    this.#journals = journals;
    const journalsOf = (destination: Destination) =>
      journals.deployments().filter((deployment) => appliesTo(destination, deployment)).length;
    this.#file = await watchDestinations(this.#options.config, this.#options, journalsOf, () => void this.update());
    await this.update();
  }

  /** Begins to forward; the journals are open or may be opened now. */
  begin(): void {
    if (this.#file === undefined || this.#isClosed) return;
    this.#timer = setInterval(() => void this.#check(), this.#options.limits.forwardCheckMs).unref();
    void this.#check();
  }

  /**
   * What of a journal a destination has not received yet, and may not be removed: for `JournalHooks.heldBack`.
   * @returns the earliest event of this kind
   */
  heldBack(deployment: Deployment): HeldBack | undefined {
    let found: HeldBack | undefined;
    for (const { name, hold, ...destination } of this.#file?.current ?? []) {
      if (!hold || !appliesTo(destination, deployment)) continue;
      const fromSeq = this.#forwarded.get(deployment)?.links.get(name)?.floorSeq ?? 1;
      if (found !== undefined && found.fromSeq <= fromSeq) continue;
      const reason = `the destination ${name} has not received event ${fromSeq} yet; see assetlog forward status`;
      found = { fromSeq, reason };
    }
    return found;
  }

  /**
   * As `JournalHooks.removing`: each destination that has not confirmed all of the events gets a dead letter that names them.
   * @throws NotRemovableError
   */
  async removing(deployment: Deployment, gone: GoneRange): Promise<void> {
    for (const link of this.#forwarded.get(deployment)?.links.values() ?? []) await link.removing(gone);
  }

  /** The ids of a journal and of those that its events go to, as far as they are known: what a hub replies to its senders. */
  viaOf(deployment: Deployment): readonly string[] {
    const forwarded = this.#forwarded.get(deployment);
    if (forwarded === undefined) return [];
    return [...forwarded.links.values()].flatMap(({ source, via }) => (source === undefined ? via : [source, ...via]));
  }

  /**
   * Asks the destinations of a journal for what `viaOf` returns, each of which asks its own first: at once if there are none.
   * @param asking the journals that wait for the answer
   * @returns whether `viaOf` is complete now. Never rejects
   */
  async freshVia(deployment: Deployment, asking: readonly string[]): Promise<boolean> {
    const { forwardHopsMax, forwardViaMs } = this.#options.limits;
    const links = [...(this.#forwarded.get(deployment)?.links.values() ?? [])];
    if (links.length > 0 && asking.length < forwardHopsMax) {
      const timeoutMs = Math.floor(forwardViaMs / (1 + asking.length));
      await this.#rounds.ask(`${deployment}/${asking}`, async () => {
        await Promise.all(links.map((link) => link.askVia(asking, timeoutMs)));
      });
    }
    return links.every(({ isViaKnown }) => isViaKnown);
  }

  /** Reads the file of destinations again, and lets senders that wait or are stopped try at once. Never rejects. */
  async reload(): Promise<void> {
    await this.#file?.reload();
    for (const link of this.#links()) link.tryNow();
  }

  /**
   * Called when there may be other destinations or deployments: begins links that are new, and ends links that are gone.
   * @returns resolves when the links that are gone have ended. Never rejects
   */
  async update(): Promise<void> {
    if (this.#isClosed || this.#file === undefined) return;
    const { limits, notices } = this.#options;
    const wanted = new Map<Deployment, Map<string, Destination>>();
    let count = 0;
    for (const deployment of this.#journals?.deployments() ?? []) {
      const own = this.#file.current.filter((destination) => appliesTo(destination, deployment));
      const some = own.slice(0, Math.max(0, limits.sendersMax - count));
      count += own.length;
      if (some.length > 0) wanted.set(deployment, new Map(some.map((one) => [one.name, resolved(one, deployment)])));
    }
    if (count > limits.sendersMax && count !== this.#loggedExcess) {
      notices.error('not every event is forwarded', { problem: `it ${tooMany(count, limits)}` });
    }
    this.#loggedExcess = count;
    this.#warnOfNames();
    for (const [deployment, forwarded] of this.#forwarded) this.#end(forwarded, wanted.get(deployment));
    for (const [deployment, destinations] of wanted) this.#add(deployment, destinations);
    for (const link of this.#links()) if (link.source === undefined) await link.readFloor();
    await this.#ended();
  }

  /** The metrics of each destination, of all deployments together. */
  figures(): ForwardFigures[] {
    return (this.#file?.current ?? []).map(({ name }) => {
      const of = [...this.#forwarded.values()].filter(({ links }) => links.has(name));
      const links = of.map(({ links }) => links.get(name) as Link);
      const statuses = links.map(({ status }) => status);
      const held = ({ links, files }: Forwarded) => {
        const { lag_events, seq } = (links.get(name) as Link).status;
        return lag_events === 0 ? 0 : files.bytesFrom(seq + 1);
      };
      const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);
      const successes = statuses.map(({ last_success }) => Date.parse(last_success ?? '') / 1000).filter(Boolean);
      return {
        destination: name,
        lagEvents: sum(statuses.map(({ lag_events }) => lag_events)),
        lagSeconds: Math.max(0, ...statuses.map(({ lag_seconds }) => lag_seconds)),
        outcomes: total(links.map(({ sender }) => sender?.outcomes)),
        answers: total(links.map(({ sender }) => sender?.answers)),
        states: total([NO_STATES, ...statuses.map(({ state }) => new Map([[state, 1]]))]),
        lastSuccessSeconds: successes.length > 0 ? Math.max(...successes) : undefined,
        deadLetters: sum(statuses.map(({ dead_letters }) => dead_letters)),
        lostEvents: sum(statuses.map(({ lost_events }) => lost_events)),
        heldBytes: sum(of.map(held)),
      };
    });
  }

  /** A deployment may be added later, so that a name without one is no mistake for certain. */
  #warnOfNames(): void {
    const known = this.#journals?.deployments() ?? [];
    const listed = (this.#file?.current ?? []).flatMap(({ name, deployments = [] }) =>
      deployments.filter((one) => !known.includes(one)).map((one) => `${one} (destination ${name})`),
    );
    const names = listed.join(', ');
    if (names !== this.#loggedNames && names !== '') {
      this.#options.notices.warn('the file of --forward lists deployments that there are not', { names });
    }
    this.#loggedNames = names;
  }

  /** Ends all senders, each after its request in flight, which has `limits.forwardStopMs`. Never rejects. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#file?.stop();
    // They stay in the map: retention ends later, and still names what it removes in their dead letters.
    await Promise.all([...this.#links()].map((link) => link.close()));
    await this.#ended();
  }

  /** Resolves when the links that were to end have ended. */
  async #ended(): Promise<void> {
    await Promise.all([...this.#forwarded.values()].flatMap(({ closing }) => [...closing]));
    for (const [deployment, { links, closing }] of this.#forwarded) {
      if (links.size + closing.size === 0) this.#forwarded.delete(deployment); // its folder may be another one next time
    }
  }

  *#links(): Generator<Link> {
    for (const { links } of this.#forwarded.values()) yield* links.values();
  }

  /** @param wanted the destinations that the journal has now */
  #end({ links, closing }: Forwarded, wanted: ReadonlyMap<string, Destination> | undefined): void {
    for (const [name, link] of links) {
      const now = wanted?.get(name);
      if (now !== undefined && JSON.stringify(now) === JSON.stringify(link.options.destination)) continue;
      links.delete(name);
      const closed: Promise<void> = link.close().then(() => void closing.delete(closed));
      closing.add(closed);
    }
  }

  #add(deployment: Deployment, destinations: ReadonlyMap<string, Destination>): void {
    const { diskOf, progress, limits, notices, onForwarded, openClient } = this.#options;
    const disk = diskOf(deployment);
    const made = {
      disk,
      links: new Map(),
      source: undefined,
      files: new Files(disk),
      letters: new Map(),
      closing: new Set<Promise<void>>(),
    };
    const forwarded: Forwarded = this.#forwarded.get(deployment) ?? made;
    this.#forwarded.set(deployment, forwarded);
    // One that was changed begins after the one before it has ended: both write the same files.
    const ended = Promise.all(forwarded.closing);
    const source = async () => {
      await ended;
      forwarded.source ??= openSource(forwarded.disk).then((opened) => opened.source);
      return forwarded.source.catch((error) => {
        forwarded.source = undefined;
        throw error;
      });
    };
    const own = deployment === undefined ? notices : notices.with({ deployment });
    for (const [name, destination] of destinations) {
      if (forwarded.links.has(name)) continue;
      const letters = () => lettersOf(forwarded, name, this.#options);
      const shared = { disk: forwarded.disk, progress, source, letters, limits, notices: own, onForwarded, openClient };
      forwarded.links.set(name, new Link({ destination, ...shared }));
    }
  }

  async #check(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    for (const [deployment, forwarded] of this.#forwarded) {
      if (this.#isClosed) break;
      if (forwarded.links.size > 0) await this.#checkOne(deployment, forwarded);
    }
    this.#isChecking = false;
  }

  async #checkOne(deployment: Deployment, { disk, links, files }: Forwarded): Promise<void> {
    this.#journals?.wake(deployment); // also so that it stays open: its lock is that of the cursors as well
    if (this.#options.progress.nextSeq(disk.folder) === undefined) return;
    try {
      const names = await disk.list();
      for (const link of links.values()) await link.check(names);
      if (await files.refresh(names, this.heldBack(deployment)?.fromSeq)) this.#journals?.retain(deployment);
    } catch (error) {
      // The journal has the same folder, and reports it.
      this.#options.notices.debug('the folder of a journal could not be read', { problem: describe(error as Error) });
    }
  }
}

/** The files of one journal, as far as destinations need them. */
class Files {
  readonly #disk: Disk;
  #segments: readonly { readonly firstSeq: number; readonly bytes: number }[] = [];
  #passedSeq = 0;

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  /**
   * @param names of the entries of the folder
   * @param fromSeq the first event that may not be removed
   * @returns whether it is in another file than at the last call, so that more files may be removed
   * @throws the error of a system call
   */
  async refresh(names: readonly string[], fromSeq = Number.POSITIVE_INFINITY): Promise<boolean> {
    const { segments } = contentsOf(names);
    const known = new Map(this.#segments.slice(0, -1).map(({ firstSeq, bytes }) => [firstSeq, bytes]));
    this.#segments = [];
    const now = [];
    for (const { name, firstSeq } of segments) {
      const bytes = known.get(firstSeq) ?? (await this.#disk.size(name).catch(unlessAbsent(0)));
      now.push({ firstSeq, bytes });
    }
    this.#segments = now;
    const passedSeq = segments.findLast(({ firstSeq }) => firstSeq <= fromSeq)?.firstSeq ?? 0;
    const hasMoved = passedSeq > this.#passedSeq;
    this.#passedSeq = passedSeq;
    return hasMoved;
  }

  /** @returns the bytes of the files with the event and later ones */
  bytesFrom(seq: number): number {
    const at = this.#segments.findLastIndex(({ firstSeq }) => firstSeq <= seq);
    return this.#segments.slice(Math.max(0, at)).reduce((sum, { bytes }) => sum + bytes, 0);
  }
}

/** @returns the dead letters of a destination, the same object while the service has its journal. @throws the error of a system call */
function lettersOf(
  { disk, letters }: Forwarded,
  name: string,
  { config, limits }: ForwardingOptions,
): Promise<DeadLetters> {
  let opened = letters.get(name);
  if (opened === undefined) {
    const { deadLetterBytesMax, deadLetterRetainPercent, deadLetterSparePercent, lineBytesMax } = limits;
    const { retainBytes = Number.POSITIVE_INFINITY } = config;
    const bytesMax = Math.min(deadLetterBytesMax, Math.floor((retainBytes * deadLetterRetainPercent) / 100));
    opened = DeadLetters.open(disk, name, {
      bytesMax,
      spareBytes: Math.floor((bytesMax * deadLetterSparePercent) / 100),
      lineBytesMax,
    });
    letters.set(name, opened);
    opened.catch(() => letters.delete(name));
  }
  return opened;
}

/** @returns a destination as one journal has it */
function resolved(destination: Destination, deployment: Deployment): Destination {
  return { ...destination, to: urlFor(destination, deployment), deployments: undefined };
}

/** Also the states of none, so that each has a time series. */
const NO_STATES: ReadonlyMap<string, number> = new Map(senderStates.map((state) => [state, 0]));

/** @returns the sums by name */
function total(counts: readonly (ReadonlyMap<string, number> | undefined)[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts.flatMap((one) => [...(one ?? [])])) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}
