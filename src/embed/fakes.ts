/**
 * Detects timers that a test has faked in a way that a service does not survive. `timers.ts` makes it survive the others.
 */

import nodeProcess from 'node:process';

/**
 * @throws Error if timers are faked in a way that would let requests wait forever. Fakes can be recognised by the member
 * `clock`
 */
export function checkTimers(): void {
  const { nextTick } = nodeProcess;
  // Jest fakes it in a process object for tests, with a function from another realm, which Node itself does not use.
  if ('clock' in nextTick && nextTick instanceof Function)
    throw new Error(
      'process.nextTick is faked, and without it Node sends nothing; leave it out: toNotFake: ["nextTick", "queueMicrotask"]',
    );
  if ('clock' in setTimeout || 'clock' in setImmediate)
    throw new Error('the timers were faked before the package assetlog was loaded; load it first');
}
