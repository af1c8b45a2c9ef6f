/**
 * A signal that aborts with another one, or after so many milliseconds. The timer holds what it aborts: on Node 20 one of
 * `AbortSignal.timeout` to which only `AbortSignal.any` refers may be collected as garbage, and then it never aborts.
 */
export function endingAfter(ms: number, ending: AbortSignal): AbortSignal {
  const late = new AbortController();
  setTimeout(() => late.abort(), ms).unref();
  return AbortSignal.any([ending, late.signal]);
}
