/**
 * The services to which a service forwards, and those whose events it accepts: the parts of forwarding that the steps of a
 * start use.
 */

import type { AllAssets } from '../assets/all-assets.ts';
import { exitCodeOf, exitCodes } from '../config/exit-codes.ts';
import { forwards } from '../config/options-of-service.ts';
import type { Acks } from '../forward/acks.ts';
import type { Forwarder } from '../forward/forwarder.ts';
import { Hub } from '../forward/hub/hub.ts';
import type { Pipe } from '../forward/pipe/pipe.ts';
import type { DestinationStatus } from '../forward/pipe/status.ts';
import type { Follower, HeldBack } from '../journal/follower.ts';
import type { ForwardFigures } from '../telemetry/metrics.ts';
import type { DataFolder } from './folder.ts';
import { leadsTo } from './listening.ts';
import type { Recording } from './recording.ts';
import type { Setup } from './setup.ts';
import { resolvesWithin } from './shutdown.ts';
import { StartError } from './start-error.ts';
import { warnOfWriters } from './writers.ts';

/**
 * Its methods are called in this order: `create`, `open` before the journals, `onListening`, and `begin` after the
 * journals are open.
 */
export class Peers {
  readonly hub: Hub;
  readonly #setup: Setup;
  #forwarding: Forwarder | undefined;

  private constructor(setup: Setup, { disk }: DataFolder) {
    const { config, openDisk, progress, limits, notices } = setup;
    const { retainBytes, retainDays, keepFree, deployments } = config;
    const removes = (retainBytes ?? retainDays ?? keepFree) !== undefined || deployments !== '';
    this.#setup = setup;
    this.hub = new Hub({ data: disk.folder, removes, openDisk, progress, limits, notices });
  }

  /** If no destination is configured, the code of forwarding is not loaded. A hub can forward too. */
  static async create(setup: Setup, folder: DataFolder, assets: AllAssets): Promise<Peers> {
    const peers = new Peers(setup, folder);
    if (forwards(setup.config)) await peers.#load(folder, assets);
    return peers;
  }

  async #load(folder: DataFolder, assets: AllAssets): Promise<void> {
    const { config, hostName, progress, limits, notices, metrics, onForwarded, openClient } = this.#setup;
    const { refusedFiles, later } = this.#setup;
    const { Forwarder } = await import('../forward/forwarder.ts');
    this.#forwarding = new Forwarder({
      config,
      sourceName: config.name || hostName,
      progress,
      limits,
      notices,
      openClient,
      refusedFiles,
      onForwarded,
      onAcknowledged: (ms) => metrics.acknowledged(ms),
      diskOf: (deployment) => folder.diskOf(deployment),
      hub: () => this.hub,
      assetsOf: (deployment) => assets.of(deployment),
      isOwnUrl: (url) => later.boundTo !== undefined && leadsTo(url, later.boundTo, config.allowedHost),
    });
  }

  /** Set with --ack. */
  get acks(): Acks | undefined {
    return this.#forwarding?.acks;
  }

  /**
   * @returns the followers of a journal: those for received events, and those for sent ones. Called before each opening of the
   * journal
   */
  followersOf(deployment: string | undefined): readonly Follower[] {
    const own = this.hub.followerOf(deployment);
    return this.#forwarding === undefined ? [own] : [own, this.#forwarding.followerOf(deployment)];
  }

  /** Used for `JournalOptions.heldBack`. */
  heldBack(deployment: string | undefined): HeldBack | undefined {
    return this.#forwarding?.heldBack(deployment);
  }

  /**
   * Reads the destinations, before a journal is opened.
   * @throws StartError if an option or the file with the destinations is wrong
   */
  async open(recording: Recording): Promise<void> {
    const { config, notices, limits, shutdown } = this.#setup;
    const forwarding = this.#forwarding;
    if (forwarding === undefined) return;
    await forwarding.open(recording).catch((error: Error) => {
      throw new StartError(exitCodeOf(error), error.message);
    });
    if (config.forward !== '') {
      const what = 'the file of --forward, and so decide where events and tokens go';
      await warnOfWriters(config.forward, what, this.#setup);
    }
    const ms = limits.forwardStopMs + limits.lastCallMs;
    shutdown.add(async () => {
      if (await resolvesWithin(forwarding.close(), ms)) return;
      notices.error('forwarding did not end; its next start asks each destination how far it is', { ms });
    });
  }

  /** Called when the address of the service is known. @throws StartError if a hook posts to the service itself */
  onListening(): void {
    const { limits, shutdown } = this.#setup;
    const { acks } = this;
    try {
      this.#forwarding?.checkHooks();
    } catch (error) {
      throw new StartError(exitCodes.configuration, (error as Error).message);
    }
    // At the same time the listener finishes the requests that were read. With --ack their replies wait for a pipe.
    shutdown.add((cause) => {
      if (acks === undefined) void this.#forwarding?.close();
      else acks.end(cause === 'journal failed' ? 0 : limits.forwardStopMs);
    });
  }

  begin(): void {
    this.#forwarding?.begin();
  }

  /** @returns the destinations, for the metrics */
  figures(): readonly ForwardFigures[] {
    return this.#forwarding?.figures() ?? [];
  }

  /** @returns the pipes of a journal by the names of their destinations */
  pipesOf(deployment: string | undefined): ReadonlyMap<string, Pipe> {
    return this.#forwarding?.pipesOf(deployment) ?? new Map();
  }

  /** @returns how far each destination of a journal is */
  statusesOf(deployment: string | undefined): readonly DestinationStatus[] {
    return this.#forwarding?.statusesOf(deployment) ?? [];
  }

  /** Called when the deployments might have changed. Resolves when forwarding from removed ones has ended. Never rejects. */
  async update(): Promise<void> {
    await this.#forwarding?.update();
  }

  /**
   * Ends the pipes of a journal, and starts new ones after `act`, so that they have nothing of it in memory. @throws the errors of
   * `act`
   */
  pausing<Result>(deployment: string | undefined, act: () => Promise<Result>): Promise<Result> {
    return this.#forwarding?.pausing(deployment, act) ?? act();
  }

  /** Reads the destinations again. Those that wait or are stopped try again at once. Never rejects. */
  async reload(): Promise<void> {
    await this.#forwarding?.reload();
  }
}
