/** A service in the process of a test: for short limits and failing disks, which a process of its own does not allow. */

import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import { type Config, readConfig } from '../../src/config/options-of-service.ts';
import { type Service, type ServiceParts, startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { SimulatedDisk } from '../world/simulated-disk.ts';
import { newFolder, type Scope } from './program.ts';

export interface Served extends Service {
  readonly data: string;
  readonly port: number;
  /** Its log lines, as JSON. */
  readonly notices: string[];
}

export interface Serving {
  readonly args?: readonly string[];
  /** By default a new folder, or the folder of `disk`. */
  readonly data?: string;
  /** The disk of each journal. Before the service ends, the disk stops failing. */
  readonly disk?: SimulatedDisk;
  /** Limits that differ from the standard ones. */
  readonly limits?: Partial<Limits>;
  /** Values that no option accepts. */
  readonly config?: Partial<Config>;
  readonly parts?: Omit<ServiceParts, 'limits'>;
  readonly logLevel?: 'info' | 'debug';
}

/** Starts a service on a free port; it ends with the test. @throws StartError */
export async function serve(
  t: Scope,
  {
    disk,
    data = disk?.folder ?? newFolder(t),
    args = [],
    limits = {},
    config = {},
    parts = {},
    logLevel = 'info',
  }: Serving = {},
): Promise<Served> {
  const read = readConfig(['--data', data, ...(args.includes('--port') ? args : ['--port', '0', ...args])], {});
  if (read.kind !== 'valid') throw new Error(read.problems.join());
  const notices: string[] = [];
  const log = createNotices(logLevel, false, (line) => notices.push(line));
  const service = await startService({ ...read.config, ...config }, log, {
    ...(disk === undefined ? {} : { openDisk: () => disk }),
    limits: { ...standardLimits, ...limits },
    ...parts,
  });
  t.after(() => {
    if (disk !== undefined) disk.fault = () => undefined;
    return service.stop();
  });
  return { ...service, data, port: Number(new URL(service.url).port), notices };
}

/** Like `serve`, on a simulated disk, which is returned as well. */
export async function serveSimulated(
  t: Scope,
  serving: Omit<Serving, 'disk' | 'data'> = {},
): Promise<Served & { readonly disk: SimulatedDisk }> {
  const disk = new SimulatedDisk(newFolder(t));
  return { disk, ...(await serve(t, { disk, ...serving })) };
}
