/**
 * A hub: another assetlog that takes lines of a journal. It knows how many it has of each journal and records none twice, so
 * that a request can always be repeated: the next `ask` says what became of it.
 */

import { gzipHeader, pack } from '../../client/packed.ts';
import { crcBefore } from '../../journal/line/chain.ts';
import { originAtEnd } from '../../journal/line/members.ts';
import { hex } from '../../journal/line/record.ts';
import { bytesOf, type Line, linesBefore } from '../../journal/look/reading.ts';
import { type Position, START } from '../position.ts';
import { isId, type Through } from '../source.ts';
import { otherwise, positionOf, type Said } from './answers.ts';
import type { AskableDestination, Asked, Opening, Sent, Shipment, Stopped } from './destination.ts';
import { type Answer, HttpRequests } from './http.ts';

interface HubSaid extends Position {
  /** The journals that its events reach. */
  readonly via: readonly string[];
}

type HubAnswer = Extract<Answer, { readonly kind: 'answer' }>;

/** @returns a hub, not connected yet. @throws TypeError if `to` is no URL */
export function openHub(opening: Opening): AskableDestination {
  const { source, through, onVia, limits } = opening;
  const path = `/forward/${source}`;
  // A request that meets the end of an idle connection goes again, so that it may be kept long.
  const requests = new HttpRequests({ ...opening, keptMs: limits.forwardKeptMs });
  const size = new BodySize(limits.forwardBatchBytes);
  /** The hub unpacks bodies, as its last answer to `ask` says and nothing since then has shown otherwise. */
  let unpacks = false;

  async function ask(signal: AbortSignal): Promise<Asked> {
    const answer = asAgain(await requests.send({ method: 'GET', path, headers: {}, signal }));
    if (answer.kind !== 'answer') return answer;
    const { status, said, reason } = answer;
    if (status !== 200 || said === undefined || !('seq' in said)) {
      return NO_HUB.has(status) ? { kind: 'no hub' } : otherwise(answer);
    }
    const at = readPosition(said, limits);
    unpacks = said['gzip'] === true;
    return at === undefined ? notUnderstood(reason) : ((await loopIn(at)) ?? { kind: 'at', seq: at.seq, id: at.id });
  }

  async function send(batch: Shipment, signal: AbortSignal): Promise<Sent> {
    const { lines } = batch;
    const ofSources = lines.some(sourceOf) ? await through?.() : undefined;
    for (;;) {
      const fitting = firstOf(lines, size.bytes, limits.batchItemsMax);
      const { chosen, names } = chooseWithNames(fitting, source, ofSources, limits.forwardThroughMax);
      if (chosen.length === 0) return tooFar(lines[0]!, limits);
      const headers = {
        ...headersOf(batch, opening),
        ...(names.length > 0 && { 'Assetlog-Through': names.join(', ') }),
      };
      const sent = await put(chosen, headers, signal);
      if (sent !== undefined) return sent;
    }
  }

  /** @returns undefined if the lines are to be sent again: fewer of them, or not packed */
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
    // The hub went back a version, or a proxy does not let the body through as it is: the same lines go unpacked.
    if (packed !== undefined && (status === 415 || status === 400)) unpacks = false;
    else if (status === 413 && lines.length > 1) size.wasTooLarge(body.length);
    else {
      if (status === 200) size.arrived();
      return judge(answer, lines);
    }
    return undefined;
  }

  async function judge(answer: HubAnswer, lines: readonly Line[]): Promise<Sent> {
    const { status, said, reason } = answer;
    if (said !== undefined) {
      if ((status === 200 || status === 409) && 'seq' in said) {
        const at = readPosition(said, limits);
        if (at === undefined) return notUnderstood(reason);
        return (await loopIn(at)) ?? (status === 200 ? recorded(at, lines) : conflict(said, reason));
      }
    }
    return refusedBy(answer);
  }

  /** A hub names in `via` its own journal, and the journals that it forwards to. */
  async function loopIn({ via }: HubSaid): Promise<Stopped | undefined> {
    await onVia?.(via);
    if (!via.includes(source)) return undefined;
    const reason = 'forwards to this journal itself, so events would go round; give one of the two another destination';
    return { kind: 'stopped', why: 'loop', reason };
  }

  return {
    ask,
    send,
    haveFilesChanged: (signal) => requests.haveFilesChanged(signal),
    close: () => requests.close(),
  };
}

/** How many bytes the next body may have. */
class BodySize {
  bytes: number;
  /** As many as a proxy in front of the hub has let through. */
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

function headersOf({ lines, lost, after, lastSeq }: Shipment, { beginSeq = 1, sourceName }: Opening) {
  const { bytes, start, end } = lines[0]!;
  return {
    'Content-Type': 'application/x-ndjson',
    'Assetlog-Crc': hex(crcBefore(bytes, start, end)),
    ...(lost !== undefined && { 'Assetlog-Lost': `${lost.first}-${lost.last}` }),
    ...(beginSeq > 1 && lost && { 'Assetlog-Begins': String(beginSeq) }),
    ...(after !== undefined && { 'Assetlog-After': after }),
    ...(lastSeq !== undefined && { 'Assetlog-Last': String(lastSeq) }),
    ...(sourceName !== undefined && { 'Assetlog-Name': encodeURIComponent(sourceName) }),
  };
}

/** Answers of servers that are no hub. The reference answers 200 with a page to every GET. */
const NO_HUB: ReadonlySet<number> = new Set([200, 400, 404, 405]);

/** @returns what follows from an answer that names no position */
function refusedBy(answer: HubAnswer): Sent {
  const { status, said, reason } = answer;
  if (said === undefined) return otherwise(answer);
  if (status === 400) return { kind: 'stopped', why: 'damage', reason: `${reason}; run assetlog verify` };
  return status === 413 && 'error' in said ? { kind: 'refused', status, reason } : otherwise(answer);
}

/** Whether no answer began, within the timeout or before the connection ended. */
function hasNoStatus(answer: Answer): boolean {
  return answer.kind === 'unclear' && answer.status === undefined;
}

function asAgain(answer: Answer): Exclude<Answer, { kind: 'unclear' }> {
  return answer.kind === 'unclear' ? { kind: 'again', reason: answer.reason } : answer;
}

/** @returns what a hub says; undefined if a member is not as it has to be, so that no text of a server is taken for an id */
function readPosition({ seq, id, via = [] }: Said, { forwardViaMax }: Opening['limits']): HubSaid | undefined {
  const at = seq === 0 && id === null ? START : positionOf({ seq, id });
  if (at === undefined || !Array.isArray(via) || via.length > forwardViaMax || !via.every(isId)) return undefined;
  return { ...at, via };
}

function notUnderstood(reason: string): Stopped {
  return { kind: 'stopped', why: 'not understood', reason: `${reason}; this is not what a hub says; check the URL` };
}

/** A 200 names the last line that the hub has, which is one of ours unless another sender has the same journal. */
function recorded({ seq, id }: Position, lines: readonly Line[]): Sent {
  const line = lines[seq - lines[0]!.seq];
  if (line === undefined) return { kind: 'elsewhere', reason: `has event ${seq} of this journal` };
  if (line.event.id === id) return { kind: 'recorded', seq, id };
  return fork(`has another event ${seq} of this journal, with the id ${id}`);
}

function conflict(said: Said, reason: string): Sent {
  if (said['reason'] === 'fork') return fork(reason);
  if (said['reason'] !== 'loop') return { kind: 'elsewhere', reason };
  const what = 'to leave such events out, stop the service and run assetlog forward identity --new --seq N';
  return { kind: 'stopped', why: 'loop', reason: `${reason}; ${what}` };
}

function fork(reason: string): Stopped {
  return { kind: 'stopped', why: 'fork', reason };
}

function tooFar({ seq }: Line, { forwardThroughMax }: Opening['limits']): Stopped {
  const reason = `event ${seq} came through ${forwardThroughMax} journals; forward it from one before this`;
  return { kind: 'stopped', why: 'loop', reason };
}

/** @returns the id of the journal that a line comes from; undefined if it was recorded here first */
function sourceOf({ bytes, start, end }: Line): string | undefined {
  return originAtEnd(bytes, start, end)?.source;
}

/**
 * @param ownSource the id of the journal
 * @returns the first lines that came through at most `max` journals together, and these journals; none if they were recorded here first
 */
function chooseWithNames(lines: readonly Line[], ownSource: string, through: Through | undefined, max: number) {
  let names: ReadonlySet<string> = new Set();
  const sources = new Set<string | undefined>([undefined]);
  const chosen = linesBefore(lines, (line) => {
    const source = sourceOf(line);
    if (sources.has(source)) return false;
    const all = new Set([...names, ownSource, ...(through?.get(source!) ?? [])]);
    if (all.size > max) return true;
    names = all;
    sources.add(source);
    return false;
  });
  return { chosen, names: [...names] };
}

function firstOf(lines: readonly Line[], bytesMax: number, linesMax: number): readonly Line[] {
  let bytes = 0;
  return linesBefore(lines, ({ start, end }, index) => {
    bytes += end - start + 1;
    return index === linesMax || (index > 0 && bytes > bytesMax);
  });
}
