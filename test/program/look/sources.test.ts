/** `assetlog sources` and `GET /sources`: how an operator finds a silent device. */

import assert from 'node:assert/strict';
import { cpSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceState } from '../../../src/journal/look/source-state.ts';
import { sealedFile } from '../../../src/journal/sealed.ts';
import { jsonIn, runHere } from '../../support/command-output.ts';
import { type CommandRow, runRows, wordsOf } from '../../support/command-rows.ts';
import { writeDeployments } from '../../support/deployments.ts';
import { askHub, SentJournal, SOURCE, sourceOf } from '../../support/forwarding.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { journalText, newFolder, type Running, run, type Scope, startService } from '../../support/program.ts';
import { serveReads } from '../../support/reading.ts';
import { record } from '../../support/report.ts';
import { eventually } from '../../support/tools.ts';

const SEEN = 'forward-seen.json';

const report = (device: Running) => record(device, 'observation/line/1');

async function sourcesAt(url: string, headers: Record<string, string> = {}, query = ''): Promise<SourceState[]> {
  const reply = await fetch(`${url}/sources${query}`, { headers });
  return ((await reply.json()) as { sources: SourceState[] }).sources;
}

const namesOf = (sources: readonly SourceState[]) => sources.map(({ name }) => name);

test('sources --silent names the killed one of two devices', async (t) => {
  const hub = await startService(t);
  const [alive, killed] = await Promise.all(
    ['device-1', 'München 2'].map((name) => startService(t, { args: ['--forward-to', hub.url, '--name', name] })),
  );
  await report(alive!);
  await report(killed!);
  await eventually('both are listed', async () => (await sourcesAt(hub.url)).length === 2);
  await killed!.kill('SIGKILL');
  await eventually('the file is written', () => existsSync(join(hub.data, SEEN)));
  await sleep(2_500);
  for (const place of ['--url $URL', '--data $DATA']) {
    await eventually('only the killed device is silent', async () => {
      await report(alive!);
      const args = wordsOf(`sources ${place} --silent 2s`, { URL: hub.url, DATA: hub.data });
      const { code, stdout, stderr } = await runHere(args);
      assert.equal(code, 1);
      assert.match(
        stderr,
        /^assetlog: a device without events makes a request every 10 min; give --silent more than that /,
      );
      return `${jsonIn(stdout).map(({ name }) => name)}` === 'München 2';
    });
    await runRows({ URL: hub.url, DATA: hub.data }, [
      [`sources ${place} --silent 1h`, 0, '', 'assetlog: no source was silent for that long'],
      [`sources ${place}`, 0, ['München 2', 'device-1']],
    ]);
  }
  const [{ id, last_event, last_seen, ...rest }] = (await sourcesAt(hub.url)) as [SourceState];
  assert.equal(id, readFileSync(join(killed!.data, '.journal-id'), 'utf8').trim());
  assert.deepEqual(rest, {
    name: 'München 2',
    token_name: null,
    deployment: null,
    last_seq: 1,
    through: null,
    state: null,
    reason: null,
    lost_events: 0,
    missing_events: 0,
    lag_events: 0,
  });
  assert.ok(last_event! <= last_seen!, `${last_event} ${last_seen}`);
});

test('the state of a source survives a stop and, except for its name, the loss of its file; a damaged file is ignored', async (t) => {
  let hub = await startService(t);
  const { data } = hub;
  const restart = async () => {
    hub = await startService(t, { data });
  };
  const sent = new SentJournal(9);
  const longest = `<b>&${'🛰'.repeat(60)}`;
  const headers = { 'Assetlog-Name': encodeURIComponent(longest), 'Assetlog-Last': '9' };
  await sent.put(hub.url, 1, 3, { headers });
  await sent.put(hub.url, 6, 6, { headers: { ...headers, 'Assetlog-Lost': '4-5' } });
  const before = await sourcesAt(hub.url);
  assert.deepEqual(
    before.map(({ name, last_seq, lost_events, lag_events }) => [name, last_seq, lost_events, lag_events]),
    [[longest, 6, 2, 3]],
  );
  await eventually('the file is written beside the hub', () => existsSync(join(data, SEEN)));
  assert.equal((await hub.kill()).code, 0);
  await restart();
  assert.deepEqual(await sourcesAt(hub.url), before);
  await sent.put(hub.url, 7, 7);
  await hub.kill('SIGKILL');
  writeFileSync(join(data, SEEN), readFileSync(join(data, SEEN), 'utf8').replace('<b>', '<i>'));
  const { code, stdout } = await runHere(['sources', '--data', data]);
  const [crashed] = jsonIn(stdout) as [SourceState];
  assert.deepEqual([code, crashed.name, crashed.last_seq, crashed.lag_events], [0, null, 7, null]);
  assert.ok(crashed.last_seen! > before[0]!.last_seen!, 'the time of its last event here');
  await restart();
  assert.deepEqual(namesOf(await sourcesAt(hub.url)), [null]);
  await hub.kill('SIGKILL');
  rmSync(join(data, SEEN), { force: true });
  await restart();
  symlinkSync(SEEN, join(data, SEEN));
  assert.equal((await sent.put(hub.url, 8, 8)).status, 200, 'a file that cannot be read stops no event');
  await eventually('it is logged', () =>
    /what the devices reported about themselves cannot be read/.test(hub.stderr()),
  );
  assert.equal((await fetch(`${hub.url}/sources`)).status, 503);
});

test('a source that reports itself as stopped is shown, counted and found as stopped until its next request says otherwise', async (t) => {
  const hub = await startService(t);
  const sent = new SentJournal(9);
  await sent.put(hub.url, 1, 3);
  await new SentJournal(1, sourceOf(2)).put(hub.url, 1, 1);
  const shownState = async () => {
    const { state, reason, lag_events } = (await sourcesAt(hub.url)).find(({ id }) => id === SOURCE)!;
    const samples = samplesOf(await metricsOf(hub));
    const figures = ['sources_stopped', 'unsent_events'].map((name) => samples.get(`assetlog_hub_${name}`));
    return [state, reason, lag_events, ...figures];
  };
  const stopped = { 'Assetlog-Last': '9', 'Assetlog-State': 'stopped fork', 'Assetlog-Unsent': '7' };
  assert.equal((await askHub(hub.url, SOURCE, stopped)).status, 200);
  assert.deepEqual(await shownState(), ['stopped', 'fork', 7, 1, 7]);
  assert.deepEqual(
    (await sourcesAt(hub.url, {}, '?stopped=true')).map(({ id }) => id),
    [SOURCE],
  );
  await runRows({ URL: hub.url }, [['sources --url $URL --stopped --table', 1, /stopped, fork/]]);
  await askHub(hub.url, SOURCE, { 'Assetlog-Last': '9', 'Assetlog-State': 'later words', 'Assetlog-Unsent': '0' });
  assert.deepEqual((await shownState()).slice(0, 3), ['later', 'words', 0]);
  await sent.put(hub.url, 4, 4);
  assert.deepEqual(await shownState(), [null, null, 5, 0, 0]);
  await runRows({ URL: hub.url }, [['sources --url $URL --stopped', 0, '', 'assetlog: no source is stopped']]);
  const clone = new SentJournal(5);
  assert.equal((await clone.put(hub.url, 4, 5)).status, 409);
  assert.deepEqual((await shownState()).slice(0, 2), ['stopped', 'fork'], 'the hub has said it');
  assert.match(
    hub.stderr(),
    new RegExp(`restored or copied, and is stopped.*"here":"${sent.id(4)}","sent":"${clone.id(4)}"`),
  );
});

/** A hosted hub with two deployments. */
async function hosted(t: Scope) {
  const deployments = writeDeployments(t, ['prod', 'test']);
  const hub = await startService(t, { args: deployments.args });
  const headersOf = (name: string) => ({ 'Service-Cloud-Api-Token': deployments.tokenOf(name) });
  return { ...deployments, hub, headersOf };
}

test('a deployment lists only its own sources with their token names, for tokens that may read [sources-of-deployment-1]', async (t) => {
  const { hub, args, file, headersOf } = await hosted(t);
  for (const [number, name] of ['prod', 'test'].entries()) {
    const headers = { ...headersOf(name), 'Assetlog-Name': `of-${name}` };
    assert.equal((await new SentJournal(2, sourceOf(number)).put(`${hub.url}/${name}`, 1, 2, { headers })).status, 200);
  }
  const sourcesOf = (name: string, url = hub.url) => sourcesAt(`${url}/${name}`, headersOf(name));
  const both = [...(await sourcesOf('prod')), ...(await sourcesOf('test'))];
  assert.deepEqual(
    both.map(({ id, name, token_name, deployment }) => [id, name, token_name, deployment]),
    [
      [sourceOf(0), 'of-prod', 'ci of prod', 'prod'],
      [sourceOf(1), 'of-test', 'ci of test', 'test'],
    ],
  );
  assert.equal((await fetch(`${hub.url}/prod/sources`, { headers: headersOf('test') })).status, 401);
  assert.equal((await fetch(`${hub.url}/prod/sources?silent=1`, { headers: headersOf('prod') })).status, 400);
  assert.equal((await hub.kill()).code, 0);
  await runRows({ DATA: hub.data }, [['sources --data $DATA --table', 0, /deployment/]]);
  const again = await startService(t, { data: hub.data, args });
  assert.deepEqual(
    [...(await sourcesOf('prod', again.url)), ...(await sourcesOf('test', again.url))],
    both,
    'no journal is open',
  );
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll('"read",', ''));
  await eventually('the right is gone', async () => {
    return (await fetch(`${again.url}/prod/sources`, { headers: headersOf('prod') })).status === 403;
  });
});

test('all sources are in one reply, also more than a page has, and the command reads them in pages', async (t) => {
  const count = 1_201;
  const data = newFolder(t);
  const ids = Array.from({ length: count }, (_, number) => sourceOf(number));
  const marks = JSON.stringify(ids.map((id) => [id, 1, id]));
  const seen = JSON.stringify(ids.map((id, at) => [id, { seenMs: at === 0 ? 0 : 1e12 + at, lost: 0 }]));
  writeFileSync(join(data, 'forward-sources.json'), sealedFile(`{"seq":0,"sources":${marks}`));
  writeFileSync(join(data, SEEN), sealedFile(`{"sources":${seen}`));
  const hub = await serveReads(t, { data });
  assert.deepEqual(
    (await sourcesAt(hub.url)).map(({ id }) => id),
    ids,
  );
  await runRows({ URL: hub.url }, [['sources --url $URL --silent 1h', 1, ids]]);
  for (const wrong of ['limit=0', 'limit=50001', `after=${SOURCE}`, `after=2026-13-01T00:00:00.000Z,${SOURCE}`])
    assert.equal((await fetch(`${hub.url}/sources?${wrong}`)).status, 400, wrong);
});

test('the folder of a hub with 500 deployments is listed with 300 open files', async (t) => {
  const [one, many] = [await startService(t), newFolder(t)];
  await report(one);
  assert.equal((await one.kill()).code, 0);
  for (let number = 1; number <= 500; number += 1) cpSync(one.data, join(many, `d${number}`), { recursive: true });
  const { code, stderr } = await run(['sources', '--data', many], { openFilesMax: 300 });
  assert.deepEqual([code, stderr], [0, 'assetlog: no journal forwards to this one\n']);
});

test('a source is forgotten in each deployment of a folder that has it, and its events are kept', async (t) => {
  const hub = await startService(t);
  await new SentJournal(1).put(hub.url, 1, 1);
  assert.equal((await hub.kill()).code, 0);
  const folder = newFolder(t);
  const values = { DATA: folder, SOURCE };
  const forgotten = '$SOURCE is forgotten; its events are kept';
  cpSync(hub.data, join(folder, 'prod'), { recursive: true });
  await runRows(values, [['sources forget $SOURCE --data $DATA', 0, forgotten]]);
  for (const name of ['east', 'west']) cpSync(hub.data, join(folder, name), { recursive: true });
  await runRows(values, [
    ['sources forget $SOURCE --data $DATA', 0, `${forgotten}\n${forgotten}`],
    ['sources forget $SOURCE --data $DATA', 2, '', 'assetlog: $DATA has no source $SOURCE'],
    ['sources forget --data $DATA', 2, '', /./],
    ['events $DATA', 0, ['east 1', 'prod 1', 'west 1']],
  ]);
});

test('sources without events are not stored, and 90 % of the limit is a warning [sources-bounded-1]', async (t) => {
  const hub = await serveReads(t, { limits: { forwardSourcesMax: 10, seenWriteMs: 10 } });
  for (let number = 1; number <= 8; number += 1) await new SentJournal(1, sourceOf(number)).put(hub.url, 1, 1);
  for (let number = 20; number <= 60; number += 1) await askHub(hub.url, sourceOf(number));
  const share = async () =>
    /^assetlog_hub_sources_ratio (.*)$/m.exec(await (await fetch(`${hub.url}/metrics`)).text())?.[1];
  const warnings = () => hub.notices.filter((line) => line.includes('assetlog sources forget ID'));
  assert.deepEqual([await share(), warnings().length], ['0.8', 0]);
  await new SentJournal(1, sourceOf(9)).put(hub.url, 1, 1);
  await new SentJournal(1, sourceOf(10)).put(hub.url, 1, 1);
  assert.deepEqual([await share(), warnings().length], ['1', 1], warnings()[0]);
  assert.equal((await new SentJournal(1, sourceOf(11)).put(hub.url, 1, 1)).status, 503);
  const written = () => (existsSync(join(hub.data, SEEN)) ? readFileSync(join(hub.data, SEEN), 'utf8') : '');
  await eventually('the sources are written', () => written().includes(sourceOf(10)));
  assert.equal(JSON.parse(written()).sources.length, 10);
});

test('an idle device makes requests at intervals, and a metric has the age of the last one of the most silent device', async (t) => {
  const hub = await serveReads(t);
  const silentSeconds = async () => samplesOf(await metricsOf(hub)).get('assetlog_hub_silent_seconds');
  assert.equal(await silentSeconds(), undefined, 'a hub without devices');
  const device = await serveReads(t, {
    limits: { forwardIdleMs: 200 },
    args: ['--forward-to', hub.url, '--name', 'quiet'],
  });
  await record(device, 'observation/a');
  await eventually('it is listed', async () => (await sourcesAt(hub.url)).length === 1);
  const [before] = await sourcesAt(hub.url);
  await eventually('it is seen again', async () => (await sourcesAt(hub.url))[0]!.last_seen! > before!.last_seen!);
  const [after] = await sourcesAt(hub.url);
  assert.deepEqual({ ...after, last_seen: '' }, { ...before, last_seen: '' });
  await device.stop();
  await sleep(1_100);
  await new SentJournal(1, sourceOf(2)).put(hub.url, 1, 1);
  const seconds = await silentSeconds();
  assert.ok(seconds !== undefined && seconds >= 1 && seconds < 60, `${seconds}`);
});

test('events of a hub are found by their source, and its tables and CSV have a column for it', async (t) => {
  let hub = await startService(t);
  const eventOf = (key: string) => (): PlainEvent => ({ type: 'AssetObservation', assetKey: [key] });
  const check = (): PlainEvent => ({
    type: 'AssetCheckEvaluation',
    assetKey: ['both'],
    checkName: 'fits',
    passed: false,
    severity: 'ERROR',
  });
  const named: readonly (readonly [number, string | undefined, () => PlainEvent])[] = [
    [1, 'device-1', eventOf('one')],
    [2, 'twin', eventOf('both')],
    [3, 'twin', check],
    [4, sourceOf(1), eventOf('four')], // a text in the form of an id is no name
    [5, undefined, eventOf('five')],
  ];
  for (const [number, name, event] of named) {
    const headers = name === undefined ? {} : { 'Assetlog-Name': name };
    await new SentJournal(1, sourceOf(number), event).put(hub.url, 1, 1, { headers });
  }
  await record(hub, 'observation/own');
  await eventually('the names are written', () => existsSync(join(hub.data, SEEN)));
  const sources = ['device-1', ...[2, 3, 4, 5].map(sourceOf)];
  const times = jsonIn(journalText(hub.data)).map(({ recorded }) => recorded);
  const tableRows = sources.map((source) => `\\d +\\S+ \\S+ {2}.* ${source} +(one|both|four|five)( .*)?\\n`);
  const csvRows = sources.map((source, at) => `.*,,,${source},"\\[""${sourceOf(at + 1)}"",1\\]",${times[at]},\\r\\n`);
  const rows: readonly CommandRow[] = [
    [
      'events --table',
      0,
      RegExp(`^seq .* event +source +asset key .*\\n${tableRows.join('')}6 .* observation +own\\n$`),
    ],
    [
      'events --csv',
      0,
      RegExp(`^seq,.*,idempotency_key,source,from,recorded,by\\r\\n${csvRows.join('')}6,.*,,,,,\\r\\n$`),
    ],
    ['assets --table --key one', 0, /^checks +source +asset key .*\n +device-1 +one /],
    ['assets --table --key both', 0, RegExp(`\\n1 FAILED +${sourceOf(3)} +both `)], // of the latest event
    ['assets --table --key own', 0, /\n +own /],
    ['assets --csv --key both', 0, RegExp(`,,${sourceOf(2)},${sourceOf(3)},2`)],
    ['events --source device-1', 0, [1]],
    [`events --source ${sourceOf(1)}`, 0, [1]], // and not the events of the source with this name
    ['events --source twin', 0, [2, 3]],
    [`events --source ${sourceOf(3)} --failed --last 2`, 0, [3]],
    ['events --source device-2', 0, [], 'assetlog: no events match'],
  ];
  const showAll = ({ url, data }: Running) =>
    runRows({ URL: url, DATA: data }, rows, { endings: ['--url $URL', '--data $DATA'] });
  await showAll(hub);
  const { data } = hub;
  assert.equal((await hub.kill()).code, 0);
  assert.match(readFileSync(join(data, 'assets.state'), 'utf8'), /"source":"0193e0c2-/);
  hub = await startService(t, { data });
  await showAll(hub);
  const plain = await startService(t);
  await record(plain, 'observation/a');
  const without = ['events', 'assets'].map((what): CommandRow => [`${what} --table`, 0, /^(?:(?!source).)*$/s]);
  await runRows({ URL: plain.url, DATA: plain.data }, without, { endings: ['--url $URL', '--data $DATA'] });
});
