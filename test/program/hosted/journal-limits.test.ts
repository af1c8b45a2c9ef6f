/** Limits in the entry of a deployment: of its own journal, in the place of the options, and beside busy neighbours. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneName } from '../../../src/journal/segments.ts';
import { runHere } from '../../support/command-output.ts';
import { type Deployments, type Hosting, host, REPORT, writeDeployments } from '../../support/deployments.ts';
import { type Scope, segmentBytes } from '../../support/program.ts';
import { type Served, type Serving, serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { ask, errorOf, post } from '../../support/wire.ts';

/** Adds members to the entry of a deployment. */
function limit({ file }: Pick<Deployments, 'file'>, name: string, limits: object): void {
  const { deployments } = JSON.parse(readFileSync(file, 'utf8'));
  const changed = deployments.map((one: { name: string }) => (one.name === name ? { ...one, ...limits } : one));
  writeFileSync(file, JSON.stringify({ deployments: changed }));
}

/** A hosted service whose deployments have limits from its start on. */
async function hostWith(t: Scope, all: Readonly<Record<string, object>>, { args = [], ...more }: Serving = {}) {
  const deployments = writeDeployments(t, Object.keys(all));
  for (const [name, limits] of Object.entries(all)) limit(deployments, name, limits);
  const service: Served = await serve(t, { args: [...deployments.args, ...args], ...more });
  const report = (name: string) =>
    ask(
      service.port,
      post(`/${name}/${REPORT}${name === 'full' ? 'a'.repeat(1500) : ''}`, undefined, [deployments.headerOf(name)]),
    );
  return { ...service, ...deployments, report };
}

const segmentsIn = (data: string, name: string) =>
  readdirSync(join(data, name)).filter((file) => file.endsWith('.jsonl'));
const bytesIn = (data: string, name: string) => segmentBytes(join(data, name));

async function reportTo(hosting: Pick<Hosting, 'report'>, name: string, count: number): Promise<number[]> {
  const replies = await Promise.all(Array.from({ length: count }, () => hosting.report(name)));
  return replies.map(({ status }) => status);
}

async function loadOf(hosting: Pick<Hosting, 'report'>, name: string, rounds: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let round = 0; round < rounds; round += 1) statuses.push(...(await reportTo(hosting, name, 20)));
  return statuses;
}

const refusedIn = (statuses: readonly number[]) => statuses.filter((status) => status === 503).length;
const hasNone = (statuses: readonly number[]) => statuses.every((status) => status === 200);

test('a full deployment refuses reports with its limit, also after a restart, and another under the same load refuses none [journal-limits-1]', async (t) => {
  const maxBytes = 100_000;
  const service = await hostWith(
    t,
    { full: { maxBytes }, other: {}, more: { maxBytes: '1MB' } },
    { args: ['--segment-bytes', '8192', '--commit-delay', '100'] },
  );
  const load = (name: string) => loadOf(service, name, 10);
  const [full, other, more] = await Promise.all(['full', 'other', 'more'].map(load));
  assert.deepEqual([hasNone(other!), hasNone(more!)], [true, true]);
  assert.ok(refusedIn(full!) > 50 && refusedIn(full!) < 200, `${refusedIn(full!)}`);
  const bytes = bytesIn(service.data, 'full');
  assert.ok(bytes <= maxBytes && bytes > maxBytes / 2, `${bytes}`);
  const reason = `the journal of this deployment is full: its maxBytes is ${maxBytes}; its operator can raise that`;
  const refused = await service.report('full');
  assert.deepEqual([refused.status, errorOf(refused)], [503, reason]);
  const { deployments } = JSON.parse((await ask(service.port, 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n')).body);
  assert.deepEqual(deployments, { full: reason });
  await service.stop();

  const again = await serve(t, { data: service.data, args: service.args, limits: { deploymentsCheckMs: 50 } });
  const report = (name: string) => ask(again.port, post(`/${name}/${REPORT}`, undefined, [service.headerOf(name)]));
  assert.deepEqual([(await report('full')).status, (await report('other')).status], [503, 200], 'also after a restart');
  limit(service, 'full', { maxBytes: 2 * maxBytes });
  await again.reload();
  assert.equal((await report('full')).status, 200);
  limit(service, 'other', { maxBytes: 20_000 });
  await again.reload();
  await eventually('a new limit counts', async () => (await report('other')).status === 503);
  assert.equal((await runHere(['verify', '--data', join(service.data, 'full')])).code, 0);
});

test('a smaller limit is logged with the events that go, and these go at the next look, also of a closed journal', async (t) => {
  const limits = { retainCheckMs: 3_600_000 };
  const service = await host(t, ['open', 'shut', 'days'], {
    args: ['--segment-bytes', '4096', '--retain-bytes', '1GB'],
    limits,
  });
  for (const name of ['open', 'shut', 'days']) {
    for (let round = 0; round < 20; round += 1) await reportTo(service, name, 10);
  }
  const counts = () => ['open', 'shut'].map((name) => segmentsIn(service.data, name).length);
  const [before] = [counts()];
  limit(service, 'open', { retainBytes: 16_384 });
  limit(service, 'shut', { retainBytes: 20_000 });
  limit(service, 'days', { retainDays: 1 });
  await service.reload();
  const logged = () =>
    service.notices.filter((line) => line.includes('a smaller limit')).map((line) => JSON.parse(line));
  await eventually('each is logged', () => logged().length === 3);
  const wanted = { open: 16_384, shut: 20_000 };
  for (const { deployment, events, retain_bytes } of logged()) {
    if (deployment === 'days') assert.equal(events, 0);
    else
      assert.ok(
        events > 50 && events < 180 && retain_bytes === wanted[deployment as 'open' | 'shut'],
        `${deployment} ${events}`,
      );
  }
  assert.deepEqual(counts(), before, 'nothing is removed yet');
  limit(service, 'open', { retainBytes: 30_000 });
  await service.reload();
  assert.equal(logged().length, 3, 'a larger one is not logged');
  limit(service, 'open', { retainBytes: 16_384 });
  await service.stop();

  const next = await serve(t, { data: service.data, args: service.args, limits: { retainCheckMs: 100 } });
  await eventually('closed journals are looked at', () =>
    ['open', 'shut'].every((name) => bytesIn(service.data, name) <= 24_000),
  );
  const [{ events }] = logged().filter(({ deployment }) => deployment === 'open');
  assert.ok(
    readdirSync(join(service.data, 'open')).includes(goneName({ first: 1, last: events }, 'removed')),
    'as many as were logged',
  );
  limit(service, 'days', { retainBytes: 16_384 });
  await next.reload();
  await eventually('an open journal is looked at', () => bytesIn(service.data, 'days') <= 24_000);
});
