/**
 * Reads the request with which a journal forwards to a hub: `PUT /forward/{source}/{first_seq}`, whose body is lines of that
 * journal. Each line is checked in the same way as by its own journal, and its event in the same way as a report. The functions
 * are pure.
 */

import type { Limits } from '../../config/limits.ts';
import { detach } from '../../config/memory.ts';
import { SOURCE_NAME_WANTED, sourceName } from '../../config/names.ts';
import { escaped, forwardedEvent } from '../../event/encoded.ts';
import type { Event, EventOrigin } from '../../event/event.ts';
import { readEventTime } from '../../event/event-time.ts';
import { ItemError, readItemText } from '../../event/item.ts';
import { type JsonBytes, LINE_FEED } from '../../event/json-bytes.ts';
import type { LineName } from '../../event/line-name.ts';
import { type Members, slotNames } from '../../event/members.ts';
import { objectSchema, orNull, type Schema, TEXT } from '../../event/schema.ts';
import { loggedOf, type ReadItem } from '../../http/batch.ts';
import { quotingRefusal, Refusal, shown, shownJson } from '../../http/message.ts';
import { packedHeader, pathParameter } from '../../http/openapi.ts';
import { readUtf8 } from '../../http/request.ts';
import type { RouteDescription } from '../../http/router.ts';
import { checkLine, crcBefore, type LineCheck } from '../../journal/line/chain.ts';
import { metadataStart, readWritten, type WrittenLine } from '../../journal/line/members.ts';
import type { ChainPosition } from '../../journal/line/record.ts';
import {
  BY,
  BY_MEMBER,
  ERASED,
  ERASED_MEMBER,
  ORIGIN,
  ORIGIN_MEMBER,
  originIn,
  slotMember,
} from '../../journal/line/slot.ts';
import { ID_FORM } from '../../journal/line/uuid.ts';
import type { SeqRange } from '../position.ts';
import { type Era, isId } from '../source.ts';

/** Lines of a journal, and what their sender reports about them; undefined for facts that it does not report. */
export interface ForwardRequest extends SaidOfSource {
  /** The id of the sending journal. */
  readonly source: string;
  /** All ids of the journal, the current one last. */
  readonly eras: readonly Era[];
  /** The seq of the first line; 0 if the path has none, which asks for the last event that the hub has. */
  readonly firstSeq: number;
  /** The crc of the line before the first one. */
  readonly crc?: number | undefined;
  /** The id of the event before the first line. */
  readonly after?: string | undefined;
  /** The events before the first line that the sender no longer has. */
  readonly lost?: SeqRange | undefined;
  /** The first event of the journal under its id. The events before it were recorded under another id, and are not lost. */
  readonly begins?: number | undefined;
  readonly body: Buffer;
}

/** What a request reports about its source. */
export interface SaidOfSource {
  readonly name?: string | undefined;
  readonly tokenName?: string | undefined;
  /** The last seq of its journal. */
  readonly lastSeq?: number | undefined;
  /** While it cannot send: `stopped fork`, and the number of events that it has not sent. */
  readonly state?: string | undefined;
  readonly unsent?: number | undefined;
}

/** An event of another journal, with its line there. */
export interface ForwardedEvent extends Event {
  readonly origin: EventOrigin;
}

/** How to send lines, for the message of an error. */
export const sendWith = 'send lines with PUT /forward/{source}/{first_seq}';

/** @returns the description of `GET /forward/{source}` */
export function describeAsk(): RouteDescription {
  const gzip = { type: 'boolean', description: 'Whether the body of a PUT can be compressed with gzip.' };
  const origins = { type: 'boolean', description: 'Whether lines can have members before `metadata`.' };
  return {
    summary: 'Ask how far this hub is with another journal',
    parameters: [
      sourceInPath(),
      ...inEach(),
      inHeader('State', STATE.source, 'Why nothing can be sent.'),
      unsentParameter(),
    ],
    content: { 'application/json': objectSchema(positionMembers(), { gzip, origins }) },
  };
}

/** @returns the description of `PUT /forward/{source}/{first_seq}` */
export function describeForward({ batchItemsMax, forwardBodyBytesMax }: Limits): RouteDescription {
  const firstSeq = pathParameter('first_seq', { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, 7);
  const id = `^${ID_FORM}$`;
  const begins = 'The first event of the journal under its id; those before it are not lost.';
  const lines = `Unchanged lines of a journal, with consecutive seqs: at most ${batchItemsMax} lines and ${forwardBodyBytesMax} bytes.`;
  return {
    summary: 'Forward events of another journal',
    description:
      'Each event is recorded once, whatever its path: events that the hub already has are left out. A request is recorded completely or ' +
      'not at all. A 409 says where to continue.',
    parameters: [
      sourceInPath(),
      firstSeq,
      inHeader('Crc', CRC.source, 'The crc of the line before the first one; 00000000 at the beginning of a file.'),
      inHeader('After', id, 'The id of the event before the first line.'),
      inHeader('Lost', '^[1-9][0-9]*-[1-9][0-9]*$', 'Seqs that the device no longer has, up to the first line.'),
      inHeader('Begins', SENT_SEQ, begins),
      ...inEach(),
      packedHeader,
    ],
    body: { schema: { type: 'string', description: lines } },
    content: { 'application/json': objectSchema(positionMembers()) },
    also: [409],
  };
}

function sourceInPath(): Schema {
  return pathParameter('source', { type: 'string', pattern: `^${ID_FORM}$` }, '0193e0c2-8d1f-7c5e-9a41-2b7f5d3c6e90');
}

function inEach(): Schema[] {
  return [
    inHeader(
      'Before',
      BEFORE.source.replaceAll('{0,15}', '{0,14}'),
      'Earlier ids of the journal, each after its last line; the oldest first.',
    ),
    inHeader('Last', SENT_SEQ, 'The last seq of the journal.'),
    inHeader('Name', '^(?:[!-$&-~]|%[0-9A-F]{2})+$', 'The name of the device, percent-encoded.'),
  ];
}

function unsentParameter(): Schema {
  return inHeader('Unsent', '^(?:0|[1-9][0-9]{0,14})$', 'The events that are not sent.');
}

/** The pattern of a seq for the document: a number of 16 digits can be larger than any seq. */
const SENT_SEQ = '^[1-9][0-9]{0,14}$';

function inHeader(name: string, pattern: string, description: string): Schema {
  return { name: `Assetlog-${name}`, in: 'header', description, schema: { type: 'string', pattern } };
}

/** The members of each answer, by name. */
function positionMembers() {
  return {
    seq: {
      type: 'integer',
      minimum: 0,
      description: 'The seq of the last event that this hub has, in its own journal; 0 if there is none.',
    },
    id: orNull(TEXT),
  };
}

/**
 * @param path raw, after `/forward/`: `0193e0c2-…/7`, or `0193e0c2-…`
 * @throws Refusal 400
 */
export function readForwardPath(path = ''): Pick<ForwardRequest, 'source' | 'firstSeq'> {
  const [source, seq] = path.split('/');
  const firstSeq = seq === undefined ? 0 : readSeq(seq);
  if (isId(source) && firstSeq !== undefined) return { source: detach(source), firstSeq };
  const problem = (sent: string) =>
    `the path after /forward/ is ${sent}; ${sendWith}: source is the id of the sending journal, a UUID in lower case, and first_seq the seq of the first line, from 1`;
  throw quotingRefusal(400, shown(path), 'logged', problem);
}

/**
 * @param source the id of the sending journal
 * @param raw all headers: name, value, name, value …
 * @throws Refusal 400
 */
export function readForwardHeaders(
  source: string,
  raw: readonly string[],
): Omit<ForwardRequest, 'source' | 'firstSeq' | 'tokenName' | 'body'> {
  const sent = new Map<string, string[]>();
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!.toLowerCase();
    if (name.startsWith('assetlog-')) sent.set(name, [...(sent.get(name) ?? []), raw[at + 1]!]);
  }
  function read<Value>(name: string, wanted: string, parse: (text: string) => Value | undefined): Value | undefined {
    const values = sent.get(name.toLowerCase());
    if (values === undefined) return undefined;
    const value = values.length === 1 ? parse(values[0]!) : undefined;
    if (value !== undefined) return value;
    const problem = (text: string) => `${name} is ${text}; send ${wanted}, once`;
    throw quotingRefusal(400, shown(values.join(', ')), 'logged', problem);
  }
  const before = read('Assetlog-Before', 'a last line and the id up to there, such as 99 0193e0c2-…', readBefore);
  return {
    eras: erasOf(before ?? [], source),
    crc: read('Assetlog-Crc', '8 hexadecimal digits in lower case', readCrc),
    lost: read('Assetlog-Lost', 'two seqs, such as 4-6', readLost),
    after: read('Assetlog-After', 'the id of an event, a UUID in lower case', (id) => (isId(id) ? id : undefined)),
    lastSeq: read('Assetlog-Last', 'a seq', readSeq),
    begins: read('Assetlog-Begins', 'a seq', readSeq),
    state: read('Assetlog-State', 'up to 40 lower-case letters and spaces between', (text) => STATE.exec(text)?.[0]),
    unsent: read('Assetlog-Unsent', 'a number of events', readCount),
    name: read('Assetlog-Name', `${SOURCE_NAME_WANTED}, percent-encoded`, readName),
  };
}

function readCrc(text: string): number | undefined {
  return CRC.test(text) ? Number.parseInt(text, 16) : undefined;
}

function readLost(text: string): SeqRange | undefined {
  const [, first, last] = LOST.exec(text) ?? [];
  return first === undefined ? undefined : { first: Number(first), last: Number(last) };
}

function readCount(text: string): number | undefined {
  return text === '0' ? 0 : readSeq(text);
}

/**
 * @returns the last line of each earlier id, and the id; undefined unless the lines are in ascending order and distinct
 */
function readBefore(text: string): readonly Era[] | undefined {
  if (!BEFORE.test(text)) return undefined;
  const ends = text.split(', ').map((one): Era => {
    const [last, id] = one.split(' ');
    return [Number(last), detach(id!)];
  });
  return ends.every(([last], at) => last > (ends[at - 1]?.[0] ?? 0) && Number.isSafeInteger(last)) ? ends : undefined;
}

/** @param ends the result of `readBefore` */
function erasOf(ends: readonly Era[], source: string): Era[] {
  return [...ends.map(([, id]) => id), source].map((id, at) => [(ends[at - 1]?.[0] ?? 0) + 1, id]);
}

/** A larger seq cannot be compared, since a number cannot represent it. */
function readSeq(text: string): number | undefined {
  return SEQ.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;
}

function readName(text: string): string | undefined {
  try {
    return sourceName.exec(decodeURIComponent(text))?.[0];
  } catch {
    return undefined;
  }
}

/**
 * @returns the events, each with its origin
 * @throws Refusal 400 for the first line that is not a journal line, does not continue the line before it, or has no valid
 * event
 */
export function readForwarded(
  { source, eras, firstSeq, crc, body }: Pick<ForwardRequest, 'source' | 'eras' | 'firstSeq' | 'crc' | 'body'>,
  readItem: ReadItem,
  limits: Limits,
): ForwardedEvent[] {
  const json = readUtf8(body, limits, true);
  if (body.length === 0) throw new Refusal(400, `${NOTHING}: the body is empty; it must have at least one line`);
  if (body.at(-1) !== LINE_FEED)
    throw new Refusal(400, `${NOTHING}: the body must end with the newline of its last line`);
  if (escaped(body) !== body) {
    throw new Refusal(400, `${NOTHING}: U+0085, U+2028 and U+2029 are escaped in the lines of a journal`);
  }
  const events: ForwardedEvent[] = [];
  let chain: ChainPosition = { seq: firstSeq, crc: crc ?? crcBefore(body, 0, body.indexOf(LINE_FEED)) };
  const refuse = (problem: string, logged = problem): never => {
    const which = `${NOTHING}: line ${events.length + 1}, which must have seq ${chain.seq}, is wrong:`;
    throw new Refusal(400, `${which} ${problem}`, { logged: `${which} ${logged}` });
  };
  let time = { json: '', text: '' };
  for (let start = 0; start < body.length; ) {
    if (events.length === limits.batchItemsMax) refuse(`at most ${events.length} lines are accepted at a time`);
    const end = body.indexOf(LINE_FEED, start);
    if (end - start > limits.lineBytesMax - ADDED_BYTES_MAX) refuse('it is longer than a line can be');
    const check = checkNext(body, start, end, chain);
    if (check.kind === 'bad') return refuse(check.problem);
    try {
      const line = readLine(json, start, end, readItem, limits);
      const { recorded } = line;
      if (recorded !== time.json) time = { json: recorded, text: readTime(recorded) }; // the lines of a batch have the same time
      const { seq } = chain;
      const first = firstName(line.name ?? [idAt(eras, seq), seq], source, seq);
      const origin: EventOrigin = { source, seq, id: line.id, recorded: time.text, first };
      events.push(forwardedEvent(line, origin, line.slot) as ForwardedEvent);
    } catch (error) {
      if (!(error instanceof ItemError || error instanceof Refusal)) throw error;
      refuse(error.message, loggedOf(error));
    }
    chain = check.chain;
    start = end + 1;
  }
  return events;
}

/** Checks a line that follows the line before it, or is the first line of the next file. */
function checkNext(body: Buffer, start: number, end: number, chain: ChainPosition): LineCheck {
  const check = checkLine(body, start, end, chain);
  if (check.kind === 'good' || start === 0) return check;
  const first = checkLine(body, start, end, { ...chain, crc: 0 });
  return first.kind === 'good' ? first : check;
}

/** @returns the name of an event; undefined if it is the same as at its sender */
function firstName(name: LineName, source: string, seq: number): LineName | undefined {
  return name[0] === source && name[1] === seq ? undefined : name;
}

/** @returns the id that a journal had when it recorded a line */
function idAt(eras: readonly Era[], seq: number): string {
  return (eras.findLast(([first]) => first <= seq) ?? eras[0]!)[1];
}

interface ReadLine extends Pick<WrittenLine, 'id' | 'recorded'>, Omit<Event, 'origin'>, Slot {}

interface Slot {
  /** The line that was reported; undefined if it is this one. */
  readonly name: LineName | undefined;
  /** The members of its slot except `origin`. */
  readonly slot: string;
}

/** @throws ItemError, or Refusal 400, if the event could not be reported */
function readLine(json: JsonBytes, start: number, end: number, readItem: ReadItem, limits: Limits): ReadLine {
  const line = json.text(start, end);
  const written = readWritten(line); // faster than parsing all members
  if (written !== undefined && isReportable(written, json, start, limits))
    return { ...written, ...readSlot(written.slot, written.from) };
  const members = readItemText(line, json.limits);
  const id = readLineId(members.get('id')?.text);
  const recorded = (members.get('recorded') ?? members.get('time'))?.text ?? 'missing';
  const [, source, seq] = FROM.exec(members.get('from')?.text ?? '') ?? [];
  const from: LineName | undefined = source === undefined ? undefined : [source, Number(seq)];
  return { id, recorded, ...readSlot(takeSlot(members), from), ...readItem(members) };
}

/** Removes the members that belong to a slot, so that other members are refused like those of a report. */
function takeSlot(members: Members): string {
  let slot = '';
  for (const name of slotNames) {
    const value = members.get(name);
    if (value !== undefined) slot += `,"${name}":${value.text}`;
  }
  for (const [name, { text }] of members.others ?? []) {
    const member = slotMember(name, text);
    if (member === undefined) continue;
    slot += member;
    members.others!.delete(name);
  }
  if (members.others?.size === 0) members.others = undefined;
  return slot;
}

/**
 * @param slot its texts contain no quotes
 * @throws ItemError if `origin` is not a single name of a line, if there is no `from`, or if `by` is not a single text
 */
function readSlot(slot: string, from: LineName | undefined): Slot {
  const others = slot.replace(ORIGIN, '');
  if (others.replace(BY, '').includes(BY_MEMBER))
    throw new ItemError('its by is not one name of a token, such as "ci"');
  if (others.replace(ERASED, '').includes(ERASED_MEMBER))
    throw new ItemError('its erased is not one time, such as "2026-11-20T15:19:45.266Z"');
  const name = slot === '' ? from : (originIn(slot) ?? from);
  const isLine = name === undefined || (Number.isSafeInteger(name[1]) && name[1] > 0);
  if (isLine && !others.includes(ORIGIN_MEMBER)) return { name, slot: others };
  throw new ItemError('its origin is not the id of one journal and a seq in it, such as ["0193e0c2-…",7]');
}

/** Whether `readItem` accepts the event of `readWritten` in its recorded form. */
function isReportable(
  { assetKey, metadata, eventTime }: WrittenLine,
  json: JsonBytes,
  start: number,
  limits: Limits,
): boolean {
  if (Buffer.byteLength(assetKey.join('/')) > limits.keyBytesMax) return false;
  if (eventTime !== undefined && !isUtc(eventTime)) return false;
  if (metadata === undefined) return true;
  const at = metadataStart(json.bytes, start);
  const end = json.valueEnd(at, 1);
  return end !== -1 && json.omitted === 0 && json.text(at, end) === metadata;
}

function readLineId(json = 'missing'): string {
  const id = json.slice(1, -1);
  if (json === `"${id}"` && isId(id)) return id;
  throw new ItemError(`its id is ${shownJson(json)}; a line of a journal has a UUID in lower case`);
}

/** @param json the time at which the event was first recorded */
function readTime(json: string): string {
  const text = json.slice(1, -1);
  if (json === `"${text}"` && isUtc(text) && text.length === TIME_CHARACTERS) return text;
  throw new ItemError(`its time is ${shownJson(json)}; a line of a journal has one in UTC with milliseconds`);
}

function isUtc(text: string): boolean {
  const time = readEventTime(text);
  return time.kind === 'time' && time.utc === text;
}

const NOTHING = 'nothing was recorded';
/** More bytes than a hub adds to a line, which are mostly `from` and `recorded`. */
const ADDED_BYTES_MAX = 512;
const CRC = /^[0-9a-f]{8}$/;
const STATE = /^(?=.{1,40}$)[a-z]+(?: [a-z]+)*$/;
const LOST = /^([1-9][0-9]{0,15})-([1-9][0-9]{0,15})$/;
const SEQ = /^[1-9][0-9]{0,15}$/;
const FROM = new RegExp(`^\\["(${ID_FORM})",([0-9]+)\\]$`);
const BEFORE = new RegExp(`^[1-9][0-9]{0,15} ${ID_FORM}(?:, [1-9][0-9]{0,15} ${ID_FORM}){0,7}$`);
const TIME_CHARACTERS = '2026-11-20T15:19:45.266Z'.length;
