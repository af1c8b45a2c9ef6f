/** Wires the parts of a service, and starts and stops them in order: lock, record, listen, open. */

import { lookup } from 'node:dns/promises';
import { join } from 'node:path';
import { createClientAddress } from './config/client-address.ts';
import { type Config, forwards, version } from './config/config.ts';
import { type ExitCode, exitCodes } from './config/exit-codes.ts';
import { type Limits, limits as standardLimits } from './config/limits.ts';
import { type Endpoint, endpoints as standardEndpoints } from './event/parameters.ts';
import type { Forwarding } from './forward/forwarding.ts';
import { Hub } from './forward/hub/hub.ts';
import { createApp, readinessOf } from './http/app.ts';
import { type ListenAt, type Listener, listen } from './http/listener.ts';
import type { App } from './http/message.ts';
import { createAccess, hostOf, isLoopback } from './http/origin.ts';
import { pageRoutes } from './http/page/page.ts';
import { type Disk, openDisk } from './journal/disk.ts';
import { type SpaceWatch, watchSpace } from './journal/free-space.ts';
import { KeyMemory } from './journal/idempotency-memory.ts';
import { OwnProgress } from './journal/progress.ts';
import { DamagedError } from './journal/recovery.ts';
import { AssetMemory } from './reading/assets.ts';
import { ReadableJournals } from './reading/journals.ts';
import { readingRoutes } from './reading/routes.ts';
import { makeContract } from './service/contract.ts';
import { DataFolder } from './service/folder.ts';
import { recordForDeployments, warnOfWriters } from './service/hosted.ts';
import { recordLocally } from './service/local.ts';
import { createFindReadable, isReadingOn } from './service/readable.ts';
import type { Recording } from './service/recording.ts';
import { resolvesWithin, Shutdown } from './service/shutdown.ts';
import { exitCodeOf, StartError } from './service/start-error.ts';
import { Activity, type Terminal } from './telemetry/activity.ts';
import type { Notices } from './telemetry/log.ts';
import { Metrics } from './telemetry/metrics.ts';
import { Refusals, type RefusedRequest } from './telemetry/refusals.ts';
import type { TestMode } from './test-mode/test-mode.ts';

export { StartError };

/** A service that accepts reports, such as one at `http://127.0.0.1:3000`. */
export interface Service {
  /** The base address for clients, with the path prefix: `http://127.0.0.1:3000/some/path`. */
  readonly url: string;
  /** In hosted mode the first deployment, as an example of what follows the address; `NAME` if there is none yet. */
  readonly deployment: string | undefined;
  /** Resolves when the service has ended, to the exit code of the process: 0 after `stop`, 5 after its disk failed. Never rejects. */
  readonly ended: Promise<ExitCode>;
  /** Graceful shutdown: turns not ready, stops accepting, finishes the requests that were read, syncs, and unlocks the folder. Never rejects. */
  stop(): Promise<void>;
  /** Reads the deployments and the destinations again, and lets destinations that wait or are stopped try at once. Never rejects. */
  reload(): Promise<void>;
  /** Faults, and a journal that can begin anew; undefined without `Config.test`. */
  readonly testMode: TestMode | undefined;
}

/**
 * Parts of a service that a test or an embedding program may replace: `{ limits: { ...limits, idleMs: 100 }, background: true }`.
 */
export interface ServiceParts {
  /** The limits; those of `config/limits.ts` if they are absent. */
  readonly limits?: Limits;
  /** The endpoints that accept reports, one for each type of event. */
  readonly endpoints?: readonly Endpoint[];
  /** @returns the file system access of a folder; a test hands in a function whose disks fail */
  readonly openDisk?: (folder: string) => Disk;
  /** Descriptor of a listening socket (socket activation). The configuration's host and port are then ignored. */
  readonly fd?: number | undefined;
  /** Whether the process may exit while the service runs, as with `unref`. */
  readonly background?: boolean;
  /** Runs a full garbage collection. Called after each `limits.collectBytes` of bodies; without it V8 alone decides when. */
  readonly collectGarbage?: () => void;
  /** Called with the bytes of events that were forwarded. */
  readonly onForwarded?: (bytes: number) => void;
  /** The terminal that shows the log: it gets colours, and a line for each recorded event. */
  readonly terminal?: Terminal | undefined;
  /** Called with each refused request, also with bytes that are none. */
  readonly onRefused?: (request: RefusedRequest) => void;
  /** Wraps each reset of a service for tests: until `reset` is called and after it resolves, the journal can be read. */
  readonly aroundReset?: (reset: () => Promise<void>) => Promise<void>;
  /** Called when a journal is open and after each durable batch. The lines before `nextSeq` are then in the folder. */
  readonly onRecorded?: (folder: string, nextSeq: number) => void;
}

/**
 * Locks the folder, listens and recovers the journal. Resolves when reports are accepted. If the disk is too full for the folder
 * or the lock file, the service listens first, not ready, and locks the folder as soon as there is space. For example
 * `(await startService(config, notices)).url` is `http://127.0.0.1:3000`.
 * @param config as `readConfig` returns it
 * @throws StartError, whose exit code is 2, 3, 4 or 5, after which the folder and the port are free again
 */
export async function startService(config: Config, notices: Notices, parts: ServiceParts = {}): Promise<Service> {
  const standard = { limits: standardLimits, endpoints: standardEndpoints, openDisk, background: false };
  const shutdown = new Shutdown();
  const metrics = new Metrics();
  const { terminal, limits = standardLimits } = parts;
  const addressOf = createClientAddress(config.trustedProxy);
  const refusals = new Refusals({ addressOf, nowMs: () => Date.now(), limits });
  const add = (request: RefusedRequest) => {
    refusals.add(request);
    parts.onRefused?.(request);
  };
  const activity = new Activity({ notices, terminal, quiet: config.quiet, refusals: { add }, limits });
  shutdown.add(() => activity.close());
  const keyMemory = openKeyMemory(config.idempotencyKeys ?? limits.idempotencyKeysMax, notices);
  metrics.keys = keyMemory;
  const progress = new OwnProgress();
  const onRecorded = (folder: string, nextSeq: number) => {
    progress.recorded(folder, nextSeq);
    parts.onRecorded?.(folder, nextSeq);
  };
  const own = { config, notices, metrics, keyMemory, activity, refusals, progress, onRecorded, shutdown };
  const setup = { ...standard, ...parts, ...own };
  try {
    return await start(setup);
  } catch (error) {
    await shutdown.run('start failed');
    throw (error as NodeJS.ErrnoException).code === undefined ? error : startFailed(error as Error);
  }
}

/** @param error of a system call that no step of the start explains */
function startFailed(error: Error): StartError {
  return new StartError(exitCodeOf(error), `the start failed: ${error.message}`);
}

/** @returns undefined if no keys are to be remembered, which is logged */
function openKeyMemory(keysMax: number, notices: Notices): KeyMemory | undefined {
  if (keysMax > 0) return new KeyMemory(keysMax);
  notices.warn('Idempotency-Key is ignored: a report that is sent again is recorded again');
  return undefined;
}

/** What each step of the start uses. */
interface Setup extends ServiceParts {
  readonly config: Config;
  readonly notices: Notices;
  readonly limits: Limits;
  readonly endpoints: readonly Endpoint[];
  readonly openDisk: (folder: string) => Disk;
  readonly background: boolean;
  readonly metrics: Metrics;
  readonly activity: Activity;
  readonly refusals: Refusals;
  readonly keyMemory: KeyMemory | undefined;
  /** How far each journal is durable, for the routes that read. */
  readonly progress: OwnProgress;
  /** Each step of the start that acquires a resource adds the function that releases it. */
  readonly shutdown: Shutdown;
}

async function start(setup: Setup): Promise<Service> {
  const { config, fd, limits, shutdown } = setup;
  const at = await addressToListenAt(config, fd);
  const folder = await lock(setup);
  const forwarding = await createForwarding(setup, folder);
  const viaOf = (deployment: string | undefined) => forwarding?.viaOf(deployment) ?? [];
  const freshVia = async (deployment: string | undefined, asking: readonly string[]) =>
    forwarding?.freshVia(deployment, asking) ?? true;
  const hub = new Hub({ ...setup, data: folder.disk.folder, viaOf, freshVia });
  setup.metrics.hubSources = () => hub.sourceCount;
  setup.metrics.hubLostEvents = () => hub.lostEvents;
  const recording = await record(setup, folder, forwarding, hub);
  if (forwarding !== undefined) await readDestinations(setup, forwarding, recording);
  const space = await watchFreeSpace(setup, folder, recording);
  let opened: Promise<void> | undefined;
  const open = () => {
    opened ??= openJournals(folder, recording);
    return opened;
  };
  // Clients of a passed socket wait in its accept queue while the journal is opened; after openWaitMs they get 503.
  if (fd !== undefined) await resolvesWithin(open(), limits.openWaitMs);
  // Else the listener comes first: during a long recovery /livez answers 200 and /readyz 503.
  const journals = new ReadableJournals({ ...setup, data: folder.disk.folder });
  const assets = new AssetMemory({ journals, limits });
  shutdown.add(() => assets.close());
  const testMode = config.test ? await createTestMode(setup, recording, journals, assets) : undefined;
  const { address, port } = await listenAt(at, setup, { folder, recording, space, journals, assets, hub, testMode });
  shutdown.add(() => void forwarding?.close()); // meanwhile the listener finishes the requests that were read
  await open();
  folder.watch((error) => recording.abandon(error));
  forwarding?.begin();
  return {
    url: `http://${hostOf(address)}:${port}${config.pathPrefix}`,
    deployment: recording.deployment,
    ended: shutdown.ended,
    stop: () => shutdown.run('stop requested'),
    reload: async () => {
      await recording.reload();
      await forwarding?.reload();
    },
    testMode,
  };
}

/** @returns undefined if nothing is to be forwarded: the code for it is not loaded then */
async function createForwarding(setup: Setup, folder: DataFolder): Promise<Forwarding | undefined> {
  if (!forwards(setup.config)) return undefined;
  const { Forwarding } = await import('./forward/forwarding.ts');
  return new Forwarding({ ...setup, diskOf: (deployment) => openDiskOf(setup, folder, deployment) });
}

/** What handles the requests of a service. */
interface Parts {
  readonly folder: DataFolder;
  readonly recording: Recording;
  readonly space: SpaceWatch;
  readonly journals: ReadableJournals;
  readonly assets: AssetMemory;
  readonly hub: Hub;
  readonly testMode: TestMode | undefined;
}

/** The test mode, whose reset also forgets what was derived from the journal. */
async function createTestMode(
  setup: Setup,
  recording: Recording,
  journals: ReadableJournals,
  assets: AssetMemory,
): Promise<TestMode> {
  const { TestMode } = await import('./test-mode/test-mode.ts');
  const { refusals, aroundReset = (reset) => reset() } = setup;
  const begin = async () => {
    await journals.of(undefined).beginAnew(() => recording.beginAnew());
    assets.beginAnew();
    refusals.clear();
  };
  let last: Promise<void> = Promise.resolve();
  const beginAnew = () =>
    aroundReset(() => {
      last = last.catch(() => {}).then(begin); // one after the other
      return last;
    });
  return new TestMode({ ...setup, beginAnew });
}

async function lock({ config, notices, limits, openDisk, shutdown }: Setup): Promise<DataFolder> {
  const folder = await DataFolder.lock(openDisk(config.data), limits, notices);
  shutdown.add(() => folder.release());
  return folder;
}

function openDiskOf({ openDisk }: Setup, { disk }: DataFolder, deployment: string | undefined): Disk {
  return deployment === undefined ? disk : openDisk(join(disk.folder, deployment));
}

async function record(
  setup: Setup,
  folder: DataFolder,
  forwarding: Forwarding | undefined,
  hub: Hub,
): Promise<Recording> {
  const { config, notices, limits, shutdown } = setup;
  const hooksOf = (deployment: string | undefined) => {
    const hooks = hub.hooksOf(deployment);
    return {
      ...hooks,
      heldBack: () => forwarding?.heldBack(deployment),
      removing: async (last: number, first: number) => {
        await hooks.removing(last, first);
        await forwarding?.removing(deployment, { first, last });
      },
    };
  };
  const options = { ...setup, folder, hooksOf, onDeployments: async () => forwarding?.update() };
  const recording =
    config.deployments === '' ? recordLocally(options, onFailed) : await recordForDeployments(options, onLockLost);
  setup.refusals.deploymentIn = recording.deploymentIn;
  setup.refusals.isToken = recording.isToken;
  setup.activity.isToken = recording.isToken;
  shutdown.add(async () => {
    const closed = recording.close();
    if (await resolvesWithin(closed, limits.lastSyncMs)) return;
    shutdown.exitCode = exitCodes.diskFailed;
    notices.error('the disk did not finish the last sync; the service ends without it', { ms: limits.lastSyncMs });
    // Until `closed` resolves the disk may still write to the folder, and removing the lock file would hang as well.
    folder.keepUntil(closed);
  });
  return recording;

  /** Each deployment's folder has its own lock, so the requests that were read can still be finished. */
  function onLockLost({ message }: Error): void {
    if (shutdown.hasBegun) return;
    shutdown.exitCode = exitCodes.diskFailed;
    notices.error('the data folder is not locked any more and the service ends', { problem: message });
    void shutdown.run('lock lost');
  }

  function onFailed({ message }: Error): void {
    shutdown.exitCode = exitCodes.diskFailed;
    notices.error('the disk failed and the service ends; its next start finds out what is on the disk', {
      problem: message,
    });
    void shutdown.run('disk failed');
  }
}

/** @throws StartError if an option or the file with the destinations is wrong */
async function readDestinations(setup: Setup, forwarding: Forwarding, recording: Recording): Promise<void> {
  const { config, notices, limits, metrics, shutdown } = setup;
  await forwarding.open(recording).catch((error: Error) => {
    throw new StartError(exitCodeOf(error), error.message);
  });
  if (config.forward !== '') {
    await warnOfWriters(config.forward, 'the file of --forward, and so decide where events and tokens go', notices);
  }
  metrics.forwarding = () => forwarding.figures();
  const ms = limits.forwardStopMs + limits.lastCallMs;
  shutdown.add(async () => {
    if (await resolvesWithin(forwarding.close(), ms)) return;
    notices.error('forwarding did not end; its next start asks each destination how far it is', { ms });
  });
}

/** @throws StartError if the disk is not larger than the space that is to be kept free */
async function watchFreeSpace(
  { config, notices, limits, shutdown }: Setup,
  { disk }: DataFolder,
  recording: Recording,
): Promise<SpaceWatch> {
  const space = await watchSpace(disk, config, limits, notices, () => void recording.makeSpace());
  shutdown.add(() => space.stop());
  const { keepFree = 0, retainBytes = 0 } = config;
  const { totalBytes = Number.POSITIVE_INFINITY } = space;
  if (retainBytes >= totalBytes && keepFree === 0) {
    notices.warn(
      '--retain-bytes exceeds the disk, so the disk is full before old events are removed, and reports get 503; give less, or --keep-free',
      { retain_bytes: retainBytes, disk_bytes: totalBytes },
    );
  }
  if (keepFree < totalBytes) return space;
  throw new StartError(
    exitCodes.configuration,
    `--keep-free is ${keepFree}, but the disk of ${disk.folder} has ${totalBytes} bytes: every file would be removed; give less`,
  );
}

/** @throws StartError */
async function listenAt(at: ListenAt, setup: Setup, parts: Parts): Promise<Listener> {
  const { config, notices, limits, shutdown } = setup;
  const { maxConnections } = config;
  const { background, metrics, activity, collectGarbage } = setup;
  const createAppAt = (address: string) => createAppFor(address, setup, parts);
  const shared = { background, maxConnections, limits, metrics, notices, activity, collectGarbage };
  const options = { ...shared, at, createApp: createAppAt };
  const listener = await listen(options).catch((error: NodeJS.ErrnoException) => {
    throw new StartError(exitCodes.configuration, listenProblem(at, error));
  });
  shutdown.add(async (cause) => {
    // After a disk failure every queued report has its reply. The listener gets lastRepliesMs to send them.
    if (cause === 'disk failed') await resolvesWithin(listener.close(), limits.lastRepliesMs);
    else await listener.close();
  });
  const { address } = listener;
  if (config.deployments === '' && !isLoopback(address)) {
    const rights = isReadingOn(config, address) ? 'report and read' : 'report';
    const what = config.test
      ? `${rights}, empty the journal and set faults; use`
      : `${rights}; see --deployments, or use`;
    notices.warn(`any client that can reach this address may ${what} --host 127.0.0.1`, { address });
  }
  return listener;
}

function createAppFor(address: string, setup: Setup, parts: Parts): App {
  const { folder, recording, space, journals, assets, hub, testMode } = parts;
  const { config, notices, activity, refusals, endpoints, limits, metrics, keyMemory, shutdown } = setup;
  const { pathPrefix, allowedHost: allowedHosts } = config;
  const tokenHeader = config.deployments === '' ? undefined : config.tokenHeader;
  const takesKeys = keyMemory !== undefined;
  const problem = () => {
    if (shutdown.hasBegun) return 'the service is stopping';
    return folder.trouble ?? recording.trouble ?? space.trouble;
  };
  const readiness = () => readinessOf(problem(), recording.troubles(), limits);
  const app = createApp({
    endpoints,
    takesKeys,
    pathPrefix,
    checkAccess: createAccess({ address, allowedHosts }),
    namesDeployment: config.deployments !== '',
    tokenHeaders: recording.tokenHeaders,
    findRecorder: recording.findRecorder,
    readings: [
      ...readingRoutes({ journals, assets, refusals, limits, metrics }),
      ...pageRoutes({ version, pathPrefix, tokenHeader, endpoints }),
      ...hub.routes(),
    ],
    findReadable: createFindReadable(config, address, recording.findReadable),
    readiness: testMode === undefined ? readiness : () => testMode.named(readiness()),
    strict: config.strict || config.test,
    tests: testMode,
    contract: () =>
      JSON.stringify(
        makeContract({
          server: pathPrefix || '/',
          tokenHeader,
          takesKeys,
          test: testMode !== undefined,
          endpoints,
          limits,
        }),
      ),
    limits,
    metrics,
    freeBytes: () => space.freeBytes,
    notices,
    activity,
  });
  return testMode?.aroundApp(app) ?? app;
}

/** @throws StartError */
async function openJournals(folder: DataFolder, recording: Recording): Promise<void> {
  try {
    await folder.whenLocked();
    await recording.open();
  } catch (error) {
    throw recoveryFailed(folder.disk, error as Error);
  }
}

/** @throws StartError */
async function addressToListenAt({ host, port }: Config, fd: number | undefined): Promise<ListenAt> {
  if (fd !== undefined) return { kind: 'passed socket', fd };
  return { kind: 'address', host: await resolveHost(host), port };
}

/** @returns the IP address of a host name: `127.0.0.1` for `localhost`. @throws StartError */
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

function listenProblem(at: ListenAt, { code, message }: NodeJS.ErrnoException): string {
  if (at.kind === 'passed socket') {
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
  const isDenied = ['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '');
  const [exitCode, hint] = isDenied
    ? ([exitCodes.configuration, '; let the user of the service read and write its files'] as const)
    : ([exitCodes.diskFailed, ''] as const);
  return new StartError(exitCode, `the journal in ${folder} can not be opened: ${error.message}${hint}`);
}
