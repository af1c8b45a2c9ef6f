/**
 * A signal that aborts with another signal, or after `ms` milliseconds. The timer holds a reference to its controller: on Node 20
 * a signal of `AbortSignal.timeout` that only `AbortSignal.any` refers to can be garbage-collected, and then never aborts.
 */
export function endingAfter(ms: number, ending: AbortSignal): AbortSignal {
  const late = new AbortController();
  setTimeout(() => late.abort(), ms).unref();
  return AbortSignal.any([ending, late.signal]);
}
