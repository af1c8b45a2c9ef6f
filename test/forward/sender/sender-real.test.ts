/** A sender with real connections that are cut at any byte: to a real hub, and to a plain upstream that counts. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits as standardLimits } from '../../../src/config/limits.ts';
import { readDeadLetters } from '../../../src/forward/dead-letters/file.ts';
import { traitsOf } from '../../../src/forward/sender/kinds.ts';
import { Sender } from '../../../src/forward/sender/sender.ts';
import { openSource } from '../../../src/forward/source.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { OwnProgress } from '../../../src/journal/progress.ts';
import { startCuttingProxy } from '../../support/cutting-proxy.ts';
import { newFolder } from '../../support/program.ts';
import { randomFrom } from '../../support/random.ts';
import { serveReads } from '../../support/reading.ts';
import { FIRST, quiet, segment } from '../../support/segments.ts';
import { eventually } from '../../support/tools.ts';
import { openLetters, UPSTREAM } from '../scripted.ts';

const EVENTS = 200;
const limits = {
  ...standardLimits,
  forwardBatchBytes: 4_000,
  forwardRetryMs: 1,
  forwardRetryMsMax: 2,
  forwardStopMs: 50,
  forwardRequestMs: 2_000,
};

async function startReal(folder: string, to: string): Promise<Sender> {
  const disk = openDisk(folder);
  const { source } = await openSource(disk);
  const destination = { ...UPSTREAM, to };
  const progress = new OwnProgress();
  const sender = new Sender({
    destination,
    disk,
    progress,
    target: (kind) => traitsOf[kind].open({ ...destination, source, limits }),
    letters: () => openLetters(disk),
    notices: quiet,
    limits,
  });
  sender.start();
  progress.recorded(folder, EVENTS + 1);
  return sender;
}

/** Starts the sender again and again, which is stopped in the middle, until all is settled. */
async function forwardAll(folder: string, to: string): Promise<void> {
  for (let life = 1; ; life += 1) {
    const sender = await startReal(folder, to);
    const isDone = () => sender.status().lag_events === 0;
    const stopSeq = life * 30;
    await eventually(`event ${stopSeq}; now ${JSON.stringify(sender.status())}`, () => {
      return isDone() || (life < 4 && sender.status().seq >= stopSeq);
    });
    const all = isDone();
    await sender.close();
    if (all) return;
  }
}

/** Most connections are cut, in the request or in the reply. */
function cutting(t: TestContext, port: number, requestBytes: number, replyBytes: number) {
  const random = randomFrom(7);
  return startCuttingProxy(t, port, () => ({
    requestBytes: random() < 0.5 ? Math.floor(random() * requestBytes) : Number.POSITIVE_INFINITY,
    replyBytes: Math.floor(random() * replyBytes),
  }));
}

test('a real hub behind a link that is cut at any byte has every event once and in order', async (t) => {
  const folder = newFolder(t);
  writeFileSync(join(folder, FIRST), segment(1, EVENTS));
  const hub = await serveReads(t);
  const proxy = await cutting(t, Number(new URL(hub.url).port), 20_000, 600);
  await forwardAll(folder, proxy.url);
  const lines = readdirSync(hub.data)
    .filter((name) => name.startsWith('events-'))
    .flatMap((name) => readFileSync(join(hub.data, name), 'utf8').trimEnd().split('\n'))
    .map((line) => JSON.parse(line));
  const sent = readFileSync(join(folder, FIRST), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ from, id, recorded }) => [from[1], id, recorded]),
    sent.map(({ seq, id, time }) => [seq, id, time]),
  );
  assert.ok(proxy.connections() > 20);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('dead-')),
    [],
  );
});

test('a plain upstream behind such a link gets every event, and each that it has twice is in the dead letters', async (t) => {
  const folder = newFolder(t);
  writeFileSync(join(folder, FIRST), segment(1, EVENTS));
  const keys: string[] = [];
  const upstream = createServer((request, reply) => {
    request.resume().on('end', () => {
      if (request.method === 'GET') return void reply.end('<!doctype html>');
      keys.push(String(request.headers['idempotency-key']));
      reply.setHeader('Content-Type', 'application/json').end('{}');
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  t.after(() => upstream.close());
  const proxy = await cutting(t, (upstream.address() as AddressInfo).port, 8_000, 3_000);
  await forwardAll(folder, proxy.url);
  const sent = readFileSync(join(folder, FIRST), 'utf8').trimEnd().split('\n');
  const named = new Set<string>();
  for await (const { outcome, line } of readDeadLetters(openDisk(folder), 'upstream', limits)) {
    if (outcome === 'in doubt') named.add(`"${JSON.parse(line as string).id}"`);
  }
  let doubled = 0;
  for (const line of sent) {
    const id = `"${JSON.parse(line).id}"`;
    const times = keys.filter((key) => key === id).length;
    assert.ok(times > 0 || named.has(id), `${id} is lost`);
    assert.ok(times < 2 || named.has(id), `${id} is there ${times} times and not named`);
    if (times > 1) doubled += 1;
  }
  assert.ok(doubled > 0, 'the links were not cut');
});
