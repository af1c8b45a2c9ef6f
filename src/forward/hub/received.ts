/**
 * Reads what a journal forwards to a hub: `PUT /forward/{source}/{first_seq}`, whose body is lines of that journal. Each line is
 * checked as its own journal does, and its event as a report is. The functions are pure.
 */

import { SOURCE_NAME_WANTED, sourceName } from '../../config/config.ts';
import type { Limits } from '../../config/limits.ts';
import { escaped, forwardedEvent } from '../../event/encoded.ts';
import type { Event, EventOrigin } from '../../event/event.ts';
import { readEventTime } from '../../event/event-time.ts';
import { ItemError, readItemText } from '../../event/item.ts';
import { type JsonBytes, LINE_FEED } from '../../event/json-bytes.ts';
import type { Members } from '../../event/members.ts';
import { type BatchLimits, loggedOf, type ReadItem } from '../../http/batch.ts';
import { quotingRefusal, Refusal, shown, shownJson } from '../../http/message.ts';
import { readUtf8 } from '../../http/request.ts';
import { checkLine, crcBefore } from '../../journal/line/chain.ts';
import { metadataStart, readWritten, type WrittenLine } from '../../journal/line/members.ts';
import { ID_FORM } from '../../journal/line/uuid.ts';
import type { SeqRange } from '../position.ts';
import { ID } from '../source.ts';

export interface ForwardPath {
  /** The id of the journal that sends. */
  readonly source: string;
  /** The seq of the first line; 0 in the path that asks how far the hub is. */
  readonly firstSeq: number;
}

/** An event of another journal, with its origin there. */
export type ForwardedEvent = Event & { readonly origin: ForwardedOrigin };

interface ForwardedOrigin extends EventOrigin {
  /** The id of the journal that the sender has it from; undefined if the sender recorded it first. */
  readonly throughSource: string | undefined;
}

/** Lines of one journal that have been checked. */
export interface Received {
  readonly source: string;
  readonly firstSeq: number;
  /** What the sender says that it does not have any more. */
  readonly lost: SeqRange | undefined;
  /** The first event of the journal under its id, as the sender says: those before it are elsewhere, and not lost. */
  readonly begins?: number | undefined;
  /** The id of the event before the first line, as the sender has it; undefined if it does not say that. */
  readonly after?: string | undefined;
  /** The journals that the lines came through, as the sender says; undefined if it does not say that. */
  readonly throughSources?: readonly string[] | undefined;
  /** At least one, with consecutive seqs. */
  readonly events: readonly ForwardedEvent[];
}

/** Like `Received`, before its lines are parsed. */
export interface Unparsed extends Omit<Received, 'events'> {
  readonly said?: SaidOfSource;
  /** Called at most once, when it is their turn. @throws Refusal 400 */
  readonly read: () => readonly ForwardedEvent[];
}

/** How lines are sent, for an error. */
export const sendWith = 'send lines with PUT /forward/{source}/{first_seq}';

/**
 * @param path raw, after `/forward/`: `0193e0c2-…/7`, or `0193e0c2-…`
 * @throws Refusal 400
 */
export function readForwardPath(path: string | undefined): ForwardPath {
  const [source = '', seq] = (path ?? '').split('/');
  const firstSeq = Number(seq ?? 0);
  const isSeq = seq === undefined || (SEQ.test(seq) && Number.isSafeInteger(firstSeq));
  if (ID.test(source) && isSeq) return { source, firstSeq };
  const problem = (sent: string) =>
    `the path after /forward/ is ${sent}; ${sendWith}: source is the id of the sending journal, a UUID in lower case, and first_seq the seq of the first line, from 1`;
  throw quotingRefusal(400, shown(path ?? ''), 'logged', problem);
}

/** What a request says of its source; undefined for what it does not say. */
export interface SaidOfSource {
  readonly name?: string | undefined;
  readonly tokenName?: string | undefined;
  /** The last seq of its journal. */
  readonly lastSeq?: number | undefined;
}

/** What the headers of a request say of the journal before the first line; undefined for what they do not say. */
export interface ForwardHeaders extends Pick<Received, 'lost' | 'begins' | 'after' | 'throughSources'> {
  readonly crc: number | undefined;
  readonly said: SaidOfSource;
}

/** @throws Refusal 400 */
export function readForwardHeaders(
  all: readonly string[],
  { forwardThroughMax: max }: Pick<Limits, 'forwardThroughMax'>,
): ForwardHeaders {
  const raw: string[] = [];
  for (let at = 0; at < all.length; at += 2) if (OWN_HEADER.test(all[at]!)) raw.push(all[at]!, all[at + 1]!);
  const crc = matched(raw, 'Assetlog-Crc', /^([0-9a-f]{8})$/, '8 hexadecimal digits in lower case');
  const lostForm = /^([1-9][0-9]{0,15})-([1-9][0-9]{0,15})$/;
  const range = matched(raw, 'Assetlog-Lost', lostForm, 'two seqs, such as 4-6');
  const lost = range && { first: Number(range[1]), last: Number(range[2]) };
  const after = matched(raw, 'Assetlog-After', ID, 'the id of an event, a UUID in lower case')?.[0];
  const ids = { exec: (sent: string) => (sent.split(', ', max + 1).length > max ? null : IDS.exec(sent)) };
  const wanted = `1 to ${max} ids of journals, joined by ", "`;
  const throughSources = matched(raw, 'Assetlog-Through', ids, wanted)?.[0].split(', ');
  const lastSeq = matched(raw, 'Assetlog-Last', exactSeq, 'a seq');
  const begins = matched(raw, 'Assetlog-Begins', exactSeq, 'a seq');
  const name = matched(raw, 'Assetlog-Name', encodedName, `${SOURCE_NAME_WANTED}, percent-encoded`)?.[0];
  const said = { name, lastSeq: lastSeq && Number(lastSeq[0]) };
  return {
    crc: crc && Number.parseInt(crc[1]!, 16),
    lost,
    begins: begins && Number(begins[0]),
    after,
    throughSources,
    said,
  };
}

/** What `matched` needs of a pattern, for a seq that a number holds: readers of `/sources` take no other lag. */
const exactSeq = {
  exec: (sent: string): RegExpExecArray | null => (Number.isSafeInteger(Number(sent)) ? SEQ.exec(sent) : null),
};

/** The same for a text that is percent-encoded UTF-8. */
const encodedName = {
  exec(sent: string): RegExpExecArray | null {
    try {
      return sourceName.exec(decodeURIComponent(sent));
    } catch {
      return null;
    }
  },
};

function matched(
  raw: readonly string[],
  name: string,
  form: Pick<RegExp, 'exec'>,
  wanted: string,
): RegExpExecArray | undefined {
  const values = raw.filter((_, at) => at % 2 === 1 && raw[at - 1]!.toLowerCase() === name.toLowerCase());
  const [value] = values;
  if (value === undefined) return undefined;
  const found = values.length === 1 ? form.exec(value) : null;
  if (found !== null) return found;
  const problem = (sent: string) => `${name} is ${sent}; send ${wanted}, once`;
  throw quotingRefusal(400, shown(values.join(', ')), 'logged', problem);
}

/**
 * @param crc the one before the first line, which is not checked if it is undefined
 * @returns the events, each with its origin
 * @throws Refusal 400 for the first line that is no line of a journal, does not continue the one before, or has no valid event
 */
export function readForwarded(
  body: Buffer,
  { source, firstSeq }: ForwardPath,
  crc: number | undefined,
  readItem: ReadItem,
  limits: BatchLimits & Pick<Limits, 'lineBytesMax'>,
): ForwardedEvent[] {
  const json = readUtf8(body, limits, true);
  if (body.length === 0) throw new Refusal(400, `${NOTHING}: the body is empty; it must have at least one line`);
  if (body.at(-1) !== LINE_FEED)
    throw new Refusal(400, `${NOTHING}: the body must end with the newline of its last line`);
  if (escaped(body) !== body) {
    throw new Refusal(400, `${NOTHING}: U+0085, U+2028 and U+2029 are escaped in the lines of a journal`);
  }
  const events: ForwardedEvent[] = [];
  let last = crc ?? crcBefore(body, 0, body.indexOf(LINE_FEED));
  let seq = firstSeq;
  let time = { json: '', text: '' };
  for (let start = 0; start < body.length; seq += 1) {
    const count = events.length;
    if (count === limits.batchItemsMax) throw wrongLine(count, seq, `at most ${count} lines are taken at a time`);
    const end = body.indexOf(LINE_FEED, start);
    if (end - start > limits.lineBytesMax - ADDED_BYTES_MAX)
      throw wrongLine(count, seq, 'it is longer than a line can be');
    const check = chained(body, start, end, seq, last, count === 0);
    if (typeof check === 'string') throw wrongLine(count, seq, check);
    last = check;
    try {
      const line = readLine(json, start, end, readItem, limits);
      const { id, recorded, through: throughSource } = line;
      if (recorded !== time.json) time = { json: recorded, text: timeIn(recorded) }; // the lines of a batch have the same one
      const origin: ForwardedOrigin = { source, seq, id, recorded: time.text, throughSource };
      events.push(forwardedEvent(line, origin) as ForwardedEvent);
    } catch (error) {
      if (!(error instanceof ItemError || error instanceof Refusal)) throw error;
      throw wrongLine(count, seq, error.message, loggedOf(error));
    }
    start = end + 1;
  }
  return events;
}

/** @param index of the line, from 0. @param logged the problem as it may be logged */
function wrongLine(index: number, seq: number, problem: string, logged = problem): Refusal {
  const which = `${NOTHING}: line ${index + 1}, which must have seq ${seq}, is wrong:`;
  return new Refusal(400, `${which} ${problem}`, { logged: `${which} ${logged}` });
}

/**
 * Checks a line as its journal does.
 * @param last the crc of the line before
 * @returns its crc, or what is wrong
 */
function chained(
  body: Buffer,
  start: number,
  end: number,
  seq: number,
  last: number,
  isFirst: boolean,
): number | string {
  let check = checkLine(body, start, end, { seq, crc: last });
  if (check.kind === 'bad' && !isFirst) {
    const anew = checkLine(body, start, end, { seq, crc: 0 }); // the first line of the next file
    if (anew.kind === 'good') check = anew;
  }
  return check.kind === 'good' ? check.chain.crc : check.problem;
}

type ReadLine = Pick<WrittenLine, 'id' | 'recorded' | 'through'> & Omit<Event, 'origin'>;

/** @param start of the line in the bytes, and @param end its end. @throws ItemError or Refusal 400 if its event could not be reported */
function readLine(json: JsonBytes, start: number, end: number, readItem: ReadItem, limits: BatchLimits): ReadLine {
  const line = json.text(start, end);
  const written = readWritten(line); // faster than to parse all members
  if (written !== undefined && isReportable(written, json, start, limits)) return written;
  const members = readItemText(line, json.limits);
  const id = idIn(members);
  const recorded = (members.get('recorded') ?? members.get('time'))?.text ?? 'missing';
  const [, through] = FROM.exec(members.get('from')?.text ?? '') ?? [];
  return { id, recorded, through, ...readItem(members) };
}

/** Whether an event of `readWritten` is one that `readItem` takes, and in the form in which it is recorded. */
function isReportable(
  { assetKey, metadata, eventTime }: WrittenLine,
  json: JsonBytes,
  start: number,
  limits: BatchLimits,
): boolean {
  if (Buffer.byteLength(assetKey.join('/')) > limits.keyBytesMax) return false;
  if (eventTime !== undefined && !isUtc(eventTime)) return false;
  if (metadata === undefined) return true;
  const at = metadataStart(json.bytes, start);
  const end = json.valueEnd(at, 1);
  return end !== -1 && json.omitted === 0 && json.text(at, end) === metadata;
}

function idIn(members: Members): string {
  const json = members.get('id')?.text ?? 'missing';
  if (QUOTED_ID.test(json)) return json.slice(1, -1);
  throw new ItemError(`its id is ${shownJson(json)}; a line of a journal has a UUID in lower case`);
}

/** @param json of the time of the line in the journal that recorded it first */
function timeIn(json: string): string {
  const text = json.slice(1, -1);
  if (json === `"${text}"` && isUtc(text) && text.length === TIME_CHARACTERS) return text;
  throw new ItemError(`its time is ${shownJson(json)}; a line of a journal has one in UTC with milliseconds`);
}

function isUtc(text: string): boolean {
  const time = readEventTime(text);
  return time.kind === 'time' && time.utc === text;
}

const NOTHING = 'nothing was recorded';
/** What a hub adds to a line, `from` and `recorded` above all, with ample margin. */
const ADDED_BYTES_MAX = 512;
const OWN_HEADER = /^assetlog-/i;
const SEQ = /^[1-9][0-9]{0,15}$/;
const IDS = new RegExp(`^${ID_FORM}(?:, ${ID_FORM})*$`);
const FROM = new RegExp(`^\\["(${ID_FORM})",`);
const QUOTED_ID = new RegExp(`^"${ID_FORM}"$`);
const TIME_CHARACTERS = '2026-11-20T15:19:45.266Z'.length;
