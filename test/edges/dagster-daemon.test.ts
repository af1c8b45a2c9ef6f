/** The sensor that `assetlog dagster` prints, in Dagster's own daemon. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { newToken } from '../../src/deployments/tokens.ts';
import { readStorage, startDaemon, versions, writeSensor } from '../support/dagster.ts';
import { entryOf, rewrite } from '../support/deployments.ts';
import { freePort, newFolder, startService } from '../support/program.ts';
import { reportLines } from '../support/report.ts';
import { eventually, HANG_MS } from '../support/tools.ts';

const TICK_EVENTS = 20;

for (const { name, python, skip } of versions) {
  test(`${name}: each event is stored once after restarts, and after a kill only those of one tick can be there twice`, {
    skip,
  }, async (t) => {
    const home = newFolder(t);
    writeSensor(home);
    const { token } = newToken();
    writeFileSync(join(home, 'token'), token);
    const deployments = join(home, 'deployments.json');
    rewrite(deployments, entryOf('prod', token, { may: ['read', 'report'] }));
    const [data, port] = [newFolder(t), await freePort(t)];
    const start = () => startService(t, { data, args: ['--deployments', deployments, '--port', String(port)] });
    let service = await start();
    const env = {
      ASSETLOG_URL: `http://127.0.0.1:${port}/prod`,
      ASSETLOG_TOKEN_FILE: 'token',
      ASSETLOG_KEY_PREFIX: 'a',
      ASSETLOG_TICK_EVENTS: String(TICK_EVENTS),
      ASSETLOG_TICK_SECONDS: '1',
    };
    let last = 0;
    let expected: number[] = [];
    const report = async (count: number) => {
      const keys = Array.from({ length: count }, (_, index) => (index % 5 === 4 ? ['b'] : ['a', 'b']));
      const items = keys.map((asset_key) => ({ type: 'observation', asset_key, metadata: { rows: 1 } }));
      const { status, body } = await reportLines({ url: `${service.url}/prod` }, items, {
        'Service-Cloud-Api-Token': token,
      });
      assert.equal(status, 200, body);
      last += count;
      expected = Array.from({ length: last }, (_, index) => index + 1).filter((seq) => seq % 5 !== 0);
    };
    const allThere = () => eventually('all events', () => readStorage(home).cursor === last, HANG_MS);
    const seqs = () => [...readStorage(home).seqs].sort((a, b) => a - b);

    await report(50);
    let daemon = await startDaemon(t, { python, home, env });
    await allThere();
    await daemon.end('SIGTERM');
    await report(25);
    daemon = await startDaemon(t, { python, home, env });
    await service.kill('SIGKILL');
    await sleep(1_000);
    service = await start();
    await report(25);
    await allThere();
    assert.deepEqual(seqs(), expected, 'each once after restarts');

    const before = seqs().length;
    await report(100);
    // In the middle of a tick, whose cursor is not stored.
    await eventually('the first events of a tick', () => seqs().length > before, HANG_MS);
    await daemon.end('SIGKILL');
    daemon = await startDaemon(t, { python, home, env });
    await allThere();
    await daemon.end('SIGTERM');
    const stored = seqs();
    assert.deepEqual(
      [...new Set(stored)].sort((a, b) => a - b),
      expected,
    );
    const twice = stored.length - expected.length;
    t.diagnostic(`${stored.length} events, ${twice} twice`);
    assert.ok(twice <= TICK_EVENTS, `${twice} twice`);
  });
}
