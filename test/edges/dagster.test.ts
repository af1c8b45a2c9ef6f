/** The sensor that `assetlog dagster` prints, tick by tick, in the newest and in the oldest Dagster that it is for. */

import assert from 'node:assert/strict';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { newToken } from '../../src/deployments/tokens.ts';
import { startCuttingProxy, uncut } from '../support/cutting-proxy.ts';
import { alarmsOf, Evaluator, type Stored, seqsOf, Ticks, versions } from '../support/dagster.ts';
import { entryOf, rewrite } from '../support/deployments.ts';
import { newFolder, startService } from '../support/program.ts';
import { named, record, report, reportLines } from '../support/report.ts';
import { eventually, upTo } from '../support/tools.ts';
import { listenOn, startScripted } from '../world/http-server.ts';

for (const { name, python, skip, hasCheckPartitions } of versions) {
  test(name, { skip }, async (all) => {
    const evaluator = new Evaluator(all, python, newFolder(all));
    const ticksOf = (url: string, settings = {}) => new Ticks(evaluator, url, settings);

    await all.test('each event in Dagster has the values of its report, as far as Dagster can hold them', async (t) => {
      const service = await startService(t);
      await record(service, 'materialization/', {
        body: `{"asset_key": ["a/b", "ü"], "partition": "2026-11-20", "description": "nightly", "data_version": "fw 1/2 ü",
        "event_time": "2026-11-20T16:19:45.25+01:00", "metadata": {"n": 5, "f": 21.50, "t": "text", "yes": true, "none": null,
        "link": "https://a.example/b?c=d", "no link": "https://a b", "list": [1, {"a": 2}], "big": 123456789012345678901,
        "long": ${'9'.repeat(5_000)}, "inf": 1e400, "inner": {"a": 1e999}, "enum": {"__enum__": "X.y"}, "lone": "\\ud800",
        "md": {"type": "md", "raw_value": "# Title"}, "path": {"type": "path", "raw_value": "/a"},
        "time": {"type": "timestamp", "raw_value": 1.5}, "wrong": {"type": "md", "raw_value": 5},
        "unknown": {"type": "__class__", "raw_value": "x"}, "assetlog/id": "forged", "dagster/last_updated_timestamp": "x"}}`,
      });
      await record(service, 'observation/a', {
        body: { metadata: { deep: JSON.parse('['.repeat(100) + ']'.repeat(100)) } },
      });
      await record(service, 'check/a?check_name=fresh&passed=false&severity=WARN');
      await record(service, 'check/a?check_name=fresh&passed=true');
      const { stored, lines, message } = await ticksOf(service.url).tick();
      assert.deepEqual(lines, []);
      assert.equal(message, '4 events, up to seq 4');
      const [first, second, warned, passed] = stored;
      const { metadata, ...members } = first ?? assert.fail();
      assert.deepEqual(members, {
        type: 'AssetMaterialization',
        asset_key: ['a/b', 'ü'],
        partition: '2026-11-20',
        description: 'nightly',
        tags: { 'dagster/data_version': 'fw 1/2 ü', 'dagster/data_version_is_user_provided': 'true' },
        check_name: null,
        passed: null,
        severity: null,
      });
      const [{ id, time }] = service.events() as [{ id: string; time: string }];
      assert.deepEqual(metadata, {
        n: ['Int', '5'],
        f: ['Float', '21.5'],
        t: ['Text', 'text'],
        yes: ['Bool', 'True'],
        none: ['Null', 'None'],
        link: ['Url', 'https://a.example/b?c=d'],
        'no link': ['Text', 'https://a b'],
        list: ['Json', [1, { a: 2 }]],
        big: ['Text', '123456789012345678901'],
        long: ['Text', '9'.repeat(5_000)],
        inf: ['Text', '1e400'],
        inner: ['Json', { a: '1e999' }],
        enum: ['Text', '{"__enum__": "X.y"}'],
        lone: ['Text', '"\\ud800"'],
        md: ['Markdown', '# Title'],
        path: ['Path', '/a'],
        time: ['Timestamp', '1.5'],
        wrong: ['Json', { type: 'md', raw_value: 5 }],
        unknown: ['Json', { type: '__class__', raw_value: 'x' }],
        'assetlog/id': ['Text', id],
        'assetlog/seq': ['Int', '1'],
        'assetlog/recorded': ['Text', time],
        'assetlog/event_time': ['Text', '2026-11-20T15:19:45.25Z'],
        'dagster/last_updated_timestamp': ['Timestamp', '1795187985.25'],
      });
      assert.deepEqual([second?.type, second?.partition, second?.tags], ['AssetObservation', null, {}]);
      const checks = [warned, passed].map((event) => [event?.check_name, event?.passed, event?.severity]);
      assert.deepEqual(checks, [
        ['fresh', false, 'WARN'],
        ['fresh', true, 'ERROR'],
      ]);
    });

    await all.test('the update time is a valid one of the metadata, or that of a materialization', async (t) => {
      const service = await startService(t);
      const own = (value: unknown) => ({ metadata: { 'dagster/last_updated_timestamp': value } });
      const event_time = '2026-11-20T16:19:45Z';
      const bodies = [
        own({ type: 'timestamp', raw_value: 1_500.5 }),
        ...[{}, own('x'), own(1_500.5), own({ type: 'timestamp', raw_value: 1e300 }), own(null)],
      ];
      for (const what of ['materialization/a', 'observation/a', 'check/a?check_name=c&passed=true'])
        for (const body of bodies) await record(service, what, { body: { ...body, event_time } });
      const { stored, lines } = await ticksOf(service.url).tick();
      const found = stored.map(({ metadata }) => metadata['dagster/last_updated_timestamp']);
      const sent = ['Timestamp', '1500.5'];
      const without = (value: unknown) => [sent, ...Array.from({ length: bodies.length - 1 }, () => value)];
      const happened = ['Timestamp', '1795191585.0'];
      assert.deepEqual([found, lines], [[...without(happened), ...without(undefined), ...without(undefined)], []]);
    });

    await all.test('each type of metadata is stored as Dagster itself stores the same value', async (t) => {
      const service = await startService(t);
      const column = { name: 'a', type: 'int', constraints: { nullable: false } };
      const values: Readonly<Record<string, readonly unknown[]>> = {
        int: [5, 0, true, 1.5, '5'],
        float: [1.5, 5, true],
        bool: [true, false, 1],
        null: [null, 5],
        timestamp: [1_795_187_985, 1.5, 0, '5'],
        __infer__: [5, 1.5, true, null, 'https://a.example', { a: 1 }, [1]],
        text: ['a', 5],
        url: ['https://a.example', 5],
        path: ['/a', 5],
        notebook: ['/a.ipynb', 5],
        md: ['# A', 5],
        json: [{ a: 1 }, [1], 5],
        asset: ['a/b', 5],
        dagster_run: ['x', 5],
        table: [{ records: [{ a: 1 }], schema: [column] }, { records: [] }],
        table_schema: [{ columns: [column] }, { columns: [{}] }],
        table_column_lineage: [{ deps_by_column: { a: [{ asset_key: 'x', column_name: 'b' }] } }, {}],
        job: ['x'],
        unheard_of: ['x'],
      };
      const typed = Object.entries(values).flatMap(([type, raw]) => raw.map((raw_value) => ({ type, raw_value })));
      const bare = [5, 1.5, true, null, 'a', { a: 1 }, [1], {}];
      const sent = Object.fromEntries([...typed, ...bare].map((value, at) => [`m${at}`, value]));
      const evaluator = new Evaluator(t, python, newFolder(t));
      const { metadata: wanted } = await evaluator.evaluate('reference', { values: sent });
      await record(service, 'observation/a', { body: { metadata: sent } });
      const [{ metadata } = assert.fail()] = (await new Ticks(evaluator, service.url).tick()).stored;
      for (const [name, value] of Object.entries(sent)) {
        const found = metadata[name] ?? assert.fail(name);
        if (wanted[name] != null) assert.deepEqual(found, wanted[name], JSON.stringify(value));
        // What Dagster refuses is stored as its endpoint stores it.
        else assert.deepEqual(found, ['Json', value]);
      }
      assert.ok(Object.values(wanted).filter((one) => one === null).length > 10);
    });

    await all.test(
      'an event that cannot be converted is skipped with an alarm, and later events are stored',
      async (t) => {
        for (const [name, value] of [
          ['event_time', '2026-11-20T23:59:61Z'],
          ['type', 'AssetOfALaterVersion'],
        ] as const) {
          const service = await startService(t);
          await report(service, named('a', 3));
          const lines = service.events().map((event) => (event['seq'] === 2 ? { ...event, [name]: value } : event));
          const changed = await startScripted(t, ({ url }) => {
            const after = Number(/after_seq=(\d+)/.exec(url ?? '')?.[1]);
            const events = lines.filter((event) => Number(event['seq']) > after);
            return [200, JSON.stringify({ events, next_after_seq: Math.max(after, 3) })];
          });
          const { stored, lines: logged, message } = await ticksOf(changed.url).tick();
          assert.deepEqual([seqsOf(stored), message], [[1, 3], '3 events, up to seq 3']);
          assert.match(`${alarmsOf(stored)}`, /^event 2 is skipped, since it cannot be converted: /);
          assert.deepEqual(logged, alarmsOf(stored));
        }
      },
    );

    await all.test('a request to this machine sends its token to no proxy, and no error shows the token', async (t) => {
      const service = await startService(t);
      await report(service, ['a']);
      const file = join(newFolder(t), 'token');
      const token = 'top"secret\\token';
      writeFileSync(file, token);
      const proxy = await startScripted(t, ({ headers }) => {
        const got = `${headers['service-cloud-api-token']}`;
        return [401, `${JSON.stringify({ error: `no ${got}` })} ${got}`];
      });
      const env = { http_proxy: proxy.url, HTTP_PROXY: '', no_proxy: '192.0.2.0/24', NO_PROXY: '' };
      const evaluator = new Evaluator(t, python, newFolder(t), undefined, env);
      const ticks = (url: string) => new Ticks(evaluator, url, { TOKEN_FILE: file });
      for (const host of ['127.0.0.1', 'localhost'])
        assert.equal((await ticks(`http://${host}:${service.port}`).tick()).message, '1 events, up to seq 1');
      assert.deepEqual(proxy.got, []);
      const { error } = await ticks('http://assets.example').tick();
      assert.equal(error, 'http://assets.example/events answers 401: {"error":"no ***"} ***');
      assert.equal(proxy.got.length, 1);
      writeFileSync(file, 'top\nsecret');
      assert.equal((await ticks(service.url).tick()).error, `the token in ${file} is not one line of ASCII characters`);
    });

    await all.test('an event of a device has the id of the device in its metadata', async (t) => {
      const hub = await startService(t);
      const device = await startService(t, { args: ['--forward-to', hub.url] });
      await record(device, 'observation/a');
      const ticks = ticksOf(hub.url);
      const found: Stored[] = [];
      await eventually('the event at the hub', async () => found.push(...(await ticks.tick()).stored) > 0);
      const [{ from: source, recorded }] = hub.events() as [{ from: [string, number]; recorded: string }];
      const { metadata } = found[0] ?? assert.fail();
      assert.deepEqual(metadata['assetlog/device'], ['Text', source[0]]);
      assert.deepEqual(metadata['assetlog/device_seq'], ['Int', '1']);
      assert.deepEqual(metadata['assetlog/recorded'], ['Text', recorded]);
    });

    await all.test('a second result for a partition is stored, and does not stop the sensor', async (t) => {
      const service = await startService(t);
      const ticks = ticksOf(service.url);
      const check = () => record(service, 'check/a?check_name=c&passed=true&partition=p');
      for (const _ of [1, 2]) await check();
      const first = await ticks.tick();
      await check();
      const second = await ticks.tick();
      const found = [...first.stored, ...second.stored].map((event) => [
        event.partition,
        event.metadata['assetlog/partition']?.[1],
      ]);
      const later = [null, 'p'];
      assert.deepEqual(found, [hasCheckPartitions ? ['p', undefined] : later, later, later]);
    });

    await all.test('a tick reads a limited number of events, and KEY_PREFIX limits it to some assets', async (t) => {
      const service = await startService(t);
      const ticks = ticksOf(service.url, { TICK_EVENTS: 4 });
      await report(service, named('a', 6));
      assert.deepEqual(seqsOf((await ticks.tick()).stored), upTo(4));
      assert.deepEqual(seqsOf((await ticks.tick()).stored), upTo(6, 5));
      assert.deepEqual(await ticks.tick(), { stored: [], lines: [], given: 0, message: '0 events, up to seq 6' });
      await report(service, ['b/x', 'c', 'b/y', 'c', 'c']);
      const settings = { KEY_PREFIX: 'b' };
      assert.deepEqual(seqsOf((await ticks.tick({ settings })).stored), [7, 9]);
      assert.equal((await ticks.tick()).message, '0 events, up to seq 11');
      await report(service, ['c', 'b/z']);
      assert.deepEqual(seqsOf((await ticks.tick()).stored), [13]);
      assert.deepEqual(seqsOf((await ticks.tick({ settings: { KEY_PREFIX: '["c"]' } })).stored), []);
      await report(service, ['c']);
      assert.deepEqual(seqsOf((await ticks.tick()).stored), [14]);
    });

    await all.test('a tick with thousands of events takes a few seconds', async (t) => {
      const service = await startService(t);
      const metadata = { rows: 10, took_s: 1.5, source: 'https://a.example', more: { a: [1, 2, 3] } };
      const item = (asset_key: string) => ({ type: 'observation', asset_key, metadata });
      for (const _ of upTo(5)) await reportLines(service, named('a', 1_000).map(item));
      const ticks = ticksOf(service.url, { TICK_EVENTS: 5_000 });
      // Without the time in which Dagster stores them.
      const began = performance.now();
      const { given, error } = await ticks.tick({ refuse: [1] });
      t.diagnostic(`${given} events in ${Math.round(performance.now() - began)} ms`);
      assert.deepEqual([given, error], [5_000, 'this event cannot be stored']);
    });

    await all.test(
      'an event that Dagster refuses is skipped with an alarm, and an outage of Dagster skips none',
      async (t) => {
        const service = await startService(t);
        const ticks = ticksOf(service.url);
        await report(service, named('a', 5));
        const failed = await ticks.tick({ refuse: [3] });
        assert.deepEqual([seqsOf(failed.stored), failed.error], [[1, 2], 'this event cannot be stored']);
        const away = await ticks.tick({ refuse: [-1] });
        assert.deepEqual([away.stored, away.error], [[], 'this event cannot be stored']);
        const { stored, given, lines, message } = await ticks.tick({ refuse: [3] });
        assert.deepEqual([seqsOf(stored), given, message], [[1, 2, 4, 5], 0, '5 events, up to seq 5']);
        const problem = "event 3 is skipped, since Dagster refuses it: RuntimeError('this event cannot be stored')";
        assert.deepEqual([lines, alarmsOf(stored)], [[problem], [problem]]);
        await report(service, ['b']);
        assert.deepEqual((await ticks.tick()).given, 1);
      },
    );

    await all.test('a new journal is read from its first event, with an alarm', async (t) => {
      const one = await startService(t);
      const ticks = ticksOf(one.url);
      await report(one, named('a', 3));
      await ticks.tick();
      for (const count of [0, 5]) {
        const other = await startService(t);
        await report(other, named('b', count));
        const settings = { URL: other.url };
        const { stored, lines } = await ticks.tick({ settings });
        const problem = 'the journal began anew: it is read from its first event';
        assert.deepEqual([alarmsOf(stored), lines, seqsOf(stored)], [[problem], [problem], upTo(count)]);
        await report(other, ['c']);
        const next = await ticks.tick();
        assert.deepEqual([seqsOf(next.stored), next.lines], [[count + 1], []]);
      }
    });

    await all.test('a restored journal is read again from the last event that both have', async (t) => {
      const [data, backup] = [newFolder(t), join(newFolder(t), 'backup')];
      let service = await startService(t, { data });
      const ticks = ticksOf(service.url);
      const restart = async (change: () => void) => {
        await service.kill();
        change();
        service = await startService(t, { data });
        return { settings: { URL: service.url } };
      };
      for (const _ of upTo(30)) {
        await report(service, ['a']);
        await ticks.tick();
      }
      let options = await restart(() => cpSync(data, backup, { recursive: true }));
      for (const _ of upTo(40)) {
        await report(service, ['b']);
        await ticks.tick(options);
      }
      assert.ok(Number(ticks.cursor?.length) < 1_000, ticks.cursor ?? '');
      options = await restart(() => {
        rmSync(data, { recursive: true });
        cpSync(backup, data, { recursive: true });
      });
      await report(service, named('c', 50));
      const { stored, lines } = await ticks.tick(options);
      const [again = 0] = seqsOf(stored);
      assert.ok(again > 1 && again <= 31, `${again} is the first that is read again`);
      assert.deepEqual(seqsOf(stored), upTo(80, again));
      const problem = `the journal was replaced: events after ${again - 1} are read again`;
      assert.deepEqual([lines, alarmsOf(stored)], [[problem], [problem]]);
      assert.deepEqual((await ticks.tick()).message, '0 events, up to seq 80');
    });

    await all.test('events that retention removed before they were read cause one alarm', async (t) => {
      const service = await startService(t, { args: ['--retain-bytes', '16KiB', '--segment-bytes', '4KiB'] });
      const ticks = ticksOf(service.url);
      await report(service, named('a', 3));
      await ticks.tick();
      const body = { metadata: { text: 'x'.repeat(500) } };
      const fill = async () => {
        for (const _ of upTo(60)) await record(service, 'observation/b', { body });
        return eventually('a removal', () => Number(service.events()[0]?.['seq']) > 10);
      };
      await fill();
      const { stored, lines } = await ticks.tick();
      const [first = 0] = seqsOf(stored); // more might have been removed meanwhile
      assert.ok(first > 10);
      const problem = `events 4 to ${first - 1} were removed before they were read`;
      assert.deepEqual([lines, alarmsOf(stored), seqsOf(stored)], [[problem], [problem], upTo(63, first)]);
      assert.deepEqual(await ticks.tick(), { stored: [], lines: [], given: 0, message: '0 events, up to seq 63' });
    });

    await all.test(
      'a cut reply, an error and a redirect lose no event, and the token goes to no other service',
      async (t) => {
        const { token } = newToken();
        const folder = newFolder(t);
        const [deployments, file] = [join(folder, 'deployments.json'), join(folder, 'token')];
        rewrite(deployments, entryOf('prod', token, { may: ['read', 'report'] }));
        writeFileSync(file, `${token}\n`);
        const service = await startService(t, { args: ['--deployments', deployments] });
        const url = `${service.url}/prod`;
        const body = { metadata: { text: 'x'.repeat(2_000) } };
        const headers = { 'Service-Cloud-Api-Token': token };
        for (const _ of upTo(50)) await record({ url }, 'observation/a', { body, headers });
        const cuts = [100, 400, 5_000, 60_000];
        const cutOf = (index: number) => ({ ...uncut, replyBytes: cuts[index] ?? Number.POSITIVE_INFINITY });
        const proxy = await startCuttingProxy(t, service.port, cutOf);
        const ticks = ticksOf(`${proxy.url}/prod`, { TOKEN_FILE: file });
        for (const _ of cuts) {
          const { error, stored } = await ticks.tick();
          assert.deepEqual([error === undefined, stored], [false, []]);
        }
        const without = await ticks.tick({ settings: { TOKEN_FILE: null } });
        assert.match(without.error ?? '', /\/prod\/events answers 401: \{"error":/);
        let asked: unknown;
        const elsewhere = createServer(({ headers: got }, reply) => {
          asked = got;
          reply.end();
        });
        const target = await listenOn(t, elsewhere);
        const redirecting = createServer((_, reply) => {
          reply.writeHead(302, { location: `http://127.0.0.1:${target}/` }).end();
        });
        const settings = { TOKEN_FILE: file, URL: `http://127.0.0.1:${await listenOn(t, redirecting)}` };
        assert.match((await ticks.tick({ settings })).error ?? '', /answers 302/);
        assert.equal(asked, undefined);
        assert.deepEqual(seqsOf((await ticks.tick({ settings: { URL: url } })).stored), upTo(50));
      },
    );
  });
}
