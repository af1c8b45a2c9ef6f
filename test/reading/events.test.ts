/** `GET /events` of a real service. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { readConfig } from '../../src/config/config.ts';
import { type ServiceParts, startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';
import { journalText, newFolder } from '../support/program.ts';

async function serve(t: TestContext, parts: ServiceParts = {}, args: readonly string[] = []) {
  const data = newFolder(t);
  const read = readConfig(['--port', '0', '--data', data, ...args], {});
  assert.equal(read.kind, 'valid');
  if (read.kind !== 'valid') throw new Error('unreachable');
  const service = await startService(
    read.config,
    createNotices('error', false, () => {}),
    parts,
  );
  t.after(() => service.stop());
  return {
    ...service,
    data,
    report: async (key: string) => {
      const reply = await fetch(`${service.url}/report_asset_observation/${key}`, { method: 'POST' });
      assert.equal(reply.status, 200);
    },
  };
}

test('the lines are those of the journal, byte for byte', async (t) => {
  const { url, data, report } = await serve(t);
  for (const key of ['a', 'b', 'c', 'd']) await report(key);
  const lines = journalText(data).split('\n');
  const reply = await fetch(`${url}/events`);
  assert.equal(reply.headers.get('content-type'), 'application/x-ndjson');
  assert.equal(await reply.text(), journalText(data));
  const part = await fetch(`${url}/events?after_seq=1&limit=2`);
  assert.equal(await part.text(), `${lines[1]}\n${lines[2]}\n`);
  assert.equal(await (await fetch(`${url}/events?after_seq=4`)).text(), '');
  assert.equal((await fetch(`${url}/events?limit=0`)).status, 400);
});
