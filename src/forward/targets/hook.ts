/**
 * A hook: a URL that gets a POST with each event that it wants, as the line of the journal. It can not be asked what it has. Only the
 * status of its answer counts, since the body has no common form.
 */

import type { Line } from '../../journal/look/reading.ts';
import { decode } from '../../telemetry/masked.ts';
import type { Outgoing, Sent, Target } from '../target.ts';
import { otherwise, Requests, type TargetOptions } from './requests.ts';

/** The path of the URL is the secret, and the name of the host is not: Slack and others give each channel a path of its own. */
const FORM = /^(hook\+https?:\/\/[^/?#@\\\s]+)([/?][^#\\\s]*)?$/i;

/** @returns what may be shown of the URL, and its path and query; undefined if it is no URL of a hook */
export function readHookUrl(url: string): { readonly to: string; readonly hookPath: string } | undefined {
  const [, host, hookPath = ''] = FORM.exec(url) ?? [];
  if (host === undefined || !URL.canParse(withoutHook(url))) return undefined;
  return { to: hookPath.length > 1 ? `${host}/…` : host, hookPath };
}

/** @returns a hook, not connected yet. Its `ask` is always `{ kind: 'no hub' }`. @throws TypeError if `to` is no URL of one */
export function openHook(options: TargetOptions): Target {
  const { hookPath = '', deployment } = options;
  const { origin } = new URL(withoutHook(options.to));
  const requests = new Requests({ ...options, to: origin, secrets: partsOf(hookPath) });

  async function send({ lines }: Outgoing, signal: AbortSignal): Promise<Sent> {
    const [line] = lines as readonly [Line];
    const { seq, id } = line.event;
    const answer = await requests.send({
      method: 'POST',
      path: hookPath,
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': `"${id}"` },
      // As `assetlog events` prints the lines of several deployments.
      body: deployment === undefined ? line.text : `{"deployment":"${deployment}",${line.text.slice(1)}`,
      signal,
    });
    if (answer.kind === 'unclear') return { ...answer, kind: 'in doubt', final: false };
    if (answer.kind !== 'answer') return answer;
    const { status, reason } = answer;
    if (status >= 200 && status < 300) return { kind: 'recorded', seq, id };
    return REFUSED.has(status) ? { kind: 'refused', status, reason } : otherwise(answer);
  }

  return {
    ask: async () => ({ kind: 'no hub' }),
    send,
    haveFilesChanged: () => requests.haveFilesChanged(),
    close: () => requests.close(),
  };
}

/** As at a plain upstream, but with any body. */
const REFUSED: ReadonlySet<number> = new Set([400, 413, 415, 422]);

function withoutHook(url: string): string {
  return url.slice('hook+'.length);
}

/** @returns what is masked in replies, which may repeat all of the URL or a part of it. Decoded, it masks both forms. */
function partsOf(hookPath: string): string[] {
  return [hookPath, ...hookPath.split(/[/?&=]/)].map(decode);
}
