/** The page `getting-started`, followed on free ports. */

import { page } from './handbook.ts';
import { freePort, type Scope } from './program.ts';
import { follow } from './walk-through.ts';

export interface Dagster {
  readonly port: number;
  /** The shell command that runs when the page starts Dagster, with the page's arguments in `$@`. */
  readonly command: string;
}

/** @param atEnd called after the last step, while all services still run */
export async function followGettingStarted(t: Scope, dagster: Dagster, atEnd: () => Promise<void>): Promise<void> {
  const [device, hub] = [await freePort(t), await freePort(t)];
  const text = page('getting-started')
    .replaceAll('4000', String(hub))
    .replaceAll('127.0.0.1:3000', `127.0.0.1:${device}`)
    .replaceAll('3001', String(dagster.port));
  await follow(t, {
    page: text,
    commands: { dagster: dagster.command },
    // The page starts the device without options for its port.
    env: { ASSETLOG_PORT: String(device), ASSETLOG_URL: `http://127.0.0.1:${device}` },
    atEnd,
  });
}
