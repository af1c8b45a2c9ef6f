/** The file of what a hook has heard. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { alarmKey, type ToldAlarm } from '../../../src/forward/alarms/alarm.ts';
import { newToldFile, readTold, type ToldFile, toldName, writeTold } from '../../../src/forward/alarms/told-file.ts';
import { diskWith, flip } from '../../support/segments.ts';
import { NOON } from './watched.ts';

const FAILED: ToldAlarm = {
  on: 'failed',
  asset: 'warehouse\0orders',
  check: 'no "nulls"\n',
  partition: '2026-11-26',
  severity: 'ERROR',
  sinceMs: NOON,
  sinceSeq: 7,
  posted: '2026-11-28T12:00:10.000Z',
};
const STALE: ToldAlarm = {
  ...FAILED,
  on: 'stale',
  asset: 'a',
  check: undefined,
  partition: undefined,
  severity: undefined,
  posted: null,
};
const WHOLE: ToldFile = {
  made: '2026-11-28T11:00:00.000Z',
  open: {
    id: '0193e0c2-0000-7000-8000-000000000001',
    hooks: 2,
    alarm: { on: 'recovered', because: 'passed', before: { severity: 'WARN', since: '2026-11-28T10:00:00.000Z' } },
    about: { asset_key: ['b'], check_name: 'c', passed: true, severity: 'WARN' },
    seq: 12,
  },
  told: new Map([FAILED, STALE].map((one) => [alarmKey(one), one])),
};
const NAME = toldName('hook');

test('a file of alarms is read back as written, and is damaged if it is cut or flipped anywhere', async () => {
  const written = diskWith({});
  await writeTold(written, 'hook', WHOLE);
  const disk = written.afterPowerCut({ entries: 0, share: 0, behind: 'nothing' });
  assert.deepEqual(await readTold(disk, 'hook', limits), WHOLE);
  const bytes = Buffer.from(disk.text(NAME));
  assert.match(bytes.toString(), /^\{"format":1,"made":"2026-11-28T11:00:00\.000Z","open":\{"id":/);
  for (let at = 0; at < bytes.length; at += 1) {
    assert.equal(
      await readTold(diskWith({ [NAME]: bytes.subarray(0, at) }), 'hook', limits),
      undefined,
      `cut at ${at}`,
    );
    if (at === bytes.length - 1) continue;
    assert.equal(await readTold(diskWith({ [NAME]: flip(bytes, at) }), 'hook', limits), undefined, `flipped at ${at}`);
  }
  await writeTold(disk, 'hook', { ...WHOLE, open: undefined, told: new Map() });
  assert.deepEqual(await readTold(disk, 'hook', limits), { ...newToldFile(), made: WHOLE.made });
});

test('without a file of alarms a hook is new, and a file that is too large is not read', async () => {
  assert.deepEqual(await readTold(diskWith({}), 'hook', limits), newToldFile());
  const disk = diskWith({});
  await writeTold(disk, 'hook', WHOLE);
  assert.equal(await readTold(disk, 'hook', { ...limits, alarmBytesMax: 100 }), undefined);
});
