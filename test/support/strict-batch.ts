/** The second reader's part of a batch: its items, right and wrong, and what `Prefer` asks for. */

import {
  type EventText,
  type Members,
  NO_MEMBERS,
  PARAMETERS,
  partsOf,
  readEvent,
  readMembers,
  require,
  TYPES,
  Unfit,
} from './strict-event.ts';

export interface Item {
  /** Its position in the batch, from 1, as in errors. */
  readonly number: number;
  readonly event: EventText;
  readonly key: string | undefined;
}

export interface Batch {
  readonly items: readonly Item[];
  readonly wrong: readonly number[];
}

const ITEMS_MAX = 10_000;
/** The members of a journal line besides the event. */
const POSITION = ['seq', 'id', 'time', 'origin', 'by', 'from', 'recorded', 'crc'];

/**
 * @param requestKey the idempotency key of the whole request
 * @throws Unfit or SyntaxError if the body as a whole is not a batch
 */
export function readBatch(body: string, isArray: boolean, requestKey: string | undefined, deployment: string): Batch {
  const numbered = isArray ? elements(body) : lines(body);
  require(numbered.length > 0 && numbered.length <= ITEMS_MAX);
  const items: Item[] = [];
  const wrong: number[] = [];
  for (const [number, json] of numbered) {
    try {
      const members = readMembers(json);
      const key = readOwnKey(members.values['idempotency_key']);
      const event = readItem(members, deployment);
      items.push({ number, event, key: key ?? (requestKey && `${requestKey}/${number}`) });
    } catch (error) {
      if (!(error instanceof Unfit || error instanceof SyntaxError)) throw error;
      wrong.push(number);
    }
  }
  return { items, wrong };
}

type Numbered = readonly (readonly [number: number, json: string])[];

function lines(body: string): Numbered {
  const all = body.split('\n').map((line, index) => [index + 1, line] as const);
  return all.filter(([, line]) => /[^ \t\r]/.test(line));
}

function elements(body: string): Numbered {
  const value: unknown = JSON.parse(body);
  require(Array.isArray(value));
  return value.length === 0 ? [] : partsOf(body).map((json, index) => [index + 1, json]);
}

/** The key of an item can be longer than a header's, by the number that a batch adds. */
function readOwnKey(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  require(typeof value === 'string' && /^[!-~]{1,263}$/.test(value));
  return value;
}

function readItem({ values, written }: Members, deployment: string): EventText {
  const type = values['type'];
  const [kind] = Object.entries(TYPES).find((names) => names.includes(type as string)) ?? [];
  require(kind !== undefined);
  const parameters: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(values)) {
    if (name === 'type' || name === 'idempotency_key' || POSITION.includes(name)) continue;
    if (name === 'tags' && kind !== 'check') {
      require(typeof value === 'object' && value !== null && !Array.isArray(value));
      require(Object.keys(value).join() === 'data_version');
      const tag = (value as Record<string, unknown>)['data_version'];
      const own = values['data_version'] ?? null;
      require(tag === null || own === null || tag === own);
      parameters['data_version'] = tag ?? own;
    } else {
      require((PARAMETERS[kind] ?? []).includes(name));
      parameters[name] ??= value;
    }
  }
  return readEvent(kind, { ...NO_QUERY, members: { values: parameters, written } }, deployment);
}

const NO_QUERY = { keyPath: '', members: NO_MEMBERS, query: new Map<string, string>() };

const WORD = /[!#$%&'*+.^_`|~0-9A-Za-z-]+/y;
const QUOTED = /"((?:[^"\\]|\\.)*)"/y;
const SPACE = /[ \t]*/y;
/** The parameters of a preference. */
const MORE = /(?:[^,"]|"(?:[^"\\]|\\.)*")*/y;

/**
 * RFC 7240 section 2: `handling=lenient`; the first `handling` counts.
 * @param prefer the values of all `Prefer` headers; malformed text ends the list
 */
export function isLenient(prefer: readonly string[]): boolean {
  const text = prefer.join(', ');
  let at = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) return undefined;
    at = pattern.lastIndex;
    return found[1] ?? found[0];
  };
  while (at < text.length) {
    take(SPACE);
    const name = take(WORD)?.toLowerCase();
    let value = '';
    if (name !== undefined) {
      take(SPACE);
      if (text[at] === '=') {
        at += 1;
        take(SPACE);
        value = take(QUOTED)?.replace(/\\(.)/g, '$1') ?? take(WORD) ?? '';
        take(SPACE);
      }
      if (text[at] === ';') take(MORE);
    }
    if (at < text.length && text[at] !== ',') return false;
    if (name === 'handling') return value.toLowerCase() === 'lenient';
    at += 1;
  }
  return false;
}
