/** Files with secrets that do not answer, as on a mount that is gone. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Limits, limits as standard } from '../../../src/config/limits.ts';
import type { AskableDestination } from '../../../src/forward/destinations/destination.ts';
import { traitsOf } from '../../../src/forward/destinations/kinds.ts';
import { hangFiles } from '../../support/hanging-files.ts';
import { newFolder } from '../../support/program.ts';
import { eventually, within } from '../../support/tools.ts';
import { startScripted } from '../../world/http-server.ts';

const NEVER = new AbortController().signal;
const limits: Limits = { ...standard, keptMs: 0, fileReadMs: 500 };
const ENDS_MS = 20_000;

/** Hubs at one server, each with a token file of its own; that of the first one is on a mount that goes away. */
async function hubs(t: TestContext, own: Partial<Limits> = {}) {
  const { url: to, got } = await startScripted(t, () => [200, '{"seq":0,"id":null}']);
  const folder = newFolder(t);
  mkdirSync(join(folder, 'mount'));
  const files = ['mount/a.token', 'b.token', 'c.token'].map((name) => join(folder, name));
  const destinations = files.map((tokenFile, index) => {
    writeFileSync(tokenFile, `asl_${index}`);
    const options = { to, source: '01a1fb95-0000-7000-8000-000000000001', tokenHeader: 'X-Token', stamp: false };
    const destination = traitsOf.hub.open({ ...options, tokenFile, limits: { ...limits, ...own } });
    t.after(() => destination.close());
    return destination;
  }) as [AskableDestination, AskableDestination, AskableDestination];
  return { destinations, tokens: () => got.map(({ headers }) => headers['x-token']), dead: files[0]!, last: files[2]! };
}

test('a token file that does not answer stops its destination with the reason, and another one keeps its token', async (t) => {
  const { destinations, tokens, dead, last } = await hubs(t);
  const [first, second, third] = destinations;
  const ask = (destination: AskableDestination) => within('an answer', ENDS_MS, destination.ask(NEVER));
  assert.deepEqual([(await ask(first)).kind, (await ask(second)).kind], ['at', 'at']);
  const files = hangFiles(t, (path) => path.includes('/mount/'));
  const problem = `${dead} was not read to its end in time; check its file system, or the program that writes to the pipe`;
  assert.deepEqual(await ask(first), { kind: 'again', reason: `no request was sent: ${problem}` });
  assert.equal((await ask(second)).kind, 'at', 'with the token that it had');
  const reason = `no request was sent: ${last} waits for another file: ${problem}`;
  assert.deepEqual(await ask(third), { kind: 'again', reason });
  assert.deepEqual(files.waiting, [dead]);
  assert.deepEqual(tokens(), ['asl_0', 'asl_1', 'asl_1']);
  for (const destination of destinations) assert.equal(await destination.haveFilesChanged(NEVER), false);
  writeFileSync(dead, 'asl_new');
  files.open();
  await eventually('it is read again', async () => (await ask(first)).kind === 'at');
  assert.equal(tokens().at(-1), 'asl_new');
  assert.equal((await ask(third)).kind, 'at');
});

test('a stop does not wait for a token file that does not answer', async (t) => {
  const { destinations } = await hubs(t, { fileReadMs: 10 * ENDS_MS });
  const [first] = destinations;
  await first.ask(NEVER);
  const files = hangFiles(t, (path) => path.includes('/mount/'));
  const stop = new AbortController();
  const ends = [first.ask(stop.signal), first.haveFilesChanged(stop.signal)];
  await eventually('one of them waits', () => files.waiting.length === 1);
  stop.abort();
  const [asked, changed] = await within('the end of both', ENDS_MS, Promise.all(ends));
  assert.deepEqual([(asked as { kind: string }).kind, changed], ['again', false]);
});
