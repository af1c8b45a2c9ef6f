/** Hosted mode: which clients may report, and what other clients learn. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken, sha256 } from '../../../src/deployments/tokens.ts';
import { runHere } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
import { entryOf, REPORT, rewrite, writeDeployments } from '../../support/deployments.ts';
import { entriesOf } from '../../support/log.ts';
import { metricsOf } from '../../support/metrics.ts';
import { newFolder, run, startService } from '../../support/program.ts';
import { ask, post, withoutChance } from '../../support/wire.ts';

test('the first failure of each address is logged with its reason, for 20 addresses at most, and never with the token', async (t) => {
  const { file, args, tokenOf } = writeDeployments(t, ['prod', 'test']);
  const past = newToken().token;
  const of = (token: string, more: object) => ({ sha256: sha256(token).toString('hex'), ...more });
  const tokens = [of(tokenOf('prod'), { name: 'ci' }), of(past, { name: 'old', notAfter: '2020-01-31' })];
  rewrite(file, { name: 'prod', tokens }, entryOf('test', tokenOf('test')));
  const more = ['--trusted-proxy', '127.0.0.0/8', '--log-level', 'debug'];
  const service = await startService(t, { args: [...args, ...more] });
  const report = async (name: string, sent: string | undefined, from: string) => {
    const headers = [`X-Forwarded-For: ${from}`, ...(sent === undefined ? [] : [`Service-Cloud-Api-Token: ${sent}`])];
    return ask(service.port, post(`/${name}/${REPORT}`, undefined, headers));
  };
  const failures = [
    ['prod', undefined, { reason: 'missing token' }],
    ['prod', 'wrong', { reason: 'unknown token' }],
    ['prod', past, { reason: 'expired token', token_name: 'old' }],
    ['prod', tokenOf('test'), { reason: 'token of another deployment', token_name: 'ci', belongs_to: 'test' }],
    ['unknown', tokenOf('prod'), { reason: 'unknown deployment' }],
  ] as const;
  const replies = [];
  for (const [index, [name, sent]] of failures.entries()) replies.push(await report(name, sent, `192.0.2.${index}`));
  assert.equal(new Set(replies.map(withoutChance)).size, 1, 'the client does not get the reason');
  const schemes = 'Bearer realm="assetlog", Service-Cloud-Api-Token realm="assetlog"';
  assert.equal(replies[0]?.headers.get('www-authenticate'), schemes);
  assert.equal((await report('prod', 'wrong', '192.0.2.0')).status, 401);
  assert.equal((await report('prod', tokenOf('prod'), '192.0.2.0')).status, 200);
  for (let index = 0; index < 20; index += 1)
    assert.equal((await report('prod', 'w', `198.51.100.${index}`)).status, 401);
  const metrics = await metricsOf(service);
  assert.match(metrics, /^assetlog_auth_failures_total 26$/m);
  assert.match(metrics, /^assetlog_deployments_in_trouble 0$/m);
  const { stderr } = await service.kill();
  const logged = entriesOf(stderr, 'a request without a valid token was refused');
  assert.equal(logged.length, 20);
  for (const [index, [name, , reason]] of failures.entries()) {
    const { time: _, message: __, request_id, ...fields } = logged[index] ?? {};
    assert.deepEqual(fields, { level: 'warn', address: `192.0.2.${index}`, deployment: name, ...reason });
    assert.equal(request_id, JSON.parse(replies[index]?.body ?? '').request_id);
  }
  assert.equal(logged[5]?.['omitted_since'], 1);
  assert.deepEqual(
    entriesOf(stderr, 'request').flatMap(({ status, token_name }) => (status === 200 ? [token_name] : [])),
    ['ci', undefined],
  );
  for (const secret of [tokenOf('prod'), past, tokenOf('test')]) assert.ok(!stderr.includes(secret));
});

test('a token is printed with its name, its rights and its end', async () => {
  const inAMinute = new Date(Date.now() + 60_000).toISOString().slice(0, 10); // a day lasts until its end
  for (const [args, entry] of [
    [[], { name: 'client' }], // and not the name of the service
    [['--may', 'read'], { name: 'client', may: ['read'] }],
    [['--may', 'forward,read,report', '--name', 'ci'], { name: 'ci', may: ['report', 'read', 'forward'] }],
    [['--may', 'read', '--may', 'report,read'], { name: 'client', may: ['report', 'read'] }],
    ...['2100-12-31', '2100-12-31T12:00:00.5+01:00', inAMinute].map(
      (notAfter) => [['--not-after', notAfter], { name: 'client', notAfter }] as const,
    ),
  ] as const) {
    const { code, stdout, stderr } = await runHere(['token', ...args], { env: { ASSETLOG_NAME: 'hub1' } });
    assert.equal(code, 0, stderr);
    const { sha256: _, ...printed } = JSON.parse(stdout.split('\n')[1] ?? '');
    assert.deepEqual(printed, entry);
  }
});

test('a token is written to a new file that only its owner may read, and then only its entry is printed', async (t) => {
  const folder = newFolder(t);
  const file = join(folder, 'hub.token');
  const printed = await run(['token', '--name', 'ci', '--out', file]);
  assert.deepEqual([printed.code, printed.stderr], [0, '']);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const text = readFileSync(file, 'utf8');
  assert.match(text, /^asl_[\w-]{43}\n$/);
  assert.deepEqual(JSON.parse(printed.stdout), { name: 'ci', sha256: sha256(text.trim()).toString('hex') });

  symlinkSync(join(folder, 'elsewhere'), join(folder, 'link'));
  const exists = 'assetlog: $FOLDER/hub.token exists, and is not replaced; name a new file';
  await runRows({ FOLDER: folder }, [
    ['token --out $FOLDER/hub.token', 2, '', exists],
    ['token --out $FOLDER/link', 2, '', exists.replace('hub.token', 'link')],
    ['token --out $FOLDER/no/token', 2, '', /ENOENT/],
  ]);
  assert.deepEqual([readFileSync(file, 'utf8'), readdirSync(folder).sort()], [text, ['hub.token', 'link']]);
});
