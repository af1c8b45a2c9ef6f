/** `assetlog report` to a service without batches and idempotency keys. */

import assert from 'node:assert/strict';
import { report } from './command-output.ts';
import { startCuttingProxy, uncut } from './cutting-proxy.ts';
import type { Scope } from './program.ts';

/** Asserts that the service gets one line at a time, and that a report in doubt is not sent again. Records `k1 k2 k3 once key`. */
export async function assertLineByLine(t: Scope, port: number): Promise<void> {
  const proxy = await startCuttingProxy(t, port, (index) => (index === 1 ? { ...uncut, replyBytes: 0 } : uncut));
  const input = [1, 2, 3].map((number) => `{"type":"observation","asset_key":"k${number}"}\n`).join('');
  const whole = await report(proxy.url, ['--from', '-'], { input });
  assert.deepEqual([whole.code, whole.stdout, whole.stderr], [0, '3 recorded, 0 refused\n', '']);
  const { code, stderr } = await report(proxy.url, ['observation', 'once']);
  assert.equal(code, 75);
  assert.match(stderr, /; it might have been recorded, and sending it again might record it twice\n$/);
  const keyed = await report(proxy.url, ['observation', 'key', '--idempotency-key', 'x']);
  assert.equal(keyed.code, 0);
  assert.match(keyed.stderr, /does not know Idempotency-Key: a report that is sent again is recorded again\n$/);
  const posts = proxy.sent().match(/POST \S+(?= HTTP\/1\.1\r\n)/g);
  assert.deepEqual(posts, Array(5).fill('POST /report_asset_observation/'));
}
