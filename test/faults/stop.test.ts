/** Stops at random moments under load: a request sent before the signal gets its reply. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { rounds } from '../support/long.ts';
import { startService } from '../support/program.ts';
import { eventually } from '../support/tools.ts';
import { post, Wire } from '../support/wire.ts';
import { assertOnly } from './load.ts';

const CLIENTS = 64;
const STOPS = rounds({ long: 50, short: 10 });
/** A signal reaches a process between two turns of its event loop; a turn under this load is shorter. */
const BEFORE_MS = 25;

/** Reports until its connection ends. @returns the time of the request without a reply; undefined if each got one */
async function reportUntilStopped(port: number, name: string, acknowledged: Set<string>): Promise<number | undefined> {
  const wire = await Wire.open(port);
  for (let count = 0; ; count += 1) {
    const key = `${name}.${count}`;
    const sentMs = performance.now();
    wire.send(post(`/report_asset_materialization/${key}`));
    const reply = await wire.reply().catch(() => undefined);
    if (reply === undefined) return sentMs;
    assert.equal(reply.status, 200);
    acknowledged.add(key);
    if (reply.headers.get('connection') === 'close') break;
  }
  wire.close();
  return undefined;
}

test(`requests that were sent ${BEFORE_MS} ms before a stop get their replies, in ${STOPS} stops`, async (t) => {
  let unanswered = 0;
  for (let stop = 0; stop < STOPS; stop += 1) {
    const service = await startService(t);
    const acknowledged = new Set<string>();
    const clients = Array.from({ length: CLIENTS }, (_, client) =>
      reportUntilStopped(service.port, `${stop}.${client}`, acknowledged),
    );
    const isServed = (_: unknown, client: number) => acknowledged.has(`${stop}.${client}.0`);
    await eventually('each client has a reply', () => clients.every(isServed));
    await sleep(200 * Math.random());
    const signalMs = performance.now();
    const { code } = await service.kill('SIGTERM');
    assert.equal(code, 0);
    const sentMs = (await Promise.all(clients)).filter((ms) => ms !== undefined);
    assertOnly(service.events(), acknowledged);
    unanswered += sentMs.length;
    const early = sentMs.filter((ms) => ms < signalMs - BEFORE_MS);
    assert.deepEqual(
      early,
      [],
      `stop ${stop}: of the requests without a reply ${early.length} were sent well before it`,
    );
  }
  t.diagnostic(`${unanswered} requests that were sent later got none`);
});
