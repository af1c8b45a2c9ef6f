/** One event as a whole, with its metadata as it was sent. */

import { pageLimits } from '../../../config/limits.ts';
import { type Content, copyButton, element, visible } from './dom.ts';
import type { EventLine } from './event-store.ts';
import { indented, kindOf, membersOf, unquote } from './json.ts';
import { badge, type DetailParts, keyShown, table, timeShown } from './view.ts';

/** @returns what kind of event it is, as a coloured word */
export function eventBadge({ shown: { type, passed, severity } }: EventLine): HTMLElement {
  if (type === 'AssetMaterialization') return badge('made', 'materialized');
  if (type === 'AssetObservation') return badge('seen', 'observed');
  if (passed === true) return badge('good', 'passed');
  return severity === 'WARN' ? badge('warn', 'failed (warn)') : badge('bad', 'failed');
}

/** Members that are shown otherwise than by name and value. */
const shownElsewhere = new Set(['asset_key', 'metadata', 'type', 'passed', 'severity', 'tags']);

/** @returns the event with all its members */
export function eventDetail(event: EventLine): DetailParts {
  const members = membersOf(event.line);
  const memberOf = (wanted: string) => members.find(({ name }) => name === wanted)?.value;
  const fields = members
    .filter(({ name }) => !shownElsewhere.has(name))
    .map(({ name, value }) => [name, fieldOf(name, value)] as const);
  const tags = membersOf(memberOf('tags') ?? '{}').map(({ name, value }) => [name, unquote(value)] as const);
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
  if (kindOf(value) !== 'string') return value;
  const text = unquote(value);
  return name === 'time' || name === 'recorded' ? timeShown(text) : text;
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
  if (kind === 'string') return textShown(unquote(value), unquote(value));
  if (kind !== 'mark') return element('span', { class: kind }, value);
  const shown = element('pre', { tabindex: '0' });
  for (const { kind, text } of indented(value)) {
    if (budget.tokens === 0) {
      shown.append('\n… the rest is in the line below');
      break;
    }
    budget.tokens -= 1;
    if (kind === 'string') shown.append(textShown(unquote(text), text));
    else shown.append(kind === 'mark' ? text : element('span', { class: kind }, visible(text)));
  }
  return shown;
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
  raw.addEventListener('toggle', () => {
    text.textContent = visible(line);
  });
  return [raw];
}
