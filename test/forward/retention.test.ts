/** Retention of a service that forwards: it waits for its destinations, or says what they lack. */

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHere } from '../support/command-output.ts';
import {
  assertAtHub,
  deadLettersIn,
  forwardFile,
  forwardStatus,
  reachesHub,
  startLinkedHub,
  stopsForwarding,
} from '../support/forwarded.ts';
import { samplesOf } from '../support/metrics.ts';
import { eventsIn, newFolder, segmentBytes, startService } from '../support/program.ts';
import { named, ok, report } from '../support/report.ts';
import { eventually } from '../support/tools.ts';
import { startPlainUpstream } from '../world/plain-server.ts';

const HOLDING = ['--segment-bytes', '4096', '--retain-bytes', '16384'];

test('at the limit of retention reports are refused with the name of the destination that needs the events [forward-retention-2]', async (t) => {
  const { hub, url, setDown } = await startLinkedHub(t);
  setDown(true);
  const data = newFolder(t);
  const file = join(newFolder(t), 'forward.json');
  const good = await startPlainUpstream(t);
  forwardFile(file, { name: 'good', to: good.url }, { name: 'hub', to: url }, { name: 'last', to: good.url });
  const args = [...HOLDING, '--forward', file];
  let edge = await startService(t, { data, args });
  let recorded = 0;
  for (let status = 200; status === 200 && recorded < 500; recorded += 1) [status = 0] = await report(edge, ['a']);
  assert.ok(recorded < 400, `${recorded}`);
  const because = /the destination hub has not received event 1 yet; see assetlog forward status/;
  const isHeld = async () => {
    const ready = await fetch(`${edge.url}/readyz`);
    const refused = await fetch(`${edge.url}/report_asset_observation/b`, { method: 'POST' });
    assert.deepEqual([ready.status, refused.status], [503, 503]);
    for (const text of [await ready.text(), await refused.text()]) assert.match(text, because);
  };
  await isHeld();
  await edge.kill('SIGKILL');
  edge = await startService(t, { data, args });
  await isHeld();
  setDown(false);
  process.kill(edge.pid, 'SIGHUP');
  await eventually('ready again', async () => (await fetch(`${edge.url}/readyz`)).status === 200);
  assert.deepEqual(await report(edge, ['b']), [200]);
  const last = (await runHere(['events', data, '--last', '1'])).stdout;
  await reachesHub(hub, data, JSON.parse(last).seq);
  assertAtHub(hub.data, data);
  assert.deepEqual(deadLettersIn(data, 'hub'), []);
});

test('a start at the limit of retention learns from the cursors what to remove, before the first report', async (t) => {
  const hub = await startService(t);
  const data = newFolder(t);
  const args = [...HOLDING, '--forward-to', hub.url];
  const edge = await startService(t, { data, args });
  const bytes = () => segmentBytes(data);
  let count = 0;
  // The newest file grows until its last lines are beyond the limit: that is retention's work at the next start.
  for (; bytes() <= 16_384 && count < 1_000; count += 1) assert.deepEqual(await report(edge, ['a']), [200]);
  assert.ok(bytes() > 16_384, `${count}`);
  await reachesHub(hub, data, count);
  await edge.kill();
  const again = await startService(t, { data, args });
  assert.deepEqual(await report(again, ['b']), [200]);
  assert.doesNotMatch(again.stderr(), /reports get 503/);
});

test('events that retention removes in an outage are counted at once, and named at the hub later', async (t) => {
  const { hub, setDown, args: to } = await startLinkedHub(t);
  const data = newFolder(t);
  const args = [...HOLDING, '--when-behind', 'remove', ...to];
  let edge = await startService(t, { data, args });
  assert.deepEqual(await report(edge, named('a', 3)), ok(3));
  await eventually('the device has the reply', async () => (await forwardStatus(data)).lag_events === 0);
  setDown(true);
  assert.deepEqual(await report(edge, named('b', 200)), ok(200));
  const figure = async ({ url }: { readonly url: string }, name: string, of = '{destination="upstream"}') =>
    samplesOf(await (await fetch(`${url}/metrics`)).text()).get(`assetlog_forward_${name}${of}`);
  const first = () => Math.min(...eventsIn(data).map(({ seq }) => seq as number));
  await eventually('the files are removed', () => first() > 100);
  const isSaid = async () => (await forwardStatus(data)).lost_events === first() - 4;
  await eventually('that is said', isSaid);
  const count = first() - 4;
  assert.deepEqual(deadLettersIn(data), []);
  assert.deepEqual(await Promise.all(['missing_events', 'lost_events_total'].map((name) => figure(edge, name))), [
    count,
    0,
  ]);
  assert.match(
    edge.stderr(),
    /"level":"warn","message":"events are removed that a destination has not confirmed[^\n]*"first":4,/,
  );
  await edge.kill('SIGKILL');
  assert.ok(await isSaid(), 'without the service');
  edge = await startService(t, { data, args });
  await eventually('the same after a restart', async () => (await figure(edge, 'missing_events')) === count);
  setDown(false);
  process.kill(edge.pid, 'SIGHUP');
  await reachesHub(hub, data, 203);
  const letters = deadLettersIn(data).map(({ outcome, first, last }) => [outcome, first, last]);
  assert.deepEqual(letters, [['removed', 4, count + 3]]);
  assert.deepEqual(await Promise.all(['missing_events', 'lost_events_total'].map((name) => figure(edge, name))), [
    count,
    count,
  ]);
  assert.equal(await figure(hub, 'lost_events_total', ''), count);
});

test('a destination whose dead letters take a quarter of --retain-bytes stops, until a retry makes space', async (t) => {
  const upstream = await startPlainUpstream(t);
  let isGood = false;
  upstream.answer = () => (isGood ? undefined : [400, '{"error":"no"}']);
  const args = ['--retain-bytes', '16384', '--forward-to', upstream.url];
  const edge = await startService(t, { args });
  assert.deepEqual(await report(edge, named('x'.repeat(300), 15)), ok(15));
  const { reason, dead_letters } = await stopsForwarding(edge.data);
  assert.match(
    reason,
    /^the dead letters of upstream take \d+ of at most 4096 bytes; give all up .* run assetlog forward retry/,
  );
  assert.ok(dead_letters > 3 && dead_letters < 10, `${dead_letters}`);
  assert.ok(statSync(join(edge.data, 'dead-upstream.jsonl')).size <= 4_096);
  isGood = true;
  const { stdout, stderr } = await runHere(['forward', 'retry', '--data', edge.data]);
  assert.equal(stdout, `${dead_letters} of ${dead_letters} were accepted\n`, stderr);
  await eventually('the others arrive without a restart', () => upstream.events.length === 14);
  const last = await runHere(['forward', 'retry', '--data', edge.data]);
  assert.equal(last.stdout, '1 of 1 were accepted\n', 'the one whose letter had no space');
  assert.equal(upstream.events.length, 15);
  assert.ok(statSync(join(edge.data, 'dead-upstream.jsonl')).size <= 4_096);
});
