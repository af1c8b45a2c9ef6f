/** The address of a service, and a warning if other machines can reach it. */

import { lookup } from 'node:dns/promises';
import { hostname, networkInterfaces } from 'node:os';
import { exitCodeOf } from '../config/exit-codes.ts';
import type { Config } from '../config/options-of-service.ts';
import type { App } from '../http/message.ts';
import { isLoopback } from '../http/origin.ts';
import type { ListenAt, Listener } from '../http/socket/listener.ts';
import type { Notices } from '../telemetry/log.ts';
import { isReadingOn } from './readable.ts';
import type { Setup } from './setup.ts';
import { resolvesWithin } from './shutdown.ts';
import { StartError } from './start-error.ts';

/** @throws StartError */
export async function addressToListenAt({ host, port }: Config, fd: number | undefined): Promise<ListenAt> {
  if (fd !== undefined) return { kind: 'passed socket', fd };
  // Clients choose either address of this name, and not all of them try the other one.
  if (/^localhost$/i.test(host)) return { kind: 'address', host: '127.0.0.1', port, alsoHost: '::1' };
  return { kind: 'address', host: await resolveHost(host), port };
}

/** @returns the IP address of a host name. @throws StartError */
async function resolveHost(host: string): Promise<string> {
  try {
    return (await lookup(host)).address;
  } catch (error) {
    const { message } = error as Error;
    throw new StartError(
      exitCodeOf(error as Error),
      `--host ${host} is not an address of this machine: ${message}; give another, or correct its name resolution`,
    );
  }
}

function listenProblem(at: ListenAt, { code, message, address }: ListenError): string {
  if (at.kind === 'passed socket') {
    return `cannot listen on the socket that was passed: ${message}; its unit needs a ListenStream= with a port`;
  }
  const { port } = at;
  const host = address ?? at.host;
  if (code === 'EADDRINUSE')
    return `port ${port} on ${host} is busy; stop what listens there or choose another with --port`;
  const missing = code === 'EADDRNOTAVAIL' ? 'add the address to this machine, or ' : '';
  return `cannot listen on ${host} port ${port}: ${message}; ${missing}choose another with --host and --port`;
}

/** An error of `listen`, with the address that could not be bound. */
interface ListenError extends NodeJS.ErrnoException {
  readonly address?: string;
}

/** @throws StartError */
export async function listenAt(setup: Setup, at: ListenAt, createApp: (address: string) => App): Promise<Listener> {
  const { config, notices, shutdown, background, metrics, activity, collectGarbage } = setup;
  const { idleTimeout } = config;
  const limits = idleTimeout === undefined ? setup.limits : { ...setup.limits, idleMs: idleTimeout * 1000 };
  const listener = await setup
    .listen({
      at,
      createApp,
      background,
      maxConnections: config.maxConnections,
      limits,
      metrics,
      notices,
      activity,
      collectGarbage,
    })
    .catch((error: ListenError) => {
      // The error is EINVAL if the zone is an interface that does not exist yet, as in fe80::1%wlan0.
      const isEarly = at.kind === 'address' && at.host.includes('%') && error.code === 'EINVAL';
      if (isEarly) error.code = 'EADDRNOTAVAIL';
      throw new StartError(exitCodeOf(error), listenProblem(at, error));
    });
  shutdown.add(async (cause) => {
    // After a disk failure every queued report gets its reply. The listener gets lastRepliesMs to send them.
    if (cause === 'journal failed') await resolvesWithin(listener.close(), limits.lastRepliesMs);
    else await listener.close();
  });
  setup.later.boundTo = listener;
  warnOfClients(config, listener.address, notices);
  return listener;
}

/** The address on which a service listens. */
export type BoundTo = Pick<Listener, 'address' | 'alsoAddress' | 'port'>;

/**
 * @param bound the addresses and the port on which the service listens
 * @param names the names of the service, in lower case, in addition to those of its address
 * @returns whether requests to the URL reach the service itself, as far as its host shows that: no name is looked up
 */
export function leadsTo({ protocol, port, hostname: host }: URL, bound: BoundTo, names: readonly string[]): boolean {
  if (Number(port || (protocol === 'https:' ? 443 : 80)) !== bound.port) return false;
  const { address, alsoAddress } = bound;
  const given = host.replace(/^\[(.*)\]$/, '$1');
  const isEvery = ANY_ADDRESS.has(address);
  if (names.includes(given) || given === address || given === alsoAddress) return true;
  if (given === 'localhost' || ANY_ADDRESS.has(given)) return isEvery || isLoopback(address);
  if (!isEvery || (address === '0.0.0.0' && given.includes(':'))) return false;
  const addresses = Object.values(networkInterfaces()).flatMap((some = []) => some.map((one) => one.address));
  return isLoopback(given) || given === hostname().toLowerCase() || addresses.includes(given);
}

/** Listening on one of these means listening on all addresses, and a request to one of them reaches this machine. */
const ANY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** In local mode no token is required, so every client that reaches the address can report. */
function warnOfClients(config: Config, address: string, notices: Notices): void {
  if (config.deployments !== '' || isLoopback(address)) return;
  const rights = isReadingOn(config, address) ? 'report and read' : 'report';
  const what = config.test
    ? `${rights}, empty the journal and set faults; use`
    : `${rights}; see --deployments, or use`;
  notices.warn(`any client that can reach this address may ${what} --host 127.0.0.1`, { address });
}
