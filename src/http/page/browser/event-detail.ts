/** The details of an event, with its metadata as sent. */

import { pageLimits } from '../../../config/limits.ts';
import { visible } from '../../../event/visible.ts';
import {
  indented,
  type JsonToken,
  jsonKind,
  jsonMembers,
  type TokenKind,
  unquote,
} from '../../../history/json-text.ts';
import { button, type Content, copyButton, element } from './dom.ts';
import type { EventLine } from './event-store.ts';
import { badge, type DetailParts, renderKey, renderTime, table } from './view.ts';

/** @returns the type and result of an event as a coloured word */
export function eventBadge({ shown: { type, passed, severity } }: EventLine): HTMLElement {
  if (type === 'AssetMaterialization') return badge('made', 'materialized');
  if (type === 'AssetObservation') return badge('seen', 'observed');
  if (passed === true) return badge('good', 'passed');
  return severity === 'WARN' ? badge('warn', 'failed (warn)') : badge('bad', 'failed (error)');
}

/** Members that are not shown as a row of name and value. */
const shownElsewhere = new Set(['asset_key', 'metadata', 'type', 'passed', 'tags']);

const TIMES: ReadonlySet<string> = new Set(['time', 'recorded', 'erased']);

export function eventDetail(event: EventLine): DetailParts {
  const members = jsonMembers(event.line);
  const memberOf = (wanted: string) => members.find(({ name }) => name === wanted)?.value;
  const fields = members
    .filter(({ name }) => !shownElsewhere.has(name))
    .map(({ name, value }) => [name, fieldOf(name, value)] as const);
  const tags = jsonMembers(memberOf('tags') ?? '{}').map(({ name, value }) => [name, fieldOf(name, value)] as const);
  return {
    title: renderKey(event.shown.asset_key),
    content: [
      element('p', {}, eventBadge(event)),
      table([...fields.filter(([name]) => name !== 'crc'), ...tags]),
      ...metadataOf(memberOf('metadata')),
      ...rawOf(event.line),
    ],
  };
}

function fieldOf(name: string, value: string): Content {
  if (jsonKind(value) !== 'string') return renderLong(value);
  const text = unquote(value);
  return TIMES.has(name) ? renderTime(text) : renderLong(text);
}

function metadataOf(metadata: string | undefined): Content[] {
  if (metadata === undefined) return [];
  const members = jsonMembers(metadata);
  const budget = { tokens: pageLimits.tokensMax };
  const rows = members
    .slice(0, pageLimits.tokensMax)
    .map(({ name, value }) => [name, renderValue(value, budget)] as const);
  const rest = members.length - rows.length;
  return [
    element('h3', {}, 'Metadata'),
    members.length === 0 ? element('p', {}, 'none') : table(rows),
    ...(rest > 0 ? [element('p', {}, `${rest} further members are in the line below`)] : []),
  ];
}

/** @returns an element for a value: the text of a string, another scalar as sent, an array or object indented */
function renderValue(value: string, budget: { tokens: number }): HTMLElement {
  const kind = jsonKind(value);
  if (kind === 'mark') return renderFolded(indented(value), element('pre', { tabindex: '0' }), budget);
  const text = kind === 'string' ? unquote(value) : value;
  if (kind !== 'string' || text.length > pageLimits.foldedCharacters || text.includes('\n'))
    return renderLong(text, kind === 'string' ? 'mark' : kind);
  return renderText(text, text);
}

function renderLong(text: string, kind: TokenKind = 'mark', shown: HTMLElement = element('div')): HTMLElement {
  return renderFolded([{ kind, text }], shown, { tokens: 1 });
}

/**
 * Shows the start of a long text, and further blocks on request: browsers need minutes to lay out one block of 100,000 combining
 * marks, or of characters in two directions.
 */
function renderFolded(tokens: Iterable<JsonToken>, shown: HTMLElement, budget: { tokens: number }): HTMLElement {
  const rest = tokens[Symbol.iterator]();
  let next: JsonToken | undefined = rest.next().value;
  let isWhole = true; // the next token is not shown
  const showBlock = (most: { tokens: number }) => {
    const block = element('div');
    let lines: number = pageLimits.foldedLines;
    let characters: number = pageLimits.foldedCharacters;
    while (next !== undefined && lines > 0 && characters > 0 && most.tokens > 0) {
      const { kind, text } = next;
      const end = endOf(text, lines, characters);
      const part = text.slice(0, end);
      if (kind === 'string' && isWhole && end === text.length) block.append(renderText(unquote(text), text));
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

/** @returns the end of the part of a text that fits into a block; never within a character */
function endOf(text: string, lines: number, characters: number): number {
  let end = Math.min(text.length, characters);
  for (let at = text.indexOf('\n'); at !== -1 && at < end; at = text.indexOf('\n', at + 1)) {
    lines -= 1;
    if (lines === 0) end = at + 1;
  }
  return end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? '') ? end + 1 : end;
}

/**
 * @param shown the text in the form to show
 * @returns a link if the text is the address of a web page, unless it has another scheme, or a user name, which could look like
 * a host
 */
function renderText(text: string, shown: string): HTMLElement {
  const attributes = { class: 'string' };
  const url = /^https?:\/\/[^\s\\]+$/i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username + url.password !== '') return element('span', attributes, visible(shown));
  const link = { ...attributes, href: url.href, target: '_blank', rel: 'noopener noreferrer' };
  return element('a', link, visible(shown));
}

/** The text is rendered only when it is opened, since a line can have a megabyte. */
function rawOf(line: string): Content[] {
  const text = element('pre', { tabindex: '0', 'aria-label': 'Line of the journal' });
  const raw = element('details', {}, element('summary', {}, 'Line of the journal'), copyButton(line, text), text);
  raw.addEventListener('toggle', () => renderLong(line, 'mark', text), { once: true });
  return [raw];
}
