/** `assetlog forward` on folders in each state, beside a service and without one. */

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Cursor, type CursorValue, readCursor } from '../../../src/forward/ledger/cursor.ts';
import { type WrittenStatus, writePipeState } from '../../../src/forward/pipe/status.ts';
import { readSource, replaceSource } from '../../../src/forward/source.ts';
import { openDisk } from '../../../src/journal/disk.ts';
import { encodeBatch } from '../../../src/journal/line/record.ts';
import { refusal } from '../../../src/journal/lock/protocol.ts';
import { openLetters } from '../../forward/scripted.ts';
import { runHere } from '../../support/command-output.ts';
import { runRows } from '../../support/command-rows.ts';
import { forwardFile } from '../../support/forwarded.ts';
import { metricsOf, samplesOf } from '../../support/metrics.ts';
import { encodeMembers } from '../../support/plain-event.ts';
import { newFolder, startService } from '../../support/program.ts';
import { record } from '../../support/report.ts';
import { FIRST, plainEvent, START, splitLines } from '../../support/segments.ts';
import { lockFolder } from '../../support/standard-limits.ts';
import { noTerminal, onTerminal } from '../../support/terminal.ts';
import { eventually } from '../../support/tools.ts';
import { startScripted } from '../../world/http-server.ts';

/** The time of the events: two hours ago. */
const recorded = new Date(Date.now() - 7_200_000);
const { bytes } = encodeBatch(
  Array.from({ length: 12 }, (_, at) => encodeMembers(plainEvent(at + 1))),
  START,
  recorded,
);
const lines = splitLines(bytes);
const SINCE = '2026-11-20T15:04:05.678Z';
const NEXT_TRY = new Date(Date.now() + 3_600_000).toISOString();
const WORKING: WrittenStatus = {
  state: 'idle',
  why: null,
  reason: null,
  since: SINCE,
  next_try: null,
  kind: 'api',
  to: 'http://upstream.example:3000',
  last_success: '2026-11-20T16:04:05.678Z',
  last_error: null,
};
const VALUE: CursorValue = { seq: 8, id: null, sending: undefined, kind: 'api', to: 'http://upstream.example:3000' };

/** Creates the folder of a journal with 12 events and a destination. */
async function newForwardedFolder(
  t: TestContext,
  { cursor = {}, state, data = newFolder(t), name = 'upstream' }: Made = {},
): Promise<string> {
  mkdirSync(data, { recursive: true });
  writeFileSync(join(data, FIRST), bytes);
  const disk = openDisk(data);
  await replaceSource(disk);
  const opened = await Cursor.open(disk, name);
  await opened.cursor.save({ ...VALUE, ...cursor });
  await opened.cursor.close();
  if (state !== undefined) await writePipeState(disk, name, { ...WORKING, ...state });
  return data;
}

interface Made {
  readonly cursor?: Partial<CursorValue>;
  readonly state?: Partial<WrittenStatus>;
  readonly data?: string;
  readonly name?: string;
}

/** Locks the folder, like a running service. */
async function lockAsService(t: TestContext, data: string, answer = refusal('it is busy')): Promise<void> {
  const lock = await lockFolder(data);
  lock.open({ nextSeq: () => 13, answer: async () => answer });
  t.after(() => lock.release());
}

async function refuse(data: string, seqs: readonly number[], reason = 'no'): Promise<void> {
  const letters = await openLetters(openDisk(data));
  for (const seq of seqs) {
    const line = `${lines[seq - 1]}`.trimEnd();
    await letters.append({ time: SINCE, outcome: 'refused', status: 400, reason, line });
  }
}

function forward(data: string, ...args: string[]) {
  return runHere(['forward', ...args, '--data', data]);
}

async function statusOf(data: string): Promise<{ code: number | null; destinations: Record<string, unknown>[] }> {
  const { code, stdout, stderr } = await forward(data, 'status', '--json');
  assert.equal(stderr, '');
  return { code, destinations: JSON.parse(stdout).destinations };
}

async function seqOf(data: string): Promise<number | string> {
  const found = await readCursor(openDisk(data), 'upstream');
  return found.kind === 'found' ? found.value.seq : found.kind;
}

test('status shows the progress of a destination, its state, since when and why, as JSON', async (t) => {
  const stopped = {
    state: 'stopped',
    why: 'turned away',
    reason: 'answers 401: no; check the token',
    last_error: 'no',
    next_try: NEXT_TRY,
  } as const;
  const data = await newForwardedFolder(t, { state: { ...stopped, kind: null } }); // the state is written seconds after the cursor
  await refuse(data, [2, 3]);
  await lockAsService(t, data);
  const { code, destinations } = await statusOf(data);
  assert.equal(code, 1);
  const [{ lag_seconds, ...status } = {}] = destinations;
  assert.deepEqual(status, {
    name: 'upstream',
    deployment: null,
    to: 'http://upstream.example:3000',
    kind: 'api',
    state: 'stopped',
    reason: 'answers 401: no; check the token',
    since: SINCE,
    next_try: NEXT_TRY,
    seq: 8,
    last_seq: 12,
    lag_events: 4,
    dead_letters: 2,
    lost_events: 0,
    alarms: null,
    alarms_waiting: null,
    alarms_left_out: null,
    last_success: '2026-11-20T16:04:05.678Z',
    last_error: 'no',
  });
  assert.ok((lag_seconds as number) >= 7_200 && (lag_seconds as number) < 7_300, `${lag_seconds}`);
});

test('status reports that a service is not running, with correct figures, and a destination that a service does not have', async (t) => {
  const data = await newForwardedFolder(t, {
    state: { state: 'waiting', reason: 'connect ECONNREFUSED', next_try: NEXT_TRY },
  });
  writeFileSync(join(data, FIRST), Buffer.concat([bytes, Buffer.from('{"seq":13,"id')])); // torn by the crash
  const { code, destinations } = await statusOf(data);
  const [{ state, reason, seq, last_seq, lag_events, next_try } = {}] = destinations;
  assert.deepEqual([code, state, seq, last_seq, lag_events, next_try], [1, 'not running', 8, 12, 4, null]);
  assert.equal(reason, 'no service uses the folder; start it; before, waiting: connect ECONNREFUSED');
  const other = await newForwardedFolder(t, { state: {} });
  await lockAsService(t, other, '{"done":[]}');
  const found = await statusOf(other);
  assert.deepEqual([found.code, found.destinations[0]?.['state']], [1, 'not forwarded']);
});

test('status reports a damaged cursor, and damaged dead letters', async (t) => {
  const data = await newForwardedFolder(t, { state: {} });
  await lockAsService(t, data);
  writeFileSync(join(data, 'forward-upstream.cursor'), Buffer.alloc(1024));
  const { destinations } = await statusOf(data);
  const [{ reason, seq, lag_events, lag_seconds } = {}] = destinations;
  assert.deepEqual([seq, lag_events, lag_seconds], [null, null, null]);
  assert.match(
    `${reason}`,
    /forward-upstream\.cursor is damaged; unless it can be asked, stop the service and run assetlog forward from upstream --seq N --data \S+$/,
  );

  const letter =
    '{"time":"2026-11-20T15:19:45.266Z","outcome":"skipped","reason":"an operator gave it up","first":1,"last":1}';
  writeFileSync(join(data, 'dead-upstream.jsonl'), `{"time":\n${letter}\n`);
  await runRows({ DATA: data }, [
    ['forward status --json --data $DATA', 5, /"dead_letters":null/],
    ['forward dead --data $DATA', 5, '', /dead-upstream\.jsonl, line 1: it is not a dead letter/],
  ]);
});

test('status of a hosted folder shows each deployment except those that were never forwarded', async (t) => {
  const data = newFolder(t);
  await newForwardedFolder(t, { data: join(data, 'prod'), state: {} });
  await newForwardedFolder(t, { data: join(data, 'test'), state: {}, name: 'hub' });
  await lockAsService(t, join(data, 'prod'));
  const { code, destinations } = await statusOf(data);
  const shown = destinations.map(({ deployment, name, state }) => [deployment, name, state]);
  assert.deepEqual(
    [code, shown],
    [
      1,
      [
        ['prod', 'upstream', 'sending'],
        ['test', 'hub', 'not running'],
      ],
    ],
  );
  const plain = newFolder(t);
  writeFileSync(join(plain, FIRST), bytes);
  await runRows({ DATA: data, PLAIN: plain }, [
    ['forward status upstream --json --data $DATA', 0, /^\{"destinations":\[\{[^{}]*"name":"upstream"[^{}]*\}\]\}\n$/],
    ['forward status none --data $DATA', 2, '', /nothing is forwarded to none; leave the name out/],
    ['forward dead hub --data $DATA', 2, '', /holds a journal for each deployment: prod, test; /],
    ['forward status --json --data $PLAIN', 0, '{"destinations":[]}'],
    ['forward status --data $PLAIN', 0, 'nothing is forwarded; start a service with --forward-to URL to forward'],
  ]);
});

test('a destination with unsent events is shown as sending, and as idle once they are dead letters', async (t) => {
  const data = await newForwardedFolder(t, { cursor: { kind: 'hub' }, state: { kind: 'hub' } });
  await lockAsService(t, data);
  const shown = async () =>
    (await statusOf(data)).destinations.map(({ state, seq, lag_events }) => [state, seq, lag_events]);
  assert.deepEqual(await shown(), [['sending', 8, 4]]);
  await refuse(data, [9, 10, 12]);
  assert.deepEqual(await shown(), [['sending', 10, 2]]);
  await refuse(data, [11]); // a hub's cursor moves past them with the next event
  assert.deepEqual(await shown(), [['idle', 12, 0]]);
});

test('a command in a status is on a line of its own, ready to paste, and a command in the text of a server is not', async (t) => {
  const data = await newForwardedFolder(t, { state: {} });
  await lockAsService(t, data);
  const screenWith = async (reason: string) => {
    await writePipeState(openDisk(data), 'upstream', { ...WORKING, state: 'stopped', reason });
    return (await forward(data, 'status')).stdout.split('\n');
  };
  for (const command of [
    `assetlog forward identity --new --seq 38 --data '/srv/${'my folder '.repeat(12)}'`,
    "nats stream add ASSETLOG --subjects 'assetlog.>' --storage file --replicas 3 --allow-batch --defaults",
  ]) {
    const screen = await screenWith(
      `http://hub.example has event 60 of this journal; stop the service and run ${command}`,
    );
    assert.ok(screen.includes(`  ${command}`), screen.join('\n'));
  }
  const hostile = `answers 403: ${'x '.repeat(60)}, run assetlog verify; rm -rf /srv/${'data/'.repeat(10)}`;
  assert.ok((await screenWith(hostile)).every((line) => !line.startsWith('  assetlog verify')));
});

test('on a terminal a status has at most 80 columns, and no control characters of a server', {
  skip: noTerminal(),
}, async (t) => {
  const reason =
    'answers 403: \u001b[31mred\u001b[0m; check the URL, and what the token may do, and whether a proxy in front of it lets this through';
  const data = await newForwardedFolder(t, { state: { state: 'waiting', reason, since: SINCE, next_try: NEXT_TRY } });
  await refuse(data, [2]);
  await lockAsService(t, data);
  const screen = await onTerminal(['forward', 'status', '--data', data], 80);
  assert.equal(
    screen.replaceAll(data, 'DATA'),
    `destination  state        since (UTC)       behind  oldest  dead
upstream     waiting      2026-11-20 15:04  4       2 h     1

upstream: http://upstream.example:3000 (plain), event 8 of 12, last success
  2026-11-20 16:04
  answers 403: \\u001b[31mred\\u001b[0m; check the URL, and what the token may do,
  and whether a proxy in front of it lets this through
  tries again at ${NEXT_TRY.slice(11, 19)} UTC, or on SIGHUP
  assetlog forward dead upstream --data DATA
`,
  );
  for (const line of screen.split('\n')) assert.ok(line.length <= 80 || line.includes(data), line);
  assert.doesNotMatch(screen, /\u001b/);

  await writePipeState(openDisk(data), 'upstream', { ...WORKING, state: 'stopped', reason: 'answers 401: no' });
  const [, row] = (await onTerminal(['forward', '--data', data], 80, 1)).split('\n');
  assert.match(`${row}`, /^upstream {5}STOPPED {6}2026-11-20 15:04 {2}4 /);
});

const DEAD = `
seq  time                 outcome             status  event            asset key  reason
2    2026-11-20 15:04:05  refused             400     materialization  a/2        asset_key is missing
5-7  2026-11-20 15:04:05  removed                                                 retention
9    2026-11-20 15:04:05  in doubt, given up  502     materialization  a/9        answers 502
10   2026-11-20 15:04:05  in doubt            502     materialization  a/10       answers 502
`.trimStart();

test('dead lists the open dead letters, and all those of one event with its unchanged line', async (t) => {
  const data = await newForwardedFolder(t);
  await refuse(data, [2, 3], 'asset_key is missing');
  const letters = await openLetters(openDisk(data));
  await letters.append({ time: SINCE, outcome: 'sent again', reason: 'taken', first: 3, last: 3 });
  await letters.append({ time: SINCE, outcome: 'removed', reason: 'retention', first: 5, last: 7 });
  const doubt = { time: SINCE, outcome: 'in doubt', status: 502, reason: 'answers 502' } as const;
  await letters.append({ ...doubt, became: 'taken', line: `${lines[7]}`.trimEnd() });
  await letters.append({ ...doubt, became: 'given up', line: `${lines[8]}`.trimEnd() });
  await letters.append({ ...doubt, line: `${lines[9]}`.trimEnd() }); // written by an older version
  assert.equal((await statusOf(data)).destinations[0]?.['dead_letters'], 4);
  const all = readFileSync(join(data, 'dead-upstream.jsonl'), 'utf8');
  const ofThird = all.split('\n').slice(1, 3).join('\n');
  assert.ok(ofThird.includes(`,"line":${`${lines[2]}`.trimEnd()}}`), 'digit by digit');
  await runRows({ DATA: data }, [
    ['forward dead --data $DATA', 0, DEAD],
    ['forward dead upstream --seq 3 --data $DATA', 0, ofThird],
    ['forward dead upstream --json --data $DATA', 0, all],
    ['forward dead --seq 5-6 --data $DATA', 0, /^seq [^\n]*\n5-7 [^\n]*\n$/],
    ['forward dead --seq 11 --data $DATA', 0],
  ]);
});

test('skip, from and identity --new change a folder only without a service, and retry sends only with one', async (t) => {
  const data = await newForwardedFolder(t);
  const before = await readSource(openDisk(data));
  await refuse(data, [2]);
  const nothing =
    /^assetlog: nothing was sent, since only a service has the token, and no service uses the folder; start it/;
  await runRows({ DATA: data }, [
    ['forward retry --data $DATA', 75, '', nothing],
    ['forward skip --seq 9 --data $DATA', 0, 'upstream continues with event 10'],
    ['forward from upstream --seq 6 --data $DATA', 0, 'upstream continues with event 6; before, it was 10'],
    ['forward from other --seq 13 --data $DATA', 0, 'other continues with event 13; before, it was new'],
  ]);
  assert.match(readFileSync(join(data, 'dead-upstream.jsonl'), 'utf8'), /"outcome":"skipped".*"line":\{"seq":9,/);
  const identity = await forward(data, 'identity', '--new');
  const after = await readSource(openDisk(data));
  assert.deepEqual([identity.code, identity.stdout], [0, `the journal has the id ${after} now\n`]);
  assert.notEqual(after, before);
  assert.ok((await openDisk(data).list()).every((name) => !/retry|ask/.test(name)));

  await lockAsService(t, data);
  const inUse = / is in use by process (\d+|unknown); stop it/;
  await runRows({ DATA: data }, [
    ['forward skip upstream --seq 6 --data $DATA', 4, '', inUse],
    ['forward from upstream --seq 2 --data $DATA', 4, '', inUse],
    ['forward identity --new --data $DATA', 4, '', inUse],
  ]);
  assert.deepEqual([await seqOf(data), await readSource(openDisk(data))], [5, after]);
});

test('an action that is not possible is refused with 2, and the error lists the possible ones', async (t) => {
  const data = await newForwardedFolder(t);
  const plain = newFolder(t);
  writeFileSync(join(plain, FIRST), bytes);
  await runRows({ DATA: data, PLAIN: plain }, [
    [
      'forward stauts --data $DATA',
      2,
      '',
      /there is no action stauts; give one of status, test, dead, retry, skip, from, identity, ddl; did you mean status\?/,
    ],
    ['forward dead hub --data $DATA', 2, '', /name a destination of .*: upstream/],
    ['forward from ../x --seq 1 --data $DATA', 2, '', /name a destination of .*: upstream/],
    ['forward skip upstream --data $DATA', 2, '', /add --seq N/],
    ['forward identity --data $DATA', 2, '', /add --new/],
    ['forward skip --seq 11 --data $DATA', 2, '', /upstream continues with event 9; start there/],
    ['forward from --seq 14 --data $DATA', 2, '', /the journal ends with event 12/],
    ['forward dead --seq 7-3 --data $DATA', 2, '', /--seq "7-3" is not a seq such as 7, or a range such as 7-12/],
    ['forward dead --data $PLAIN', 2, '', /name a destination of .*: it was never forwarded/],
    ['forward ddl nats', 2, '', 'assetlog: give assetlog forward ddl clickhouse; other destinations need no table'],
    [
      'forward ddl clickhouse',
      0,
      /\nENGINE = ReplacingMergeTree\n(.*\n)* {2}non_replicated_deduplication_window = 10000,\n/,
    ],
    [
      'forward ddl clickhouse --replicated --data $PLAIN/absent',
      0,
      /\nENGINE = ReplicatedReplacingMergeTree\('.*\{shard\}.*', '\{replica\}'\)\n(.*\n)* {2}replicated_deduplication_window = 10000,\n/,
    ],
  ]);
  assert.equal(await seqOf(data), 8);
});

test('status of a running service is right, retry sends its dead letters again, and after SIGKILL it is not running', async (t) => {
  let accepted = 0;
  const got: [key: string, atMs: number][] = [];
  const { url } = await startScripted(t, ({ method, headers }) => {
    if (method !== 'POST') return [404, '{"error":"no"}'];
    if (accepted === 0) return [400, '{"error":"no"}'];
    accepted -= 1;
    got.push([`${headers['idempotency-key']}`, performance.now()]);
    return [200, '{}'];
  });
  const file = join(newFolder(t), 'forward.json');
  forwardFile(file, { name: 'upstream', to: url, ratePerSecond: 2 });
  const service = await startService(t, { args: ['--forward', file] });
  const { data } = service;
  const metrics = async () =>
    samplesOf(await metricsOf(service)).get('assetlog_forward_dead_letters{destination="upstream"}');
  for (const key of ['a', 'b', 'c', 'd']) await record(service, `observation/${key}`);
  await eventually('all are refused', async () => (await statusOf(data)).destinations[0]?.['dead_letters'] === 4);
  await eventually('the metrics count four dead letters', async () => (await metrics()) === 4);
  await runRows({ DATA: data }, [['forward skip --seq 2 --data $DATA', 0, 'given up: 1']]);
  assert.equal(await metrics(), 3);
  const inUse = / is in use by process (\d+|unknown); stop it/; // the event has no open letter
  await runRows({ DATA: data }, [
    ['forward skip --seq 2 --data $DATA', 4, '', inUse],
    ['forward skip --seq 5 --data $DATA', 4, '', inUse],
  ]);
  accepted = 2;
  await runRows({ DATA: data }, [
    [
      'forward retry upstream --data $DATA',
      1,
      '2 of 3 were accepted',
      'assetlog: assetlog forward dead upstream shows why the others were not',
    ],
  ]);
  accepted = 9;
  await runRows({ DATA: data }, [
    ['forward retry --data $DATA', 0, '1 of 1 were accepted'],
    ['forward retry --seq 3-4 --data $DATA', 0, '0 of 0 were accepted'],
  ]);
  const ids = service.events().map(({ id }) => `"${id}"`);
  assert.deepEqual(
    got.map(([key]) => key),
    [ids[0], ids[2], ids[3]],
  );
  const [firstMs = 0, secondMs = 0] = got.map(([, atMs]) => atMs);
  assert.ok(secondMs - firstMs > 300, `two within ${secondMs - firstMs} ms, at most two a second`);
  assert.equal(await metrics(), 0, 'no letter is open');
  await service.kill('SIGKILL');
  const dead = await statusOf(data);
  const [{ state, seq, dead_letters } = {}] = dead.destinations;
  assert.deepEqual([dead.code, state, seq, dead_letters], [1, 'not running', 4, 0]);
});
