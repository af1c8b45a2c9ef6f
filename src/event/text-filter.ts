/**
 * Searches for a text in the JSON of an event, in the form that the page shows: letter case does not matter, a slash also matches
 * between the parts of a key, a space also matches between a member and its value and between a date and a time, quotes can be
 * escaped or missing, and ` UTC` matches the `Z` of a time. Each character also matches its escape: `\u00e9`.
 *
 * The text becomes one regular expression. Its alternatives exclude each other at each position of the JSON, and its repetitions are
 * limited, so the number of steps at a position is limited by the length of the text: no text and no JSON makes it exponential. Many
 * positions cannot take many steps each either: see `anchored`.
 */

export interface TextFilter {
  readonly text: string;
  /**
   * @param json each byte of the JSON as one character (latin1)
   * @returns the index of the first match that starts at `from` or later; -1 if there is none
   */
  readonly find: (json: string, from: number) => number;
}

/** @throws Error for an empty text or one with more than `charactersMax` characters; the message completes `the text "x" …` */
export function readTextFilter(text: string, charactersMax: number): TextFilter {
  const { length } = [...text];
  if (length === 0 || length > charactersMax) throw new Error(`is not a text of 1 to ${charactersMax} characters`);
  const pattern = new RegExp(sourceOf(text, utf8Of));
  const find = (json: string, from: number) => {
    const found = pattern.exec(from === 0 ? json : json.slice(from)); // the slice hides the text before it from the pattern
    if (found === null) return -1;
    const [, anchor = '', begin = anchor] = found;
    return from + found.index + anchor.length - begin.length;
  };
  return { text, find };
}

/** @returns a pattern that finds a text in JSON in the same way, if its characters are not bytes. Undefined for an empty text */
export function textPattern(text: string): RegExp | undefined {
  return text === '' ? undefined : new RegExp(sourceOf(text, (character) => character));
}

/** @returns a character in the form in which it is searched: itself, or its bytes */
type Encode = (character: string) => string;

/** @returns the pattern of a character, whatever its case */
type PatternOf = (character: string) => string;

const utf8Of: Encode = (character) => String.fromCharCode(...new TextEncoder().encode(character));

function sourceOf(text: string, encode: Encode): string {
  const decoded = text.replace(/\\u([\da-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  const cases = casesIn(decoded);
  const patternOf: PatternOf = (character) => characterSource(character, cases.get(upperOf(character)), encode);
  const tokens = decoded.match(/\\*"| UTC|./gsu) ?? [];
  const sources = tokens.map((token, at) => tokenSource(token, at === 0, tokens[at + 1] ?? '', patternOf));
  return anchored(tokens, sources);
}

/**
 * A text that starts with repetitions, such as 99 slashes and an `x`, matches almost completely at each position of a run of slashes.
 * Therefore the search starts at the first token that ends the repetitions, and matches backwards and then forwards from it. A text
 * without such a token is searched only at positions that do not follow a repetition. Any two positions at which many tokens match
 * are then far apart.
 * @returns the pattern of the tokens; the first group is the token that is searched for, the second is the text that ends with it
 */
function anchored(tokens: readonly string[], sources: readonly string[]): string {
  const alike = repetitionIn(
    tokens.map((token) => (/^[\\"]*"$|^[ tT]$/.test(token) ? '"' : token.replace(/^ UTC$|^Z$/, 'z'))),
  );
  const { period, end } = alike.end < sources.length ? alike : repetitionIn(sources);
  const all = sources.join('');
  if (end - period < REPEATED_MIN) return all;
  if (end === sources.length) return `(?<!${sources.slice(0, period).join('')})${all}`;
  return `(${sources[end]})(?<=(${sources.slice(0, end + 1).join('')}))${sources.slice(end + 1).join('')}`;
}

/** @returns the period of the longest repetition with which the tokens start, and the index after that repetition */
function repetitionIn(tokens: readonly string[]): { readonly period: number; readonly end: number } {
  let best = { period: 0, end: 0 };
  for (let period = 1; period < tokens.length; period += 1) {
    let end = period;
    while (end < tokens.length && tokens[end] === tokens[end - period]) end += 1;
    if (end - period > best.end - best.period) best = { period, end };
  }
  return best;
}

/** With fewer repeated tokens, few match at most positions. */
const REPEATED_MIN = 4;

/** @param next the token after it; empty if there is none */
function tokenSource(token: string, isFirst: boolean, next: string, patternOf: PatternOf): string {
  // A string of JSON in JSON has 1, 3, 7, … backslashes before its quotes. They are not required before the first character.
  if (token.endsWith('"')) return isFirst ? '(?:"|\\\\u0022)' : '(?:"|\\\\{1,63}(?:"|u0022))';
  if (token === ',') return isFirst ? '(?:,|\\\\u002[cC])' : '(?:"?,|\\\\u002[cC])';
  if (token === '/') return '(?:\\\\?/|","|\\\\u002[fF])';
  if (token === '\\') return '\\\\(?:\\\\|u005[cC])';
  if (token === ' ') return spaceSource(next);
  if (token !== ' UTC') return patternOf(token);
  return `(?:${spaceSource('U')}${[...'UTC'].map(patternOf).join('')}|${patternOf('Z')})`;
}

/** If the next token can match a quote or a colon as well, only one way to divide them remains. */
function spaceSource(next: string): string {
  let between = '"(?::(?:"|(?!"))|(?!:))';
  if (next === ':') between = '"';
  else if (next.startsWith(' ') || next.endsWith('"')) between = '"(?::|(?!:))';
  return `(?: |${between}|\\\\u0020|[Tt](?<=\\d[Tt])(?=\\d))`;
}

function characterSource(character: string, alike: readonly string[] = [character], encode: Encode): string {
  const written = character < ' ' || /^[\ud800-\udfff]$/.test(character) ? [] : alike.map(encode);
  const short = JSON.stringify(character).slice(1, -1);
  if (/^\\[a-t]$/.test(short)) written.push(short); // such as \n
  return `(?:${[...written.map(quoted), ...alike.map(escapeSource)].join('|')})`;
}

function quoted(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

/** @returns the pattern of `\u00e9`, whose digits may have either case */
function escapeSource(character: string): string {
  const units = character.split('').map((unit) => unit.charCodeAt(0).toString(16).padStart(4, '0'));
  return units.map((hex) => `\\\\u${hex.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)}`).join('');
}

/** @returns the characters that match a character of the text if case is ignored, by their upper case */
function casesIn(text: string): ReadonlyMap<string, readonly string[]> {
  const cases = new Map<string, string[]>();
  const wanted = text.replace(/[^a-z\u0080-\ud7ff\ue000-\uffff]/gi, '');
  const lastCode = /[\u0080-\uffff]/.test(wanted) ? 0xffff : 0x7f; // no other character matches an ASCII character
  const all = Array.from({ length: lastCode + 1 }, (_, code) => String.fromCharCode(code)).join('');
  for (const character of all.match(new RegExp(`[UTCZ${wanted}]`, 'gi')) ?? []) {
    const upper = upperOf(character);
    cases.set(upper, [...(cases.get(upper) ?? []), character]);
  }
  return cases;
}

/** `Canonicalize` of ECMAScript without the flag `u`. */
function upperOf(character: string): string {
  const upper = character.toUpperCase();
  const isOne = character.length === 1 && upper.length === 1;
  return isOne && (upper >= '\u0080' || character < '\u0080') ? upper : character;
}
