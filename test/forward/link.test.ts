/** One destination of one journal, with a real server and real files beside a simulated journal. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Limits } from '../../src/config/limits.ts';
import { DeadLetters } from '../../src/forward/dead-letters.ts';
import type { Destination } from '../../src/forward/destination.ts';
import { Link } from '../../src/forward/link.ts';
import { OwnProgress } from '../../src/journal/progress.ts';
import { newFolder } from '../support/program.ts';
import { diskWith, FIRST, quiet, segment } from '../support/segments.ts';
import type { SimulatedDisk } from '../support/simulated-disk.ts';
import { eventually } from '../support/tools.ts';
import { limits as shortLimits, UPSTREAM } from './scripted.ts';

const SOURCE = '0193e0c2-7f3a-7000-8000-000000000000';

async function startServer(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A link of a journal with 5 events. */
function linkOf(
  t: TestContext,
  destination: Partial<Destination>,
  { disk = diskWith({ [FIRST]: segment(1, 5) }), limits = {} }: { disk?: SimulatedDisk; limits?: Partial<Limits> } = {},
): Link {
  const progress = new OwnProgress();
  progress.recorded(disk.folder, 6);
  const link = new Link({
    destination: { ...UPSTREAM, ...destination },
    disk,
    progress,
    source: async () => SOURCE,
    letters: () => DeadLetters.open(disk, destination.name ?? UPSTREAM.name),
    limits: { ...shortLimits, ...limits },
    notices: quiet,
  });
  t.after(() => link.close());
  return link;
}

test('a token file that changes while its request is in flight is tried at once after the stop', async (t) => {
  const tokenFile = join(newFolder(t), 'token');
  writeFileSync(tokenFile, 'old');
  const tokens: string[] = [];
  const to = await startServer(t, ({ headers, url }, response) => {
    tokens.push(`${headers['authorization']}`);
    // Before the answer, so that the first look after the stop already finds the new file.
    if (tokens.length === 1) writeFileSync(tokenFile, 'new one');
    response.statusCode = tokens.at(-1) === 'old' ? 401 : 200;
    response.end(url?.startsWith('/forward/') ? '{"error":"no"}' : '{}');
  });
  const link = linkOf(t, { to, tokenFile }, { limits: { forwardStoppedMs: 60_000, keptMs: 60_000 } });
  await link.check([]);
  await eventually('it is stopped', () => link.status.state === 'stopped');
  await eventually('the new token is used', async () => {
    await link.check([]);
    return link.status.seq === 5;
  });
  assert.deepEqual([...new Set(tokens)], ['old', 'new one']);
  assert.equal(tokens.filter((token) => token === 'old').length, 1, 'and the old one is not used again');
});
