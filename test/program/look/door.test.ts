/** What a running service does for commands over its lock, and what it refuses. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, readdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { runRows } from '../../support/command-rows.ts';
import { run, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { HANG_MS, within } from '../../support/tools.ts';

const skip = process.platform === 'win32' && 'the lock is no file there';

/** Sends a line to the lock of a folder. @returns the answer, without the state */
async function answerTo(folder: string, line: string): Promise<string> {
  const [name = ''] = readdirSync(folder).filter((entry) => entry.startsWith('.lock-'));
  const socket = connect(join(folder, name));
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.write(`${line}\n`);
  await within('an answer', HANG_MS, once(socket, 'close'));
  return text.slice(text.indexOf('\n') + 1).trimEnd();
}

test('a request without a file of the folder is refused, and so is one that is not known', {
  skip,
}, async (t) => {
  const service = await startService(t);
  await record(service, 'observation/a');
  const ticket = '01a1fb95-0000-7000-8000-000000000001';
  const forget = { do: 'forget assets', forget: { key: ['a'] } };
  const assets = async () =>
    ((await (await fetch(`${service.url}/assets`)).json()) as { assets: unknown[] }).assets.length;
  for (const given of [forget, { ticket, ...forget }, { ticket: '../x', ...forget }, 'text', ['a']])
    assert.equal(
      await answerTo(service.data, JSON.stringify(given)),
      '{"error":"the request names no file of the folder"}',
    );
  writeFileSync(join(service.data, 'assets.forget'), '{"key":["a"]}'); // the request of a 0.3.0 command
  await runRows({ DATA: service.data }, [['assets forget b --data $DATA', 2, '', /has no such asset/]]);
  assert.equal(await assets(), 1);
  for (const given of [{}, { do: 'x' }, { do: 'retry' }, { do: 'forget assets', forget: { key: 'a' } }]) {
    writeFileSync(join(service.data, `.ask-${ticket}`), '');
    const answer = await answerTo(service.data, JSON.stringify({ ticket, ...given }));
    assert.equal(answer, '{"error":"the service does not know the request; restart it"}');
  }
  writeFileSync(join(service.data, `.ask-${ticket}`), '');
  assert.equal(await answerTo(service.data, JSON.stringify({ ticket, ...forget })), '{"done":1}');
  assert.equal(await assets(), 0);
});

test('a command ends with 75 if the service keeps no state of assets', async (t) => {
  const service = await startService(t, { args: ['--no-read'] });
  await record(service, 'observation/a');
  const nothing = 'assetlog: nothing was done: this service keeps no state of assets; stop it first';
  await runRows({ DATA: service.data }, [['assets forget a --data $DATA', 75, '', nothing]]);
});

test('a command of another user is refused with 5 and what to do', {
  skip: (process.getuid?.() !== 0 || process.platform !== 'linux') && 'needs root, and setpriv of Linux',
}, async (t) => {
  const service = await startService(t);
  await record(service, 'observation/a');
  chmodSync(service.data, 0o755);
  const { code, stderr } = await run(['assets', 'forget', 'a', '--data', service.data], {
    under: ['setpriv', '--reuid=65534', '--clear-groups'],
    env: { NODE_V8_COVERAGE: undefined }, // that user may not write there
  });
  assert.equal(code, 5, stderr);
  assert.match(stderr, /belongs to another user; run this as that user or as root\n$/);
});
