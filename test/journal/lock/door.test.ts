/** Requests to the holder of a lock: who may ask, what is refused, and what ends with whom. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../../src/config/limits.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import type { Door } from '../../../src/journal/lock/protocol.ts';
import { takeTicket, tell } from '../../../src/journal/lock/tell.ts';
import { newFolder, type Scope } from '../../support/program.ts';
import { lockFolder } from '../../support/standard-limits.ts';
import { eventually, HANG_MS, within } from '../../support/tools.ts';
import { gate } from '../../world/gate.ts';

const skip = process.platform === 'win32' && 'the lock is no file there';
const STATE = `held ${process.pid} 7\n`;

async function open(t: Scope, answer: Door['answer'] = async (request) => `{"done":${request}}`) {
  const folder = newFolder(t);
  const lock = await lockFolder(folder);
  t.after(() => lock.release());
  lock.open({ nextSeq: () => 7, answer });
  return { folder, lock, disk: openDisk(folder) };
}

/** A connection to the lock of a folder, and what arrived over it. */
async function connectTo(t: Scope, folder: string): Promise<{ socket: Socket; text: () => string }> {
  const [name = ''] = readdirSync(folder).filter((entry) => entry.startsWith('.lock-'));
  const socket = connect(join(folder, name));
  t.after(() => socket.destroy());
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => {}); // the lock might reset the connection
  await once(socket, 'connect');
  return { socket, text: () => text };
}

async function untilClosed(asker: { socket: Socket; text: () => string }): Promise<string> {
  if (!asker.socket.closed) await within('the end of a connection', HANG_MS, once(asker.socket, 'close'));
  return asker.text();
}

test('a request at the lock is answered over the connection that gave the state, and its file is removed', {
  skip,
}, async (t) => {
  const { folder, disk } = await open(t, async (request) => {
    const { ticket, do: what } = JSON.parse(request);
    return JSON.stringify({ done: [what, await takeTicket(disk, ticket), await takeTicket(disk, ticket)] });
  });
  assert.deepEqual(await tell(disk, { do: 'x' }, limits), {
    kind: 'answered',
    answer: '{"done":["x",true,false]}\n',
  });
  assert.equal(readdirSync(folder).filter((name) => name.startsWith('.ask-')).length, 0);
});

test('a client of the lock that sends no request is disconnected', { skip }, async (t) => {
  const { folder } = await open(t);
  const began = performance.now();
  assert.equal(await untilClosed(await connectTo(t, folder)), STATE);
  assert.ok(performance.now() - began < 5_000);
});

test('a request may arrive in parts, and one that is too long or has no end is not carried out', {
  skip,
}, async (t) => {
  let carriedOut = 0;
  const { folder } = await open(t, async (request) => {
    carriedOut += 1;
    return request;
  });
  const inParts = await connectTo(t, folder);
  for (const part of ['{"do"', ':"a"', '}\n']) {
    inParts.socket.write(part);
    await sleep(20);
  }
  assert.equal(await untilClosed(inParts), `${STATE}{"do":"a"}\n\n`);
  assert.equal(carriedOut, 1);
  const tooLong = await connectTo(t, folder);
  tooLong.socket.write(`${'x'.repeat(limits.doorRequestBytesMax)}\n`);
  const endless = await connectTo(t, folder);
  endless.socket.write('{"do":');
  for (const asker of [tooLong, endless]) assert.equal(await untilClosed(asker), STATE);
  const leaver = await connectTo(t, folder);
  leaver.socket.write('{"do":"b"}');
  leaver.socket.end();
  assert.equal(await untilClosed(leaver), STATE);
  assert.equal(carriedOut, 1);
});

test('clients beyond the limit get only the state while others are answered', { skip }, async (t) => {
  const { open: answer, opened } = gate();
  const { folder } = await open(t, async () => {
    await opened;
    return 'done';
  });
  const asking = await Promise.all(Array.from({ length: limits.doorAskersMax }, () => connectTo(t, folder)));
  for (const { socket } of asking) socket.write('{}\n');
  await eventually('all have the state', () => asking.every(({ text }) => text() === STATE));
  const further = await connectTo(t, folder);
  further.socket.write('{}\n');
  assert.equal(await untilClosed(further), STATE);
  answer();
  for (const asker of asking) assert.equal(await untilClosed(asker), `${STATE}done\n`);
});

test('a request is aborted when its client leaves, and a release waits for its end [door-2]', { skip }, async (t) => {
  const ended = gate();
  let asked = 0;
  let left = 0;
  const { folder, lock } = await open(t, async (_, gone) => {
    asked += 1;
    if (!gone.aborted) await once(gone, 'abort');
    left += 1;
    if (left === 2) await ended.opened;
    return '';
  });
  const first = await connectTo(t, folder);
  first.socket.write('{}\n');
  await eventually('the request', () => asked === 1);
  first.socket.destroy();
  await eventually('it ends', () => left === 1);
  const second = await connectTo(t, folder);
  second.socket.write('{}\n');
  await eventually('the second request', () => asked === 2);
  let isReleased = false;
  const released = lock.release().then(() => {
    isReleased = true;
  });
  await eventually('it ends as well', () => left === 2);
  await sleep(50);
  assert.deepEqual([isReleased, readdirSync(folder).length], [false, 1], 'it still writes to the folder');
  ended.open();
  await within('the release', HANG_MS, released);
});

test('the reasons why no holder carries out a request are distinguished', { skip }, async (t) => {
  const folder = newFolder(t);
  const disk = openDisk(folder);
  const kindOf = async () => (await tell(disk, {}, limits)).kind;
  assert.equal(await kindOf(), 'nobody');
  const lock = await lockFolder(folder);
  const answer = '{"error":"its journal is not open"}\n';
  assert.deepEqual(await tell(disk, {}, limits), { kind: 'answered', answer });
  await lock.release();
  for (const [state, kind] of [
    ['held 77', 'older'],
    ['held 77 12', 'older'],
    ['starting 77', 'starting'],
    ['held 77 12\n', 'ended'],
    [undefined, 'unanswered'],
  ] as const) {
    const server = createServer((asker) => {
      asker.resume();
      if (state !== undefined) asker.end(state);
    });
    server.listen(join(folder, '.lock-other'));
    await once(server, 'listening');
    assert.equal(await kindOf(), kind, state);
    server.close();
    await once(server, 'close');
  }
  assert.deepEqual(readdirSync(folder), []);
});

test('a service that ends before it has answered is not reported as no service', { skip }, async (t) => {
  const folder = newFolder(t);
  let connections = 0;
  const server = createServer((asker) => {
    connections += 1;
    asker.resume();
    if (connections === 1)
      asker.end('held 77 12\n'); // asked who it is
    else {
      server.close();
      asker.once('data', () => asker.end('held 77 12\n'));
    }
  });
  server.listen(join(folder, '.lock-other'));
  await once(server, 'listening');
  assert.deepEqual(await tell(openDisk(folder), {}, limits), { kind: 'ended' });
});
