/** The destination ClickHouse: a service that forwards to the engine of a current server. */

import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { clickhouseDdl } from '../../src/forward/destinations/clickhouse/ddl.ts';
import { cursorName } from '../../src/forward/ledger/cursor.ts';
import { segmentName } from '../../src/journal/segments.ts';
import {
  type Clickhouse,
  type Loss,
  startClickhouse,
  startLossyProxy,
  withoutClickhouse,
} from '../support/clickhouse.ts';
import { runHere } from '../support/command-output.ts';
import { deadLettersIn, forwardFile, forwardStatus, sourceIn, stopsForwarding } from '../support/forwarded.ts';
import { linkedFrom } from '../support/handbook.ts';
import { rounds } from '../support/long.ts';
import type { PlainEvent } from '../support/plain-event.ts';
import { newFolder, type Running, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { FIRST, makeLines, segment, timed } from '../support/segments.ts';
import { eventually } from '../support/tools.ts';

const skip = withoutClickhouse;

async function startTable(t: TestContext): Promise<Clickhouse> {
  const engine = await startClickhouse(t);
  await engine.run(clickhouseDdl(false));
  return engine;
}

/** Starts a service that forwards to the table through a port. @param data can already have a journal */
function startForwarding(t: TestContext, port: number, data = newFolder(t)): Promise<Running> {
  const file = join(newFolder(t), 'forward.json');
  const to = `clickhouse+http://127.0.0.1:${port}/assets.events`;
  forwardFile(file, { name: 'events', to, ratePerSecond: 1_000 });
  return startService(t, { args: ['--forward', file], data });
}

function waitUntilSettled({ data }: Pick<Running, 'data'>, lastSeq: number, withinMs = 60_000): Promise<void> {
  const isSettled = async () => {
    const { state, seq, last_seq } = await forwardStatus(data, 'events');
    return state === 'idle' && seq === lastSeq && last_seq === lastSeq;
  };
  return eventually(`${lastSeq} events of ${data} are settled`, isSettled, withinMs);
}

async function report(service: Running, kind: string, body: object): Promise<void> {
  const metadata = '{"rows":12345678901234567890,"a":1e400,"b":0.10,"c":{"d":[1,{"x":"\\u00e9é"}]},"b":null}';
  const text = JSON.stringify(body).replace('"METADATA"', () => metadata);
  await record(service, `${kind}/`, { body: text });
}

/** Reports `count` events with the partitions `first`, `first` + 1, … */
async function reportMany(service: Running, first: number, count: number): Promise<void> {
  const item = (at: number) => ({
    type: 'AssetObservation',
    asset_key: ['a', `${at % 7}`],
    partition: `${first + at}`,
  });
  await record(service, 'batch/', { body: Array.from({ length: count }, (_, at) => item(at)) });
}

/** @returns the number of rows, of distinct events, and of rows after rows with the same key are merged */
async function countsOf(engine: Clickhouse): Promise<unknown[]> {
  const [[rows, distinct] = []] = await engine.rows('SELECT count(), uniqExact(id) FROM assets.events');
  const [[final] = []] = await engine.rows('SELECT count() FROM assets.events FINAL');
  return [rows, distinct, final];
}

test('an event becomes a row, a bad event becomes a dead letter, and the queries of the handbook work', {
  skip,
}, async (t) => {
  const engine = await startTable(t);
  await engine.run(clickhouseDdl(false)); // a second time
  const tables = "SELECT name, engine FROM system.tables WHERE database = 'assets' ORDER BY name";
  assert.deepEqual(await engine.rows(tables), [
    ['events', 'ReplacingMergeTree'],
    ['latest', 'View'],
  ]);
  const device = await startForwarding(t, engine.port);
  const key = { asset_key: ['warehouse', 'orders'] };
  const time = '2026-02-03T04:05:06.123456789Z';
  await report(device, 'materialization', { ...key, partition: 'p"1', data_version: '7', metadata: 'METADATA' });
  await report(device, 'observation', { ...key, description: 'a\nb', event_time: time });
  for (const passed of [true, false]) await report(device, 'check', { ...key, check_name: 'no_nulls', passed });
  for (const year of ['0001', '9999'])
    await report(device, 'observation', { ...key, event_time: `${year}-01-01T00:00:00Z` });
  await report(device, 'materialization', { asset_key: ['b'], metadata: { rows: 41 } });
  await waitUntilSettled(device, 7);
  const rows = (await engine.rows('SELECT * FROM assets.events ORDER BY seq')) as string[][];
  const source = sourceIn(device.data) ?? '';
  const expected = device.events().filter(({ seq }) => seq !== 5 && seq !== 6);
  assert.deepEqual(
    rows.map(([from, deployment, seq, id]) => [from, deployment, seq, id]),
    expected.map(({ seq, id }) => [source, '_', seq, id]),
  );
  const text = readFileSync(join(device.data, FIRST), 'utf8');
  const metadata = /"metadata":(\{.*?null\})/.exec(text)?.[1];
  const [, , , , first, type, asset, partition, , , , , tags, kept] = rows[0] ?? [];
  const recorded = [`${expected[0]?.['time']}`.replace('T', ' ').replace('Z', ''), 'AssetMaterialization'];
  assert.deepEqual(
    [first, type, asset, partition, tags, kept],
    [...recorded, key.asset_key, 'p"1', { data_version: '7' }, metadata],
  );
  const [, , , , , , , , , , , description, , , eventTime] = rows[1] ?? [];
  assert.deepEqual([description, eventTime], ['a\nb', '2026-02-03 04:05:06.123456789']);
  assert.deepEqual(rows[3]?.slice(8, 11), ['no_nulls', false, 'ERROR']);
  const letters = deadLettersIn(device.data, 'events');
  assert.deepEqual(
    letters.map(({ outcome, line, reason }) => [outcome, line?.['seq'], reason]),
    [5, 6].map((seq) => ['refused', seq, 'answers 500: DECIMAL_OVERFLOW (code 407) at event_time']),
  );

  const queries = linkedFrom('clickhouse.sql', 'clickhouse').trim().split(/;\n*/).slice(0, -1);
  const answers = [];
  const today = new Date(Date.parse(`${expected[0]?.['time']}`)).toISOString().slice(0, 10);
  const tomorrow = new Date(Date.parse(today) + 86_400_000).toISOString().slice(0, 10);
  for (const query of queries) {
    const own = query.replace('2026-11-20', today).replace('2026-11-21', tomorrow);
    answers.push(await engine.rows(own.replace(/'01a1.*?'/, `'${source}'`)));
  }
  const [latest = [], failing = [], lags = [], day = [], sent = []] = answers;
  assert.deepEqual(
    latest.map(([, asset, , partition, metadata]) => [asset, partition, metadata]),
    [
      [['b'], null, '{"rows":41}'],
      [key.asset_key, 'p"1', metadata],
    ],
  );
  assert.deepEqual(
    failing.map((row) => row.slice(0, 4)),
    [['_', key.asset_key, 'no_nulls', 'ERROR']],
  );
  assert.deepEqual(
    lags.map(([from, count]) => [from, count]),
    [[source, 1]],
  );
  assert.deepEqual(
    day.map(([, , , , , rows]) => rows),
    ['', '', '', '', '41'],
  );
  assert.deepEqual(
    sent.map(([seq]) => seq),
    [1, 2, 3, 4, 7],
  );

  // A bad event can be sent again after a change of the table, and does not change the last seq that the service asks for.
  await engine.run('ALTER TABLE assets.events MODIFY COLUMN event_time Nullable(String)');
  const { code, stdout } = await runHere(['forward', 'retry', 'events', '--data', device.data]);
  assert.deepEqual([code, stdout], [0, '2 of 2 were accepted\n']);
  assert.deepEqual(await countsOf(engine), [7, 7, 7]);
});

test('an insert has only events of one month, and the query for the last event reads the projection', {
  skip,
}, async (t) => {
  const engine = await startTable(t);
  const data = newFolder(t);
  const november = Array<string>(5).fill('2026-11-30T23:59:59.999Z');
  writeFileSync(join(data, FIRST), timed(1, ...november, ...Array<string>(4).fill('2026-12-01T00:00:00.000Z')));
  const inserts: string[] = [];
  let lastEventQuery = '';
  const port = await startLossyProxy(t, engine, (parameters) => {
    if (!parameters.has('insert_deduplication_token')) lastEventQuery = parameters.get('query') ?? '';
    inserts.push(...(parameters.get('insert_deduplication_token')?.split(':').slice(1) ?? []));
    return undefined;
  });
  const device = await startForwarding(t, port, data);
  await waitUntilSettled(device, 9);
  const ids = device.events().map(({ id }) => id);
  assert.deepEqual(inserts, [ids[0], ids[4], ids[5], ids[8]]);
  const parts = await engine.rows(
    "SELECT partition, sum(rows) FROM system.parts WHERE table = 'events' AND active GROUP BY partition ORDER BY partition",
  );
  assert.deepEqual(parts, [
    ['202611', 5],
    ['202612', 4],
  ]);
  // The query reads the projection also after a merge of duplicate rows.
  const own = lastEventQuery.replace(/ FORMAT .*/, ' SETTINGS force_optimize_projection = 1');
  for (const statement of [
    '',
    'INSERT INTO assets.events SELECT * FROM assets.events',
    'OPTIMIZE TABLE assets.events FINAL',
  ]) {
    await engine.run(statement);
    assert.deepEqual((await engine.rows(own))[0]?.slice(0, 2), [9, ids[8]]);
  }
  assert.deepEqual(await countsOf(engine), [9, 9, 9]);
});

test('after a lost cursor no event is sent again, and a table without old months gets the next events', {
  skip,
}, async (t) => {
  const engine = await startTable(t);
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), segment(1, 10));
  let device = await startForwarding(t, engine.port, data);
  await waitUntilSettled(device, 10);
  await device.kill();
  rmSync(join(data, cursorName('events')));
  device = await startForwarding(t, engine.port, data);
  await reportMany(device, 11, 5);
  await waitUntilSettled(device, 15);
  assert.deepEqual(await countsOf(engine), [15, 15, 15]);
  await device.kill();
  await engine.run('TRUNCATE TABLE assets.events');
  device = await startForwarding(t, engine.port, data);
  await reportMany(device, 16, 3);
  await waitUntilSettled(device, 18);
  assert.deepEqual(await engine.rows('SELECT seq FROM assets.events ORDER BY seq'), [[16], [17], [18]]);
  assert.match(device.stderr(), /assetlog forward from events --seq 1 /);
  await device.kill();
  const { code } = await runHere(['forward', 'from', 'events', '--seq', '1', '--data', data]);
  assert.equal(code, 0);
});

test('a copy of a folder is noticed when it runs with its original, and no event of one is taken for one of the other', {
  skip,
}, async (t) => {
  const engine = await startTable(t);
  const original = await startForwarding(t, engine.port);
  await reportMany(original, 1, 4);
  await waitUntilSettled(original, 4);
  await original.kill();
  const data = join(newFolder(t), 'copy');
  cpSync(original.data, data, { recursive: true });
  const [one, two] = [
    await startForwarding(t, engine.port, original.data),
    await startForwarding(t, engine.port, data),
  ];
  // The copy asks for the last event before the original has newer ones.
  await waitUntilSettled(two, 4);
  await reportMany(one, 5, 3);
  await waitUntilSettled(one, 7);
  await reportMany(two, 5, 3);
  await waitUntilSettled(two, 7);
  assert.deepEqual(await countsOf(engine), [10, 10, 10]);
  await two.kill();
  await startForwarding(t, engine.port, data);
  assert.match((await stopsForwarding(data, 'events')).reason, /identity --new/);
});

async function restart(engine: Clickhouse, afterMs: number): Promise<void> {
  await sleep(afterMs);
  await engine.kill();
  await engine.start();
}

test('a backlog of a million events is stored once despite kills of engine and service in inserts and lost messages', {
  skip,
}, async (t) => {
  const total = rounds({ long: 1_000_000, short: 30_000 });
  const engine = await startTable(t);
  const data = newFolder(t);
  const bad = [1, 14_321, total];
  const eventOf = (seq: number): PlainEvent => {
    const event = { type: 'AssetObservation', assetKey: ['a', `${seq % 1_000}`], metadata: `{"n":${seq}}` } as const;
    return bad.includes(seq) ? { ...event, eventTime: '0001-01-01T00:00:00Z' } : event;
  };
  for (let first = 1; first <= total; first += 10_000) {
    writeFileSync(join(data, segmentName(first)), makeLines(10_000, { seq: first, crc: 0 }, eventOf).bytes);
  }
  let inserts = 0;
  let kills = 0;
  let device: Running | undefined;
  let restarting: Promise<void> | undefined;
  const restartDevice = async (running: Running) => {
    await running.kill('SIGKILL');
    device = await startForwarding(t, port, data);
  };
  const port: number = await startLossyProxy(t, engine, (parameters): Loss => {
    if (!parameters.has('insert_deduplication_token')) return undefined;
    inserts += 1;
    const isTurn = inserts % Math.ceil(total / 100_000) === 0 && restarting === undefined;
    if (isTurn && device !== undefined && kills < 8) {
      kills += 1;
      restarting = (kills % 2 === 0 ? restart(engine, 20 * kills) : restartDevice(device)).then(() => {
        restarting = undefined;
      });
    }
    if (inserts % 5 === 0) return 'reply';
    return inserts % 7 === 0 ? 'request' : undefined;
  });
  device = await startForwarding(t, port, data);
  await waitUntilSettled({ data }, total, 600_000);
  await restarting;
  assert.equal(kills, 8);
  const stored = total - bad.length;
  assert.deepEqual(await countsOf(engine), [stored, stored, stored]);
  assert.deepEqual(
    deadLettersIn(data, 'events').map(({ line }) => line?.['seq']),
    bad,
  );
});

test('forward test reports whether the table exists, and inserts nothing', { skip }, async (t) => {
  const engine = await startClickhouse(t);
  const to = `clickhouse+http://127.0.0.1:${engine.port}/assets.events`;
  const probe = () => runHere(['forward', 'test', '--forward-to', to]);
  const before = await probe();
  assert.equal(before.code, 1);
  assert.match(before.stdout, /^upstream: DOES NOT WORK: \S+: .*forward ddl clickhouse/);
  await engine.run(clickhouseDdl(false));
  const { code, stdout } = await probe();
  assert.equal(code, 0);
  assert.match(stdout, /: its table can be read; whether the login may insert was not tried\n$/);
  assert.deepEqual(await countsOf(engine), [0, 0, 0]);
});
