/** What the answers of all kinds of destinations have in common, whatever their protocol. */

import { type NoReply, PROXY_REFUSED } from '../../client/connection.ts';
import { isTlsError, onOneLine } from '../../client/delivery.ts';
import { LateFileError } from '../../config/file-queue.ts';
import type { Line } from '../../journal/look/reading.ts';
import { withoutSecret } from '../../telemetry/masked.ts';
import type { Position } from '../position.ts';
import type { DestinationSettings } from '../settings.ts';
import { isId } from '../source.ts';
import type { Secrets } from './credentials.ts';
import type { Again, Sent, Stopped } from './destination.ts';

export { readObject } from '../../config/json-file.ts';

/** The members of a JSON object in an answer. */
export type Said = Readonly<Record<string, unknown>>;

/** @returns the line that a destination names; undefined unless that has an id and a seq above 0 */
export function loginHint(
  { tokenFile, passwordFile }: Pick<DestinationSettings, 'tokenFile' | 'passwordFile'>,
  files: string,
): string {
  if (passwordFile !== undefined) return `check the user, and the password in ${passwordFile}`;
  return tokenFile === undefined ? `name ${files}` : `check the token in ${tokenFile}`;
}

/** Text from a server can have any length, so it is cut between words. */
export function positionOf({ seq, id }: Said = {}): Position | undefined {
  return Number.isSafeInteger(seq) && (seq as number) > 0 && isId(id) ? { seq: seq as number, id } : undefined;
}

/** Text from a server can have any length. It is cut between words. */
export function quoteAnswer(text: string): string {
  if (text.length <= QUOTED_CHARACTERS_MAX) return onOneLine(text);
  return `${onOneLine(text.slice(0, QUOTED_CHARACTERS_MAX).replace(/\s\S*$/, ''))} …`;
}

/** Like `quoteAnswer`, without the secrets of a login, which a server might include in its answer. */
export function quoteWithout({ token, password }: Secrets, text: string): string {
  return quoteAnswer(withoutSecret(withoutSecret(text, token), password));
}

export function turnedAway(reason: string): Stopped {
  return { kind: 'stopped', why: 'turned away', reason };
}

/** @param error the error of reading a file or a certificate. A file that hangs is read again when its file system is back */
export function notSent(error: Error): Again | Stopped {
  const reason = `no request was sent: ${onOneLine(error.message)}`;
  return error instanceof LateFileError ? { kind: 'again', reason } : turnedAway(reason);
}

/** @returns that a destination has all events up to the event of a line */
export function recordedUpTo({ seq, event }: Line): Extract<Sent, { kind: 'recorded' }> {
  return { kind: 'recorded', seq, id: event.id };
}

/** Whether the version of a server, such as `2.12.0`, is older than another one. */
export function isOlder(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) < 0;
}

/**
 * @returns the general meaning of an answer whose status the kind of destination does not define: 404 means that the URL is wrong
 */
export function otherwise({ status, reason }: { readonly status: number; readonly reason: string }): Sent & Stopped {
  if (status < 300) return { kind: 'stopped', why: 'not understood', reason: `${reason}; check the URL` };
  return turnedAway(`${reason}; check the URL, and a proxy in front of it`);
}

/** @returns the meaning of a connection that could not be established */
export function unreached(
  { message, code }: Pick<NoReply, 'message' | 'code'>,
  { caFile }: Pick<DestinationSettings, 'caFile'>,
): Again | Stopped {
  const reason = `cannot be reached: ${problemOf(code, quoteAnswer(message))}`;
  if (code === PROXY_REFUSED) return turnedAway(reason);
  return isTlsError(code) ? turnedAway(`${reason}; ${tlsHint(code, caFile)}`) : { kind: 'again', reason };
}

function tlsHint(code = '', caFile: string | undefined): string {
  if (/EXPIRED|NOT_YET/.test(code)) {
    return `renew its certificate, or set the clock of this machine, which is at ${new Date().toISOString()}`;
  }
  if (/_ALERT_/.test(code)) return 'its log says why; client certificates are not sent';
  if (/ALTNAME/.test(code)) return 'use a name that its certificate has, unless a captive portal is in between';
  if (/SSL|EPROTO/.test(code)) return 'is it an http:// address, or is a captive portal in between?';
  return caFile === undefined ? 'name a CA file that has the certificate of its CA' : `check that ${caFile} has its CA`;
}

/** @returns the message of a connection error; for TLS a few words instead of the lines of OpenSSL */
export function problemOf(code = '', message: string): string {
  const [, detail] = /:SSL routines:[^:]*:([^:]+)/.exec(message) ?? /altnames: (.*?):?$/.exec(message) ?? [];
  const [, problem] = TLS_PROBLEMS.find(([pattern]) => pattern.test(`${code} ${detail}`)) ?? [];
  if (problem === undefined) return message;
  return detail === undefined ? problem : `${problem} (${detail})`;
}

/** The first pattern that matches the code, or the text of OpenSSL, decides. */
const TLS_PROBLEMS: readonly (readonly [RegExp, string])[] = [
  [/ALTNAME/, 'its certificate is not for this name'],
  [/EXPIRED/, 'its certificate has expired'],
  [/NOT_YET/, 'its certificate is not yet valid'],
  [/SELF_SIGNED|ISSUER|LEAF|UNTRUSTED/, 'its certificate is from no authority that is trusted here'],
  [/ alert /, 'it ends the TLS handshake'],
  [/SSL|EPROTO/, 'it does not speak TLS'],
  [/HPE_INVALID_CONSTANT/, 'it does not speak HTTP; check the URL'],
];

const QUOTED_CHARACTERS_MAX = 200;
