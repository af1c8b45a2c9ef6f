/** Wires the rooms together, in the order in which they start and stop. What an embedder calls. */

import { lookup } from 'node:dns/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClientAddress } from './config/client-address.ts';
import type { Config } from './config/config.ts';
import { type ExitCode, exitCodes } from './config/exit-codes.ts';
import { otherWriters } from './config/files.ts';
import { type Limits, limits as standardLimits } from './config/limits.ts';
import { watchDeployments } from './deployments/file.ts';
import { Hosted } from './deployments/journals.ts';
import { createTokenDoor } from './deployments/tokens.ts';
import { type Endpoint, endpoints as standardEndpoints } from './event/parameters.ts';
import { type AppParts, createApp, readinessOf, type Site } from './http/app.ts';
import { type Listener, type ListenerOptions, listen } from './http/listener.ts';
import type { App } from './http/message.ts';
import { openApi } from './http/openapi.ts';
import { createAccess, hostOf, isLoopback } from './http/origin.ts';
import { type Disk, describe, isFull, openDisk } from './journal/disk.ts';
import { watchSpace } from './journal/free-space.ts';
import { Journal } from './journal/journal.ts';
import { eventSchema } from './journal/line-schema.ts';
import { InUseError, type Lock, lockFolder } from './journal/lock.ts';
import { hazardOf } from './journal/mount.ts';
import { DamagedError } from './journal/recovery.ts';
import type { Notices } from './telemetry/log.ts';
import { Metrics } from './telemetry/metrics.ts';

/** Why a start failed, in one line that says what to do. */
export class StartError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

export interface Service {
  /** The base address for clients, with the path prefix. */
  readonly url: string;
  /** In hosted mode the first deployment, as an example of what follows the address; `NAME` where there is none yet. */
  readonly deployment: string | undefined;
  /** Resolves when the service has ended, by `stop` or because its disk failed. */
  readonly ended: Promise<ExitCode>;
  /** Not ready, stop accepting, finish what was read, sync, and leave the folder to others. */
  stop(): Promise<void>;
  /** Reads the deployments again, in hosted mode. */
  reload(): Promise<void>;
}

/** Where reports go: into the one journal of a local service, or into one for each deployment. */
interface Recording extends Pick<AppParts, 'findSite' | 'tokenHeaders'> {
  /** See `Service`. */
  readonly deployment: string | undefined;
  /** Resolves when reports are taken. */
  open(): Promise<void>;
  /** Why nothing at all can be recorded, or undefined. */
  readonly trouble: string | undefined;
  /** The deployments that can not record, and why. */
  troubles(): ReadonlyMap<string, string>;
  reload(): Promise<void>;
  /** Gives up, since the data folder is not locked any more. May be called again. */
  abandon(error: Error): void;
  close(): Promise<void>;
}

/** What a test or an embedder may replace. */
export interface Parts {
  readonly limits?: Limits;
  /** What can be reported. */
  readonly endpoints?: readonly Endpoint[];
  readonly openDisk?: (folder: string) => Disk;
  /** The descriptor of a socket that listens already; the configuration's host and port do not count then. */
  readonly fd?: number | undefined;
  /** The service does not keep its process alive. */
  readonly background?: boolean;
  /** A full garbage collection, called after each `limits.collectBytes` of bodies; else V8 alone decides when. */
  readonly collectGarbage?: () => void;
  /** Put around what handles requests. */
  readonly aroundApp?: (app: App) => App;
  /** Called when a journal is open and when a batch is durable: the lines before `nextSeq` are in the folder. */
  readonly onRecorded?: (folder: string, nextSeq: number) => void;
}

/**
 * Locks the folder, listens, recovers the journal; resolves when reports are taken. On a disk that is too full for the folder
 * or for the lock's file it listens first, not ready, and locks the folder when that fits.
 * @throws StartError, after which folder and port are free again
 */
export async function startService(config: Config, notices: Notices, parts: Parts = {}): Promise<Service> {
  const standard = { limits: standardLimits, endpoints: standardEndpoints, openDisk, background: false };
  const all = { ...standard, aroundApp: (app: App) => app, ...parts };
  const disk = all.openDisk(config.data);
  const at = all.fd === undefined ? { host: await resolveHost(config.host), port: config.port } : { fd: all.fd };
  const folder: Folder = {
    lock: await takeFolder(disk, (error) => notices.error(NO_SPACE, { problem: describe(error) })),
  };
  try {
    return await startListening(config, notices, { ...all, disk, at, folder, metrics: new Metrics() });
  } catch (error) {
    await folder.lock?.release();
    throw error;
  }
}

/** The data folder: nothing in it is touched before it is locked. */
interface Folder {
  /** Undefined while the disk is too full to lock it. */
  lock: Lock | undefined;
}

interface Held extends Parts {
  readonly limits: Limits;
  readonly endpoints: readonly Endpoint[];
  readonly metrics: Metrics;
  readonly openDisk: (folder: string) => Disk;
  readonly background: boolean;
  readonly aroundApp: (app: App) => App;
  readonly disk: Disk;
  readonly at: ListenerOptions['at'];
  readonly folder: Folder;
}

async function startListening(config: Config, notices: Notices, held: Held): Promise<Service> {
  const { disk, folder, limits, endpoints, background, metrics } = held;
  let stopping: Promise<void> | undefined;
  let exitCode: ExitCode = exitCodes.done;
  let end!: (code: ExitCode) => void;
  const ended = new Promise<ExitCode>((resolve) => {
    end = resolve;
  });
  const isHosted = config.deployments !== '';
  const recording = isHosted
    ? await recordForDeployments(config, notices, held, onLockLost)
    : recordLocally(config, notices, held, onFailed);
  const createAppAt = (address: string) =>
    held.aroundApp(
      createApp({
        endpoints,
        pathPrefix: config.pathPrefix,
        checkAccess: createAccess({ address, allowedHosts: config.allowedHost }),
        tokenHeaders: recording.tokenHeaders,
        findSite: recording.findSite,
        readiness: () =>
          readinessOf(
            stopping === undefined
              ? ((folder.lock === undefined ? NO_SPACE : recording.trouble) ?? space.trouble)
              : 'the service is stopping',
            recording.troubles(),
          ),
        contract: () =>
          JSON.stringify(
            openApi({
              server: config.pathPrefix || '/',
              lineSchema: eventSchema(),
              tokenHeader: isHosted ? config.tokenHeader : undefined,
              endpoints,
            }),
          ),
        metrics,
        freeBytes: () => space.freeBytes,
        notices,
      }),
    );
  await warnOfHazards(disk, folder.lock, notices);
  const space = await watchSpace(disk, config.minFreeBytes, limits, notices);
  const open = async () => {
    folder.lock ??= await waitForFolder(disk, limits);
    await recording.open();
  };
  // Who reports to a passed socket waits in its queue while the journal is opened; after a while it is told why.
  const opened = held.fd === undefined ? undefined : open();
  if (opened !== undefined)
    await Promise.race([opened, sleep(limits.openWaitMs, undefined, { ref: false })]).catch(() => {}); // see below
  // Else the listener comes first, so that a start that has much to read is seen to be alive, and not ready.
  const { maxConnections } = config;
  const { at, collectGarbage } = held;
  const options = { at, background, maxConnections, limits, metrics, notices, createApp: createAppAt, collectGarbage };
  const listener = await listenOn(options).catch(async (error: StartError) => {
    await release();
    throw error;
  });
  const { address, port } = listener;
  if (!isHosted && !isLoopback(address)) {
    notices.warn('anybody who can reach this address may report; see --deployments, or use --host 127.0.0.1', {
      address,
    });
  }
  try {
    await (opened ?? open());
  } catch (error) {
    await listener.close();
    await release();
    throw recoveryFailed(disk, error as Error);
  }
  folder.lock?.watch(limits.lockCheckMs, (error) => recording.abandon(error));

  return {
    url: `http://${hostOf(address)}:${port}${config.pathPrefix}`,
    deployment: recording.deployment,
    ended,
    stop() {
      stopping ??= stop();
      return stopping;
    },
    reload: () => recording.reload(),
  };

  function release(): Promise<void> {
    space.stop();
    return recording.close();
  }

  async function stop(): Promise<void> {
    await listener.close();
    const closed = release().then(() => true);
    if (!(await Promise.race([closed, sleep(limits.lastSyncMs, false, { ref: false })]))) {
      exitCode = exitCodes.diskFailed;
      notices.error('the disk did not finish the last sync; the service ends without it', { ms: limits.lastSyncMs });
      // Until then the disk may write to the folder, and does not answer the removal of a file either. At the latest the lock goes
      // with the process.
      void closed.then(() => folder.lock?.release());
      return end(exitCode);
    }
    await folder.lock?.release();
    end(exitCode);
  }

  /** Of the folder around those of the deployments. Each of those has a lock of its own, so what was read can be finished. */
  function onLockLost(error: Error): void {
    if (stopping !== undefined) return;
    exitCode = exitCodes.diskFailed;
    notices.error('the data folder is not locked any more and the service ends', { problem: error.message });
    stopping = stop();
  }

  function onFailed(error: Error): void {
    space.stop();
    exitCode = exitCodes.diskFailed;
    notices.error('the disk failed and the service ends; its next start finds out what is on the disk', {
      problem: error.message,
    });
    // Everybody who waited has been answered; give the answers a moment to leave.
    stopping ??= Promise.race([listener.close(), sleep(limits.lastRepliesMs)])
      .then(() => folder.lock?.release())
      .then(() => end(exitCode));
  }
}

function recordLocally(
  config: Config,
  notices: Notices,
  { disk, folder, limits, metrics, onRecorded }: Held,
  onFailed: (error: Error) => void,
): Recording {
  const { pathPrefix, segmentBytes } = config;
  const recorded = onRecorded?.bind(undefined, disk.folder);
  const options = { disk, notices, segmentBytes, retain: config, limits, metrics, onFailed, onRecorded: recorded };
  const journal = new Journal({ ...options, checkHeld: () => folder.lock?.checkHeld() });
  const site = {
    prefix: pathPrefix,
    append: journal.append.bind(journal),
    refusal: journal.refusal.bind(journal),
  };
  return {
    deployment: undefined,
    tokenHeaders: new Set(),
    findSite: () => site,
    open: () => {
      folder.lock?.shareDurable(() => journal.nextSeq);
      return journal.open();
    },
    get trouble() {
      return journal.trouble;
    },
    troubles: () => new Map(),
    reload: async () => {},
    abandon: (error) => journal.abandon(error),
    close: () => journal.close(),
  };
}

async function recordForDeployments(
  config: Config,
  notices: Notices,
  held: Held,
  onLockLost: (error: Error) => void,
): Promise<Recording> {
  const { pathPrefix, segmentBytes, tokenHeader } = config;
  const { disk, folder, limits, endpoints, metrics, onRecorded } = held;
  const openFor = (name: string) => held.openDisk(join(disk.folder, name));
  const options = { pathPrefix, openDisk: openFor, onRecorded, segmentBytes, retain: config, limits, metrics, notices };
  const hosted = new Hosted(options);
  const file = await watchDeployments(config.deployments, { limits, notices }, ({ tokensOf }) =>
    hosted.keepOnly((name) => tokensOf.has(name)),
  ).catch((error: Error) => {
    throw new StartError(exitCodes.configuration, error.message);
  });
  await warnOfWriters(config.deployments, notices);
  const door = createTokenDoor({
    pathPrefix,
    endpoints,
    deployments: () => file.current,
    tokenHeader,
    clientAddress: createClientAddress(config.trustedProxy),
    limits,
    nowMs: () => Date.now(),
  });
  return {
    deployment: file.current.tokensOf.keys().next().value ?? 'NAME',
    tokenHeaders: new Set([tokenHeader.toLowerCase(), 'dagster-cloud-api-token']),
    findSite: (head, incoming) => {
      const journal = hosted.journalOf(door(head, incoming));
      return folder.lock === undefined ? { ...NO_FOLDER, prefix: journal.prefix } : journal;
    },
    open: async () => {},
    trouble: undefined,
    troubles: () => hosted.troubles(),
    reload: () => file.reload(),
    abandon: onLockLost,
    close: () => {
      file.stop();
      return hosted.close();
    },
  };
}

async function warnOfHazards(disk: Disk, lock: Lock | undefined, notices: Notices): Promise<void> {
  const mount = await disk.mount();
  const hazard = mount && hazardOf(mount);
  for (const sentence of [hazard, lock?.hazard]) if (sentence !== undefined) notices.warn(sentence);
  const { folder } = disk;
  if ((await otherWriters(folder))?.everybody !== true) return;
  const problem =
    'everybody on this machine may write to the data folder, and so change or remove events; chmod o-w it';
  notices.warn(problem, { folder });
}

async function warnOfWriters(deployments: string, notices: Notices): Promise<void> {
  const writers = await otherWriters(deployments);
  if (writers === undefined) return;
  const [who, mode] = writers.everybody ? ['everybody on this machine', 'go-w'] : [`the group ${writers.gid}`, 'g-w'];
  notices.warn(`${who} may write to the deployments file, and so decide who may report; chmod ${mode} it`, {
    file: deployments,
  });
}

async function resolveHost(host: string): Promise<string> {
  try {
    return (await lookup(host)).address;
  } catch (error) {
    throw new StartError(
      exitCodes.configuration,
      `--host ${host} is not an address of this machine: ${(error as Error).message}`,
    );
  }
}

const NO_SPACE = 'the disk is full; the service waits for space to lock its data folder';

/** Takes no reports. */
const NO_FOLDER: Omit<Site, 'prefix'> = {
  append: (_event, _bodyBytes, done) => done(NO_SPACE),
  refusal: () => NO_SPACE,
};

/**
 * @param onFull called on a disk that is too full for it
 * @returns undefined then: it may be tried again
 * @throws StartError
 */
async function takeFolder(disk: Disk, onFull: (error: Error) => void): Promise<Lock | undefined> {
  const { folder } = disk;
  try {
    await disk.prepare();
    return await lockFolder(folder);
  } catch (error) {
    if (isFull(error as NodeJS.ErrnoException)) {
      onFull(error as Error);
      return undefined;
    }
    if (error instanceof InUseError) throw new StartError(exitCodes.inUse, error.message);
    throw new StartError(
      exitCodes.configuration,
      `the data folder ${folder} can not be used: ${(error as Error).message}; make it writable or choose another with --data`,
    );
  }
}

/** An attempt makes no more than a folder and a socket, so it is made often. @throws StartError */
async function waitForFolder(disk: Disk, limits: Limits): Promise<Lock> {
  for (;;) {
    await sleep(limits.probeMs);
    const lock = await takeFolder(disk, () => {}); // the first attempt was logged
    if (lock !== undefined) return lock;
  }
}

async function listenOn(options: ListenerOptions): Promise<Listener> {
  try {
    return await listen(options);
  } catch (error) {
    throw new StartError(exitCodes.configuration, listenProblem(options, error as NodeJS.ErrnoException));
  }
}

function listenProblem({ at }: ListenerOptions, { code, message }: NodeJS.ErrnoException): string {
  if ('fd' in at) {
    return `can not listen on the socket that was passed: ${message}; its unit needs a ListenStream= with a port`;
  }
  const { host, port } = at;
  return code === 'EADDRINUSE'
    ? `port ${port} on ${host} is busy; stop what listens there or choose another with --port`
    : `can not listen on ${host} port ${port}: ${message}; choose another with --host and --port`;
}

function recoveryFailed({ folder }: Disk, error: Error): StartError {
  if (error instanceof StartError) return error;
  if (error instanceof DamagedError) return new StartError(exitCodes.damaged, error.message);
  return new StartError(exitCodes.diskFailed, `the journal in ${folder} can not be opened: ${error.message}`);
}
