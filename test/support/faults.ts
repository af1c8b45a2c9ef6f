/**
 * @param effect the member `then`, which a linter would take for the `then` of a promise
 * @param more such as `{ times: 2 }`
 */
export function fault(match: object, effect: object, more: object = {}): object {
  return { match, ...more, ...Object.fromEntries([['then', effect]]) };
}
