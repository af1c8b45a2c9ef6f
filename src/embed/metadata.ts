/** Compares the metadata of an event with a filter. It uses the text that was sent, which has all digits. */

/**
 * Checks the metadata of a filter.
 * @param depthMax the greatest depth of arrays and objects; the outermost has depth 1
 * @throws TypeError for a value that no metadata can match: `metadata.at is a Date; give JSON values, …`
 */
export function checkMetadata(wanted: unknown, depthMax: number): void {
  if (!isObject(wanted))
    throw new TypeError(`metadata is ${nameOf(wanted)}; give an object with the members to look for`);
  checkValue(wanted, depthMax, 'metadata');
}

/**
 * Finds the members of a filter that metadata does not match. An object matches an object that has at least its members, an array
 * an array of the same length whose elements match in order. A number matches by value (`1` matches `1.0`), a bigint an integer with the same
 * digits. `undefined` matches anything.
 * @param text the metadata as it was sent, `{"rows":1.0}`; undefined for an event without metadata
 * @param wanted a value that passed `checkMetadata`: `{ rows: 1 }`
 * @returns the paths of these members, such as `metadata.source.table`; empty if everything matches
 */
export function metadataDifferences(text: string | undefined, wanted: object): string[] {
  return differences(text === undefined ? undefined : readMarked(text), wanted, 'metadata');
}

/** The marks distinguish a number, which keeps its spelling as a string, from a string. */
const STRING = 's';
const NUMBER = 'n';
/** A JSON string or number. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/**
 * @returns the value of valid JSON text; `"a"` is read as `'sa'`, even if it is the name of a member, and `1.0` as
 * `'n1.0'`
 */
function readMarked(text: string): unknown {
  const mark = (token: string) => (token[0] === '"' ? `"${STRING}${token.slice(1)}` : `"${NUMBER}${token}"`);
  return JSON.parse(text.replace(TOKEN, mark));
}

function differences(found: unknown, wanted: unknown, path: string): string[] {
  if (wanted === undefined) return [];
  if (Array.isArray(wanted)) {
    if (!Array.isArray(found) || found.length !== wanted.length) return [path];
    return wanted.flatMap((value, index) => differences(found[index], value, `${path}[${index}]`));
  }
  if (!isObject(wanted)) return isSame(found, wanted) ? [] : [path];
  const members = isObject(found) ? found : {}; // if this is not an object, each member is missing
  const wrong = Object.entries(wanted).flatMap(([name, value]) =>
    differences(members[`${STRING}${name}`], value, `${path}.${name}`),
  );
  return wrong.length === 0 && !isObject(found) ? [path] : wrong;
}

function isSame(found: unknown, wanted: unknown): boolean {
  if (typeof wanted === 'string') return found === `${STRING}${wanted}`;
  if (typeof wanted === 'bigint') return found === `${NUMBER}${wanted}`;
  if (typeof wanted !== 'number') return found === wanted;
  return typeof found === 'string' && found[0] === NUMBER && Number(found.slice(1)) === wanted;
}

function checkValue(value: unknown, depthMax: number, path: string): void {
  if (value === null || ['string', 'number', 'bigint', 'boolean', 'undefined'].includes(typeof value)) {
    if (Number.isNaN(value)) throw new TypeError(`${path} is NaN, which JSON cannot represent`);
    return;
  }
  const inArray = Array.isArray(value);
  if (!inArray && !isObject(value)) {
    throw new TypeError(`${path} is ${nameOf(value)}; give JSON values, or a bigint for all digits of an integer`);
  }
  if (depthMax < 1) throw new TypeError(`${path} is nested deeper than metadata may be`);
  for (const [name, member] of Object.entries(value)) {
    checkValue(member, depthMax - 1, inArray ? `${path}[${name}]` : `${path}.${name}`);
  }
}

/** True also for an object of another realm, such as the one in which Jest runs a test; false for a Date or a Map. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return Object.prototype.toString.call(value) === '[object Object]';
}

/** @returns a text such as `a Date` or `null` */
function nameOf(value: unknown): string {
  if (value === null || typeof value !== 'object') return typeof value === 'function' ? 'a function' : String(value);
  return `a ${Object.prototype.toString.call(value).slice(8, -1)}`;
}
