import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import {
  Cursor,
  type CursorState,
  type CursorValue,
  cursorName,
  readCursor,
  storedUrl,
} from '../../../src/forward/ledger/cursor.ts';
import { KNOWN_PREFIX } from '../../../src/forward/source.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { newFolder } from '../../support/program.ts';
import { eachCall, everyRemains, thrice } from '../../world/power.ts';
import { SimulatedDisk, systemError } from '../../world/simulated-disk.ts';

const NAME = cursorName('hub');
const NEVER = new Promise<never>(() => {});
const NOTHING_MORE = { entries: 'none', share: 0, behind: 'nothing' } as const;

function at(seq: number, more: Partial<CursorValue> = {}): CursorValue {
  const id = seq === 0 ? null : `01a1fb95-ce62-7e59-9364-${String(seq).padStart(12, '0')}`;
  return { seq, id, sending: undefined, kind: 'hub', to: 'https://hub.example/prod', ...more };
}

async function saved(disk: SimulatedDisk, count: number): Promise<SimulatedDisk> {
  const { cursor } = await Cursor.open(disk, 'hub');
  for (let seq = 0; seq < count; seq += 1) await cursor.save(at(seq));
  await cursor.close();
  return disk;
}

test('a cursor is new, and then the last saved value, in a real file of three slots', async (t) => {
  const folder = newFolder(t);
  const disk = openDisk(folder);
  assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'new' });
  const opened = await Cursor.open(disk, 'hub');
  assert.equal(opened.kind, 'new');
  assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'new' }, 'nothing was saved yet');
  for (const seq of [0, 1, 2, 3]) {
    await opened.cursor.save(at(seq, { sending: seq + 1, kind: 'api' }));
    const state: CursorState = { kind: 'found', value: at(seq, { sending: seq + 1, kind: 'api' }) };
    assert.deepEqual(await readCursor(disk, 'hub'), state);
    assert.equal(readFileSync(join(folder, NAME)).length, 1536, 'a full disk has the space of all slots');
  }
  await opened.cursor.close();
  const again = await Cursor.open(disk, 'hub');
  assert.deepEqual(again.kind === 'found' && again.value, at(3, { sending: 4, kind: 'api' }));
  await again.cursor.save(at(4));
  await again.cursor.close();
  assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'found', value: at(4) });
  assert.match(readFileSync(join(folder, NAME), 'utf8'), /^\{"number":4,.*"\} *\n(\{"number":3,.*"\} *\n){2}$/);
});

test('a damaged slot leaves the value of another one, and without a good slot the cursor is lost', async () => {
  for (const damage of [(bytes: Buffer) => bytes.fill(0), (bytes: Buffer) => bytes.fill('x', 100, 110)]) {
    const disk = await saved(new SimulatedDisk(), 4);
    const bytes = disk.bytes(NAME) as Buffer;
    damage(bytes.subarray(512, 1024));
    disk.put(NAME, bytes);
    assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'found', value: at(2) });
    damage(bytes.subarray(0, 512));
    disk.put(NAME, bytes);
    assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'lost', reason: `/simulated/${NAME} is damaged` });
    const { kind, cursor } = await Cursor.open(disk, 'hub');
    assert.equal(kind, 'lost');
    await cursor.save(at(7));
    assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'found', value: at(7) });
  }
});

for (const when of ['at a start', 'in a save', 'in a save before SIGKILL'] as const) {
  test(`a cursor whose sync failed ${when} does not count as durable in the next process [cursor-5]`, async () => {
    const before = await saved(new SimulatedDisk(), 4);
    const { cursor } = await Cursor.open(before, 'hub');
    await cursor.save(at(4, { sending: 5 })); // and event 5 is sent
    const isAtStart = when === 'at a start';
    const isKilled = when === 'in a save before SIGKILL';
    let syncs = 0;
    /** An opening syncs what it finds, then what it copies. */
    const atSync = (number: number, fault: Error | Promise<never>) => (call: string, name: string) => {
      if (call === 'sync' && name === NAME) syncs += 1;
      if (call === 'sync' && name === NAME && syncs === number) return fault;
      return isKilled && syncs >= number ? NEVER : undefined;
    };
    before.fault = atSync(isAtStart ? 2 : 1, systemError('EIO'));
    const failing = isAtStart ? Cursor.open(before, 'hub') : cursor.save(at(5));
    if (isKilled) await turn();
    else await assert.rejects(failing);
    const disk = before.afterCrash();
    syncs = 0;
    disk.fault = atSync(2, NEVER);
    void Cursor.open(disk, 'hub');
    for (let turns = 0; syncs < 2; turns += 1) {
      assert.ok(turns < 100);
      await turn();
    }
    const torn = disk.afterPowerCut({ entries: 'none', share: 0.5, behind: 'garbage' });
    assert.deepEqual(await readCursor(torn, 'hub'), { kind: 'found', value: at(4, { sending: 5 }) });
  });
}

test('a missing cursor is lost if its destination got events before, and new for another destination', async () => {
  const disk = await saved(new SimulatedDisk(), 2);
  await disk.remove(NAME);
  assert.deepEqual(await readCursor(disk, 'hub'), { kind: 'lost', reason: `/simulated/${NAME} is missing` });
  assert.equal((await Cursor.open(disk, 'hub')).kind, 'lost');
  assert.equal((await Cursor.open(disk, 'hub')).kind, 'lost', 'opening it does not make it new');
  assert.deepEqual(await readCursor(disk, 'upstream'), { kind: 'new' });
});

test('URLs of any length and with any characters are told apart', async () => {
  for (const to of [
    `https://hub.example/${'a'.repeat(5_000)}`,
    `https://hub.example/${'"\u2028é'.repeat(40)}`,
    'http://é/',
  ]) {
    const disk = new SimulatedDisk();
    const { cursor } = await Cursor.open(disk, 'hub');
    await cursor.save(at(2 ** 53 - 1, { sending: 2 ** 53 - 1, to }));
    const state = await readCursor(disk, 'hub');
    assert.equal(state.kind === 'found' && state.value.to, storedUrl(to));
    assert.notEqual(storedUrl(to), storedUrl(`${to}b`));
    assert.equal(storedUrl(storedUrl(to)), storedUrl(to));
  }
  const { cursor } = await Cursor.open(new SimulatedDisk(), 'hub');
  await assert.rejects(cursor.save(at(1, { id: 'x'.repeat(600) })), RangeError);
});

/** Saves ten values, trying each again until it is saved. */
async function play(disk: SimulatedDisk, script: { begun: number; durable: number }): Promise<void> {
  for (let session = 0; session < 2; session += 1) {
    const opened = await Cursor.open(disk, 'hub').catch(() => Cursor.open(disk, 'hub'));
    for (let count = 0; count < 5; count += 1) {
      script.begun += 1;
      await thrice(() => opened.cursor.save(at(script.begun)));
      script.durable = script.begun;
    }
    await opened.cursor.close().catch(() => {});
  }
}

for (const what of ['once', 'power'] as const) {
  for (const short of [false, true]) {
    const title = `${what === 'once' ? 'a failure' : 'a power cut'}${short ? ' and a short write' : ''} at any call`;
    test(`${title}: the cursor has the last durable value or the next one, and opening makes it durable [cursor-1]`, async () => {
      for (const trial of eachCall(what, short ? 'ENOSPC' : 'EIO')) {
        const [disk, script] = [new SimulatedDisk(), { begun: -1, durable: -1 }];
        if (short)
          disk.fault = (call) => (call === 'write' && disk.count('write') === 3 ? { shortBy: 200 } : undefined);
        await trial.run(disk, () => play(disk, script));
        const { when } = trial;
        for (const after of [disk.afterCrash(), ...everyRemains(disk)]) {
          const { cursor, ...state } = await Cursor.open(after, 'hub');
          if (state.kind === 'found') {
            const { seq } = state.value;
            assert.ok(seq >= script.durable && seq <= script.begun, `${when}: ${seq}`);
            const durable = await readCursor(after.afterPowerCut(NOTHING_MORE), 'hub');
            assert.deepEqual(durable, state, `${when}: what was opened is durable`);
          } else {
            assert.deepEqual([state.kind, script.durable], ['new', -1], when);
          }
          await cursor.save(at(20));
          const cut = after.afterPowerCut({ entries: 'none', share: 0, behind: 'zeros' });
          assert.deepEqual(await readCursor(cut, 'hub'), { kind: 'found', value: at(20) }, when);
          assert.ok(cut.names().includes(`${KNOWN_PREFIX}hub`), when);
        }
      }
    });
  }
}
