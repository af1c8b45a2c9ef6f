/** A program from before the optional members of a line reads a journal with them, and this program reads a journal of the older one. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { segmentName } from '../../../src/journal/segments.ts';
import { askHub, SentJournal } from '../../support/forwarding.ts';
import { beforeBatches } from '../../support/older-program.ts';
import { encodeMembers, type PlainEvent } from '../../support/plain-event.ts';
import { eventsIn, newFolder, run, startService } from '../../support/program.ts';
import { ask, post } from '../../support/wire.ts';

const common = { assetKey: ['warehouse', 'orders'], metadata: '{"rows":1.0,"note":",\\"event_time\\":\\"x\\""}' };
const origin = {
  id: '01a1fb95-ce62-7e59-9364-610bf5613940',
  source: '0193e0c2-7f3a-7000-8000-000000000000',
  seq: 7,
  recorded: '2026-11-20T15:19:45.266Z',
};
const eventTime = '0001-01-01T00:00:00.123456789Z';
const events: readonly PlainEvent[] = [
  { ...common, type: 'AssetMaterialization', eventTime },
  { ...common, type: 'AssetObservation', idempotencyKey: 'say "k"\\' },
  { ...common, type: 'AssetCheckEvaluation', checkName: 'c', passed: false, severity: 'WARN', origin },
  { type: 'AssetMaterialization', assetKey: ['b'], partition: 'p', eventTime, idempotencyKey: 'k/1', origin },
  { ...common, type: 'AssetMaterialization' },
];

test('an older program verifies, lists, sums up and continues a journal with the later members', {
  skip: beforeBatches.isMissing,
}, async (t) => {
  const before = { program: [process.execPath, await beforeBatches.build(t)] };
  const data = newFolder(t);
  const { bytes } = encodeBatch(events.map(encodeMembers), { seq: 1, crc: 0 }, new Date());
  writeFileSync(join(data, segmentName(1)), bytes);

  const verified = await run(['verify', '--data', data], before);
  assert.deepEqual([verified.code, /\n {2}events +5\n/.test(verified.stdout)], [0, true], verified.stdout);
  const listed = await run(['events', '--data', data], before);
  assert.deepEqual([listed.code, listed.stdout], [0, bytes.toString()]);
  const assets = await run(['assets', '--data', data, '--json'], before);
  assert.equal(assets.code, 0);
  assert.equal(assets.stdout.trim().split('\n').length, 2);

  const service = await startService(t, { data, ...before });
  assert.equal((await ask(service.port, post('/report_asset_observation/later'))).status, 200);
  await service.kill();
  const now = await run(['verify', '--data', data]);
  assert.deepEqual([now.code, /\n {2}events +6\n/.test(now.stdout)], [0, true], now.stdout);
});

test('retention of a program from before forwarding makes a hub forget a device only after a stop that was not clean', {
  skip: beforeBatches.isMissing,
}, async (t) => {
  const before = { program: [process.execPath, await beforeBatches.build(t)] };
  const args = ['--segment-bytes', '4096'];
  for (const [signal, knownSeq] of [
    ['SIGTERM', 3],
    ['SIGKILL', 0],
  ] as const) {
    const data = newFolder(t);
    const sent = new SentJournal(3);
    const isThere = () => {
      try {
        return eventsIn(data).some(({ from }) => from !== undefined);
      } catch {
        return true; // retention removes a file that is being read
      }
    };
    const hub = await startService(t, { data, args });
    assert.equal((await sent.put(hub.url, 1, 3)).status, 200);
    await hub.kill(signal);
    const old = await startService(t, { data, args: [...args, '--retain-bytes', '8192'], ...before });
    for (let count = 0; isThere(); count += 1) {
      assert.ok(count < 1_000);
      assert.equal((await ask(old.port, post('/report_asset_observation/later'))).status, 200);
    }
    await old.kill();
    const again = await startService(t, { data, args });
    assert.equal((await askHub(again.url)).body['seq'], knownSeq, signal);
  }
});
