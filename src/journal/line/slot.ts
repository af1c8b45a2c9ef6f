/**
 * The slot of a line: the position before the metadata at which later versions add members. A reader skips members that it does not
 * know there, and a hub records them unchanged, so they belong to the event. The end of a line never changes, since readers parse a
 * line from its end.
 */

import type { LineName } from '../../event/line-name.ts';
import { knownNames, slotNames } from '../../event/members.ts';
import { ID_FORM } from './uuid.ts';

/** A character of a text without escapes. */
export const PLAIN = '[^"\\\\\u0000-\u001f]';

/** The names of all other members. */
const NAMES = knownNames.names.filter((name) => !(slotNames as readonly string[]).includes(name));
const ATOM = `(?:"${PLAIN}*"|(?:0|-?[1-9][0-9]{0,15}))`;
const NAME = `(?!(?:${NAMES.join('|')})")${PLAIN}+`;
const VALUE = `(?:${ATOM}|\\[(?:${ATOM}(?:,${ATOM})*)?\\])`;

/** Pattern of any number of members. A value is a text without escapes, a whole number, or a list of these. */
export const SLOT = `(?:,"${NAME}":${VALUE})*`;

/** The first occurrence before the metadata is the member, since texts in a slot contain no quotes. */
export const ORIGIN_MEMBER = ',"origin":';
/** The member `origin`. The texts of a slot contain no quotes, so no text can contain this member. */
export const ORIGIN = new RegExp(`,"origin":\\["(${ID_FORM})",([1-9][0-9]{0,15})\\]`);
/** The member `by`, including its start. */
export const BY = new RegExp(`,"by":"${PLAIN}{1,100}"`, 'u');
export const BY_MEMBER = ',"by":';
/** The member `erased`, including its start. */
export const ERASED = /,"erased":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/;
export const ERASED_MEMBER = ',"erased":';
const AT = new RegExp(SLOT, 'y');
const MEMBER = new RegExp(`^,"${NAME}":${VALUE}$`);

/**
 * @returns the members of the slot that starts at a comma: `,"site":"north"`; empty if the next member is not of the
 * slot
 */
export function slotAt(text: string, at: number): string {
  AT.lastIndex = at;
  return AT.exec(text)?.[0] ?? '';
}

/** Whether a member of a line is outside of the slot. Version 0.3 knows only these members. */
export function isOldName(name: string): boolean {
  return NAMES.includes(name);
}

/** @returns the origin in a slot; undefined if it has none of this form */
export function originIn(slot: string): LineName | undefined {
  const [, journal, seq] = ORIGIN.exec(slot) ?? [];
  return journal === undefined ? undefined : [journal, Number(seq)];
}

/** @param value JSON text @returns the member in the form of a slot; undefined if this form cannot represent it */
export function slotMember(name: string, value: string): string | undefined {
  const member = `,"${name}":${value}`;
  return MEMBER.test(member) ? member : undefined;
}
