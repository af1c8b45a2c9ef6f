/** `assetlog backup` as a process, while services run. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneName } from '../../../src/journal/segments.ts';
import { runRows } from '../../support/command-rows.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { eventsIn, type Finished, newFolder, run, startService } from '../../support/program.ts';
import { FIRST, flip, segment } from '../../support/segments.ts';
import { ask, post } from '../../support/wire.ts';

const REPORT = '/report_asset_materialization/a';

function backup(data: string, to: string): Promise<Finished> {
  return run(['backup', '--data', data, '--to', to]);
}

test('a backup of a hosted service copies each deployment for its user alone, also after a damaged one', async (t) => {
  const folder = newFolder(t);
  const [data, to] = [join(folder, 'data'), join(folder, 'to')];
  const { args, headerOf } = writeDeployments(t, ['prod', 'stage', 'test']);
  const service = await startService(t, { data, args });
  const send = (name: string) => ask(service.port, post(`/${name}${REPORT}`, undefined, [headerOf(name)]));
  for (const name of ['prod', 'test', 'prod']) assert.equal((await send(name)).status, 200);
  const first = await backup(data, to);
  assert.deepEqual([first.code, first.stderr], [0, '']);
  assert.match(first.stdout, /: 3 new events, 0\.0 MB; it holds 2 journals\n$/);
  assert.deepEqual(readdirSync(to).sort(), ['prod', 'test']);
  for (const [made, mode] of [
    [to, 0o700],
    [join(to, 'prod'), 0o700],
    [join(to, 'prod', FIRST), 0o600],
  ] as const)
    assert.equal(statSync(made).mode & 0o777, mode, made);
  assert.deepEqual([eventsIn(join(to, 'prod')).length, eventsIn(join(to, 'test')).length], [2, 1]);

  mkdirSync(join(data, 'stage'), { recursive: true });
  writeFileSync(join(data, 'stage', FIRST), flip(segment(1, 3), 30));
  assert.equal((await send('test')).status, 200);
  const second = await backup(data, to);
  assert.equal(second.code, 3);
  assert.match(second.stderr, /^assetlog: the journal is damaged: \S+\/stage\/events-\S+, line 1, byte 0: its crc is /);
  assert.equal(eventsIn(join(to, 'test')).length, 2, 'the deployment after it is copied');

  // A deployment can have this name; the folder of a repair has a time in its name.
  mkdirSync(join(data, 'damaged-goods'));
  writeFileSync(join(data, 'damaged-goods', FIRST), segment(1, 3));
  mkdirSync(join(data, 'lost'));
  writeFileSync(join(data, 'lost', goneName({ first: 1, last: 9 }, 'removed')), '');
  const third = await backup(data, to);
  assert.equal(third.code, 3);
  assert.match(third.stderr, /\/lost\/\S+, line 1, byte 0: all segments are missing: the events from 10 on/);
  assert.equal(eventsIn(join(to, 'damaged-goods')).length, 3);
});

test('the newest segment of a service that does not answer is left out with 75, and its folder is refused with 4', async (t) => {
  const folder = newFolder(t);
  const service = await startService(t, { args: ['--segment-bytes', '4096'] });
  const large = post(REPORT, JSON.stringify({ metadata: { filling: 'x'.repeat(3_000) } }));
  for (let sent = 0; sent < 4; sent += 1) assert.equal((await ask(service.port, large)).status, 200);
  process.kill(service.pid, 'SIGSTOP');
  const { code, stderr } = await backup(service.data, join(folder, 'to')).finally(() =>
    process.kill(service.pid, 'SIGCONT'),
  );
  assert.equal(code, 75);
  assert.match(
    stderr,
    /^assetlog: the service that writes \S+ does not answer: its newest file was left out; try again\n$/,
  );
  assert.ok(eventsIn(join(folder, 'to')).length < 4);
  const rest = await backup(service.data, join(folder, 'to'));
  assert.match(rest.stdout, /: \d new events?, 0\.0 MB; it holds seq 1 to 4\n$/);
  assert.equal(eventsIn(join(folder, 'to')).length, 4);
  await runRows({ FROM: join(folder, 'to'), TO: service.data }, [
    [
      'backup --data $FROM --to $TO',
      4,
      '',
      'assetlog: a service or another backup uses $TO; stop it, or give another folder with --to',
    ],
  ]);
});
