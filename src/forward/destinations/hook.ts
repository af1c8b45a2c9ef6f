/**
 * A hook: a URL that gets a POST with each event that it wants, as the line of the journal. It cannot be asked what it has. Only the
 * status of its answer counts, since the body has no common form.
 *
 * Services whose hooks post to each other could form a circle. So the idempotency key of a post, which the next service records,
 * counts the hooks that the event has passed: `hook/1/<id of the line>`.
 */

import type { Recorded } from '../../event/event.ts';
import { ID_FORM } from '../../journal/line/uuid.ts';
import type { Line } from '../../journal/look/reading.ts';
import { decode } from '../../telemetry/masked.ts';
import { otherwise, recordedUpTo } from './answers.ts';
import type { Again, Destination, Sent, Stopped } from './destination.ts';
import { HttpRequests, type Opening } from './http.ts';
import { type FinalAnswer, openPlain, type PlainRequest, REFUSED } from './plain.ts';

/** The path of the URL is the secret, and the name of the host is not: Slack and others give each channel a path of its own. */
const FORM = /^(hook\+https?:\/\/[^/?#@\\\s]+)([/?][^#\\\s]*)?$/i;

const HOOK_KEY = new RegExp(`^hook/([0-9]{1,9})/${ID_FORM}$`);

/** @returns what may be shown of the URL, and its path and query; undefined if it is no URL of a hook */
export function readHookUrl(url: string): { readonly to: string; readonly hookPath: string } | undefined {
  const [, host, hookPath = ''] = FORM.exec(url) ?? [];
  if (host === undefined || !URL.canParse(withoutHook(url))) return undefined;
  return { to: hookPath.length > 1 ? `${host}/…` : host, hookPath };
}

/** @returns a hook, not connected yet. @throws TypeError if `to` is no URL of one */
export function openHook(options: Opening): Destination {
  const { hookPath = '', deployment } = options;
  const requests = requestsTo(options);
  // In the form in which `assetlog events` prints the lines of several deployments.
  const bodyOf = (text: string) => (deployment === undefined ? text : `{"deployment":"${deployment}",${text.slice(1)}`);
  const judge = (answer: FinalAnswer, line: Line): Sent => {
    if (answer.kind === 'unclear') return { ...answer, kind: 'in doubt', isFinal: false };
    const { status, reason } = answer;
    if (status >= 200 && status < 300) return recordedUpTo(line);
    return REFUSED.has(status) ? { kind: 'refused', status, reason } : otherwise(answer);
  };
  const requestOf = (line: Line): PlainRequest => ({
    path: hookPath,
    key: `hook/${hooksPassed(line.event) + 1}/${line.event.id}`,
    body: bodyOf(line.text),
    shortBody: () => {
      const { event, metadata } = line;
      return metadata === undefined ? undefined : bodyOf(withoutMetadata(event, metadata));
    },
  });
  return openPlain(requests, requestOf, judge);
}

/** @returns how many hooks an event has passed before it was recorded, as far as its idempotency key says; 0 for a key of a client */
export function hooksPassed({ idempotency_key = '' }: Pick<Recorded, 'idempotency_key'>): number {
  return Number(HOOK_KEY.exec(idempotency_key)?.[1] ?? 0);
}

/** @returns a line without what makes it long, and without its checksum, which would be wrong */
function withoutMetadata(event: Recorded, metadata: string): string {
  return JSON.stringify({ ...event, metadata_bytes: Buffer.byteLength(metadata) });
}

/** Sends OPTIONS, since some hooks take any GET for a call. @returns undefined for an answer of any kind but a refused token */
export async function tryHook(options: Opening, signal: AbortSignal): Promise<Again | Stopped | undefined> {
  const requests = requestsTo(options);
  const answer = await requests.send({ method: 'OPTIONS', path: options.hookPath ?? '', signal });
  requests.close();
  if (answer.kind === 'unclear') return { ...answer, kind: 'again' };
  return answer.kind === 'answer' ? undefined : answer;
}

/** @param to as `Destination.to`. @returns its scheme, host and port, as `http://hooks.example` */
export function hookOrigin(to: string): string {
  return new URL(withoutHook(to)).origin;
}

function requestsTo(options: Opening): HttpRequests {
  const origin = hookOrigin(options.to);
  return new HttpRequests({ ...options, to: origin, secrets: partsOf(options.hookPath ?? '') });
}

function withoutHook(url: string): string {
  return url.slice('hook+'.length);
}

/** @returns what is masked in replies, which might repeat all of the URL or a part of it. Decoded, it masks both forms. */
function partsOf(hookPath: string): string[] {
  return [hookPath, ...hookPath.split(/[/?&=]/)].map(decode);
}
