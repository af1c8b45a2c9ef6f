/** A destination whose cursor was lost, as in a restored backup: what is sent again, and where forwarding stops. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { limits } from '../../../src/config/limits.ts';
import { continueFrom, newIdentity } from '../../../src/forward/by-hand.ts';
import { openSource } from '../../../src/forward/source.ts';
import { createUuids } from '../../../src/journal/line/uuid.ts';
import { goneName, segmentName } from '../../../src/journal/segments.ts';
import { jsonIn } from '../../support/command-output.ts';
import { reachesHub, sourceIn, stopsForwarding } from '../../support/forwarded.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { eventsIn, newFolder, run, startService } from '../../support/program.ts';
import { named, ok, report } from '../../support/report.ts';
import { diskWith, FIRST, segment, timed } from '../../support/segments.ts';
import { eventually, HANG_MS, upTo } from '../../support/tools.ts';
import { Model } from '../../world/destination.ts';
import type { SimulatedDisk } from '../../world/simulated-disk.ts';
import {
  diskFrom,
  gone,
  hubAt,
  lettersOf,
  loseCursor,
  saveCursor,
  sendAll,
  seqsOf,
  startPipe,
  writeStopped,
} from '../scripted.ts';

const BEFORE = new Date('2026-11-20T15:00:00.000Z');
/** When the last event was sent that the backup lacks. */
const SENT = new Date('2026-11-20T16:00:00.000Z');
const AFTER = new Date('2026-11-20T17:00:00.000Z');

/** A file with events of one moment. */
function fileAt(time: Date, first: number, last: number): Record<string, Buffer> {
  return { [segmentName(first)]: timed(first, ...upTo(last, first).map(() => time)) };
}

function modelAt(kind: 'hub' | 'api', seq: number, id: string | null = createUuids(SENT)()): Model {
  return Object.assign(new Model(kind), { seq, id });
}

/** @returns why a pipe of a journal that ends with `lastSeq` is stopped; it has sent nothing */
async function forkOf(disk: SimulatedDisk, lastSeq: number, model: Model): Promise<string> {
  const bench = startPipe(disk, lastSeq, () => model);
  await bench.until('stopped');
  const { why, reason } = bench.pipe.status;
  await bench.pipe.close();
  assert.deepEqual([why, model.requests, await lettersOf(disk)], ['fork', [], []]);
  await writeStopped(disk, why);
  return `${reason}`;
}

test('a restored journal that lost the line at the seq of the hub is a fork, unless the cursor shows otherwise', async () => {
  for (const isLost of [true, false]) {
    // The backup had 100 events, and the hub got 200. Offline, 200 more were recorded, and retention removed the first 250.
    const disk = diskWith({ ...gone(1, 250), ...fileAt(AFTER, 251, 300) });
    if (isLost) await loseCursor(disk); // else it is new, under another name
    const hub = modelAt('hub', 200);
    const reason = await forkOf(disk, 300, hub);
    assert.match(reason, /has event 200 of this journal as .* identity --new --seq 1 --data /);
    // What the stop names lets it continue, and what is gone is named.
    await newIdentity(disk, 1, limits);
    const other = new Model('hub');
    await sendAll(disk, 300, () => other);
    assert.deepEqual([other.recorded, other.lost], [upTo(300, 251), upTo(250)]);
    assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(250));
  }
});

test('a line that retention removed after the hub had it is no fork', async () => {
  for (const seq of [200, 190, 210]) {
    const disk = diskWith({ ...gone(1, 250), ...fileAt(AFTER, 251, 300) });
    const hub = modelAt('hub', 200, 'gone');
    await saveCursor(disk, { seq, id: seq === 200 ? 'gone' : 'another', kind: 'hub' });
    await sendAll(disk, 300, () => hub);
    assert.deepEqual([hub.recorded, hub.lost], [upTo(300, 251), upTo(250, 201)], `cursor ${seq}`);
    assert.deepEqual(seqsOf(await lettersOf(disk)), upTo(250, 201));
  }
});

test('a fork names the first event recorded after the restore, if the cursor does not know it', async () => {
  const restored = () => diskWith({ ...fileAt(BEFORE, 1, 100), ...fileAt(AFTER, 101, 130) });
  for (const [seq, kind] of [
    [200, 'hub'],
    [120, 'hub'],
    [200, 'api'],
    [120, 'api'],
  ] as const) {
    const disk = restored();
    const id = createUuids(SENT)();
    if (kind === 'hub') await loseCursor(disk);
    else await saveCursor(disk, { seq, id, kind });
    const model = modelAt(kind, seq, id);
    const reason = await forkOf(disk, 130, model);
    const command = kind === 'hub' ? 'identity --new' : 'from upstream';
    assert.match(reason, new RegExp(`stop the service and run assetlog forward ${command} --seq 101 --data /`));
    if (kind === 'hub') await newIdentity(disk, 101, limits);
    else await continueFrom(disk, 'upstream', 101, limits);
    const next = new Model(kind);
    const bench = await sendAll(disk, 130, () => next);
    assert.deepEqual(
      [next.recorded, bench.log.some(({ message }) => /URL/.test(`${message}`))],
      [upTo(130, 101), false],
    );
  }
  const repaired = diskWith({
    ...{ ...fileAt(BEFORE, 1, 100), ...fileAt(AFTER, 101, 104), ...fileAt(AFTER, 121, 220) },
    [goneName({ first: 105, last: 120 }, 'lost')]: Buffer.alloc(0),
  });
  await loseCursor(repaired);
  assert.match(await forkOf(repaired, 220, modelAt('hub', 300)), /identity --new --seq 101 /);
  const unknown = restored();
  await loseCursor(unknown);
  const model = modelAt('hub', 200, 'made by another program');
  const reason = await forkOf(unknown, 130, model);
  assert.match(reason, / --seq N /);
});

test('a copy that is a fork continues after its own cursor, and the reason for its stop has the command', async () => {
  const disk = diskWith(fileAt(BEFORE, 1, 100));
  await saveCursor(disk, { seq: 50, id: 'a', kind: 'hub' });
  const hub = modelAt('hub', 80);
  const reason = await forkOf(disk, 100, hub);
  assert.match(reason, /run assetlog forward identity --new --data \S+$/);
  await newIdentity(disk, undefined, limits);
  // A journal that ends before its cursor would leave out what comes until there.
  await saveCursor(disk, { seq: 101, id: 'a', kind: 'hub' });
  await assert.rejects(newIdentity(disk, undefined, limits), {
    message: /upstream is ahead of the journal; add --seq N/,
  });
});

test('a restored hub that then got as many events of a copy as it had lost is a fork', async () => {
  const disk = diskWith({ [FIRST]: segment(1, 30) });
  const hub = hubAt(disk, 10);
  const bench = startPipe(disk, 20, () => hub);
  await bench.untilDone();
  hub.id = 'id of the copy';
  bench.progress.recorded(disk.folder, 31);
  await bench.until('stopped');
  assert.equal(bench.pipe.status.why, 'fork');
  assert.deepEqual(hub.recorded, upTo(20, 11));
  await bench.pipe.close();
});

test('a known destination with begin now does not begin twice: a hub that has nothing gets all events [lost-cursor-1]', async () => {
  for (const isLost of [true, false]) {
    const disk = diskFrom(3, 3);
    if (isLost) await loseCursor(disk);
    else await saveCursor(disk, { seq: 5, kind: 'hub' });
    const hub = new Model('hub');
    const bench = await sendAll(disk, 5, () => hub, { destination: { begin: 'now' } });
    assert.deepEqual(hub.recorded, [3, 4, 5]);
    const what = isLost ? /cursor was lost and forwarding continues/ : /sent again/;
    assert.ok(bench.log.some(({ message }) => what.test(`${message}`)));
    assert.deepEqual(seqsOf(await lettersOf(disk)), [1, 2]);
  }
  // One that has begun and got nothing yet does not get what was before its begin.
  const disk = diskWith({ [FIRST]: segment(1, 5) });
  await saveCursor(disk, { seq: 3, id: null, kind: 'hub' });
  const hub = new Model('hub');
  await sendAll(disk, 5, () => hub, { destination: { begin: 'now' } });
  assert.deepEqual(hub.recorded, [4, 5]);
});

test('a hub that lost everything gets events before the first one under a new id only if it had them [forwarder-lost-4]', async () => {
  for (const [seq, first] of [
    [2, 1], // the cursor was lost before the hub knew the new id, so that it got all there is
    [5, 4],
  ] as const) {
    const disk = diskWith({ [FIRST]: segment(1, 5) });
    await newIdentity(disk, 4, limits);
    await saveCursor(disk, { seq, kind: 'hub' });
    const hub = new Model('hub');
    await sendAll(disk, 5, () => hub, { source: () => openSource(disk) });
    assert.deepEqual(hub.recorded, upTo(5, first));
    assert.deepEqual(await lettersOf(disk), []);
  }
});

test('a device restored from a backup continues with the command of its status, and the hub counts no event as lost', async (t: TestContext) => {
  const hub = await startService(t);
  const [data, backup] = [`${newFolder(t)}/a b`, newFolder(t)];
  const args = ['--forward-to', hub.url];
  const device = await startService(t, { data, args });
  assert.deepEqual(await report(device, named('a', 3)), ok(3));
  const isWhole = async () => (await run(['backup', '--data', data, '--to', backup])).code === 0;
  await eventually('the backup is whole', isWhole); // a busy service may not answer in time: 75
  assert.deepEqual(await report(device, named('b', 2)), ok(2));
  await reachesHub(hub, data, 5);
  await device.kill();
  rmSync(data, { recursive: true });
  assert.equal((await run(['backup', '--data', backup, '--to', data])).code, 0);

  const restored = await startService(t, { data, args });
  assert.deepEqual(await report(restored, named('c', 4)), ok(4));
  const { reason } = await stopsForwarding(data);
  const stoppedAtHub = async () => (await fetch(`${hub.url}/sources?stopped=true`)).text();
  await eventually('the hub shows it', async () => (await stoppedAtHub()).includes('"fork"'), HANG_MS);
  await restored.kill();
  const [, command = ''] = /run assetlog (forward .*')$/.exec(reason) ?? assert.fail(reason);
  const words = command.match(/'[^']*'|\S+/g)!.map((word) => word.replaceAll("'", ''));
  const done = await run(words);
  assert.deepEqual([done.code, done.stderr], [0, '']);
  const again = await startService(t, { data, args });
  assert.deepEqual(await report(again, ['d']), [200]);
  const keys = () => eventsIn(hub.data).map(({ asset_key }) => `${asset_key}`);
  await reachesHub(hub, data, 8);
  assert.deepEqual(keys(), [...named('a', 3), ...named('b', 2), ...named('c', 4), 'd']);
  const sources = async (...more: string[]) => (await run(['sources', '--data', hub.data, ...more])).stdout;
  const lost = async () => jsonIn(await sources('--json')).map(({ lost_events }) => lost_events);
  assert.deepEqual(await lost(), [0, 0], 'all that the command leaves out is there');
  assert.doesNotMatch(hub.stderr(), /lost events/);
  assert.equal(samplesOf(await metricsOf(hub)).get('assetlog_forward_missing_events'), 0);
  const missed = await run(['sources', '--url', hub.url, '--json', '--silent', '0s']);
  assert.deepEqual(
    jsonIn(missed.stdout).map(({ id }) => id),
    [sourceIn(data)],
    'the old id is not missed',
  );
});
