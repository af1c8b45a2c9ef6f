/** Assets with more checks than the state keeps, and more assets than the memory: the service stays up and answers. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createMemoryGroup, withoutMemoryGroups } from '../support/machine.ts';
import { memoryMib } from '../support/memory.ts';
import { type Running, startService } from '../support/program.ts';
import { reportLines } from '../support/report.ts';
import { report } from './load.ts';

const MIB = 1024 * 1024;
const ITEMS = 1_000;

const check = (asset: string, n: number) => ({
  type: 'check',
  asset_key: ['wide', asset],
  check_name: `check ${n} ${'x'.repeat(30)}`,
  passed: n % 3 > 0,
  severity: 'WARN',
  ...(n % 7 === 0 && { partition: `${n}` }),
});
const itemsOf = <Item>(count: number, item: (n: number) => Item) => Array.from({ length: count }, (_, n) => item(n));

/** Asks for all assets, in another process, while reports arrive. @returns the longest wait of a report in ms */
async function readBeside(service: Running): Promise<number> {
  let longestMs = 0;
  for (const query of ['', '?sort=state', '?failing=true']) {
    let status: string | undefined;
    const reading = curl(['-s', '-o', '/dev/null', '-w', '%{http_code}', `${service.url}/assets${query}`]).then(
      ({ stdout }) => {
        status = stdout;
      },
    );
    while (status === undefined) {
      const beganMs = performance.now();
      assert.equal(await report(service.port, 'beside'), 200);
      longestMs = Math.max(longestMs, performance.now() - beganMs);
    }
    await reading;
    assert.equal(status, '200');
  }
  return longestMs;
}

/** @throws Error if the reply is not whole */
const curl = (args: readonly string[]) => promisify(execFile)('curl', args);

for (const [what, send] of [
  [
    'one asset with 300,000 checks',
    async (service: Running) => {
      for (let n = 0; n < 300; n += 1)
        await reportLines(
          service,
          itemsOf(ITEMS, (item) => check('one', n * ITEMS + item)),
        );
    },
  ],
  [
    '300 assets with 1,000 checks each beside 500,000 others',
    async (service: Running) => {
      for (let n = 0; n < 300; n += 1)
        await reportLines(
          service,
          itemsOf(ITEMS, (item) => check(`${n}`, item)),
        );
      const other = (n: number) => ({ type: 'observation', asset_key: ['other', `${n}`] });
      for (let n = 0; n < 500; n += 1)
        await reportLines(
          service,
          itemsOf(ITEMS, (item) => other(n * ITEMS + item)),
        );
    },
  ],
] as const)
  test(`in a cgroup of 128 MiB ${what} do not end the service, and its replies are complete`, {
    skip: withoutMemoryGroups,
  }, async (t) => {
    const group = createMemoryGroup(128 * MIB);
    const service = await startService(t, { under: group.under }).finally(() => t.after(() => group.remove()));
    await send(service);
    const longestMs = await readBeside(service);
    const peak = memoryMib(service.pid);
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    assert.ok(Number(/^assetlog_assets_refused_total (\d+)$/m.exec(metrics)?.[1]) > 100_000);
    const { code, stderr } = await service.kill();
    assert.equal(code, 0, stderr);
    const bytes = statSync(join(service.data, 'assets.state')).size;
    t.diagnostic(`peak ${peak} MiB, a report waited ${Math.round(longestMs)} ms at most, the state has ${bytes} bytes`);
  });
