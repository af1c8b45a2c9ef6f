/** A FIFO in the place of a file of the data folder: a start does not wait for it. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { exitCodes } from '../../src/config/exit-codes.ts';
import { newFolder, run, startService } from '../support/program.ts';
import { each } from '../support/tools.ts';
import { ask, post, Wire } from '../support/wire.ts';

const ARGS = ['--segment-bytes', '4096', '--forward-to', 'http://127.0.0.1:9'];

test('a FIFO in the place of any file of the folder counts as a damaged one, and no start waits for it', {
  skip: process.platform === 'win32',
}, async (t) => {
  const first = await startService(t, { args: ARGS });
  const wire = await Wire.open(first.port);
  for (let count = 0; count < 40; count += 1) {
    wire.send(post('/report_asset_observation/a', '{}', [`Idempotency-Key: ${count}`]));
    assert.equal((await wire.reply())?.status, 200);
  }
  wire.close();
  await first.kill('SIGTERM');
  const names = readdirSync(first.data);
  assert.ok(names.some((name) => name.startsWith('keys-')));
  const others = [
    'forward-sources.json',
    'dead-upstream.jsonl',
    'forward-upstream.retry',
    'forward-upstream.state.new',
  ];
  await each([...names, ...others], 2, async (name) => {
    const data = join(newFolder(t), 'data');
    cpSync(first.data, data, { recursive: true });
    rmSync(join(data, name), { force: true });
    execFileSync('mkfifo', [join(data, name)]);
    if (name.startsWith('events-')) {
      const { code, stderr } = await run(['--port', '0', '--data', data, ...ARGS]);
      assert.equal(code, exitCodes.diskFailed, stderr);
      assert.match(stderr, new RegExp(`${name} is not a regular file; move it away, or remove it\n$`));
      return;
    }
    const service = await startService(t, { args: ARGS, data });
    assert.equal((await ask(service.port, post('/report_asset_observation/a'))).status, 200, name);
    assert.equal((await service.kill('SIGTERM')).code, exitCodes.done, name);
  });
});
