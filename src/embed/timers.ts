/**
 * The timers and the monotonic clock of an embedded service, as they are when the package is loaded. `build.ts` puts them in place of
 * the global ones in all of `dist/embed.cjs`: a test that fakes or freezes those later stops neither the service nor a wait. `Date` is
 * not among them, so that a test sets the times of its events.
 */

import { performance as nodePerformance } from 'node:perf_hooks';
import { nextTick as nodeNextTick } from 'node:process';

export { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from 'node:timers';

export const performance = {
  now: nodePerformance.now.bind(nodePerformance),
  eventLoopUtilization: nodePerformance.eventLoopUtilization.bind(nodePerformance),
  timeOrigin: nodePerformance.timeOrigin,
};

const { queueMicrotask } = globalThis;

export { nodeNextTick as 'process.nextTick', queueMicrotask };
