/**
 * The slot of a line: the place before the metadata, where later versions add members. A reader passes members there that it does not
 * know, and a hub records them as they came, so they belong to the event. The end of a line never changes: readers find their way from
 * there.
 */

import { knownNames } from '../../event/members.ts';

/** A character of a text without escapes. */
export const PLAIN = '[^"\\\\\u0000-\u001f]';

/** The names of all other members. */
const NAMES = knownNames.names.filter((name) => name !== 'origin');
const ATOM = `(?:"${PLAIN}*"|(?:0|-?[1-9][0-9]{0,15}))`;
const NAME = `(?!(?:${NAMES.join('|')})")${PLAIN}+`;
const VALUE = `(?:${ATOM}|\\[(?:${ATOM}(?:,${ATOM})*)?\\])`;

/** Pattern of any number of members: each is a text without escapes, a whole number, or a list of these. */
export const SLOT = `(?:,"${NAME}":${VALUE})*`;

const AT = new RegExp(SLOT, 'y');
const MEMBER = new RegExp(`^,"${NAME}":${VALUE}$`);

/** @returns the members of the slot that begins at a comma: `,"site":"north"`; empty if another member is there */
export function slotAt(text: string, at: number): string {
  AT.lastIndex = at;
  return AT.exec(text)?.[0] ?? '';
}

/** @param value JSON text @returns the member in the form of a slot; undefined if a slot cannot have it */
export function slotMember(name: string, value: string): string | undefined {
  const member = `,"${name}":${value}`;
  return MEMBER.test(member) ? member : undefined;
}
