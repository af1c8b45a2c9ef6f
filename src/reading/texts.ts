/** Sends lists of JSON in pieces of limited size, each in a separate turn, so that a client that does not read holds one piece. */

import type { Limits } from '../config/limits.ts';
import { listSchema, objectSchema, type Schema, TEXT } from '../event/schema.ts';
import type { Reply } from '../http/message.ts';
import { acceptedType, linesType } from './accept.ts';
import type { SharedByReadings } from './journals.ts';

type List<Item> = Iterable<Item> | AsyncIterable<Item>;
/** @returns the texts that make up the JSON of an item; each has at most about `charactersMax` characters */
type TextsOf<Item> = (item: Item, charactersMax: number) => Iterable<string>;

/**
 * @param name the name of the member with the list in the document: `assets`
 * @param items starts to list the items
 * @param accept the header: the reply is a document, or JSON lines if the client prefers them
 * @param more the members of the document after the list
 */
export function listReply<Item>(
  name: string,
  items: () => List<Item>,
  accept: string | undefined,
  shared: Pick<SharedByReadings, 'buffers' | 'turns'>,
  limits: Limits,
  more: object = {},
  textsOf: TextsOf<Item> = jsonTexts,
): Reply {
  const type = acceptedType(accept, ['application/json', linesType]);
  const textsIn = (item: Item) => textsOf(item, limits.readTurnBytes);
  const texts = () => (type === linesType ? linesOf(items(), textsIn) : documentOf(name, items(), more, textsIn));
  return {
    kind: 'stream',
    status: 200,
    contentType: type,
    pieces: (signal) => inPieces(texts(), shared, limits, signal),
  };
}

/**
 * @param item the schema of an item
 * @param more the schemas of the members after the list, which can be absent
 * @returns the schemas of the replies of `listReply`, for `RouteDescription.content`
 */
export function listContent(name: string, item: Schema, more: Readonly<Record<string, Schema>> = {}) {
  return { 'application/json': objectSchema({ [name]: listSchema(item) }, more), [linesType]: TEXT };
}

async function* linesOf<Item>(items: List<Item>, textsOf: (item: Item) => Iterable<string>): AsyncGenerator<string> {
  for await (const item of items) {
    yield* textsOf(item);
    yield '\n';
  }
}

async function* documentOf<Item>(
  name: string,
  items: List<Item>,
  more: object,
  textsOf: (item: Item) => Iterable<string>,
): AsyncGenerator<string> {
  let before = `{"${name}":[`;
  for await (const item of items) {
    yield before;
    yield* textsOf(item);
    before = ',';
  }
  const members = JSON.stringify(more).slice(1, -1);
  yield `${before === ',' ? '' : before}]${members && `,${members}`}}`;
}

/**
 * Yields the texts joined to pieces of about `limits.readTurnBytes` characters. Each piece is created in a turn. Holds a part of
 * the memory of readings.
 * @param texts of at most that length: see `jsonTexts`
 * @param signal does not end a list that has started, since a list that ends early would look complete
 * @throws the reason of the signal while it waits for that part
 */
export async function* inPieces(
  texts: Iterable<string> | AsyncIterable<string>,
  { buffers, turns }: Pick<SharedByReadings, 'buffers' | 'turns'>,
  { readTurnBytes }: Limits,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const release = await buffers.acquire(signal);
  try {
    let piece = '';
    await turns.take();
    for await (const text of texts) {
      if (piece.length + text.length > readTurnBytes) {
        yield Buffer.from(piece);
        await turns.take();
        piece = '';
      }
      piece += text;
    }
    yield Buffer.from(piece);
  } finally {
    release();
  }
}

/**
 * @param charactersMax at least 2; a text can have up to six times as many characters if all of them are escapes
 * @returns the texts that make up `JSON.stringify(value)`
 */
export function* jsonTexts(value: unknown, charactersMax: number): Generator<string> {
  const whole = JSON.stringify(value);
  const isLong = whole.length > charactersMax;
  if (isLong && typeof value === 'string') yield* textsOfString(value, charactersMax);
  else if (isLong && typeof value === 'object' && value !== null) yield* textsOfMembers(value, charactersMax);
  else yield whole;
}

function* textsOfString(value: string, charactersMax: number): Generator<string> {
  yield '"';
  for (let at = 0, end = 0; at < value.length; at = end) {
    end = at + charactersMax;
    if (isHighSurrogate(value.charCodeAt(end - 1))) end -= 1;
    yield JSON.stringify(value.slice(at, end)).slice(1, -1);
  }
  yield '"';
}

function* textsOfMembers(value: object, charactersMax: number): Generator<string> {
  const isArray = Array.isArray(value);
  let before = isArray ? '[' : '{';
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    yield isArray ? before : `${before}${JSON.stringify(name)}:`;
    yield* jsonTexts(member, charactersMax);
    before = ',';
  }
  yield isArray ? ']' : '}';
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}
