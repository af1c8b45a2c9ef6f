/** One event as a whole, with its metadata as it was sent. */

import { pageLimits } from '../../../config/limits.ts';
import { button, type Content, copyButton, element, visible } from './dom.ts';
import type { EventLine } from './event-store.ts';
import { indented, kindOf, membersOf, type Token, type TokenKind, unquote } from './json.ts';
import { badge, type DetailParts, keyShown, table, timeShown } from './view.ts';

/** @returns what kind of event it is, as a coloured word */
export function eventBadge({ shown: { type, passed, severity } }: EventLine): HTMLElement {
  if (type === 'AssetMaterialization') return badge('made', 'materialized');
  if (type === 'AssetObservation') return badge('seen', 'observed');
  if (passed === true) return badge('good', 'passed');
  return severity === 'WARN' ? badge('warn', 'failed (warn)') : badge('bad', 'failed (error)');
}

/** Members that are shown otherwise than by name and value. */
const shownElsewhere = new Set(['asset_key', 'metadata', 'type', 'passed', 'tags']);

/** @returns the event with all its members */
export function eventDetail(event: EventLine): DetailParts {
  const members = membersOf(event.line);
  const memberOf = (wanted: string) => members.find(({ name }) => name === wanted)?.value;
  const fields = members
    .filter(({ name }) => !shownElsewhere.has(name))
    .map(({ name, value }) => [name, fieldOf(name, value)] as const);
  const tags = membersOf(memberOf('tags') ?? '{}').map(({ name, value }) => [name, fieldOf(name, value)] as const);
  return {
    title: keyShown(event.shown.asset_key),
    content: [
      element('p', {}, eventBadge(event)),
      table([...fields.filter(([name]) => name !== 'crc'), ...tags]),
      ...metadataOf(memberOf('metadata')),
      ...rawOf(event.line),
    ],
  };
}

function fieldOf(name: string, value: string): Content {
  if (kindOf(value) !== 'string') return longText(value);
  const text = unquote(value);
  return name === 'time' || name === 'recorded' ? timeShown(text) : longText(text);
}

function metadataOf(metadata: string | undefined): Content[] {
  if (metadata === undefined) return [];
  const members = membersOf(metadata);
  const budget = { tokens: pageLimits.tokensMax };
  const rows = members
    .slice(0, pageLimits.tokensMax)
    .map(({ name, value }) => [name, valueShown(value, budget)] as const);
  const rest = members.length - rows.length;
  return [
    element('h3', {}, 'Metadata'),
    members.length === 0 ? element('p', {}, 'none') : table(rows),
    ...(rest > 0 ? [element('p', {}, `${rest} further members are in the line below`)] : []),
  ];
}

/** @returns a value: a string as its text, another scalar as it was sent, an array or object indented */
function valueShown(value: string, budget: { tokens: number }): HTMLElement {
  const kind = kindOf(value);
  if (kind === 'mark') return folded(indented(value), element('pre', { tabindex: '0' }), budget);
  const text = kind === 'string' ? unquote(value) : value;
  if (kind !== 'string' || text.length > pageLimits.foldedCharacters || text.includes('\n'))
    return longText(text, kind === 'string' ? 'mark' : kind);
  return textShown(text, text);
}

function longText(text: string, kind: TokenKind = 'mark', shown: HTMLElement = element('div')): HTMLElement {
  return folded([{ kind, text }], shown, { tokens: 1 });
}

/**
 * Shows the beginning of what is long, and more of it each time that the user asks, block by block: browsers take minutes to lay out
 * a block of 100,000 combining marks, or of characters in two directions.
 */
function folded(tokens: Iterable<Token>, shown: HTMLElement, budget: { tokens: number }): HTMLElement {
  const rest = tokens[Symbol.iterator]();
  let next: Token | undefined = rest.next().value;
  let isWhole = true; // no part of the next token is shown
  const showBlock = (most: { tokens: number }) => {
    const block = element('div');
    let lines: number = pageLimits.foldedLines;
    let characters: number = pageLimits.foldedCharacters;
    while (next !== undefined && lines > 0 && characters > 0 && most.tokens > 0) {
      const { kind, text } = next;
      const end = endOf(text, lines, characters);
      const part = text.slice(0, end);
      if (kind === 'string' && isWhole && end === text.length) block.append(textShown(unquote(text), text));
      else block.append(kind === 'mark' ? visible(part) : element('span', { class: kind }, visible(part)));
      lines -= part.split('\n').length - 1;
      characters -= end;
      most.tokens -= 1;
      isWhole = end === text.length;
      next = isWhole ? rest.next().value : { kind, text: text.slice(end) };
    }
    more.before(block);
    if (next === undefined) more.remove();
  };
  const more = button('Show more', () => {
    for (let blocks = 0; blocks < 10 && next !== undefined; blocks += 1) showBlock({ tokens: pageLimits.tokensMax });
  });
  shown.append(more);
  showBlock(budget);
  return shown;
}

/** @returns where the part of a text ends that is shown in a block; not within a character */
function endOf(text: string, lines: number, characters: number): number {
  let end = Math.min(text.length, characters);
  for (let at = text.indexOf('\n'); at !== -1 && at < end; at = text.indexOf('\n', at + 1)) {
    lines -= 1;
    if (lines === 0) end = at + 1;
  }
  return end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? '') ? end + 1 : end;
}

/**
 * @param shown the same text as it is shown
 * @returns a link for the address of a web page and nothing else: no other scheme, and no user, which may look like a host
 */
function textShown(text: string, shown: string): HTMLElement {
  const attributes = { class: 'string' };
  const url = /^https?:\/\/[^\s\\]+$/i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username + url.password !== '') return element('span', attributes, visible(shown));
  const link = { ...attributes, href: url.href, target: '_blank', rel: 'noopener noreferrer' };
  return element('a', link, visible(shown));
}

/** The line is built when it is opened: it may have a megabyte. */
function rawOf(line: string): Content[] {
  const text = element('pre', { tabindex: '0', 'aria-label': 'Line of the journal' });
  const raw = element('details', {}, element('summary', {}, 'Line of the journal'), copyButton(line, text), text);
  raw.addEventListener('toggle', () => longText(line, 'mark', text), { once: true });
  return [raw];
}
