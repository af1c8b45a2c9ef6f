/** What is sent to a real hub through a link that loses, doubles, delays and reorders requests arrives once and in order. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import http, { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits as standard } from '../../../src/config/limits.ts';
import type { Event } from '../../../src/event/event.ts';
import type { Target } from '../../../src/forward/target.ts';
import { openTarget } from '../../../src/forward/targets/open.ts';
import { Line } from '../../../src/journal/look/reading.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { eventsIn, newFolder, startService } from '../../support/program.ts';
import { randomFrom } from '../../support/random.ts';
import { linesOf, listenOn } from '../../support/sent-lines.ts';

const SOURCE = '01a1fb95-0000-7000-8000-000000000001';
const NEVER = new AbortController().signal;
const limits = { ...standard, forwardRequestMs: 2_000, forwardBatchBytes: 3_000 };
const options = { source: SOURCE, tokenHeader: 'Service-Cloud-Api-Token', stamp: false, limits };

function observations(count: number): readonly Event[] {
  return Array.from({ length: count }, (_, at): Event => ({ type: 'AssetObservation', assetKey: ['a', `b${at + 1}`] }));
}

interface Delivery {
  readonly path: string;
  readonly method: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Sends it to the service. @returns the status and the body of the reply */
async function deliver(port: number, { path, method, headers, body }: Delivery): Promise<readonly [number, Buffer]> {
  return new Promise((resolve, reject) => {
    const request = http.request({ port, path, method, headers, agent: false }, async (reply) => {
      const chunks: Buffer[] = [];
      for await (const chunk of reply) chunks.push(chunk);
      resolve([reply.statusCode ?? 0, Buffer.concat(chunks)]);
    });
    request.on('error', reject).end(body);
  });
}

/** Sends lines until the hub has all of them, and asks after everything that is not a success, as a forwarder does. */
async function sendAll(target: Target, lines: readonly Line[]): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  let next: number | undefined;
  while (next !== lines.length + 1) {
    const found =
      next === undefined
        ? await target.ask(NEVER)
        : await target.send({ lines: lines.slice(next - 1), lost: undefined }, NEVER);
    counts.set(found.kind, (counts.get(found.kind) ?? 0) + 1);
    assert.ok(found.kind !== 'stopped', JSON.stringify(found));
    assert.ok([...counts.values()].every((count) => count < 5_000));
    if (found.kind === 'at') assert.ok(found.seq === 0 || found.id === lines[found.seq - 1]?.event.id);
    next = found.kind === 'at' || found.kind === 'recorded' ? found.seq + 1 : undefined;
  }
  return counts;
}

test('a link that loses, doubles, delays and reorders requests: each line is at the hub once, in order', async (t) => {
  const hub = await startService(t);
  const lines = linesOf(observations(600));
  const chance = randomFrom(20_261_122);
  const past: Delivery[] = [];
  const late: Promise<unknown>[] = [];
  const link = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { url: path = '', method = '', headers } = request;
    const one = { path, method, headers, body: Buffer.concat(chunks) };
    const old = past[Math.floor(chance() * past.length)];
    past.push(one);
    if (old !== undefined && chance() < 0.3) late.push(deliver(hub.port, old));
    if (chance() < 0.1) return request.socket.destroy(); // lost
    if (chance() < 0.1) {
      late.push(sleep(chance() * 50).then(() => deliver(hub.port, one))); // arrives after its sender gave it up
      return request.socket.destroy();
    }
    if (chance() < 0.2) late.push(deliver(hub.port, one)); // doubled
    const [status, body] = await deliver(hub.port, one);
    if (chance() < 0.1) return request.socket.destroy(); // its reply is lost
    return response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });
  const target = openTarget('hub', { ...options, to: `http://127.0.0.1:${await listenOn(t, link)}` });
  t.after(() => target.close());
  const counts = await sendAll(target, lines);
  await Promise.all(late);
  assert.ok((counts.get('again') ?? 0) > 5 && (counts.get('recorded') ?? 0) > 20, JSON.stringify([...counts]));
  const events = eventsIn(hub.data);
  assert.deepEqual(
    events.map(({ from, id, asset_key }) => [from, id, asset_key]),
    lines.map(({ event }) => [[SOURCE, event.seq], event.id, event.asset_key]),
  );
});

test('a hub of a deployment: its token, a damaged line, a fork and lost events', async (t) => {
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const tokenFile = join(newFolder(t), 'token');
  const hub = await startService(t, { args });
  const open = (own: object) => {
    const target = openTarget('hub', { ...options, to: `${hub.url}/prod`, ...own });
    t.after(() => target.close());
    return target;
  };
  const refused = await open({}).ask(NEVER);
  assert.ok(refused.kind === 'stopped' && /it wants a token/.test(refused.reason), JSON.stringify(refused));
  writeFileSync(tokenFile, `${tokenOf('prod')}\n`);
  const target = open({ tokenFile });
  assert.deepEqual(await target.ask(NEVER), { kind: 'at', seq: 0, id: null });

  const lines = linesOf(observations(9), 1);
  const later = linesOf(observations(9), 10, 77);
  const bytes = Buffer.from(lines[0]!.bytes);
  bytes[bytes.indexOf('b2', bytes.indexOf('asset_key', lines[1]!.start))] = 0x63; // not in an id
  const damaged = lines.map(({ start, end, seq }) => new Line(bytes, start, end, seq));
  const broken = await target.send({ lines: damaged, lost: undefined }, NEVER);
  assert.ok(
    broken.kind === 'stopped' && broken.why === 'damage' && /line 2/.test(broken.reason),
    JSON.stringify(broken),
  );
  const sent = await target.send({ lines: lines.slice(0, 5), lost: undefined }, NEVER);
  assert.deepEqual(sent, { kind: 'recorded', seq: 5, id: lines[4]!.event.id });
  assert.deepEqual(await target.ask(NEVER), { kind: 'at', seq: 5, id: lines[4]!.event.id });
  assert.equal((await target.send({ lines: later, lost: undefined }, NEVER)).kind, 'elsewhere');

  const clone = linesOf(observations(9), 1);
  const forked = await target.send({ lines: clone.slice(4), lost: undefined }, NEVER);
  assert.ok(
    forked.kind === 'stopped' && forked.why === 'fork' && /has another one$/.test(forked.reason),
    JSON.stringify(forked),
  );

  const passed = await target.send({ lines: later, lost: { first: 6, last: 9 } }, NEVER);
  assert.equal(passed.kind, 'recorded');
  assert.deepEqual(
    eventsIn(join(hub.data, 'prod')).map(({ from }) => (from as unknown[])[1]),
    [1, 2, 3, 4, 5, ...later.map(({ seq }) => seq)],
  );
});
