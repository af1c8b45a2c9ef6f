/**
 * The sentence about a listing without rows. It names the filters that cause this, and suggests another spelling of a key only if that
 * key is a cause.
 */

import { flagOf } from '../../config/options.ts';
import { otherSpelling, readKeyStart } from '../../event/asset-key.ts';
import { shellWord } from '../../telemetry/printable.ts';

export interface Listing<Values> {
  readonly what: 'events' | 'assets';
  /** The values of all options. */
  readonly values: Values;
  /** The options that exclude something; undefined if not given. */
  readonly filters: readonly (keyof Values & string)[];
  /** The arguments of the command. */
  readonly args: readonly string[];
  /** @returns whether something matches with these values; undefined if only reading very much would show it */
  readonly isFound: (values: Values) => Promise<boolean | undefined>;
}

type Filters = Readonly<Record<string, unknown>>;

/** @returns why a listing has no rows, if that can be determined; otherwise the filters that are set */
export async function nothingText<Values>({ what, values, filters, args, isFound }: Listing<Values>): Promise<string> {
  const names = filters.filter((name) => values[name] !== undefined);
  if (names.length === 0) return `no ${what}: the journal is empty`;
  const range = names.filter((name) => RANGE.includes(name));
  const parts = [...names.filter((name) => !RANGE.includes(name)).map((name) => [name]), range].filter(
    ({ length }) => length > 0,
  );
  const only = (chosen: readonly string[]) =>
    Object.fromEntries(chosen.map((name) => [name, values[name as keyof Values]]));
  const none = Object.fromEntries(filters.map((name) => [name, undefined]));
  // The listing itself was complete, so a failure from here on affects only the hint.
  const find = (some: Filters) => isFound({ ...values, ...none, ...some }).catch(() => undefined);
  const causes: (readonly string[])[] = [];
  for (const part of parts) if (parts.length === 1 || (await find(only(part))) === false) causes.push(part);
  const respelled = respell(only(causes.flat()));
  if (respelled !== undefined && (await find(respelled)) === true) {
    const command = ['assetlog', what, ...withKeys(args, respelled)].map((word) => shellWord(word)).join(' ');
    return `no ${what} match; for the other spelling of the key run: ${command}`;
  }
  if (parts.length === 1) return `no ${what} match`;
  if (causes.length > 0)
    return `no ${what} match; no ${what.slice(0, -1)} matches ${causes.map(flags).join(' or ')} alone`;
  const without: string[] = [];
  for (const part of parts) {
    if (await find(only(names.filter((name) => !part.includes(name))))) without.push(`without ${flags(part)}`);
  }
  if (without.length > 0) return `no ${what} match; ${without.join(' or ')} some match`;
  return `no ${what} match; leave out some of ${parts.map(flags).join(', ')}`;
}

/** They count as one filter, since with event_time only all events together show which of them are in a range. */
const RANGE = ['since', 'until'];
const KEYS = ['key', 'keyPrefix', 'keyBeginsWith'];

/**
 * @returns the keys in their other spelling; undefined if there is no key, or if one of the filters is not a key or has
 * no other spelling
 */
function respell(filters: Filters): Filters | undefined {
  const others = Object.entries(filters).map(([name, value]) => {
    const other = KEYS.includes(name) ? otherSpelling(JSON.stringify(value)) : undefined;
    return [name, other === undefined ? undefined : readKeyStart(other)];
  });
  return others.length === 0 || others.some(([, value]) => value === undefined)
    ? undefined
    : Object.fromEntries(others);
}

/** @returns the arguments with the other spelling of these keys */
function withKeys(args: readonly string[], respelled: Filters): readonly string[] {
  const flagsOfKeys = Object.keys(respelled).map((name) => `--${flagOf(name)}`);
  return args.map((word, index) => {
    if (flagsOfKeys.includes(args[index - 1] ?? '')) return otherSpelling(word) ?? word;
    const flag = flagsOfKeys.find((known) => word.startsWith(`${known}=`));
    if (flag === undefined) return word;
    const text = word.slice(flag.length + 1);
    return `${flag}=${otherSpelling(text) ?? text}`;
  });
}

function flags(names: readonly string[]): string {
  return names.map((name) => `--${flagOf(name)}`).join(' and ');
}
