/** `startService`, from the view of the author of a test. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import type { Output } from '../src/commands/cli/command.ts';
import { pytest } from '../src/commands/printed/printed.ts';
import { waitLimits } from '../src/config/limits.ts';
import {
  type EventFilter,
  type Fault,
  type FaultEffect,
  type MetadataFilter,
  type Notice,
  type RunningService,
  type StartOptions,
  startService,
  type TestService,
} from '../src/embed.ts';
import { segmentName } from '../src/journal/segments.ts';
import { writeDeployments } from './support/deployments.ts';
import { freePort, newFolder, root } from './support/program.ts';
import { record, reportOne } from './support/report.ts';
import { FIRST, flip, makeLines, segment } from './support/segments.ts';
import { HANG_MS, within } from './support/tools.ts';
import { ask, errorOf } from './support/wire.ts';

/** For this file alone: other tests, which run at the same time, create folders with the same prefix. */
const temporary = mkdtempSync(join(tmpdir(), 'embed-'));
for (const name of ['TMPDIR', 'TEMP', 'TMP']) process.env[name] = temporary; // the last two of Windows
after(() => rmSync(temporary, { recursive: true, force: true }));

function start(t: TestContext, options: StartOptions<never> & { readonly test: true }): Promise<TestService>;
function start<const Deployment extends string = never>(
  t: TestContext,
  options?: StartOptions<Deployment>,
): Promise<RunningService<Deployment>>;
async function start(t: TestContext, options: StartOptions = {}): Promise<RunningService> {
  const service = await startService(options);
  t.after(() => service.stop());
  return service;
}

async function report({ url }: RunningService, path: string, headers = {}, under = ''): Promise<number> {
  return (await reportOne({ url: url + under }, path, { headers })).status;
}

async function reportAll(service: RunningService): Promise<void> {
  for (const path of [
    'materialization/warehouse/orders?partition=2026-11-20&data_version=v1&description=nightly',
    'check/warehouse/orders?check_name=no_nulls&passed=false&severity=WARN',
    'observation/warehouse%2Forders?metadata={"rows":12345678901234567890}',
    'check/warehouse/orders?check_name=fresh&passed=true',
  ]) {
    assert.equal(await report(service, path), 200);
  }
}

function seqsOf(events: readonly { readonly seq: number }[]): number[] {
  return events.map(({ seq }) => seq);
}

function ownFolders(): string[] {
  return readdirSync(temporary).filter((name) => name.startsWith('assetlog-'));
}

test('the service starts on a free port with a temporary folder, returns the recorded events, and leaves nothing behind', async (t) => {
  const service = await start(t);
  assert.match(service.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.ok(service.data.startsWith(join(tmpdir(), 'assetlog-')));
  assert.deepEqual(await service.events(), []);
  await reportAll(service);
  const lines = readFileSync(join(service.data, segmentName(1)), 'utf8')
    .trimEnd()
    .split('\n');
  const events = await service.events();
  assert.deepEqual(
    events,
    lines.map((line) => ({ ...JSON.parse(line), line })),
  );
  const [materialization, check, observation] = events;
  assert.ok(materialization?.type === 'AssetMaterialization' && check?.type === 'AssetCheckEvaluation');
  assert.equal(materialization.tags?.data_version, 'v1');
  assert.equal(check.passed, false);
  assert.deepEqual(observation?.metadata, { rows: 12345678901234567000 });
  assert.match(observation?.line ?? '', /"metadata":\{"rows":12345678901234567890\}/);

  await Promise.all([service.stop(), service.stop()]);
  assert.equal(await service.ended, 'stopped');
  assert.equal(existsSync(service.data), false);
  await assert.rejects(fetch(service.url));
  await assert.rejects(
    service.events(),
    /^Error: the service was stopped and its folder was removed; read the events before that$/,
  );
});

test('`await using` stops the service at the end of the block', async () => {
  let left: RunningService;
  {
    await using service = await startService();
    assert.equal(await report(service, 'observation/a'), 200);
    left = service;
  }
  assert.equal(await left.ended, 'stopped');
  assert.equal(existsSync(left.data), false);
});

test('a filter matches the members of an event, and a misspelt member is refused', async (t) => {
  const service = await start(t);
  await reportAll(service);
  const table: readonly (readonly [EventFilter, readonly number[]])[] = [
    [{}, [1, 2, 3, 4]],
    [{ type: 'AssetCheckEvaluation' }, [2, 4]],
    [{ type: 'check' }, [2, 4]],
    [{ assetKey: 'warehouse/orders' }, [1, 2, 4]],
    [{ assetKey: ['warehouse', 'orders'] }, [1, 2, 4]],
    [{ assetKey: ['warehouse/orders'] }, [3]],
    [{ assetKey: 'warehouse' }, []],
    [{ partition: '2026-11-20' }, [1]],
    [{ partition: '' }, []],
    [{ dataVersion: 'v1' }, [1]],
    [{ description: 'nightly' }, [1]],
    [{ checkName: 'no_nulls' }, [2]],
    [{ passed: true }, [4]],
    [{ passed: false }, [2]],
    [{ severity: 'ERROR' }, [4]],
    [{ afterSeq: 2 }, [3, 4]],
    [{ type: 'AssetCheckEvaluation', passed: true, partition: undefined }, [4]],
    [{ type: 'AssetObservation', passed: true }, []],
  ];
  for (const [filter, seqs] of table) {
    const found = await service.events(filter);
    assert.deepEqual(seqsOf(found), seqs, JSON.stringify(filter));
    if (seqs.length > 0) assert.equal((await service.waitFor(filter)).seq, seqs[0]);
  }
  const misspelt = { asset_key: ['a'] } as EventFilter;
  await assert.rejects(service.events(misspelt), /^TypeError: a filter has no asset_key; did you mean assetKey\?$/);
  await assert.rejects(service.waitFor(misspelt), TypeError);
  await assert.rejects(service.waitFor({}, { timeoutMs: Number.NaN }), /^TypeError: timeoutMs is NaN; give /);
  await assert.rejects(
    service.events({ deployment: 'prod' }),
    /^TypeError: the filter has a deployment, but the service has none$/,
  );
});

test('each wait resolves with its own report, and not with one before `afterSeq`', async (t) => {
  const service = await start(t);
  const names = Array.from({ length: 30 }, (_, index) => `n${index}`);
  const waits = names.map((assetKey) => service.waitFor({ assetKey, afterSeq: 1 }, { timeoutMs: 30_000 }));
  assert.equal(await report(service, 'materialization/n0'), 200);
  const started = performance.now();
  assert.deepEqual(
    await Promise.all(names.map((name) => report(service, `materialization/${name}`))),
    Array(30).fill(200),
  );
  for (const [index, { asset_key, seq }] of (await Promise.all(waits)).entries()) {
    assert.deepEqual(asset_key, [`n${index}`]);
    assert.ok(seq > 1);
  }
  assert.ok(performance.now() - started < 30_000);
});

test('a wait that times out fails with the filter, the nearest events and the refused requests', async (t) => {
  const service = await start(t);
  await assert.rejects(service.waitFor({ assetKey: 'a' }, { timeoutMs: 0 }), {
    message: 'no event matched {"assetKey":"a"} within 0 ms; no event was recorded',
  });
  await reportAll(service);
  assert.equal(await report(service, 'check/warehouse/orders?check_name=fresh&passed=1'), 400);
  assert.equal((await fetch(`${service.url}/report`)).status, 404);
  const filter = {
    type: 'AssetCheckEvaluation',
    assetKey: 'warehouse/orders',
    checkName: 'fresh',
    passed: false,
  } as const;
  const error: Error = await service.waitFor(filter, { timeoutMs: 50 }).then(
    () => assert.fail('an event matched'),
    (reason) => reason,
  );
  const lines = error.message.split('\n');
  assert.equal(
    lines[0],
    `no event matched ${JSON.stringify(filter)} within 50 ms; 4 other events were recorded, the nearest first:`,
  );
  assert.match(
    lines[1] ?? '',
    /^ {2}another passed: seq 4, "type":"AssetCheckEvaluation","asset_key":\["warehouse","orders"\],"check_name":"fresh","passed":true,/,
  );
  assert.match(lines[2] ?? '', /^ {2}another checkName: seq 2, /);
  assert.match(lines[3] ?? '', /^ {2}another type, checkName, passed: seq 1, /);
  assert.match(
    lines[4] ?? '',
    /^ {2}another type, assetKey \(write \["warehouse\/orders"\]\), checkName, passed: seq 3, /,
  );
  assert.equal(lines[5], 'refused requests: 2, the last:');
  assert.match(lines[6] ?? '', /^ {2}400 for POST \/report_asset_check\/.*passed=1: passed in the query is /);
  assert.match(lines[7] ?? '', /^ {2}404 for GET \/report: nothing is at this path; /);

  for (const key of ['cafe\u0301', 'caf\u00e9%20', 'caf\u00e9%2Fx']) await report(service, `observation/${key}`);
  await assert.rejects(
    service.waitFor({ assetKey: 'caf\u00e9', type: 'observation' }, { timeoutMs: 0 }),
    ({ message }) => {
      assert.match(message, /another assetKey \(write \["cafe\\u0301"\]\): seq 5,/);
      assert.match(message, /another assetKey \(write \["caf\u00e9 "\]\): seq 6,/);
      assert.match(message, /another assetKey: seq 7,/);
      return true;
    },
  );

  for (let count = 0; count < 20; count += 1) {
    await report(service, `observation/${'long'.repeat(200)}`);
    await report(service, `observation/${'long'.repeat(200)}?metadata=1`);
  }
  await assert.rejects(service.waitFor({ assetKey: 'a' }, { timeoutMs: 0 }), ({ message }) => {
    assert.match(
      message,
      /; 27 other events were recorded, [\s\S]*seq 27, [\s\S]*seq 26, [\s\S]*\nrefused requests: 22, the last:\n/,
    );
    assert.ok(
      message.length < 400 + 2 * waitLimits.shownMax * (waitLimits.shownCharactersMax + 50),
      `${message.length}`,
    );
    return true;
  });
});

test('a wait for several events resolves with the first matches, and its error has their number', async (t) => {
  const service = await start(t);
  const early = service.waitFor({ assetKey: 'a' }, { count: 3, timeoutMs: 30_000 });
  for (const name of ['a', 'b', 'a', 'a', 'a']) assert.equal(await report(service, `materialization/${name}`), 200);
  assert.deepEqual(seqsOf(await early), [1, 3, 4]);
  assert.deepEqual(seqsOf(await service.waitFor({ assetKey: 'a' }, { count: 4, timeoutMs: 0 })), [1, 3, 4, 5]);
  assert.deepEqual(seqsOf(await service.waitFor({ assetKey: 'b' }, { count: 1 })), [2]);
  const failure = (filter: EventFilter, count: number) =>
    service.waitFor(filter, { count, timeoutMs: 0 }).then(
      () => assert.fail('enough events matched'),
      ({ message }) => message.split('\n'),
    );
  const [first, second] = await failure({ assetKey: 'a' }, 5);
  assert.equal(
    first,
    '4 (seq 1, 3, 4, 5) of 5 events matched {"assetKey":"a"} within 0 ms; 1 other event was recorded, the nearest first:',
  );
  assert.match(second, /^ {2}another assetKey: seq 2, /);
  assert.deepEqual(await failure({ assetKey: 'c', afterSeq: 4 }, 2), [
    '0 of 2 events matched {"assetKey":"c","afterSeq":4} within 0 ms; 5 other events were recorded, the nearest first:',
    ...(await failure({ assetKey: 'c', afterSeq: 4 }, 2)).slice(1),
  ]);
  assert.equal(await report(service, 'materialization/a'), 200);
  assert.match(
    (await failure({}, 7))[0],
    /^6 \(seq 1, 2, 3, 4, 5, …\) of 7 events matched \{\} .*; no other event was recorded$/,
  );
  for (const count of [0, 1.5, Number.NaN, -1]) {
    await assert.rejects(service.waitFor({}, { count }), {
      name: 'TypeError',
      message: `count is ${count}; give a whole number from 1`,
    });
  }
});

test('expectNone resolves at its timeout, and fails at the first match, also one recorded earlier', async (t) => {
  const service = await start(t, { test: true });
  await service.expectNone(undefined, { timeoutMs: 0 });
  const matched =
    /^Error: an event matched \{"assetKey":"a"\}, and none was expected: seq 2, "type":"AssetMaterialization",/;
  const later = assert.rejects(service.expectNone({ assetKey: 'a' }, { timeoutMs: 600_000 }), matched);
  const none = service.expectNone({ type: 'check' });
  assert.equal(await report(service, 'materialization/b'), 200);
  assert.equal(await report(service, 'materialization/a'), 200);
  await later;
  await assert.rejects(service.expectNone({ assetKey: 'a' }), matched);
  await none;
  for (const end of [() => service.reset(), () => service.stop()]) {
    const early = service.expectNone({ assetKey: 'c' }, { timeoutMs: 600_000 });
    const rejected = assert.rejects(
      early,
      /^Error: the check that no event matches \{"assetKey":"c"\} ended early, before the /,
    );
    await Promise.all([end(), rejected]);
  }
  const wrong = { count: 2 } as { timeoutMs?: number };
  await assert.rejects(service.expectNone({}, wrong), /^TypeError: the second argument of expectNone has no count; /);
});

test('a filter matches members of metadata at any depth, and numbers by value or by digits', async (t) => {
  const service = await start(t);
  const send = (metadata: string) => record(service, 'observation/a', { body: `{"metadata":${metadata}}` });
  await send('{"rows":10,"source":{"table":"orders","columns":["id","at"],"owner":null},"ok":true}');
  await send('{"rows":1e1,"source":{"table":"orders","columns":["id"]},"ok":"true"}');
  await send(
    '{"rows":12345678901234567890,"rows ü":"1\\u0030","__proto__":{"constructor":1},"list":[{"a":1,"b":2},-0.50]}',
  );
  await send('{"rows":"10"}');
  await send('{}');
  await record(service, 'observation/a');
  const table: readonly (readonly [MetadataFilter, readonly number[]])[] = [
    [{}, [1, 2, 3, 4, 5]],
    [{ rows: 10 }, [1, 2]],
    [{ rows: '10' }, [4]],
    [{ rows: 10, ok: true }, [1]],
    [{ rows: undefined, ok: 'true' }, [2]],
    [{ source: { table: 'orders' } }, [1, 2]],
    [{ source: { table: 'orders', owner: null } }, [1]],
    [{ source: { columns: ['id'] } }, [2]],
    [{ source: { columns: ['at', 'id'] } }, []],
    [{ source: { columns: { 0: 'id' } } }, []],
    [{ source: 'orders' }, []],
    [{ owner: null }, []],
    [{ rows: Number('12345678901234567890') }, [3]],
    [{ rows: 12345678901234567890n }, [3]],
    [{ rows: 12345678901234567891n }, []],
    [{ rows: 10n }, [1]],
    [{ list: [{ b: 2 }, -0.5] }, [3]],
    [{ list: [{ b: 2 }] }, []],
    [{ list: [undefined, -0.5] }, [3]],
    [{ 'rows ü': '10' }, [3]],
    [{ ['__proto__']: { constructor: 1 } }, [3]],
    [{ constructor: {} }, []],
    [{ toString: undefined }, [1, 2, 3, 4, 5]],
  ];
  for (const [metadata, seqs] of table) {
    const found = await service.events({ assetKey: 'a', metadata });
    assert.deepEqual(seqsOf(found), seqs, inspect(metadata));
    if (seqs.length > 0) assert.equal((await service.waitFor({ metadata })).seq, seqs[0]);
  }
  const wanted = { rows: 10n, source: { table: 'order', columns: [] } };
  await assert.rejects(service.waitFor({ metadata: wanted }, { timeoutMs: 0 }), ({ message }) => {
    assert.match(
      message,
      /^no event matched \{"metadata":\{"rows":"10","source":\{"table":"order",.* within 0 ms; 6 other events/,
    );
    assert.match(message, /first:\n {2}another metadata\.source\.table, metadata\.source\.columns: seq 1, /);
    assert.match(message, /\n {2}another metadata\.rows, metadata\.source\.table, metadata\.source\.columns: seq 6, /);
    return true;
  });
  const cyclic: { own?: object } = {};
  cyclic.own = cyclic;
  for (const [metadata, problem] of [
    [null, /^TypeError: metadata is null; give an object with the members to look for$/],
    [['a'], /^TypeError: metadata is a Array; /],
    [{ at: [new Date(0)] }, /^TypeError: metadata\.at\[0\] is a Date; give JSON values, or a bigint for /],
    [{ check: () => true }, /^TypeError: metadata\.check is a function; /],
    [{ rows: Number.NaN }, /^TypeError: metadata\.rows is NaN, which JSON cannot represent$/],
    [cyclic, /^TypeError: metadata(\.own)+ is nested deeper than metadata may be$/],
  ] as const) {
    const filter = { metadata } as unknown as EventFilter;
    await assert.rejects(service.events(filter), problem);
    await assert.rejects(service.waitFor(filter), problem);
  }
});

test('refused requests are listed as their clients saw them, also bytes that are not a request', async (t) => {
  const service = await start(t);
  assert.deepEqual(service.refused(), []);
  const reply = await fetch(`${service.url}/report_asset_check/a%20b?check_name=n&passed=secret#x`, { method: 'POST' });
  const { request_id } = (await reply.json()) as { request_id: string };
  await report(service, 'observation/a');
  const port = Number(new URL(service.url).port);
  const malformed = await ask(port, 'nonsense\r\n\r\n');
  const slow = await ask(port, 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  assert.deepEqual([malformed.status, slow.status], [400, 200]);
  await fetch(`${service.url}/nowhere`);
  const [first, second, third, ...more] = service.refused();
  const { time = '', ...members } = first ?? {};
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000);
  assert.deepEqual(members, {
    request_id,
    method: 'POST',
    path: '/report_asset_check/a%20b',
    query: 'check_name=n&passed=secret',
    status: 400,
    error: 'passed in the query is "secret"; send true or false',
  });
  assert.deepEqual([second?.status, second?.error], [400, errorOf(malformed)]);
  assert.deepEqual(Object.keys(second ?? {}), ['time', 'request_id', 'status', 'error']);
  assert.deepEqual([third?.status, third?.method, third?.path, third?.query], [404, 'GET', '/nowhere', undefined]);
  assert.deepEqual(more, []);
  await assert.rejects(service.waitFor({ assetKey: 'b' }, { timeoutMs: 0 }), /\n {2}400: malformed HTTP request/);
});

test('a stop rejects every pending wait', async (t) => {
  const service = await start(t);
  const waits = ['a', 'b'].map((assetKey) => service.waitFor({ assetKey }, { timeoutMs: 30_000 }));
  const settled = Promise.allSettled(waits);
  await service.stop();
  for (const wait of await within('the end of the waits', 20_000, settled)) {
    assert.ok(wait.status === 'rejected');
    assert.match(
      String(wait.reason),
      /^Error: no event matched \{"assetKey":"[ab]"\} before the service has ended \(stopped\); no event/,
    );
  }
});

test('a wait that starts during a stop finds the events from before, and then the folder is removed', async (t) => {
  const service = await start(t);
  assert.equal(await report(service, 'observation/a'), 200);
  const event = service.ended.then(() => service.waitFor({ assetKey: 'a' }));
  await service.stop();
  assert.equal((await event).seq, 1);
  assert.equal(existsSync(service.data), false);
});

test('lines of any length in any number of files are read, and no unacknowledged line', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), segment(1, 3));
  writeFileSync(join(data, segmentName(4)), segment(4, 2));
  const service = await start(t, { data });
  const wait = service.waitFor({ assetKey: 'long', afterSeq: 6 }, { timeoutMs: 20_000 });
  for (let count = 0; count < 4; count += 1) {
    await record(service, 'observation/long', { body: { description: 'ä'.repeat(400_000) } });
  }
  assert.equal((await wait).seq, 7);
  const events = await service.events();
  assert.deepEqual(seqsOf(events), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  // Like a batch that was written, and whose sync has not returned.
  const last = { seq: 10, crc: Number.parseInt(events.at(-1)?.crc ?? '', 16) };
  appendFileSync(join(data, segmentName(4)), makeLines(1, last).bytes);
  assert.equal((await service.events()).length, 9);
  appendFileSync(join(data, segmentName(4)), '{"seq":11,"id"');
  assert.equal((await service.events()).length, 9);
  await assert.rejects(service.waitFor({ afterSeq: 9 }, { timeoutMs: 0 }), /; 9 other events were recorded/);
});

test('a flipped bit is an error with file, line and byte; events before it are found', async (t) => {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), flip(segment(1, 5), 900));
  writeFileSync(join(data, segmentName(6)), segment(6, 2));
  const service = await start(t, { data });
  const damaged = /^Error: the journal in .* is damaged: events-0+1\.jsonl, line \d, byte \d+: its crc is /;
  await assert.rejects(service.events(), damaged);
  await assert.rejects(service.waitFor({ checkName: 'none' }, { timeoutMs: 30_000 }), damaged);
  assert.equal((await service.waitFor({ assetKey: 'a/1' })).seq, 1);
  assert.deepEqual(seqsOf(await service.events({ afterSeq: 5 })), [6, 7]);
});

test('a filter with a value that no event can have is refused, so that a test cannot pass for that reason', async (t) => {
  const service = await start(t);
  await reportAll(service);
  const eventsOf = (filter: unknown) => service.events(filter as EventFilter);
  const key = "; give a key, such as 'warehouse/orders' or \\['warehouse', 'orders'\\]$";
  const types =
    '; give materialization, check, observation, AssetMaterialization, AssetCheckEvaluation or AssetObservation';
  const table: readonly (readonly [unknown, string])[] = [
    ...[null, 5, true].map((assetKey) => [{ assetKey }, `assetKey is ${assetKey}${key}`] as const),
    [{ assetKey: [] }, `assetKey is \\[\\]${key}`],
    [{ assetKey: ['a', 1] }, `assetKey is \\["a",1\\]${key}`],
    [{ assetKey: 'a//b' }, `assetKey is "a//b"${key}`],
    [{ assetKey: '' }, `assetKey is ""${key}`],
    [{ type: 'checks' }, `type is "checks"${types}; did you mean check\\?$`],
    [{ type: 'AssetCheck' }, `type is "AssetCheck"${types}$`],
    [{ type: null }, `type is null${types}$`],
    [{ passed: 'false' }, 'passed is "false"; give true or false$'],
    [{ severity: 'WARNING' }, 'severity is "WARNING"; give WARN or ERROR$'],
    [{ severity: 'warn' }, 'severity is "warn"; give WARN or ERROR'],
    [{ partition: 20261120 }, 'partition is 20261120; give a text$'],
    [{ partition: null }, 'partition is null; give a text$'],
    [{ checkName: '' }, 'checkName is ""; give a text that is not empty$'],
    [{ afterSeq: '2' }, 'afterSeq is "2"; give the seq of an event$'],
    [{ afterSeq: Number.NaN }, 'afterSeq is NaN; give the seq of an event$'],
    [{ check: 'no_nulls' }, 'a filter has no check; it may have assetKey, '],
    ['orders', 'a filter is an object, not "orders"$'],
    [null, 'a filter is an object, not null$'],
  ];
  for (const [filter, problem] of table) {
    await assert.rejects(eventsOf(filter), RegExp(`^TypeError: ${problem}`));
    await assert.rejects(service.waitFor(filter as EventFilter, { timeoutMs: 0 }), RegExp(`^TypeError: ${problem}`));
  }
  assert.equal((await eventsOf({ afterSeq: -1 })).length, 4);
  assert.equal((await eventsOf({ afterSeq: 2.5 })).length, 2);
  const wait = (options: unknown) => service.waitFor({}, options as { timeoutMs: number });
  await assert.rejects(
    wait({ timeout: 9 }),
    /^TypeError: the second argument of waitFor has no timeout; did you mean timeoutMs\?$/,
  );
  await assert.rejects(wait(9), /^TypeError: the second argument of waitFor is an object, not 9$/);
  await assert.rejects(wait({ timeoutMs: '9' }), /^TypeError: timeoutMs is 9; give milliseconds from 0 to/);
});

test('an event is found by the time when it happened, in any zone, and by its idempotency key', async (t) => {
  const service = await start(t);
  const time = '2026-11-20T16:19:45.250%2B01:00';
  assert.equal(await report(service, `observation/a?event_time=${time}`, { 'Idempotency-Key': '"order-17/1"' }), 200);
  assert.equal(await report(service, 'observation/b?event_time=2026-11-20T15:19:45.2500001Z'), 200);
  assert.equal(await report(service, 'observation/c?metadata={"idempotency_key":"order-17/1"}'), 200);
  const found = async (filter: EventFilter) => seqsOf(await service.events(filter));
  assert.deepEqual(await found({ eventTime: '2026-11-20T15:19:45.25Z' }), [1]);
  assert.deepEqual(await found({ eventTime: '2026-11-20T16:19:45.2500+01:00', assetKey: 'a' }), [1]);
  assert.deepEqual(await found({ eventTime: '2026-11-20T15:19:45Z' }), []);
  assert.deepEqual(await found({ idempotencyKey: 'order-17/1' }), [1]);
  assert.deepEqual(await found({ idempotencyKey: 'order-17' }), []);
  const event = await service.waitFor({ idempotencyKey: 'order-17/1' });
  assert.deepEqual([event.event_time, event.idempotency_key], ['2026-11-20T15:19:45.250Z', 'order-17/1']);
  await assert.rejects(
    service.waitFor({ eventTime: '2026-11-20T15:19:45.2Z' }, { timeoutMs: 0 }),
    /another eventTime: seq 3, /,
  );
  await assert.rejects(
    service.events({ eventTime: '2026-11-20T15:19:45' }),
    /^TypeError: eventTime is "2026-11-20T15:19:45"; it has no zone; add Z for UTC/,
  );
  const noText = { eventTime: new Date(0) } as unknown as EventFilter;
  await assert.rejects(
    service.events(noText),
    /^TypeError: eventTime is "1970-\S+"; give an RFC 3339 time with a zone/,
  );
});

test('a given folder is kept, and the next service continues in it', async (t) => {
  const data = newFolder(t);
  const first = await start(t, { data, pathPrefix: '/some/path' });
  assert.match(first.url, /:\d+\/some\/path$/);
  assert.equal(first.data, data);
  assert.equal(await report(first, 'observation/a'), 200);
  await first.stop();
  assert.equal((await first.events()).length, 1);
  const second = await start(t, { data });
  assert.equal(await report(second, 'observation/b'), 200);
  assert.deepEqual(seqsOf(await second.events()), [1, 2]);
});

test('in hosted mode the service returns the events of one deployment', async (t) => {
  const { file, tokenOf } = writeDeployments(t, ['prod', 'stage']);
  const token = tokenOf('prod');
  const service = await start(t, { deployments: file });
  const wait = service.waitFor({ deployment: 'prod', assetKey: 'a' });
  const send = (path: string, headers = { 'Service-Cloud-Api-Token': token }) =>
    fetch(`${service.url}/${path}`, { method: 'POST', headers }).then(({ status }) => status);
  assert.equal(await send('prod/report_asset_observation/a'), 200);
  assert.equal((await wait).seq, 1);
  assert.deepEqual(await service.events({ deployment: 'stage' }), []);
  await assert.rejects(
    service.events({ deployment: 'stag' }),
    /^TypeError: there is no deployment stag; did you mean stage\?$/,
  );
  await assert.rejects(service.events(), /^TypeError: the filter needs a deployment$/);
  assert.equal(await send('prod/report_asset_observation/a', { 'Service-Cloud-Api-Token': 'wrong' }), 401);
  await assert.rejects(service.waitFor({ deployment: 'stage' }, { timeoutMs: 0 }), ({ message }) => {
    assert.match(message, /no event was recorded\nrefused requests: 1, the last:\n {2}401 for POST \/prod\/report/);
    assert.ok(!message.includes(token));
    return true;
  });
});

test('deployments given by name get a token each, and leave nothing behind', async (t) => {
  const before = ownFolders();
  const service = await start(t, { deployments: ['prod', { name: 'staging' }, { name: 'outside', may: ['report'] }] });
  const { prod, staging, outside } = service.tokens;
  assert.match(prod, /^asl_[\w-]{43}$/);
  assert.notEqual(prod, staging);
  const send = (name: string, token: string) =>
    report(service, 'observation/a', { 'Service-Cloud-Api-Token': token }, `/${name}`);
  assert.equal(await send('prod', prod), 200);
  assert.equal(await send('staging', staging), 200);
  assert.equal(await send('prod', staging), 401);
  assert.equal(await send('outside', outside), 200);
  const readWith = async (name: string, token: string) => {
    const reply = await fetch(`${service.url}/${name}/events`, { headers: { 'Service-Cloud-Api-Token': token } });
    await reply.text();
    return reply.status;
  };
  assert.equal(await readWith('prod', prod), 200);
  assert.equal(await readWith('prod', staging), 401);
  assert.equal(await readWith('outside', outside), 403);
  assert.equal((await service.events({ deployment: 'prod' })).length, 1);
  assert.equal((await service.waitFor({ deployment: 'staging' })).seq, 1);
  await service.stop();
  assert.deepEqual(
    ownFolders().filter((name) => !before.includes(name)),
    [],
  );
  const refused = (deployments: unknown, problem: RegExp) =>
    assert.rejects(startService({ deployments } as StartOptions), problem);
  await refused([], /^TypeError: deployments must be an array with at least one of the deployments$/);
  await refused(['prod', 'prod'], /^TypeError: deployments\[1\]\.name is prod, as in an earlier entry; /);
  await refused(
    ['a b', { name: 5 }],
    /^TypeError: deployments\[0\]\.name must be up to .*; deployments\[1\]\.name must be/,
  );
  await refused([{ name: 'prod', token: 'x' }], /^TypeError: deployments\[0\] has no token; it may have name and may$/);
  await refused([{ name: 'prod', may: ['write'] }], /^TypeError: deployments\[0\]\.may must be .*"report".*"read"/);
  await refused([undefined], /^TypeError: deployments\[0\]\.name must be /);
  await assert.rejects(startService({ deployments: ['prod'], port: 65_536 }), /--port "65536"/);
  assert.deepEqual(
    ownFolders().filter((name) => !before.includes(name)),
    [],
  );
});

function fault(effect: FaultEffect, more: Omit<Fault, 'then'> = {}): Fault {
  // biome-ignore lint/suspicious/noThenProperty: the name in the JSON; its value is not a function
  return { ...more, then: effect };
}

test('a service in test mode fails according to its faults, counts them, and is empty after a reset', async (t) => {
  const service = await start(t, { test: true });
  const refusedTwice = service.fail(fault({ status: 503, retry_after: 1 }, { match: { type: 'check' }, times: 2 }));
  const lost = service.fail(fault({ drop: 'reply' }, { match: { asset_key: ['a', 'b'], partition: null }, after: 1 }));
  const check = 'check/a?check_name=n&passed=true';
  assert.deepEqual(
    [await report(service, check), await report(service, check), await report(service, check)],
    [503, 503, 200],
  );
  assert.equal(await report(service, 'observation/a/b'), 200);
  await assert.rejects(report(service, 'observation/a/b'), TypeError);
  assert.equal(await report(service, 'observation/a/c'), 200);
  assert.deepEqual([refusedTwice.met, refusedTwice.matched, lost.met, lost.matched], [2, 3, 1, 2]);
  assert.deepEqual(lost.nearest, { path: '/report_asset_observation/a/c', differs: { asset_key: ['a', 'c'] } });
  assert.equal((await service.events()).length, 4, 'the report whose reply was lost is recorded');
  assert.equal(await report(service, 'observation/a?descripton=x'), 400);
  assert.equal(service.refused().length, 1);

  const wait = assert.rejects(
    service.waitFor({ assetKey: 'z' }, { timeoutMs: 30_000 }),
    /\} before the service was reset; 4 other events/,
  );
  const seen = service.events();
  await Promise.all([service.reset(), wait]);
  assert.equal((await seen).length, 4);
  assert.deepEqual([await service.events(), service.refused(), refusedTwice.met], [[], [], 2]);
  assert.equal(await report(service, check), 200);
  assert.equal((await service.waitFor({})).seq, 1);
  const during = [service.reset(), service.waitFor({ assetKey: 'later' }), service.events(), service.reset()] as const;
  assert.deepEqual(await during[2], []);
  await during[3];
  assert.equal(await report(service, 'observation/later'), 200);
  assert.equal((await during[1]).seq, 1);
  await fetch(`${service.url}/test/reset`, { method: 'POST' }); // by a client, in another language
  assert.deepEqual(await service.events(), []);
});

test('the service in JavaScript and the one in pytest have the same methods', async (t) => {
  const methods = ['events', 'waitFor', 'expectNone', 'refused', 'fail', 'met', 'reset'];
  const service = await start(t, { test: true });
  const ofService = Object.entries(service).flatMap(([name, value]) => (typeof value === 'function' ? [name] : []));
  assert.deepEqual(ofService, [...methods, 'stop']);
  let fixtures = '';
  const output = { print: (text: string) => (fixtures += text) } as unknown as Output;
  await pytest.run([], {}, output);
  for (const name of methods.map((word) => word.replace(/[A-Z]/, (letter) => `_${letter.toLowerCase()}`)))
    assert.match(fixtures, RegExp(`^    def ${name}\\(self`, 'm'));
});

test('faults are added one or several at a time, and an empty array removes all', async (t) => {
  const service = await start(t, { test: true });
  const first = service.fail(fault({ status: 500 }, { times: 1 }));
  const [second, third] = service.fail([fault({ status: 502 }, { times: 1 }), fault({ status: 504 })]);
  const statuses: number[] = [];
  for (let count = 0; count < 3; count += 1) statuses.push(await report(service, 'observation/a'));
  assert.deepEqual(statuses, [500, 502, 504]);
  assert.deepEqual([first.met, second?.met, third?.met], [1, 1, 1]);
  assert.deepEqual(service.met(), [1, 1, 1]);
  assert.deepEqual([service.fail([]), service.met()], [[], []]);
  assert.equal(await report(service, 'observation/a'), 200);
});

test('an invalid fault is refused at once, and so is every fault without test mode', async (t) => {
  const service = await start(t, { test: true });
  const refused = (text: string, problem: RegExp) =>
    assert.throws(() => service.fail(JSON.parse(text) as Fault), problem);
  refused('{"then": {"stauts": 503}}', /^Error: fault\.then\.stauts is unknown; did you mean status\?$/);
  refused('null', /^Error: fault is null; send an object$/);
  refused('[{"then": {"status": 503}}, {}]', /^Error: faults\[1\]\.then is missing/);
  assert.equal(await report(service, 'observation/a'), 200);
  const ordinary = (await start(t, { test: false })) as TestService; // as without types
  assert.throws(() => ordinary.fail(fault({ status: 503 })), /^Error: fail needs startService\(\{ test: true \}\)$/);
  assert.throws(() => ordinary.met(), /^Error: met needs startService\(\{ test: true \}\)$/);
  await assert.rejects(ordinary.reset(), /^Error: reset needs startService\(\{ test: true \}\)$/);
  assert.equal(await report(ordinary, 'observation/a?descripton=x'), 200);
  await assert.rejects(startService({ test: true, deployments: ['prod'] }), /^Error: --test has no --deployments; /);
});

test('a failed start throws the reason and leaves no folder', async (t) => {
  const { url } = await start(t);
  const port = Number(new URL(url).port);
  const before = ownFolders();
  await assert.rejects(startService({ port }), /port \d+ on 127\.0\.0\.1 is busy/);
  await assert.rejects(startService({ port: 65_536 }), /--port "65536" is not a whole number from 0 to 65535/);
  await assert.rejects(startService({ prot: 1 } as StartOptions), /unknown option --prot; did you mean --port\?/);
  await assert.rejects(startService({ data: '' }), /--data needs a value/);
  await assert.rejects(startService({ deployments: '/nowhere.json' }), /ENOENT/);
  assert.deepEqual(
    ownFolders().filter((name) => !before.includes(name)),
    [],
  );
  const free = await freePort(t);
  assert.equal((await start(t, { port: free })).url, `http://127.0.0.1:${free}`);
});

test('a failed disk ends the service and every wait, and not the process', async (t) => {
  const notices: Notice[] = [];
  const service = await start(t, { onNotice: (notice) => notices.push(notice) });
  assert.equal(await report(service, 'observation/a'), 200);
  const rejected = assert.rejects(
    service.waitFor({ assetKey: 'b' }, { timeoutMs: 30_000 }),
    /has ended \(disk failed\); 1 other event/,
  );
  appendFileSync(join(service.data, FIRST), 'meddled with\n');
  assert.equal(await report(service, 'observation/b'), 503);
  assert.equal(await within('its end', HANG_MS, service.ended), 'disk failed');
  await rejected;
  assert.equal((await service.events()).length, 1);
  assert.deepEqual(
    notices.map(({ level, message }) => [level, message.slice(0, 40)]),
    [['error', 'the disk failed and the service ends; it']],
  );
  assert.match(String(notices[0]?.['problem']), /another program changed it$/);
  await service.stop();
  assert.equal(existsSync(service.data), false);
});

test('notices are reported by level, to the callback or to standard error', async (t) => {
  const notices: Notice[] = [];
  const service = await start(t, { logLevel: 'debug', onNotice: (notice) => notices.push(notice) });
  await report(service, 'observation/a');
  const { mock } = t.mock.method(process.stderr, 'write', () => true);
  await start(t);
  assert.equal(mock.callCount(), 0);
  await start(t, { logLevel: 'info' });
  mock.restore();
  assert.match(
    String(mock.calls[0]?.arguments[0]),
    /^\{"time":"[^"]+","level":"info","message":"journal open",.*\}\n$/,
  );
  assert.ok(notices.some(({ level, message, status }) => level === 'debug' && message === 'request' && status === 200));
});

test('startService changes nothing in its process', async (t) => {
  const counts = () => process.eventNames().map((name) => `${String(name)} ${process.listenerCount(name)}`);
  const before = counts();
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on('warning', warned);
  t.after(() => process.off('warning', warned));
  const services = await Promise.all(Array.from({ length: 20 }, () => startService()));
  assert.deepEqual(
    counts().filter((line) => !before.includes(line) && !/^(warning|exit) /.test(line)),
    [],
  );
  await Promise.all(services.map((service) => service.stop()));
  process.off('warning', warned);
  assert.deepEqual(counts(), before);
  assert.deepEqual(warnings, []);
});

test('a service that is never stopped lets its process end, and its folder is removed', async () => {
  const script = `
    import { request, Agent } from 'node:http';
    import { startService } from ${JSON.stringify(join(root, 'src/embed.ts'))};
    const service = await startService();
    const agent = new Agent({ keepAlive: true }); // its connection stays open
    await new Promise((resolve) => request(service.url + '/report_asset_observation/a', { method: 'POST', agent }, (reply) => reply.resume().on('end', resolve)).end());
    await service.waitFor({ assetKey: 'a' });
    process.stderr.write(service.data);
  `;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], { cwd: root });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text) => {
    stdout += text;
  });
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  try {
    assert.deepEqual(await within('the end of the process', HANG_MS, once(child, 'close')), [0, null], stderr);
  } finally {
    child.kill('SIGKILL');
  }
  assert.equal(stdout, '');
  assert.match(stderr, /assetlog-\w+$/);
  assert.equal(existsSync(stderr), false);
});
