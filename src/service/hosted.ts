import { createClientAddress } from '../config/client-address.ts';
import { exitCodeOf } from '../config/exit-codes.ts';
import type { Limits } from '../config/limits.ts';
import { createAuthenticator, deploymentIn } from '../deployments/authenticator.ts';
import { retainClosed } from '../deployments/closed-journals.ts';
import { watchDeployments } from '../deployments/file.ts';
import { DeploymentJournals } from '../deployments/journals.ts';
import { announceSmaller, retainWith } from '../deployments/limits-of-journals.ts';
import { OpenReadings } from '../deployments/open-readings.ts';
import {
  type Deployments,
  reportTokenEnds,
  sha256,
  type Token,
  tokenCounter,
  tokenTest,
} from '../deployments/tokens.ts';
import { reportedBy } from '../event/encoded.ts';
import { refused } from '../event/record-result.ts';
import type { Recorder } from '../http/message.ts';
import type { TokenHeaders } from '../http/request.ts';
import { type Disk, isFull } from '../journal/disk.ts';
import { writeFile } from '../journal/file-io.ts';
import type { Retain } from '../journal/retention.ts';
import type { DeploymentFigures } from '../telemetry/deployment-counts.ts';
import { HOSTED } from './folder.ts';
import type { RecordedJournals } from './followers.ts';
import type { Recording } from './recording.ts';
import type { Setup } from './setup.ts';
import { resolvesWithin } from './shutdown.ts';
import { StartError } from './start-error.ts';
import { warnOfWriters } from './writers.ts';

/**
 * Hosted mode: records into a journal for each deployment, in the subfolder of the data folder with the deployment's name:
 * `/var/lib/assetlog/prod`.
 * @param onDeployments called when the deployments might have changed; resolves when forwarding from removed ones has ended. It never
 *   rejects
 * @throws StartError if the deployments file cannot be read or is invalid
 */
export async function recordForDeployments(
  setup: Setup,
  journals: RecordedJournals,
  onDeployments: () => Promise<void>,
): Promise<Recording> {
  const { config, notices, limits, metrics, shutdown } = setup;
  const { folder } = journals;
  const { pathPrefix, tokenHeader } = config;
  const file = await watchDeployments(config.deployments, setup, (current) => {
    reportTokenEnds(current, setup);
    readings.checkAll();
    changeLimits(current);
    // Forwarding from a removed deployment ends before its journal is closed.
    void onDeployments().then(() => hosted.keepOnly((name) => file.current.tokensOf.has(name)));
  }).catch((error: Error) => {
    throw new StartError(exitCodeOf(error), error.message);
  });
  const combine = retainWith(config);
  const retainOf = (name: string) => combine(file.current.limitsOf?.get(name));
  let before = file.current;
  const changeLimits = (current: Deployments) => {
    const changed = [...current.tokensOf.keys()].map((name) => ({
      name,
      disk: folder.diskOf(name),
      before: combine(before.limitsOf?.get(name)),
      retain: retainOf(name),
    }));
    before = current;
    void announceSmaller(changed, setup);
    void hosted.measure(changed.filter(({ retain }) => retain.maxBytes !== undefined).map(({ name }) => name));
  };
  const countTokens = tokenCounter(() => file.current, limits.tokenExpiringMs);
  reportTokenEnds(file.current, setup);
  const readings = new OpenReadings(() => file.current, limits);
  const hosted = openJournals(setup, journals, retainOf);
  let endRetaining = () => {};
  const journalIfKnown = (name: string | undefined) =>
    name !== undefined && file.current.tokensOf.has(name) ? hosted.journalOf(name) : undefined;
  await warnOfWriters(config.deployments, DEPLOYMENTS_FILE, setup);
  if (config.read) notices.warn('--read has no effect with --deployments: its file decides which tokens may read');
  const isToken = tokenTest(() => file.current);
  const authenticate = createAuthenticator({
    pathPrefix,
    deployments: () => file.current,
    tokenHeader,
    clientAddress: createClientAddress(config.trustedProxy),
    limits,
    metrics,
    notices,
    isToken,
    nowMs: () => Date.now(),
  });
  return {
    deployment: file.current.tokensOf.keys().next().value ?? 'NAME',
    tokenHeaders: tokenHeadersFor(tokenHeader.toLowerCase()),
    findRecorder: (head, incoming, needs) => {
      const deployment = authenticate(head, incoming, needs);
      const { trouble } = folder;
      const journal = trouble === undefined ? hosted.journalOf(deployment) : refuseAll(deployment, trouble);
      return file.current.recordTokens ? namingToken(journal, incoming.tokenName!) : journal;
    },
    findReadable: (head, incoming) => {
      const deployment = authenticate(head, incoming, 'read');
      const digest = sha256(head.token ?? '');
      return { deployment, whileAllowed: (end) => readings.add({ deployment, digest, end }) };
    },
    deploymentIn: (path) => {
      const name = deploymentIn(path, pathPrefix);
      return file.current.tokensOf.has(name) ? name : undefined;
    },
    tokens: () => countTokens(Date.now()),
    isToken,
    open: async () => {
      await markAsHosted(folder.disk); // the first report for a deployment opens its journal
      const deployments = () => file.current.tokensOf;
      const openDisk = (name: string) => folder.diskOf(name);
      endRetaining = retainClosed({ deployments, hosted, openDisk, retainOf, limits, notices });
    },
    trouble: undefined,
    troubles: () => hosted.troubles(),
    figures: () => figuresOf([...file.current.tokensOf], hosted, limits),
    makeSpace: () => hosted.makeSpace(),
    deployments: () => [...file.current.tokensOf.keys()],
    wake: (deployment) => journalIfKnown(deployment)?.wake(),
    hurry: () => hosted.hurry(),
    reload: () => file.reload(),
    startOver: () => Promise.reject(new Error('only a service without deployments can be reset')),
    whileClosed: (deployment, act) => hosted.journalOf(deployment!).whileClosed(act),
    abandon: (error) => shutdown.endAfter('lock lost', error), // each journal has a separate lock
    close: () => {
      endRetaining();
      file.stop();
      return hosted.close();
    },
  };
}

/** Without the mark, a folder without reports could be used without deployments, and any client could report. */
async function markAsHosted(disk: Disk): Promise<void> {
  if ((await disk.list()).includes(HOSTED)) return;
  await writeFile(disk, HOSTED, []).catch((error: NodeJS.ErrnoException) => {
    if (!isFull(error)) throw error; // a later start marks it
  });
}

function openJournals(
  setup: Setup,
  { folder, followingOf, forget, answerOf, finishErase }: RecordedJournals,
  retainOf: (name: string) => Retain,
): DeploymentJournals {
  const { notices, limits, metrics, segmentBytes, keyMemory, commitDelayMs, lockFolder, locks } = setup;
  return new DeploymentJournals({
    openDisk: (name) => folder.diskOf(name),
    lockFolder,
    locks,
    answerOf,
    beforeOpening: finishErase,
    segmentBytes,
    retainOf,
    commitDelayMs,
    onRemoved: forget,
    followingOf,
    limits,
    metrics,
    keyMemory,
    notices,
    onDefect: (error) => setup.shutdown.endAfter('disk failed', error),
  });
}

/** @returns a recorder that refuses every report with the same reason */
function refuseAll(deployment: string, reason: string): Recorder {
  return {
    deployment,
    begin: () => {},
    append: (_events, done) => done(refused(reason)),
    refusal: () => reason,
  };
}

function tokenHeadersFor(own: string): TokenHeaders {
  return new Map([
    [own, 'token'],
    ['dagster-cloud-api-token', 'token'],
    ['authorization', own === 'authorization' ? 'either' : 'bearer'],
  ]);
}

async function figuresOf(
  deployments: readonly (readonly [name: string, tokens: readonly Token[]])[],
  hosted: DeploymentJournals,
  { deploymentSeriesMax, watchWaitMs }: Limits,
): Promise<DeploymentFigures[]> {
  const shown = deployments.slice(0, deploymentSeriesMax);
  await resolvesWithin(hosted.measure(shown.map(([name]) => name)), watchWaitMs);
  return shown.map(([name, tokens]) => {
    const { bytes, lastMs } = hosted.journalOf(name).measured ?? {};
    return { name, tokens, bytes, lastMs };
  });
}

/** @returns a recorder that writes the name of the token into the lines of reports */
function namingToken(journal: Recorder, name: string): Recorder {
  return {
    deployment: journal.deployment,
    begin: () => journal.begin(),
    refusal: (bytes) => journal.refusal(bytes),
    append: (events, ...rest) =>
      journal.append(
        events.map((event) => reportedBy(event, name)),
        ...rest,
      ),
  };
}

const DEPLOYMENTS_FILE = 'the deployments file, and so decide which clients may report';
