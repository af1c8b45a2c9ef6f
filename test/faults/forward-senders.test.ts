/** The cost of many senders that return to a hub at once: bounded memory, and no delay for the hub's own reports. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { type ChainPosition, encodeBatch } from '../../src/journal/line/record.ts';
import { askHub, put, sourceOf } from '../support/forwarding.ts';
import { withoutStrace } from '../support/machine.ts';
import { memoryMib } from '../support/memory.ts';
import { encodeMembers } from '../support/plain-event.ts';
import { eachEvent, type Running, startService } from '../support/program.ts';
import { reportOne } from '../support/report.ts';
import { eventually } from '../support/tools.ts';
import { Wire } from '../support/wire.ts';
import { withSlowWrites } from './strace.ts';

const MIB = 1024 * 1024;
const START: ChainPosition = { seq: 1, crc: 0 };
/** Lines of a journal, together slightly less than 1 MiB. */
const EVENTS = 4_500;
const MEMBERS = encodeMembers({ type: 'AssetObservation', assetKey: ['warehouse', 'orders'], partition: '2026-11-20' });
const { bytes: BODY } = encodeBatch(new Array(EVENTS).fill(MEMBERS), START, new Date());
const SENDERS = 200;
/** Newer versions of Node let garbage grow further before they collect it. */
const MEMORY_MIB_MAX = Number(process.versions.node.split('.')[0]) <= 20 ? 320 : 450;
const headOf = (number: number, bodyBytes: number) =>
  [
    `PUT /forward/${sourceOf(number)}/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n`,
    `Content-Length: ${bodyBytes}\r\n\r\n`,
  ].join('');

const reportTo = (hub: Running, description: string) =>
  reportOne(hub, 'materialization/own', { body: { description } });

test('a report overtakes forwarded events that wait for a slow disk, and no more of these are received than may wait', {
  skip: withoutStrace,
}, async (t) => {
  const hub = await startService(t, { under: withSlowWrites(700) });
  await askHub(hub.url); // now it knows that it has no events of the source
  const waiting = Math.floor(limits.forwardHeldBytesMax / BODY.length);
  let taken = 0;
  const senders = Array.from({ length: waiting }, async (_, index) => {
    const { status } = await put(hub.url, sourceOf(index + 1), 1, BODY);
    assert.equal(status, 200);
    taken += 1;
  });
  const late = await Wire.open(hub.port);
  t.after(() => late.close());
  const isFull = async () => {
    const next = await Wire.open(hub.port);
    next.send(headOf(waiting + 1, BODY.length)); // and no body
    const reply = await Promise.race([next.reply().catch(() => undefined), sleep(200)]);
    next.close();
    if (reply !== undefined) assert.match(`${reply.status} ${reply.body}`, /^503 .*too many forwarded events wait/);
    return reply !== undefined;
  };
  await eventually('a sender is refused before its body is sent', isFull);
  const takenBefore = taken;
  assert.equal((await reportTo(hub, 'passes')).status, 200);
  await Promise.all(senders);
  const order = [...eachEvent(hub.data)].map(({ from }) => (from as [string] | undefined)?.[0] ?? 'own');
  const before = new Set(order.slice(0, order.indexOf('own'))).size;
  t.diagnostic(`${before} of ${waiting} requests are before it, ${takenBefore} had their replies`);
  // One body is being written, and others are parsed.
  assert.ok(
    before - takenBefore <= 2 + limits.forwardParsedBytesMax / BODY.length,
    `it waits for ${before - takenBefore} requests`,
  );
});

test('the bodies of forwarded events leave memory for the bodies of reports', async (t) => {
  const hub = await startService(t);
  const senders = await Promise.all(Array.from({ length: 6 }, () => Wire.open(hub.port)));
  t.after(() => {
    for (const wire of senders) wire.close();
  });
  const whole = limits.forwardBodyBytesMax;
  for (const [index, wire] of senders.entries()) {
    wire.send(headOf(index + 1, whole));
    wire.send(Buffer.alloc(whole - 1, 'x'));
  }
  const refused = senders.map(async (wire) => (await wire.reply())?.status).slice(0);
  const fitting = Math.floor(limits.forwardUploadBytesMax / (whole - 1));
  let count = 0;
  for (const one of refused) void one.then((status) => (count += status === 503 ? 1 : 0)).catch(() => {});
  await eventually('bodies that do not fit are refused', () => count >= senders.length - fitting);
  assert.equal((await reportTo(hub, 'x'.repeat(MIB - 100))).status, 200);
});

test(`${SENDERS} senders with 1 MiB each deliver all of it and cost a hub less than ${MEMORY_MIB_MAX} MiB`, {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async (t) => {
  const hub = await startService(t);
  let refusals = 0;
  const senders = Array.from({ length: SENDERS }, async (_, index) => {
    for (;;) {
      // A refused upload can end its connection: the fate of the request is then unknown, so it is sent again.
      const reply = await put(hub.url, sourceOf(index + 1), 1, BODY).catch(() => undefined);
      if (reply?.status === 200) return;
      if (reply !== undefined) assert.equal(reply.status, 503, JSON.stringify(reply.body));
      refusals += 1;
      await sleep(1_000 * (1 + Math.random()));
    }
  });
  let isSending = true;
  const reports = (async () => {
    const statuses: number[] = [];
    while (isSending) statuses.push((await reportTo(hub, 'meanwhile')).status);
    return statuses;
  })();
  await Promise.all(senders);
  isSending = false;
  const statuses = await reports;
  const peak = memoryMib(hub.pid);
  t.diagnostic(`peak ${peak} MiB, ${refusals} refusals, ${statuses.length} reports in the meantime`);
  assert.deepEqual(new Set(statuses), new Set([200]));
  const counts = new Map<unknown, number>();
  for (const { from } of eachEvent(hub.data)) {
    const source = (from as [string] | undefined)?.[0];
    counts.set(source, (counts.get(source) ?? 0) + 1);
  }
  for (let number = 1; number <= SENDERS; number += 1) assert.equal(counts.get(sourceOf(number)), EVENTS);
  assert.ok(refusals > 0, 'no sender was refused: too few to show anything');
  assert.ok(peak < MEMORY_MIB_MAX, `memory: ${peak} MiB`);
});
