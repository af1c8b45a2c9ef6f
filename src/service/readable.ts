/** Which clients may read over HTTP: in hosted mode the tokens decide; otherwise every client, if reading is on. */

import type { Config } from '../config/options-of-service.ts';
import type { AppParts } from '../http/app.ts';
import { Refusal } from '../http/message.ts';
import { createAccess, isLoopback } from '../http/origin.ts';

export type ReadingOptions = Pick<Config, 'deployments' | 'read' | 'noRead' | 'test' | 'allowedHost'>;

/**
 * @param address the address of the listener
 * @returns whether reading is on: with `--read` or `--test`, in hosted mode, in which the tokens decide, and on loopback, unless `--no-read`
 * is given
 */
export function isReadingOn({ deployments, read, noRead, test }: ReadingOptions, address: string): boolean {
  return !noRead && (read || test || deployments !== '' || isLoopback(address));
}

/**
 * Adds the rules of the service to the rules of its journals.
 * @param address the address of the listener
 * @param findReadable see `Recording.findReadable`; its refusals come first, so that a client without a token learns nothing
 * @returns a check that throws Refusal 403 if reading is off. In local mode it also refuses a Host that is not a known name of this
 *   service, on every address: a page on a name that resolves to this address (DNS rebinding) could read all events, and its GET
 *   has no Origin.
 */
export function createFindReadable(
  options: ReadingOptions,
  address: string,
  findReadable: AppParts['findReadable'],
): AppParts['findReadable'] {
  const isOn = isReadingOn(options, address);
  if (isOn && options.deployments !== '') return findReadable;
  const checkHost = createAccess({ address, allowedHosts: options.allowedHost, onlyKnownHosts: true });
  return (head, incoming) => {
    const readable = findReadable(head, incoming);
    if (!isOn) throw new Refusal(403, READING_IS_OFF);
    checkHost(head, true); // pages of other sites were already refused
    return readable;
  };
}

const READING_IS_OFF =
  'reading is off; start the service with --read if other machines reach its address, and without --no-read';
