/**
 * The batch endpoint: many reports in one body, as NDJSON (one item per line) or as a JSON array. `event/item.ts` describes the
 * form of an item. A batch is recorded completely or not at all, unless the request prefers lenient handling. The functions are
 * pure.
 */

import type { Limits } from '../config/limits.ts';
import { detach } from '../config/memory.ts';
import type { Event } from '../event/event.ts';
import { ItemError, isAbsent, readItem, readItemMembers } from '../event/item.ts';
import { type Json, stringOf } from '../event/json.ts';
import { type JsonBytes, LINE_FEED } from '../event/json-bytes.ts';
import { type Members, readObjects } from '../event/members.ts';
import { endpoints } from '../event/parameters.ts';
import type { KeyConflict } from '../event/record-result.ts';
import { reportReader } from './handlers.ts';
import {
  type BodyReply,
  type Handler,
  type ItemProblem,
  quotingRefusal,
  Refusal,
  type Reply,
  shown,
  shownJson,
  WITHHELD,
} from './message.ts';
import { isJson, orMalformedJson, readQuery, readUtf8, TOKEN, wordOf } from './request.ts';

/** The media types of NDJSON, most common first. */
export const lineTypes: readonly string[] = ['application/x-ndjson', 'application/ndjson', 'application/jsonl'];
/** The media types of a batch: NDJSON first, a JSON array last. */
export const batchTypes: readonly string[] = [...lineTypes, 'application/json'];

/** @returns the handler of the batch endpoint. It throws Refusal 400 if nothing is to be recorded */
export function reportBatch(limits: Limits): Handler {
  const readBatch = batchReader(limits);
  const replies = new BatchReplies(limits.batchErrorsMax);
  return ({ body, head: { fields }, idempotencyKey, query }) => {
    readQuery(query); // unused, but a malformed query is refused like in a report
    const { events, numbers, problems } = readBatch(body, isJson(fields.contentType), idempotencyKey);
    const lenient = prefersLenient(fields.prefer);
    if (events.length === 0 || (problems.length > 0 && !lenient)) throw replies.wrongItems(problems, events.length);
    const count = events.length;
    const allProblems = (conflicts: readonly KeyConflict[]) =>
      [...problems, ...conflicts.map((one) => conflictProblem(one, numbers))].sort((a, b) => a.item - b.item);
    return {
      kind: 'record',
      events,
      onConflict: lenient ? 'leave out' : 'refuse all',
      replyTo: ({ replayed, conflicts = [] }) => {
        const counts = { recorded: count - conflicts.length, duplicates: replayed?.length };
        return lenient ? replies.lenient(counts, allProblems(conflicts)) : replies.recorded(counts);
      },
      conflictReply: (conflicts) => replies.wrongItems(allProblems(conflicts), count - conflicts.length).reply,
    };
  };
}

/** Number of recorded items, and how many of those were recorded earlier; undefined for none. */
interface Counts {
  readonly recorded: number;
  readonly duplicates: number | undefined;
}

function conflictProblem({ index, key, member, first }: KeyConflict, numbers: readonly number[]): Problem {
  const owner = first === undefined ? 'was used before' : `is also the key of item ${numbers[first]}`;
  const error = `idempotency_key ${shown(key)} ${owner}, for an event with another ${member}; send a new key, or the event as it was`;
  return { item: numbers[index]!, error, logged: error };
}

class BatchReplies {
  readonly #errorsMax: number;

  /** @param errorsMax wrong items that a reply describes */
  constructor(errorsMax: number) {
    this.#errorsMax = errorsMax;
  }

  recorded(counts: Counts): BodyReply {
    return { kind: 'body', status: 200, body: JSON.stringify(counts) };
  }

  /**
   * 207 if items are wrong: a client that checks only the status must not conclude that the whole batch was recorded.
   */
  lenient(counts: Counts, problems: readonly Problem[]): Reply {
    const headers = ['Preference-Applied', 'handling=lenient'];
    if (problems.length === 0) return { ...this.recorded(counts), headers };
    const body = JSON.stringify({ ...counts, failed: problems.length, errors: this.#described(problems) });
    return { kind: 'body', status: 207, body, headers };
  }

  wrongItems(problems: readonly Problem[], goodCount: number): Refusal {
    const { item, error, logged } = problems[0]!;
    const are = problems.length === 1 ? 'is' : 'are';
    const summary = `${problems.length} of ${goodCount + problems.length} items ${are} wrong and nothing was recorded; item ${item}:`;
    return new Refusal(400, `${summary} ${error}`, {
      logged: `${summary} ${logged}`,
      errors: this.#described(problems),
    });
  }

  #described(problems: readonly Problem[]): ItemProblem[] {
    return problems.slice(0, this.#errorsMax).map(({ item, error }) => ({ item, error }));
  }
}

/** The items of a batch, right and wrong. */
interface BatchItems {
  /** The right items in order. */
  readonly events: readonly Event[];
  /** The number of each right item: its line, or its position in the array, from 1. */
  readonly numbers: readonly number[];
  /** The wrong items in order. */
  readonly problems: readonly Problem[];
}

/**
 * Reads the items of a batch.
 * @param isArray whether the body is a JSON array; otherwise it is NDJSON, whose empty lines are skipped but counted
 * @param requestKey the key of the request; an item without a key gets `order-17/12` for `order-17` and item 12
 * @throws Refusal 400 if the body is not UTF-8 or not JSON, or has no items or more than `batchItemsMax`; a wrong item becomes a
 *   problem
 */
type ReadBatch = (body: Buffer, isArray: boolean, requestKey: string | undefined) => BatchItems;

function batchReader(limits: Limits): ReadBatch {
  const { batchItemsMax } = limits;
  const readEvent = batchItemReader(limits);
  return (body, isArray, requestKey) => {
    const events: Event[] = [];
    const numbers: number[] = [];
    const problems: Problem[] = [];
    const count = () => events.length + problems.length;
    const addItem: AddItem = (number, read) => {
      if (count() === batchItemsMax) {
        throw new Refusal(400, `the batch has more than ${batchItemsMax} items; send it in parts`);
      }
      try {
        events.push(readEvent(read(), requestKey === undefined ? undefined : `${requestKey}/${number}`));
        numbers.push(number);
      } catch (error) {
        if (!(error instanceof ItemError || error instanceof Refusal)) throw error;
        problems.push({ item: number, error: error.message, logged: loggedOf(error) });
      }
    };
    const json = readUtf8(body, limits, !isArray);
    if (isArray) addElements(json, batchItemsMax + 1, addItem);
    else addLines(json, addItem);
    if (count() === 0) throw new Refusal(400, 'the batch is empty; send at least one item');
    return { events, numbers, problems };
  };
}

/**
 * Reads the members of an item. It changes them.
 * @param itemKey the idempotency key for an item without one
 * @throws ItemError, or Refusal 400
 */
export type ReadItem = (members: Members, itemKey?: string) => Event;

export function batchItemReader(limits: Limits): ReadItem {
  const reports = new Map(endpoints.map((endpoint) => [endpoint, reportReader(endpoint, limits)]));
  return (members, itemKey) => {
    const { endpoint, idempotencyKey } = readItem(members);
    if (isAbsent(members.get('asset_key'))) throw new ItemError(NO_ASSET_KEY);
    const key = idempotencyKey === undefined ? itemKey : readKey(idempotencyKey, limits.idempotencyKeyCharactersMax);
    return reports.get(endpoint)!(undefined, members, NO_QUERY, key).event;
  };
}

/** @returns the error of a wrong item for the log: `…` if the error quotes the item */
export function loggedOf(error: ItemError | Refusal): string {
  return error instanceof Refusal ? (error.reply.logged ?? error.message) : WITHHELD;
}

interface Problem extends ItemProblem {
  /** See `logged` of `ErrorReply`. */
  readonly logged: string;
}

/** @param read throws ItemError if the item is malformed */
type AddItem = (number: number, read: () => Members) => void;

function addLines(json: JsonBytes, addItem: AddItem): void {
  const { bytes } = json;
  let [start, end] = [0, 0];
  const read = () => readItemMembers(json, start, end);
  for (let number = 1; start < bytes.length; start = end + 1, number += 1) {
    const lineFeed = bytes.indexOf(LINE_FEED, start);
    end = lineFeed === -1 ? bytes.length : lineFeed;
    if (json.spaceEnd(start) !== end) addItem(number, read);
  }
}

function addElements(json: JsonBytes, elementsMax: number, addItem: AddItem): void {
  const elements = orMalformedJson('the body', () => readObjects(json, elementsMax));
  if (elements === undefined) {
    const lines = `or one report per line as ${batchTypes[0]}`;
    const problem = (value: string) => `the body must be a JSON array of reports, ${lines}; got ${value}`;
    throw quotingRefusal(400, shownJson(json.text().trim()), 'withheld', problem);
  }
  for (const [index, members] of elements.entries()) {
    addItem(index + 1, () => {
      if (members === undefined) throw new ItemError('it is not a JSON object');
      return members;
    });
  }
}

/** @returns the idempotency key of an item. @throws ItemError for another type, or a key that a header could not have */
function readKey(value: Json, charactersMax: number): string {
  const wanted = `send a string of 1 to ${charactersMax} visible ASCII characters`;
  if (value.kind !== 'string') throw new ItemError(`idempotency_key is ${shownJson(value.text)}; ${wanted}`);
  const key = stringOf(value);
  if (!VISIBLE.test(key) || key.length > charactersMax + ITEM_SUFFIX_CHARACTERS_MAX) {
    throw new ItemError(`idempotency_key is ${shown(key)}; ${wanted}`);
  }
  return detach(key);
}

const NO_QUERY: ReadonlyMap<string, string> = new Map();
const NO_ASSET_KEY = 'asset_key is missing: send a string or an array of strings';
const VISIBLE = /^[\x21-\x7e]+$/;
/**
 * The suffix of a key that was derived from the key of a request. A journal line with such a key is a valid item too.
 */
const ITEM_SUFFIX_CHARACTERS_MAX = '/1048576'.length;

/**
 * @param prefer the header `Prefer`, several joined with a comma, such as `return=minimal, handling=lenient`
 * @returns whether it prefers lenient handling (RFC 7240 section 4.4), true for this example. The first of repeated preferences
 *   counts (section 2). A malformed preference and everything after it are ignored
 */
export function prefersLenient(prefer: string | undefined): boolean {
  if (prefer === undefined) return false;
  for (const [, name = '', quoted, token] of prefer.matchAll(PREFERENCE)) {
    if (name.toLowerCase() !== 'handling') continue;
    return wordOf(quoted, token).toLowerCase() === 'lenient';
  }
  return false;
}

/**
 * A preference or nothing, up to the next comma or the end; its parameters are skipped. The expression is sticky, so a
 * malformed preference ends the list: a search at each later character would take quadratic time. For the same reason white
 * space matches in only one way.
 */
const PREFERENCE = new RegExp(
  `[ \\t]*(?:(${TOKEN})(?:[ \\t]*=(?:[ \\t]*(?:"((?:[^"\\\\]|\\\\.)*)"|(${TOKEN})))?)?[ \\t]*(?:;(?:[^,"]|"(?:[^"\\\\]|\\\\.)*")*)?)?(?:,|$)`,
  'gy',
);
