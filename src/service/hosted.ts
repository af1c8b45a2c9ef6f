import { join } from 'node:path';
import { createClientAddress } from '../config/client-address.ts';
import { exitCodes } from '../config/exit-codes.ts';
import { otherWriters } from '../config/files.ts';
import { watchDeployments } from '../deployments/file.ts';
import { Hosted } from '../deployments/journals.ts';
import { createTokenDoor } from '../deployments/tokens.ts';
import type { Site } from '../http/app.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Recording, RecordingOptions } from './recording.ts';
import { StartError } from './start-error.ts';

/**
 * Records into a journal for each deployment, in a folder of its name in the data folder.
 * @param onLockLost called when the data folder is not locked any more. Each journal has a lock of its own.
 * @throws StartError if the deployments file can not be used
 */
export async function recordForDeployments(
  options: RecordingOptions,
  onLockLost: (error: Error) => void,
): Promise<Recording> {
  const { config, notices, folder, limits, endpoints } = options;
  const { pathPrefix, tokenHeader } = config;
  const file = await watchDeployments(config.deployments, { limits, notices }, ({ tokensOf }) =>
    hosted.keepOnly((name) => tokensOf.has(name)),
  ).catch((error: Error) => {
    throw new StartError(exitCodes.configuration, error.message);
  });
  const hosted = openHosted(options);
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
      const { trouble } = folder;
      return trouble === undefined ? journal : refuseAll(journal.prefix, trouble);
    },
    open: async () => {}, // the first report opens the journal of its deployment
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

function openHosted({ config, notices, folder, limits, metrics, openDisk, onRecorded }: RecordingOptions): Hosted {
  const { pathPrefix, segmentBytes } = config;
  const openFor = (name: string) => openDisk(join(folder.disk.folder, name));
  const shared = { pathPrefix, openDisk: openFor, onRecorded, segmentBytes, retain: config };
  return new Hosted({ ...shared, limits, metrics, notices });
}

/** A site that takes no reports. */
function refuseAll(prefix: string, reason: string): Site {
  return { prefix, append: (_event, _bodyBytes, done) => done(reason), refusal: () => reason };
}

async function warnOfWriters(deployments: string, notices: Notices): Promise<void> {
  const writers = await otherWriters(deployments);
  if (writers === undefined) return;
  const [who, mode] = writers.everybody ? ['everybody on this machine', 'go-w'] : [`the group ${writers.gid}`, 'g-w'];
  notices.warn(`${who} may write to the deployments file, and so decide who may report; chmod ${mode} it`, {
    file: deployments,
  });
}
