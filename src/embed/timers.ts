/**
 * The timers and the monotonic clock of an embedded service, in their state when the package is loaded. `build.ts` replaces the global
 * ones by these in all of `dist/embed.cjs`, so that a test that fakes or freezes timers later stops neither the service nor a wait.
 * `Date` is not included, so that a test can set the times of its events.
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
