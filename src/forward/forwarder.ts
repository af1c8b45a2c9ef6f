/**
 * All pipes of a service: one for each destination of each journal. A service without destinations has no pipe, no timer and no file of
 * forwarding.
 */

import type { Config } from '../config/options-of-service.ts';
import type { WatchedFile } from '../config/watched-file.ts';
import { type Disk, describe } from '../journal/disk.ts';
import type { Follower, HeldBack } from '../journal/follower.ts';
import type { ForwardFigures } from '../telemetry/metrics.ts';
import { Acks } from './acks.ts';
import type { AlarmHook } from './alarms/alarm-hook.ts';
import { AlarmClock } from './alarms/clock.ts';
import { kindOf, traitsOf } from './destinations/kinds.ts';
import type { Hub } from './hub/hub.ts';
import { JournalPipes } from './journal-pipes.ts';
import type { Pipe } from './pipe/pipe.ts';
import type { ForwardedJournal, ForwardingParts, KnownAssets } from './pipe/sender.ts';
import { type DestinationStatus, pipeStates } from './pipe/status.ts';
import type { Deployment, DestinationSettings } from './settings.ts';
import {
  ackProblem,
  appliesTo,
  type IsOwnUrl,
  ownHookProblem,
  resolveSettings,
  tooMany,
  watchDestinations,
} from './settings-file.ts';

/** The journals of a service, as forwarding needs them: see `Recording`. */
export interface ForwardedJournals {
  deployments(): readonly Deployment[];
  wake(deployment: Deployment): void;
}

export interface ForwarderOptions extends ForwardingParts {
  readonly config: Config;
  /** The receiving side of the same service, available once a journal is open. */
  readonly hub: () => Pick<Hub, 'receiverOf'>;
  /** @returns the folder of a journal */
  readonly diskOf: (deployment: Deployment) => Disk;
  /** @returns the assets of a journal */
  readonly assetsOf?: (deployment: Deployment) => KnownAssets;
  /** Matches no URL before the service listens. */
  readonly isOwnUrl?: IsOwnUrl;
  /** See `AcksOptions.onAcknowledged`. */
  readonly onAcknowledged?: (ms: number) => void;
  /** For the file of `--forward`: see `FileUse.refused`. */
  readonly refusedFiles?: Set<string>;
}

/** The methods are called in this order: `open`, `begin`, `close`. */
export class Forwarder {
  /** Set with `--ack`. */
  readonly acks: Acks | undefined;
  readonly #options: ForwarderOptions;
  #journals: ForwardedJournals | undefined;
  #file: WatchedFile<readonly DestinationSettings[]> | undefined;
  readonly #journalPipes = new Map<Deployment, JournalPipes>();
  /** Set by `begin`. */
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  readonly #clock = new AlarmClock();
  #isClosed = false;
  #closed: Promise<void> | undefined;
  #loggedExcess = 0;
  /** The logged names that no deployment has. */
  #loggedNames = '';
  /** The problem of `--ack` that was logged, while it persists. */
  #loggedAck: string | undefined;

  constructor(options: ForwarderOptions) {
    this.#options = options;
    const { config, diskOf, progress, onAcknowledged = () => {}, ...shared } = options;
    const nextSeq = (deployment: Deployment) => progress.nextSeq(diskOf(deployment).folder);
    if (config.ack !== '') this.acks = new Acks({ ...shared, name: config.ack, nextSeq, onAcknowledged });
  }

  /**
   * Reads the destinations, and how far they are. This is done before any journal is opened, so that no event that a destination
   * still needs is removed.
   * @throws Error with one line for each problem of the options or the file
   */
  async open(journals: ForwardedJournals): Promise<void> {
    this.#journals = journals;
    const { config } = this.#options;
    this.#file = await watchDestinations(config, this.#options, this.#journalsOf, () => {
      this.#logProxies();
      void this.update();
    });
    this.#warnOfRate();
    this.#logProxies();
    await this.update();
  }

  #logProxies(): void {
    for (const { name, proxy } of this.#file?.current ?? []) {
      if (proxy === undefined) continue;
      const shown = typeof proxy === 'string' ? `http://${new URL(proxy).host}` : proxy.file;
      this.#options.notices.info(`events are forwarded through proxy ${shown}`, { destination: name });
    }
  }

  /** Called when the service listens, since only then its address is certain. @throws Error if a hook posts to it */
  checkHooks(): void {
    const problem = ownHookProblem(this.#file?.current ?? [], this.#options.isOwnUrl);
    if (problem !== undefined) throw new Error(problem);
  }

  readonly #journalsOf = (settings: DestinationSettings): number => {
    const deployments = this.#journals?.deployments() ?? [];
    return deployments.filter((deployment) => appliesTo(settings, deployment)).length;
  };

  /** A reply waits for its acknowledgement, which waits for the next request. */
  #warnOfRate(): void {
    const one = this.#file?.current.find(({ name }) => name === this.acks?.name);
    if (one === undefined) return;
    const requests_per_second = one.ratePerSecond ?? traitsOf[kindOf(one.to, 'destination')].ratePerSecond;
    if (requests_per_second === Number.POSITIVE_INFINITY) return;
    this.#options.notices.warn('each report waits for the next request to the destination of --ack', {
      destination: one.name,
      requests_per_second,
    });
  }

  /** Starts to forward. The journals are open, or can be opened now. */
  begin(): void {
    if (this.#file === undefined || this.#isClosed) return;
    this.#timer = setInterval(() => void this.#look(), this.#options.limits.forwardLookMs).unref();
    this.#beginPipes();
  }

  #beginPipes(): void {
    for (const one of this.#all()) one.begin();
    void this.#look();
  }

  /** @returns the pipes of a journal, by the names of their destinations */
  pipesOf(deployment: Deployment): ReadonlyMap<string, Pipe> {
    return this.#journalPipes.get(deployment)?.pipes ?? new Map();
  }

  /** @returns how far each destination of a journal is */
  statusesOf(deployment: Deployment): readonly DestinationStatus[] {
    return (this.#journalPipes.get(deployment)?.all ?? []).map(({ status }) => status);
  }

  /**
   * The events of a journal that a destination has not received yet and that must not be removed, for
   * `JournalOptions.heldBack`.
   * @returns the earliest of them
   */
  heldBack(deployment: Deployment): HeldBack | undefined {
    let found: HeldBack | undefined;
    for (const { name, hold, ...settings } of this.#file?.current ?? []) {
      if (!hold || !appliesTo(settings, deployment)) continue;
      const fromSeq = this.#journalPipes.get(deployment)?.pipes.get(name)?.sender.ledger.floorSeq ?? 1;
      if (found !== undefined && found.fromSeq <= fromSeq) continue;
      const reason = `the destination ${name} has not received event ${fromSeq} yet; see assetlog forward status`;
      found = { fromSeq, reason };
    }
    return found;
  }

  /** @returns the follower of a journal; its destinations can change later */
  followerOf(deployment: Deployment): Follower {
    return {
      removing: async (_, firstSeq) => this.#journalPipes.get(deployment)?.removing(firstSeq),
      removed: (lastSeq) => this.#journalPipes.get(deployment)?.removed(lastSeq),
    };
  }

  /**
   * Reads the file of destinations again. Pipes that wait or are stopped try again at once, and idle pipes ask at once. Never
   * rejects.
   */
  async reload(): Promise<void> {
    await this.#file?.reload();
    for (const one of this.#all()) one.tryNow();
  }

  /**
   * Called when the destinations or deployments might have changed. Starts new pipes, and ends pipes whose destination is
   * gone.
   * @returns resolves when those pipes have ended. Never rejects
   */
  async update(): Promise<void> {
    if (this.#isClosed || this.#file === undefined) return;
    const { limits, notices } = this.#options;
    const wanted = new Map<Deployment, Map<string, DestinationSettings>>();
    let count = 0;
    for (const deployment of this.#journals?.deployments() ?? []) {
      const own = this.#file.current.filter((settings) => appliesTo(settings, deployment));
      const some = own.slice(0, Math.max(0, limits.sendersMax - count));
      count += own.length;
      if (some.length > 0)
        wanted.set(deployment, new Map(some.map((one) => [one.name, resolveSettings(one, deployment)])));
    }
    if (count > limits.sendersMax && count !== this.#loggedExcess) {
      notices.error('not every event is forwarded', { problem: `it ${tooMany(count, limits)}` });
    }
    this.#loggedExcess = count;
    this.#warnOfNames();
    this.#warnOfAck(this.#file.current);
    for (const deployment of wanted.keys()) this.#add(deployment);
    for (const [deployment, journal] of this.#journalPipes) journal.update(wanted.get(deployment) ?? new Map());
    for (const { pipes } of this.#journalPipes.values()) for (const pipe of pipes.values()) await pipe.readFloor();
    if (this.#timer !== undefined) this.#beginPipes();
    await this.#ended();
  }

  /** Ends the pipes of a journal, and starts new ones after `act`. @throws the errors of `act` */
  async pausing<Result>(deployment: Deployment, act: () => Promise<Result>): Promise<Result> {
    const pipes = this.#journalPipes.get(deployment);
    if (pipes === undefined) return act();
    try {
      return await pipes.closedFor(act);
    } finally {
      await this.update();
    }
  }

  /** The metrics of each destination, for all deployments together. */
  figures(): ForwardFigures[] {
    return (this.#file?.current ?? []).map(({ name, on }) => {
      if (on !== undefined) return this.#alarmFigures(name);
      const of = [...this.#journalPipes.values()].filter(({ pipes }) => pipes.has(name));
      const pipes = of.map(({ pipes }) => pipes.get(name) as Pipe);
      const statuses = pipes.map(({ status }) => status);
      return {
        ...figuresOf(name, statuses),
        lagEvents: sum(statuses.map(({ lag_events }) => lag_events ?? 0)),
        lagSeconds: Math.max(0, ...statuses.map(({ lag_seconds }) => lag_seconds ?? 0)),
        outcomes: total(pipes.map(({ outcomes }) => outcomes)),
        answers: total(pipes.map(({ sender }) => sender.traffic.answers)),
        deadLetters: sum(statuses.map(({ dead_letters }) => dead_letters ?? 0)),
        lostEvents: sum(pipes.map(({ sender }) => sender.ledger.letters?.lostTotal ?? 0)),
        missingEvents: sum(statuses.map(({ lost_events }) => lost_events ?? 0)),
        heldBytes: sum(of.map((journal, at) => journal.heldBytes(pipes[at] as Pipe))),
      };
    });
  }

  #alarmFigures(name: string): ForwardFigures {
    const hooks = [...this.#journalPipes.values()].flatMap((journal) => journal.hooks.get(name) ?? []);
    const statuses = hooks.map(({ status }) => status);
    return {
      ...figuresOf(name, statuses),
      answers: total(hooks.map(({ traffic }) => traffic.answers)),
      alarms: {
        told: sum(statuses.map(({ alarms }) => alarms ?? 0)),
        waiting: sum(statuses.map(({ alarms_waiting }) => alarms_waiting ?? 0)),
        left: sum(statuses.map(({ alarms_left_out }) => alarms_left_out ?? 0)),
        posts: total(hooks.map(({ posts }) => posts)),
      },
    };
  }

  /** A deployment might be added later, so a name without a deployment might not be a mistake. */
  #warnOfNames(): void {
    const known = this.#journals?.deployments() ?? [];
    const listed = (this.#file?.current ?? []).flatMap(({ name, deployments = [] }) =>
      deployments.filter((one) => !known.includes(one)).map((one) => `${one} (destination ${name})`),
    );
    const names = listed.join(', ');
    if (names !== this.#loggedNames && names !== '') {
      this.#options.notices.warn('the file of --forward lists unknown deployments', { names });
    }
    this.#loggedNames = names;
  }

  /** With this problem a start or a new file is refused, but deployments might also be added later. */
  #warnOfAck(all: readonly DestinationSettings[]): void {
    const problem = ackProblem(all, this.#journalsOf, this.#options.config);
    if (problem !== undefined && problem !== this.#loggedAck) {
      this.#options.notices.error('reports of new deployments get 503', {
        problem: `the file of --forward ${problem}`,
      });
    }
    this.#loggedAck = problem;
  }

  /** Ends all pipes, each after its request in flight, which gets `limits.forwardStopMs` to finish. Never rejects. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#file?.stop();
    // They are kept in the map: retention ends later, and still needs them to make their cursors durable.
    await Promise.all([...this.#all()].map((one) => one.close()));
    await this.#ended();
  }

  /** Resolves when all pipes that are being ended have ended. */
  async #ended(): Promise<void> {
    await Promise.all([...this.#journalPipes.values()].map((journal) => journal.ended()));
    for (const [deployment, { isOver }] of this.#journalPipes) if (isOver) this.#journalPipes.delete(deployment);
  }

  *#all(): Generator<Pipe | AlarmHook> {
    for (const { all } of this.#journalPipes.values()) yield* all;
  }

  #add(deployment: Deployment): void {
    if (this.#journalPipes.has(deployment)) return;
    const { diskOf, hub, assetsOf, notices, ...shared } = this.#options;
    const own = deployment === undefined ? notices : notices.with({ deployment });
    const ack = this.acks?.of(deployment);
    const journal: ForwardedJournal = {
      deployment,
      disk: diskOf(deployment),
      source: () => hub().receiverOf(deployment).source(),
      assets: assetsOf && (() => assetsOf(deployment)),
    };
    this.#journalPipes.set(
      deployment,
      new JournalPipes({ ...shared, ...journal, notices: own, ack, clock: this.#clock }),
    );
  }

  /** Wakes the journals, and lets each pipe check for changes of which it is not notified. Never rejects. */
  #look(): Promise<void> {
    this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookOnce(): Promise<void> {
    this.#clock.look();
    for (const [deployment, journal] of this.#journalPipes) {
      if (this.#isClosed) return;
      if (journal.all.length === 0) continue;
      this.#journals?.wake(deployment); // also keeps the journal open, since its lock protects the cursors too
      await journal.look().catch((error: Error) => {
        // The journal uses the same folder, and reports the problem.
        this.#options.notices.debug('the folder of a journal could not be read', { problem: describe(error) });
      });
    }
  }
}

/** @returns the figures of each destination; 0 for figures that only some have */
function figuresOf(destination: string, statuses: readonly DestinationStatus[]) {
  const successes = statuses.map(({ last_success }) => Date.parse(last_success ?? '') / 1000).filter(Boolean);
  return {
    destination,
    states: total([NO_STATES, ...statuses.map(({ state }) => new Map([[state, 1]]))]),
    lastSuccessSeconds: successes.length > 0 ? Math.max(...successes) : undefined,
    outcomes: new Map<string, number>(),
    lagEvents: undefined,
    lagSeconds: undefined,
    deadLetters: undefined,
    lostEvents: 0,
    missingEvents: 0,
    heldBytes: undefined,
    alarms: undefined,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

/** Includes states that no destination has, so that each state has a time series. */
const NO_STATES: ReadonlyMap<string, number> = new Map(pipeStates.map((state) => [state, 0]));

/** @returns the sums by name */
function total(counts: readonly (ReadonlyMap<string, number> | undefined)[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts.flatMap((one) => [...(one ?? [])])) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}
