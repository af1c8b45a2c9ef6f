/** The nginx configuration of the handbook, word for word: no report is lost or doubled on its way through nginx. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../../src/config/limits.ts';
import { writeDeployments } from '../support/deployments.ts';
import { systemdUnits } from '../support/handbook.ts';
import {
  PUBLIC_NAME,
  recommended,
  recommendedArgs,
  recommendedHostedArgs,
  replaced,
  startNginx,
  withoutNginx,
} from '../support/nginx.ts';
import { eventsIn, freePort, newFolder, type Running, run, startService } from '../support/program.ts';
import { agentFor, ask, assertPassages, bodyOf, ENDPOINT, startBalancer, startLoad } from '../support/proxied.ts';
import { startSystemd, withoutOwnSystemd } from '../support/systemd.ts';
import { listenOn } from '../world/http-server.ts';

const MIB = 1024 * 1024;

const skip = withoutNginx;

test('more clients than the default connection cap get no 502', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 400);
  const body = JSON.stringify({ metadata: { filling: 'x'.repeat(10_000) } });
  const replies = Array.from({ length: 2_000 }, (_, index) =>
    ask(proxy, { agent, path: `${ENDPOINT}crowd-${index}`, body }),
  );
  const statuses = new Set((await Promise.all(replies)).map(({ status }) => status));
  assert.deepEqual([...statuses], [200]);
  assert.equal(new Set(keysIn(service)).size, 2_000);
  assert.equal(service.events().length, 2_000);
});

test('clients outside cannot read metrics or readiness, however they spell the path', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 1);
  for (const path of ['/metrics', '/readyz']) {
    assert.equal((await fetch(`${service.url}${path}`)).status, 200);
    const spelled = [path, `${path}?a`, `/${path}`, `/.${path}`, `/a/..${path}`, path.replace('e', '%65')];
    for (const asked of spelled) {
      const { status, body } = await ask(proxy, { agent, method: 'GET', path: asked });
      assert.deepEqual([status, body.includes('nginx')], [403, true], asked);
    }
  }
});

test('requests through nginx get the replies of the service', { skip }, async (t) => {
  const service = await startBehindProxy(t);
  await assertPassages(t, await startNginx(t, service.port), service);
});

test('in hosted mode the bad tokens of one client do not limit another client', { skip }, async (t) => {
  const { args: hosted, tokenOf } = writeDeployments(t, ['prod']);
  assert.deepEqual(recommendedHostedArgs, ['--trusted-proxy', '127.0.0.1']);
  for (const [args, other] of [
    [recommendedHostedArgs, 401],
    [[], 429], // without the option the proxy is the only client
  ] as const) {
    const service = await startService(t, { args: [...recommendedArgs, ...hosted, ...args] });
    const proxy = await startNginx(t, service.port);
    const path = `/prod${ENDPOINT}a`;
    const report = async (localAddress: string, headers: Readonly<Record<string, string>> = {}) => {
      const agent = agentFor(t, proxy, 1, localAddress);
      return (await ask(proxy, { agent, path, headers })).status;
    };
    const statuses: number[] = [];
    for (let count = 0; count <= limits.failuresMax; count += 1) {
      // The address that the attacker claims does not count: it cannot pose as another client, nor as many.
      statuses.push(
        await report('127.0.0.2', { 'X-Forwarded-For': count % 2 === 0 ? '127.0.0.3' : `10.0.0.${count}` }),
      );
    }
    assert.deepEqual(statuses, [...Array(limits.failuresMax).fill(401), 429]);
    assert.equal(await report('127.0.0.3'), other);
    assert.equal(await report('127.0.0.2', { 'Service-Cloud-Api-Token': tokenOf('prod') }), 200);
  }
});

test('nginx keeps the largest report in memory, and writes to a file only a body that will be refused', {
  skip,
}, async (t) => {
  const service = await startBehindProxy(t);
  const proxy = await startNginx(t, service.port);
  const agent = agentFor(t, proxy, 1);
  assert.equal((await ask(proxy, { agent, path: `${ENDPOINT}held`, body: bodyOf(MIB) })).status, 200);
  assert.doesNotMatch(proxy.log(), /buffered to a temporary file/);
  assert.equal((await ask(proxy, { agent, path: `${ENDPOINT}over`, body: bodyOf(4 * MIB) })).status, 413);
  assert.match(proxy.log(), /buffered to a temporary file/);
});

test('three restarts of a service with the socket of systemd lose none of the reports that are sent once', {
  skip: withoutNginx || withoutOwnSystemd,
}, async (t) => {
  const { shell, beside, units } = await startSystemd(t);
  const [service = '', socket = ''] = systemdUnits;
  writeFileSync(join(units, 'assetlog.service'), service.replace(/^ExecStart=.*$/m, `$& ${recommendedArgs.join(' ')}`));
  writeFileSync(join(units, 'assetlog.socket'), socket);
  assert.equal(shell('systemctl daemon-reload && systemctl start assetlog.socket').status, 0);
  const proxy = await startNginx(t, 3000, recommended, beside);
  const load = startLoad(proxy, agentFor(t, proxy, 48), 48);
  for (let restart = 1; restart <= 3; restart += 1) {
    await load.goesOn(500);
    assert.equal((await run(['restart', 'assetlog'], { under: beside, program: ['systemctl'] })).code, 0);
  }
  await load.goesOn(500);
  await load.stop();
  assert.deepEqual([...load.statuses.keys()], [200]);
  // What systemd's services write is below the root of its first process.
  const keys = eventsIn(`/proc/${beside[2]}/root/var/lib/private/assetlog`).map((event) => event['asset_key']);
  assert.deepEqual(keys.map(String).sort(), [...load.acknowledged].sort());
  t.diagnostic(`${keys.length} reports`);
});

test('nginx does not repeat a report whose connection broke, but does without the rule of the handbook', {
  skip,
}, async (t) => {
  assert.equal(await countSent(t, recommended), 1);
  const repeating = replaced(recommended, 'proxy_next_upstream off', 'proxy_next_upstream error non_idempotent');
  assert.equal(await countSent(t, repeating), 2, 'this test would notice a repetition');
});

test('nginx accepts larger bodies than the service', () => {
  const bodyMib = Number(/^\s+client_max_body_size (\d+)m;/m.exec(recommended)?.[1]);
  assert.ok(bodyMib * MIB > limits.bodyBytesMax, `${bodyMib} MiB`);
  // A larger body would be cut off before the client has read the refusal.
  assert.ok(bodyMib * MIB <= limits.discardBytesMax, `${bodyMib} MiB`);
  assert.equal(recommendedArgs[1], PUBLIC_NAME);
});

test('with two ingesters and --ack every 200 is at the hub once, whichever of the three is killed', {
  skip,
}, async (t) => {
  const [hubData, hubPort, lostPort, port] = [newFolder(t), await freePort(t), await freePort(t), await freePort(t)];
  const startHub = () => startService(t, { data: hubData, args: ['--port', `${hubPort}`] });
  const args = [...recommendedArgs, '--forward-to', `http://127.0.0.1:${hubPort}`, '--ack', 'upstream'];
  let hub = await startHub();
  const lost = await startService(t, { args: [...args, '--port', `${lostPort}`] });
  const data = newFolder(t);
  let kept = await startService(t, { data, args: [...args, '--port', `${port}`] });
  const proxy = await startBalancer(t, port, lostPort);
  const load = startLoad(proxy, agentFor(t, proxy, 16), 16);
  await load.goesOn(50);
  await lost.kill('SIGKILL'); // and is not started again
  await load.goesOn(50);
  await hub.kill('SIGKILL');
  await sleep(300);
  hub = await startHub();
  await load.goesOn(50);
  await kept.kill('SIGKILL');
  kept = await startService(t, { data, args: [...args, '--port', `${port}`] });
  await load.goesOn(50);
  await load.stop();
  const counts = new Map<string, number>();
  for (const key of keysIn(hub)) counts.set(key, (counts.get(key) ?? 0) + 1);
  const wrong = [...load.acknowledged].filter((key) => counts.get(key) !== 1);
  assert.deepEqual(wrong, [], `of ${load.acknowledged.size}`);
});

function startBehindProxy(t: TestContext): Promise<Running> {
  return startService(t, { args: recommendedArgs });
}

/** @returns how often nginx sends one report to a service that breaks off at each request, and has two addresses */
async function countSent(t: TestContext, text: string): Promise<number> {
  let times = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => {
      times += 1;
      socket.destroy();
    });
  });
  const port = await listenOn(t, server);
  const servers = `server 127.0.0.1:3000;\nserver 127.0.0.1:${port};`;
  const proxy = await startNginx(t, port, replaced(text, 'server 127.0.0.1:3000;', servers));
  assert.equal((await ask(proxy, { agent: agentFor(t, proxy, 1), path: `${ENDPOINT}broken` })).status, 502);
  return times;
}

function keysIn(service: Running): string[] {
  return service.events().map((event) => (event['asset_key'] as string[]).join('/'));
}
