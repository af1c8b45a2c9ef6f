/**
 * Reads the query of a reading: each parameter according to a table. Other parameters are refused, since an ignored filter would
 * show everything.
 */

import { readKey, readKeyStart } from '../event/asset-key.ts';
import { type Event, type Severity, severities } from '../event/event.ts';
import type { JsonLimits } from '../event/json-bytes.ts';
import { durationMs, type Moment, readMoment } from '../event/moment.ts';
import { nearestName } from '../event/nearest.ts';
import { endpoints } from '../event/parameters.ts';
import type { Schema } from '../event/schema.ts';
import { readEventType, type SourceFilter } from '../event/search.ts';
import { readTextFilter, type TextFilter } from '../event/text-filter.ts';
import { type HandlerRequest, quotingRefusal, type Refusal, shown } from '../http/message.ts';
import { bodyReader, readQuery } from '../http/request.ts';
import { ID, ID_FORM } from '../journal/line/uuid.ts';

export interface QueryParameter<Value> {
  /** The value if the parameter is not given. */
  readonly initial: Value;
  /** The JSON Schema of its value, for the OpenAPI document. */
  readonly schema: Schema;
  /** A description for the OpenAPI document: `only events of this asset`. */
  readonly what?: string;
  /** Parses its value, decoded. @throws Error whose message completes `limit is "x"; …`, such as `send a number from 1 to 1000` */
  readonly parse: (text: string) => Value;
}

/** The parameters of a reading by name. */
export type QueryTable<Values> = { readonly [Name in keyof Values]: QueryParameter<Values[Name]> };

/**
 * A body of a reading is ignored, but must be well-formed, like for the other read-only routes.
 * @returns a function that reads a value for each parameter of the table from a query. It throws Refusal 400 for a parameter that is
 *   unknown or has a wrong value; nothing of the query is logged
 */
export function parametersReader<Values extends object>(
  table: QueryTable<Values>,
  limits: JsonLimits,
): (request: Pick<HandlerRequest, 'body' | 'query'>) => Values {
  const readBody = bodyReader(limits);
  const names = Object.keys(table) as (keyof Values & string)[];
  return ({ body, query }) => {
    readBody(body);
    const values = Object.fromEntries(names.map((name) => [name, table[name].initial])) as Values;
    for (const [sent, text] of readQuery(query, 'refused')) {
      const name = names.find((known) => known === sent);
      if (name === undefined) throw unknown(sent, names);
      try {
        if (text === '') throw new Error('leave it out, or give a value');
        values[name] = table[name].parse(text);
      } catch (error) {
        const problem = (value: string) => `${name} is ${value}; ${(error as Error).message}`;
        throw quotingRefusal(400, shown(text), 'withheld', problem);
      }
    }
    return values;
  };
}

export function numberParameter<Initial extends number | undefined>(
  initial: Initial,
  min: number,
  max: number,
): QueryParameter<number | Initial> {
  return {
    initial,
    schema: { type: 'integer', minimum: min, maximum: max, default: initial },
    parse: (text) => {
      const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
      if (value >= min && value <= max) return value;
      throw new Error(`send a number from ${min} to ${max}`);
    },
  };
}

/** An asset key in the form that commands accept: `warehouse/orders`, or a JSON array of the parts. */
export const keyParameter: QueryParameter<readonly string[] | undefined> = {
  initial: undefined,
  schema: keySchema('[^[/][^/]*(/[^/]+)*'),
  parse: (text) => {
    try {
      return readKey([text]);
    } catch {
      throw new Error('send warehouse/orders, or ["warehouse","orders/2026"] for a part with a slash');
    }
  },
};

/** The start of a key: parses `warehouse/ord` as `['warehouse', 'ord']`. */
export const keyStartParameter: QueryParameter<readonly string[] | undefined> = {
  initial: undefined,
  schema: keySchema('[^[/][^/]*(/[^/]+)*/?'),
  parse: (text) => {
    try {
      return readKeyStart(text);
    } catch {
      throw new Error('send warehouse/ord, or ["warehouse","orders/20"] for a part with a slash');
    }
  },
};

export function booleanParameter<Initial extends boolean | undefined>(
  initial: Initial,
): QueryParameter<boolean | Initial> {
  return {
    initial,
    schema: { type: 'boolean', default: initial },
    parse: (text) => {
      if (text === 'true' || text === 'false') return text === 'true';
      throw new Error('send true or false');
    },
  };
}

/** @param choices the first one is the default */
export function choiceParameter<Choice extends string>(
  choices: readonly [Choice, ...Choice[]],
): QueryParameter<Choice> {
  return {
    initial: choices[0],
    schema: { type: 'string', enum: choices, default: choices[0] },
    parse: (text) => {
      const choice = choices.find((one) => one === text);
      if (choice !== undefined) return choice;
      throw new Error(`send ${choices.join(' or ')}`);
    },
  };
}

export const textParameter: QueryParameter<string | undefined> = {
  initial: undefined,
  schema: { type: 'string', minLength: 1 },
  parse: (text) => text,
};

/** A text to search for. @param charactersMax the most characters of the text */
export function containedParameter(charactersMax: number): QueryParameter<TextFilter | undefined> {
  return {
    initial: undefined,
    schema: { type: 'string', minLength: 1, maxLength: charactersMax },
    parse: (text) => {
      try {
        return readTextFilter(text, charactersMax);
      } catch {
        throw new Error(`send at most ${charactersMax} characters`);
      }
    },
  };
}

/** The id or the name of a source. The sources of a name are known only when a journal's sources are loaded. */
export const sourceParameter: QueryParameter<SourceFilter | undefined> = {
  initial: undefined,
  schema: textParameter.schema,
  parse: (text) => ({ text, has: (id) => id === text }),
};

/** The type of an event, in its short or its long form: `check` is `AssetCheckEvaluation`. */
export const typeParameter: QueryParameter<Event['type'] | undefined> = {
  initial: undefined,
  schema: { type: 'string', enum: endpoints.flatMap(({ name, type }) => [name, type]) },
  parse: (text) => {
    const type = readEventType(text);
    if (type !== undefined) return type;
    throw new Error(`send ${endpoints.map(({ name }) => name).join(', ')}`);
  },
};

export const severityParameter: QueryParameter<Severity | undefined> = {
  initial: undefined,
  schema: { type: 'string', enum: severities },
  parse: (text) => {
    const severity = severities.find((one) => one === text);
    if (severity !== undefined) return severity;
    throw new Error(`send ${severities.join(' or ')}`);
  },
};

/** The id of a line. */
export const idParameter: QueryParameter<string | undefined> = {
  initial: undefined,
  schema: { type: 'string', pattern: `^${ID_FORM}$` },
  parse: (text) => {
    if (ID.test(text)) return text;
    throw new Error('send the id of an event, such as 01a1fb95-ce62-7e59-9364-610bf5613940');
  },
};

/** The times of `readMoment`, except the last days of a month, and years before 1980 or after 8999. */
const TIME_PATTERN = [
  '^(\\d{1,9}m?s|\\d{1,7}m|\\d{1,5}h|\\d{1,4}d|(19[89]|[2-8]\\d\\d)\\d-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])',
  '([Tt ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,9})?)?)?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)?)$',
].join('');

/** A time in the form that commands accept: `7d`, `2026-11-20T15:00`. */
export const timeParameter: QueryParameter<Moment | undefined> = {
  initial: undefined,
  schema: { type: 'string', pattern: TIME_PATTERN },
  parse: (text) => {
    if (/:\d\d(\.\d+)? \d\d:\d\d$/.test(text)) throw new Error('write + as %2B');
    try {
      return readMoment(text);
    } catch {
      throw new Error('send a time such as 2026-11-20 or 2026-11-20T15:04:05Z, or 2h for two hours ago');
    }
  },
};

/** In milliseconds. */
export const durationParameter: QueryParameter<number | undefined> = {
  initial: undefined,
  schema: { type: 'string', pattern: '^[0-9]{1,9}(ms|s|m|h|d)$' },
  parse: (text) => {
    const ms = durationMs(text);
    if (ms !== undefined) return ms;
    throw new Error('send a duration such as 30m, 1h or 2d');
  },
};

export function described<Value>(what: string, parameter: QueryParameter<Value>): QueryParameter<Value> {
  return { ...parameter, what };
}

/** One pattern instead of a union, since generators of clients create no type for a union of texts. */
function keySchema(plain: string): Schema {
  return { type: 'string', pattern: `^(?:\\[|${plain}$)` };
}

function unknown(sent: string, names: readonly string[]): Refusal {
  const meant = nearestName(sent, names);
  const hint = meant === undefined ? '' : `did you mean ${meant}? `;
  const known = names.length === 0 ? 'it takes none' : `it takes ${names.join(', ')}`;
  const problem = (name: string) => `there is no parameter ${name} here; ${hint}${known}`;
  return quotingRefusal(400, shown(sent), 'withheld', problem);
}
