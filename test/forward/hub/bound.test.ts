/** A source belongs to the name of the token that it came with: another token can neither write as it nor stop it. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken } from '../../../src/deployments/tokens.ts';
import type { SourceState } from '../../../src/journal/look/source-state.ts';
import { runHere } from '../../support/command-output.ts';
import { askHub, observation, SentJournal, SOURCE, sourceOf } from '../../support/forwarding.ts';
import { newFolder } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { eventually } from '../../support/tools.ts';
import { forwardedIn, TestHub } from '../../world/hub.ts';
import { SimulatedDisk } from '../../world/simulated-disk.ts';

const TOKEN = 'Service-Cloud-Api-Token';

test('another token can neither send as a source, ask for its position, nor claim to have been that source [bound-1]', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  const [sent, other] = [new SentJournal(5, sourceOf(1)), new SentJournal(5, sourceOf(2))];
  assert.equal((await hub.put(sent, 1, 2, { tokenName: 'roof' })).status, 200);
  const refused = await hub.put(sent, 3, 3, { tokenName: 'cellar' });
  assert.equal(refused.status, 403);
  assert.match(
    refused.error ?? '',
    / used the token "roof", not "cellar"; on the hub run: assetlog sources bind 0193e0c2-\S+ --token "cellar"$/,
  );
  assert.equal((await hub.ask(sent.source, undefined, 'cellar')).status, 403);
  const eras = [
    [1, sent.source],
    [3, other.source],
  ] as const;
  assert.equal((await hub.put(other, 1, 2, { tokenName: 'cellar', eras })).status, 403);
  const states = () => [...hub.receiver.sightings.list(hub.receiver.sources.loaded!, undefined, {})];
  assert.deepEqual(
    states().map(({ state, reason, token_name }) => [state, reason, token_name]),
    [['stopped', 'token', 'roof']],
  );
  assert.equal((await hub.put(sent, 3, 3, { tokenName: 'roof' })).status, 200, 'it goes on');
  assert.equal(states()[0]?.state, null);
  assert.equal((await hub.put(sent, 4, 4)).status, 200, 'without tokens there is no binding');
  assert.deepEqual([...forwardedIn(hub.disk)], [[sent.source, [1, 2, 3, 4]]]);
  assert.match(hub.notices.join('\n'), /used another token.*"bound":"roof","token":"cellar"/);
});

test('the binding of a source to its token survives a stop and a crash, and ends when the source is forgotten', async () => {
  const hub = await TestHub.open(new SimulatedDisk(), { limits: { seenWriteMs: 20 } as never });
  const sent = new SentJournal(5);
  await hub.put(sent, 1, 2, { tokenName: 'roof' });
  await eventually('it is written', () => hub.disk.text('forward-sources.json').includes('"roof"'));
  const again = await TestHub.open(hub.disk.afterCrash());
  assert.equal((await again.put(sent, 3, 3, { tokenName: 'cellar' })).status, 403);
  await again.receiver.forget(sent.source);
  assert.equal((await again.put(sent, 1, 3, { tokenName: 'cellar' })).status, 200);
});

test('events of a bound source that arrive from another site are recorded, with one warning', async () => {
  const hub = await TestHub.open(new SimulatedDisk());
  await hub.put(new SentJournal(1, sourceOf(1)), 1, 1, { tokenName: 'roof' });
  const site = new SentJournal(4, sourceOf(2), (seq) => ({
    ...observation('a'),
    origin: { id: sourceOf(100 + seq), source: sourceOf(1), seq: seq + 1, recorded: '2020-01-01T00:00:00.000Z' },
  }));
  for (const seq of [1, 2, 3, 4]) assert.equal((await hub.put(site, seq, seq, { tokenName: 'site' })).status, 200);
  const warnings = hub.notices.filter((line) => line.includes('with another token than before'));
  assert.equal(warnings.length, 1);
});

test('a second token of the same name replaces the first, and sources can be bound with and without the service', async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  const [first, second, other] = [newToken(), newToken(), newToken()];
  const entry = (name: string, { digest }: { digest: string }) => ({
    name,
    sha256: digest,
    may: ['report', 'read', 'forward'],
  });
  const tokens = [entry('roof', first), entry('roof', second), entry('cellar', other)];
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens }] }), { mode: 0o600 });
  const hub = await serve(t, { args: ['--deployments', file] });
  const url = `${hub.url}/prod`;
  const sent = new SentJournal(9);
  const put = async (seq: number, { token }: { token: string }) =>
    (await sent.put(url, seq, seq, { headers: { [TOKEN]: token } })).status;
  assert.deepEqual([await put(1, first), await put(2, second), await put(3, other)], [200, 200, 403]);
  const bind = async (...args: string[]) => {
    const { code, stdout } = await runHere(['sources', 'bind', ...args, '--data', join(hub.data, 'prod')]);
    return [code, stdout.trim()];
  };
  assert.deepEqual(await bind(sourceOf(77), '--token', 'x'), [1, 'sources bound to x: 0']);
  assert.deepEqual(await bind(SOURCE, '--token', 'cellar'), [0, 'sources bound to cellar: 1']);
  assert.deepEqual([await put(3, first), await put(3, other)], [403, 200]);
  assert.deepEqual(await bind(SOURCE, '--any'), [0, 'sources bound to the next token that they use: 1']);
  assert.deepEqual([await put(4, first), await put(5, other)], [200, 403]);
  assert.deepEqual((await bind('--token-name', 'cellar', '--any'))[0], 1);
  assert.deepEqual((await bind('--token-name', 'roof', '--any'))[0], 0);
  assert.deepEqual([await put(5, other), await put(6, first)], [200, 403]);
  const wrong = [
    [SOURCE],
    [SOURCE, '--token', 'x', '--any'],
    ['--any'],
    ['--token-name', 'x'],
    [SOURCE, '--token-name', 'x', '--any'],
  ];
  for (const args of wrong) assert.equal((await bind(...args))[0], 2, args.join(' '));
  const { sources } = (await (await fetch(`${url}/sources`, { headers: { [TOKEN]: other.token } })).json()) as {
    sources: SourceState[];
  };
  assert.deepEqual(
    sources.map(({ token_name, state }) => [token_name, state]),
    [['cellar', 'stopped']],
  );
  await hub.stop();
  assert.deepEqual((await bind(SOURCE, '--token', 'roof'))[0], 0);
  const again = await serve(t, { data: hub.data, args: ['--deployments', file] });
  const asked = await askHub(`${again.url}/prod`, SOURCE, { [TOKEN]: other.token });
  assert.equal(asked.status, 403);
  assert.equal((await askHub(`${again.url}/prod`, SOURCE, { [TOKEN]: second.token })).body['seq'], 5);
});
