/** Wires the parts of a service, and starts and stops them in order: lock, record, listen, open. */

import { openClient as standardOpenClient } from './client/connection.ts';
import { createClientAddress } from './config/client-address.ts';
import { type ExitCode, exitCodeOf, exitCodeOfJournal, exitCodes } from './config/exit-codes.ts';
import { type Config, segmentBytesOf } from './config/options-of-service.ts';
import { hostOf } from './http/origin.ts';
import { listen as standardListen } from './http/socket/listener.ts';
import { type Disk, openDisk as standardOpenDisk } from './journal/disk.ts';
import { type SpaceWatch, watchSpace } from './journal/free-space.ts';
import { KeyMemory } from './journal/keys/memory.ts';
import { createLockRota, lockFolder as standardLockFolder } from './journal/lock/lock.ts';
import { DamagedError } from './journal/open/recovery.ts';
import { OwnProgress } from './journal/progress.ts';
import type { ReadableJournals } from './reading/journals.ts';
import { Eraser } from './service/eraser.ts';
import { DataFolder } from './service/folder.ts';
import { type RecordedJournals, recordedJournals } from './service/followers.ts';
import { recordForDeployments } from './service/hosted.ts';
import { addressToListenAt, listenAt } from './service/listening.ts';
import { recordLocally } from './service/local.ts';
import { Peers } from './service/peers.ts';
import { createReading } from './service/reading.ts';
import type { Recording } from './service/recording.ts';
import { createAppFor } from './service/requests.ts';
import type { ServiceParts, Setup } from './service/setup.ts';
import { resolvesWithin, Shutdown } from './service/shutdown.ts';
import { StartError } from './service/start-error.ts';
import { Activity } from './telemetry/activity.ts';
import { DeploymentCounts } from './telemetry/deployment-counts.ts';
import type { Notices } from './telemetry/log.ts';
import { Metrics } from './telemetry/metrics.ts';
import { Refusals } from './telemetry/refusals.ts';
import type { TestMode } from './test-mode/test-mode.ts';
import { Mutex } from './waiting/mutex.ts';

export { type ServiceParts, StartError };

/** A service that accepts reports. */
export interface Service {
  /** The base address for clients, with the path prefix: `http://127.0.0.1:3000/some/path`. */
  readonly url: string;
  /** In hosted mode the first deployment, as an example of the path after the address; `NAME` if no deployment exists yet. */
  readonly deployment: string | undefined;
  /** @returns the current deployments; in local mode `[undefined]` */
  readonly deployments: () => readonly (string | undefined)[];
  /**
   * Resolves when the service has ended, to the exit code of the process: 0 after `stop`, 5 after its disk failed, 1 after a Defect.
   * Never rejects.
   */
  readonly ended: Promise<ExitCode>;
  /** Graceful shutdown: turns not ready, stops accepting, finishes requests, syncs, and unlocks the folder. Never rejects. */
  stop(): Promise<void>;
  /** Reads the deployments and the destinations again. Destinations that wait or are stopped try again at once. Never rejects. */
  reload(): Promise<void>;
  /** Faults and resets; undefined without `Config.test`. */
  readonly testMode: TestMode | undefined;
  /** The durable end of each journal, for a reader in the same process. */
  readonly progress: OwnProgress;
  readonly refusals: Pick<Refusals, 'seen'>;
}

/**
 * Locks the folder, listens and recovers the journal. Resolves when reports are accepted. If the disk is too full for the folder
 * or the lock file, the service first listens without being ready, and locks the folder as soon as there is space.
 * @param config the result of `readConfig`
 * @throws StartError, whose exit code is 2, 3, 4 or 5; the folder and the port are then free again
 */
export async function startService(config: Config, notices: Notices, parts: ServiceParts): Promise<Service> {
  const setup = setUp(config, notices, parts);
  const { shutdown } = setup;
  try {
    return await start(setup);
  } catch (error) {
    await shutdown.run('start failed');
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new StartError(exitCodeOf(error as Error), `the start failed: ${message}`); // no step explains this error
  }
}

/** Creates the parts that acquire no resource yet. */
function setUp(config: Config, notices: Notices, parts: ServiceParts): Setup {
  const { limits, openDisk = standardOpenDisk, background = false } = parts;
  const { lockFolder = standardLockFolder, listen = standardListen, openClient = standardOpenClient } = parts;
  const { hostName, fd, collectGarbage, onForwarded, aroundReset, terminal, refusalsSeenMax: seenMax = 0 } = parts;
  const shutdown = new Shutdown(notices);
  const metrics = new Metrics();
  if (config.deploymentMetrics) metrics.deployments = new DeploymentCounts();
  const keyMemory = openKeyMemory(config.idempotencyKeys ?? limits.idempotencyKeysMax, notices);
  const addressOf = createClientAddress(config.trustedProxy);
  const refusals = new Refusals({ addressOf, nowMs: () => Date.now(), seenMax, limits, counts: metrics.deployments });
  const activity = new Activity({ notices, terminal, quiet: config.quiet, refusals, addressOf, limits });
  shutdown.add(() => activity.close());
  return {
    config,
    notices,
    limits,
    openDisk,
    lockFolder,
    listen,
    openClient,
    background,
    hostName,
    fd,
    collectGarbage,
    onForwarded,
    aroundReset,
    metrics,
    activity,
    refusals,
    keyMemory,
    locks: createLockRota(limits),
    segmentBytes: segmentBytesOf(config),
    commitDelayMs: () => (shutdown.hasBegun ? 0 : config.commitDelay),
    progress: new OwnProgress(() => [...metrics.journals].some(({ queueBytes }) => queueBytes > 0)),
    refusedFiles: new Set(),
    later: {},
    shutdown,
  };
}

/** @returns undefined, with a warning, if no keys are remembered */
function openKeyMemory(keysMax: number, notices: Notices): KeyMemory | undefined {
  if (keysMax > 0) return new KeyMemory(keysMax);
  notices.warn('Idempotency-Key is ignored: a report that is sent again is recorded again');
  return undefined;
}

/** The steps of a start, in order. */
async function start(setup: Setup): Promise<Service> {
  const { config, fd, limits, locks, shutdown } = setup;
  const at = await addressToListenAt(config, fd);
  const folder = await DataFolder.lock(setup);
  const { journals, allAssets, assets } = createReading(setup, folder);
  const peers = await Peers.create(setup, folder, allAssets);
  const eraser = new Eraser(setup, folder, peers, journals);
  const recorded = recordedJournals(setup, at, folder, allAssets, peers, eraser);
  const recording = await createRecording(setup, recorded, peers);
  await peers.open(recording);
  const space = await watchFreeSpace(setup, folder, recording);
  let opened: Promise<void> | undefined;
  const open = () => {
    opened ??= openJournals(folder, recording);
    return opened;
  };
  // A proxy retries a refused connection, and a passed socket queues it, whereas a 503 might reach a client that gives
  // up.
  await resolvesWithin(open(), limits.openWaitMs);
  // During a longer recovery /livez answers 200 and /readyz 503.
  shutdown.add(() => {
    assets.close();
    allAssets.close();
  });
  const testMode = config.test ? await createTestMode(setup, recording, journals) : undefined;
  const parts = { folder, recording, space, journals, allAssets, assets, peers, eraser, testMode };
  const { address, port } = await listenAt(setup, at, (bound) => createAppFor(bound, setup, parts));
  peers.onListening();
  await open();
  folder.lock?.watch(locks, (error) => recording.abandon(error));
  peers.begin();
  shutdown.add(() => recording.hurry()); // the first step of a stop, so that the requests for which it waits get their replies
  return {
    url: `http://${hostOf(address)}:${port}${config.pathPrefix}`,
    deployment: recording.deployment,
    deployments: recording.deployments,
    ended: shutdown.ended,
    stop: () => shutdown.run('stop requested'),
    reload: async () => {
      await recording.reload();
      await peers.reload();
    },
    testMode,
    progress: setup.progress,
    refusals: setup.refusals,
  };
}

/** @throws StartError if the deployments file cannot be read or is invalid */
async function createRecording(setup: Setup, journals: RecordedJournals, peers: Peers): Promise<Recording> {
  const { config, notices, limits, refusals, activity, shutdown } = setup;
  const { folder } = journals;
  const recording =
    config.deployments === ''
      ? recordLocally(setup, journals)
      : await recordForDeployments(setup, journals, () => peers.update());
  setup.later.recording = recording;
  refusals.deploymentIn = recording.deploymentIn;
  refusals.isToken = recording.isToken;
  activity.isToken = recording.isToken;
  shutdown.add(async () => {
    const closed = recording.close();
    if (await resolvesWithin(closed, limits.lastSyncMs)) return;
    shutdown.exitCode = exitCodes.diskFailed;
    notices.error('the disk did not finish the last sync; the service ends without it', { ms: limits.lastSyncMs });
    // Until `closed` resolves the disk might still write to the folder, and removing the lock file would hang as well.
    folder.keepUntil(closed);
  });
  return recording;
}

/** @throws StartError if the disk is not larger than `Config.keepFree`, or does not report its space */
async function watchFreeSpace(
  { config, notices, limits, progress, shutdown }: Setup,
  { disk }: DataFolder,
  recording: Recording,
): Promise<SpaceWatch> {
  const space = await watchSpace(disk, config, limits, notices, () => void recording.makeSpace());
  progress.onWritten(space.written);
  shutdown.add(() => space.stop());
  const { keepFree = 0, retainBytes = 0 } = config;
  if (keepFree > 0 && space.isUnreported) {
    throw new StartError(
      exitCodes.configuration,
      `--keep-free is ${keepFree}, but the file system of ${disk.folder} reports no free space; leave it out, or give --retain-bytes`,
    );
  }
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
async function openJournals(folder: DataFolder, recording: Recording): Promise<void> {
  try {
    await folder.whenLocked();
    await recording.open();
  } catch (error) {
    throw recoveryFailed(folder.disk, error as Error);
  }
}

function recoveryFailed({ folder }: Disk, error: Error): StartError {
  if (error instanceof StartError) return error;
  if (error instanceof DamagedError) return new StartError(exitCodes.damaged, error.message);
  const exitCode = exitCodeOfJournal(error);
  const hint = exitCode === exitCodes.configuration ? '; let the user of the service read and write its files' : '';
  return new StartError(exitCode, `the journal in ${folder} cannot be opened: ${error.message}${hint}`);
}

/** Creates the test mode. Its reset also empties the state that is derived from the journal. */
async function createTestMode(
  { limits, notices, refusals, aroundReset = (reset) => reset() }: Setup,
  recording: Recording,
  journals: ReadableJournals,
): Promise<TestMode> {
  const { TestMode } = await import('./test-mode/test-mode.ts');
  const begin = async () => {
    await journals.of(undefined).startOver(() => recording.startOver());
    refusals.clear();
  };
  const resets = new Mutex();
  const startOver = () => aroundReset(() => resets.run(begin));
  return new TestMode({ limits, notices, startOver });
}
