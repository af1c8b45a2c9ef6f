/** A listener in the process of a test, below the steps of a request: one function receives every request. */

import { type Limits, limits as standardLimits } from '../../src/config/limits.ts';
import type { App, Reply } from '../../src/http/message.ts';
import { listen } from '../../src/http/socket/listener.ts';
import { Activity } from '../../src/telemetry/activity.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { Scope } from './program.ts';

interface Listening {
  readonly limits?: Partial<Limits>;
  readonly maxConnections?: number;
  readonly log?: (line: string) => void;
}

/** @param receive decides each reply, or leaves the request without one */
export async function listenWith(
  t: Scope,
  receive: (respond: (reply: Reply) => void) => void,
  { limits: own = {}, maxConnections = 16, log = () => {} }: Listening = {},
) {
  const limits = { ...standardLimits, ...own };
  const notices = createNotices('warn', false, log, limits);
  const activity = new Activity({
    notices,
    terminal: undefined,
    quiet: false,
    refusals: { add: () => {} },
    addressOf: (peer) => peer,
    limits,
  });
  const metrics = new Metrics();
  const received = (_body: Buffer, respond: (reply: Reply) => void) => receive(respond);
  const app: App = () => ({ kind: 'receive', route: '/', bodyLimits: limits, isPacked: false, receive: received });
  const at = { kind: 'address', host: '127.0.0.1', port: 0 } as const;
  const shared = { background: true, limits, metrics, notices, activity };
  const listener = await listen({ ...shared, at, maxConnections, createApp: () => app });
  t.after(() => listener.close());
  return { ...listener, metrics };
}
