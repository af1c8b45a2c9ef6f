/**
 * Headers that an operator adds to the requests of a destination, for example because a gateway in front of it requires
 * them.
 */

import { isObject } from '../config/json-file.ts';
import { headerName } from '../config/names.ts';

/**
 * Checks the member `headers` of a destination.
 * @param tokenHeader the header of its token
 * @returns each problem as a clause, preceded by its location in the member: `.X-Team`, or empty. No clause contains a
 * value
 */
export function headerProblems(value: unknown, tokenHeader: unknown): (readonly [at: string, problem: string])[] {
  const all = isObject(value) ? Object.entries(value) : [];
  if (all.length === 0 || all.length > HEADERS_MAX) {
    return [['', `must be an object with 1 to ${HEADERS_MAX} headers, such as {"X-Team": "data"}`]];
  }
  const taken = new Set([`${tokenHeader}`.toLowerCase()]);
  return all.flatMap(([name, given]) => {
    if (!headerName.test(name) || name.length > NAME_CHARACTERS_MAX)
      return [['', 'has a name that no header can have']];
    const key = name.toLowerCase();
    if (OWNED.test(key) || taken.has(key)) {
      return [[`.${name}`, 'is a header of the protocol or of the token, or is given twice; leave it out']];
    }
    taken.add(key);
    return isValue(given) ? [] : [[`.${name}`, 'must be a text of one line of ASCII, or {"file": "PATH"}']];
  });
}

function isValue(given: unknown): boolean {
  if (typeof given === 'string') return VALUE.test(given);
  if (!isObject(given)) return false;
  const { file, ...others } = given;
  return typeof file === 'string' && file !== '' && Object.keys(others).length === 0;
}

const HEADERS_MAX = 8;
const NAME_CHARACTERS_MAX = 100;
/** Visible ASCII, with spaces in between: other texts might be changed on the way. */
const VALUE = /^(?! )[\x20-\x7e]{1,1000}(?<! )$/;
/** Headers that frame a message, that control the connection, or that destinations read. */
const OWNED =
  /^(host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|date|range|accept-encoding|idempotency-key|(if|proxy|content|assetlog|x-clickhouse)-.*)$/;
