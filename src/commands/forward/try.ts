/** `assetlog forward test`: tries each destination before anything is forwarded. */

import { type ExitCode, exitCodes } from '../../config/exit-codes.ts';
import { limits } from '../../config/limits.ts';
import { journalFolder } from '../../config/names.ts';
import { watchDeployments } from '../../deployments/file.ts';
import { tryDestination } from '../../forward/destinations/trial.ts';
import type { Deployment, DestinationSettings } from '../../forward/settings.ts';
import { appliesTo, type DestinationOptions, resolveSettings, watchDestinations } from '../../forward/settings-file.ts';
import { readSource } from '../../forward/source.ts';
import { openDisk } from '../../journal/disk.ts';
import { createUuids } from '../../journal/line/uuid.ts';
import { createNotices } from '../../telemetry/log.ts';
import { printable } from '../../telemetry/printable.ts';
import { type Output, refuse, refuseError } from '../cli/command.ts';

export interface TryValues extends Omit<DestinationOptions, 'whenBehind' | 'ack'> {
  readonly data: string;
  readonly json: boolean;
}

/**
 * Tries all destinations of a service with the same options at once.
 * @param name of the only destination to try; undefined for all
 * @returns 0 if all work, 1 if one does not, 2 if the options or files are wrong or have no destination, 5 if a file does not answer
 */
export async function tryDestinations(values: TryValues, name: string | undefined, output: Output): Promise<ExitCode> {
  let all: readonly (readonly [DestinationSettings, Deployment])[];
  try {
    all = await readWanted(values);
  } catch (error) {
    return refuseError(output, error as Error);
  }
  if (all.length === 0)
    return refuse(output, 'there is no destination; give --forward-to URL, or --forward FILE, as to the service');
  const wanted = all.filter(([destination]) => (name ?? destination.name) === destination.name);
  if (wanted.length === 0) return refuse(output, `there is no destination ${name}; leave the name out to try all`);
  // Limits the time of several requests. The limit of a single request ends earlier, and its error names the missing
  // reply.
  const signal = AbortSignal.timeout(2 * limits.attemptMs);
  const probeLimits = { ...limits, forwardRequestMs: limits.attemptMs };
  const tried = await Promise.all(
    wanted.map(async ([destination, deployment]) => {
      const source = await sourceOf(journalFolder(values.data, deployment));
      const { kind, works, reason } = await tryDestination(
        destination,
        { deployment, source, limits: probeLimits },
        signal,
      );
      return { name: destination.name, deployment: deployment ?? null, to: destination.to, kind, works, reason };
    }),
  );
  if (values.json) output.print(JSON.stringify({ destinations: tried }));
  else
    for (const { name, deployment, to, works, reason } of tried)
      output.print(
        printable(
          `${name}${deployment === null ? '' : ` (${deployment})`}: ${works ? 'works' : 'DOES NOT WORK'}: ${to}: ${reason}`,
        ),
      );
  return tried.every(({ works }) => works) ? exitCodes.done : exitCodes.refused;
}

/** @throws Error with one line for each problem of the options and the files */
async function readWanted(values: TryValues): Promise<(readonly [DestinationSettings, Deployment])[]> {
  const shared = { limits, notices: createNotices('error', false, () => {}) };
  let deployments: Deployment[] = [undefined];
  if (values.deployments !== '') {
    const file = await watchDeployments(values.deployments, shared, () => {});
    file.stop();
    deployments = [...file.current.tokensOf.keys()];
  }
  const deploymentsFor = (destination: DestinationSettings) =>
    deployments.filter((deployment) => appliesTo(destination, deployment));
  const options = { ...values, whenBehind: 'refuse', ack: '' } as const;
  const found = await watchDestinations(
    options,
    shared,
    (destination) => deploymentsFor(destination).length,
    () => {},
  );
  found?.stop();
  return (found?.current ?? []).flatMap((destination) =>
    deploymentsFor(destination).map((deployment) => [resolveSettings(destination, deployment), deployment] as const),
  );
}

/** @returns the id of the journal in a folder; a random id if there is none, which a hub does not store */
async function sourceOf(folder: string): Promise<string> {
  const source = await readSource(openDisk(folder)).catch(() => undefined);
  return source ?? createUuids(new Date())();
}
