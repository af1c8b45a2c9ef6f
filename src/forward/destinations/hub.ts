/**
 * A hub: another assetlog, which accepts lines of a journal. It knows how many events of each journal it has and records
 * none twice, so a request can always be repeated: the next `ask` shows its result.
 */

import { gzipHeader, pack } from '../../client/packed.ts';
import { crcBefore } from '../../journal/line/chain.ts';
import { hasSlot } from '../../journal/line/members.ts';
import { hex } from '../../journal/line/record.ts';
import { bytesOf, type Line, linesBefore } from '../../journal/look/reading.ts';
import type { Position } from '../position.ts';
import { otherwise, positionOf, type Said, turnedAway } from './answers.ts';
import type { About, AskableDestination, Asked, Opening, Sent, Shipment, Stopped } from './destination.ts';
import { type Answer, HttpRequests } from './http.ts';

type HubAnswer = Extract<Answer, { readonly kind: 'answer' }>;

/** @returns a hub, not connected yet. @throws TypeError if `to` is not a URL */
export function openHub(opening: Opening): AskableDestination {
  const { source, limits } = opening;
  const path = `/forward/${source}`;
  // A request on an idle connection that has ended is sent again, so the connection can be kept long.
  const requests = new HttpRequests({ ...opening, keptMs: limits.forwardKeptMs });
  const size = new BodySize(limits.forwardBatchBytes);
  /** Whether the hub decompresses bodies: its last answer to `ask` said so, and no later answer contradicts it. */
  let unpacks = false;
  /** Whether it accepts lines with members that version 0.3 does not know. */
  let takesSlot = false;

  async function ask(signal: AbortSignal, about?: About): Promise<Asked> {
    const headers = { ...ownHeaders(opening, about?.lastSeq), ...stopHeaders(about) };
    const answer = asAgain(await requests.send({ method: 'GET', path, headers, signal }));
    if (answer.kind !== 'answer') return answer;
    const { status, said, reason } = answer;
    if (status !== 200 || said === undefined || !('seq' in said)) {
      return NO_HUB.has(status) ? { kind: 'no hub' } : otherwise(answer);
    }
    const at = readPosition(said);
    unpacks = said['gzip'] === true;
    takesSlot = said['origins'] === true;
    return at === undefined ? notUnderstood(reason) : { kind: 'at', ...at, knowsIds: takesSlot };
  }

  async function send(batch: Shipment, signal: AbortSignal): Promise<Sent> {
    const lines = takesSlot
      ? batch.lines
      : linesBefore(batch.lines, ({ bytes, start, end }) => hasSlot(bytes, start, end));
    if (lines.length === 0) return turnedAway(OLDER_HUB);
    for (;;) {
      const chosen = firstOf(lines, size.bytes, limits.batchItemsMax);
      const sent = await put(chosen, headersOf(batch, opening), signal);
      if (sent !== undefined) return sent;
    }
  }

  /** @returns undefined if the lines must be sent again, either fewer of them or uncompressed */
  async function put(
    lines: readonly Line[],
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Sent | undefined> {
    const body = bytesOf(lines);
    const packed = unpacks && body.length <= limits.forwardBatchBytes ? pack(body, limits) : undefined;
    const found = await requests.send({
      method: 'PUT',
      path: `${path}/${lines[0]!.seq}`,
      headers: { ...headers, ...(packed !== undefined && gzipHeader) },
      body: packed ?? body,
      signal,
    });
    if (hasNoStatus(found)) size.wasTooSlow(body.length);
    const answer = asAgain(found);
    if (answer.kind !== 'answer') return answer;
    const { status } = answer;
    // The hub was downgraded, or a proxy changes the body, so the same lines are sent uncompressed.
    if (packed !== undefined && (status === 415 || status === 400)) unpacks = false;
    else if (status === 413 && lines.length > 1) size.wasTooLarge(body.length);
    else {
      if (status === 200) size.arrived();
      return judge(answer, lines);
    }
    return undefined;
  }

  return {
    ask,
    send,
    haveFilesChanged: (signal) => requests.haveFilesChanged(signal),
    close: () => requests.close(),
  };
}

/** The most bytes of the next body. */
class BodySize {
  bytes: number;
  /** The size that a proxy in front of the hub has accepted. */
  #max: number;

  constructor(max: number) {
    this.bytes = max;
    this.#max = max;
  }

  /** On a slow link a large body does not arrive within the timeout. */
  wasTooSlow(bytes: number): void {
    this.bytes = Math.max(1, bytes >> 1);
  }

  wasTooLarge(bytes: number): void {
    this.bytes = bytes >> 1;
    this.#max = this.bytes;
  }

  arrived(): void {
    this.bytes = Math.min(2 * this.bytes, this.#max);
  }
}

/** @returns what each request tells about the journal, including its earlier ids, each after its last line */
function ownHeaders({ eras = [], sourceName }: Opening, lastSeq: number | undefined) {
  const ends = eras.slice(1).map(([first], at) => `${first - 1} ${eras[at]![1]}`);
  return {
    ...(ends.length > 0 && { 'Assetlog-Before': ends.slice(-BEFORE_MAX).join(', ') }),
    ...(lastSeq !== undefined && lastSeq > 0 && { 'Assetlog-Last': String(lastSeq) }),
    ...(sourceName !== undefined && { 'Assetlog-Name': encodeURIComponent(sourceName) }),
  };
}

/** Lines that are sent show that the journal is not stopped. */
function stopHeaders({ stopped, unsent }: Partial<About> = {}) {
  return stopped === undefined
    ? {}
    : { 'Assetlog-State': `stopped ${stopped}`.trimEnd(), 'Assetlog-Unsent': String(unsent) };
}

function headersOf({ lines, lost, after, lastSeq }: Shipment, opening: Opening) {
  const { bytes, start, end } = lines[0]!;
  const { beginSeq = 1 } = opening;
  return {
    ...ownHeaders(opening, lastSeq),
    'Content-Type': 'application/x-ndjson',
    'Assetlog-Crc': hex(crcBefore(bytes, start, end)),
    ...(lost !== undefined && { 'Assetlog-Lost': `${lost.first}-${lost.last}` }),
    ...(beginSeq > 1 && lost && { 'Assetlog-Begins': String(beginSeq) }),
    ...(after !== undefined && { 'Assetlog-After': after }),
  };
}

/** The most that a hub accepts. */
const BEFORE_MAX = 8;
const OLDER_HUB = 'this hub is older than 0.4; upgrade it, then forwarding continues';
/** Answers of servers that are not hubs. The reference answers every GET with status 200 and a page. */
const NO_HUB: ReadonlySet<number> = new Set([200, 400, 404, 405]);

function judge(answer: HubAnswer, lines: readonly Line[]): Sent {
  const { status, said, reason } = answer;
  if (said === undefined || !(status === 200 || status === 409) || !('seq' in said)) return refusedBy(answer);
  const at = readPosition(said);
  if (at === undefined) return notUnderstood(reason);
  return status === 200 ? recorded(at, lines) : conflict(said, reason);
}

/** @returns the consequence of an answer that names no position */
function refusedBy(answer: HubAnswer): Sent {
  const { status, said, reason } = answer;
  if (said === undefined) return otherwise(answer);
  if (status === 400) return { kind: 'stopped', why: 'damage', reason: `${reason}; run assetlog verify` };
  return status === 413 && 'error' in said ? { kind: 'refused', status, reason } : otherwise(answer);
}

/** Whether no answer started within the timeout or before the connection ended. */
function hasNoStatus(answer: Answer): boolean {
  return answer.kind === 'unclear' && answer.status === undefined;
}

function asAgain(answer: Answer): Exclude<Answer, { kind: 'unclear' }> {
  return answer.kind === 'unclear' ? { kind: 'again', reason: answer.reason } : answer;
}

/**
 * @returns the position in a hub's answer; undefined if a member is invalid, so that no text of a server is taken for an id
 */
function readPosition({ seq, id }: Said): Position | undefined {
  // The hub has an event and does not know its id, since it is from another journal.
  if (id === null && Number.isSafeInteger(seq) && (seq as number) >= 0) return { seq: seq as number, id };
  return positionOf({ seq, id });
}

function notUnderstood(reason: string): Stopped {
  return {
    kind: 'stopped',
    why: 'not understood',
    reason: `${reason}; this is not the answer of a hub; check the URL`,
  };
}

/** A 200 names the last line that the hub has. It is one of ours unless another sender forwards the same journal. */
function recorded({ seq, id }: Position, lines: readonly Line[]): Sent {
  const line = lines[seq - lines[0]!.seq];
  if (line === undefined) return { kind: 'elsewhere', reason: `has event ${seq} of this journal` };
  if (id === null || line.event.id === id) return { kind: 'recorded', seq, id };
  return fork(`has another event ${seq} of this journal, with the id ${id}`);
}

function conflict(said: Said, reason: string): Sent {
  if (said['reason'] === 'fork') return fork(reason);
  // A hub of version 0.3 refuses events that have passed through it.
  return said['reason'] === 'loop' ? turnedAway(`${reason}; ${OLDER_HUB}`) : { kind: 'elsewhere', reason };
}

function fork(reason: string): Stopped {
  return { kind: 'stopped', why: 'fork', reason };
}

function firstOf(lines: readonly Line[], bytesMax: number, linesMax: number): readonly Line[] {
  let bytes = 0;
  return linesBefore(lines, ({ start, end }, index) => {
    bytes += end - start + 1;
    return index === linesMax || (index > 0 && bytes > bytesMax);
  });
}
