/**
 * The recipes of the front page and of the handbook, word for word, with the real programs: pytest, Go, Java, the step of a CI
 * service, DuckDB, PostgreSQL and the client of S3 (against a local server).
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, closeSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { version } from '../../src/config/names.ts';
import { linkedFrom, page } from '../support/handbook.ts';
import { startPostgres, withoutPostgres } from '../support/postgres.ts';
import { newFolder, outerEnvironment, program, type Running, root, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { FIRST } from '../support/segments.ts';
import { eventually, HANG_MS, missing, pythonText } from '../support/tools.ts';

const SERVER = join(root, 'dist/server.js');
const python = process.env['ASSETLOG_TEST_PYTHON'] ?? 'python3';
const front = readFileSync(join(root, 'README.md'), 'utf8');
/** Of the front page while the handbook has none. */
const recipes = `${page('test-recipes')}${front}`;

/** @returns the code blocks of a page in one language */
function blocksOf(page: string | undefined, language: string): string[] {
  return [...(page ?? '').matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, text = '']) => text,
  );
}

function withoutModule(name: string): string | false {
  const reason = `${python} has no ${name}; set ASSETLOG_TEST_PYTHON to a Python that has it`;
  return missing(reason, python, ['-c', `import ${name}`]);
}

/** The environment without the variables of the coverage and the runner of these tests. */
function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const own = { no_proxy: '*', NODE_TEST_CONTEXT: undefined, NODE_V8_COVERAGE: undefined, NODE_OPTIONS: undefined };
  return { ...outerEnvironment, ...own, ...more };
}

/** Runs a program to its end. @throws with its output if it fails */
function run(command: string, args: readonly string[], cwd: string, env = environment()): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: HANG_MS });
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

const report = (service: { readonly url: string }, what: string, body?: object) => record(service, what, { body });

/** A service with a few closed files in `assetlog-data` of a folder. */
async function startWithEvents(t: TestContext, folder: string): Promise<Running> {
  const service = await startService(t, { data: join(folder, 'assetlog-data'), args: ['--segment-bytes', '4096'] });
  for (let count = 1; count <= 20; count += 1) {
    const description = `"quotes", commas, \\ and\ttabs; ü 漢 ${count}`;
    await report(service, 'materialization/warehouse/orders', {
      partition: `2026-11-${count}`,
      data_version: `v${count}`,
      description,
      metadata: { rows: 12345678901234567000 + count, took_s: 1.5, note: "it's \u0001" },
    });
    await report(service, `check/warehouse/orders?check_name=no_nulls&passed=${count % 2 === 0}`);
    await report(service, 'observation/sensors%2Froof');
  }
  return service;
}

/** The code under test: it tries again after a 503, as clients do. */
const LOAD_ORDERS = pythonText('load-orders.py');
const MORE_TESTS = pythonText('fixtures-tests.py');
const UNMET = pythonText('fixtures-unmet.py');

test('the pytest fixtures give each test an empty service, also with several workers', {
  skip: ['pytest', 'xdist', 'requests'].map(withoutModule).find(Boolean) ?? false,
}, (t) => {
  const folder = newFolder(t);
  const tests = join(folder, 'tests');
  mkdirSync(tests);
  const [example = ''] = blocksOf(front, 'python');
  const write = (name: string, text: string) => writeFileSync(join(tests, name), text);
  writeFileSync(join(folder, 'load_orders.py'), LOAD_ORDERS);
  write('test_load.py', `from load_orders import load_orders\n\n${example}`);
  write('test_more.py', MORE_TESTS);
  const fixtures = run(process.execPath, [SERVER, 'pytest'], folder);
  assert.ok(fixtures.startsWith(`# pytest fixtures of assetlog ${version}: `), fixtures);
  const foreign = pythonText('foreign-modules.py');
  assert.equal(spawnSync(python, ['-c', foreign], { input: fixtures, encoding: 'utf8' }).stdout, "{'pytest'}\n");
  write('conftest.py', '# mine\n');
  const recipe = blocksOf(recipes, 'bash').find((block) => block.startsWith('assetlog pytest')) ?? '';
  run('sh', ['-c', `assetlog() { '${process.execPath}' '${SERVER}' "$@"; }\n${recipe}`], folder);
  assert.equal(readFileSync(join(tests, 'conftest.py'), 'utf8'), `# mine\n${fixtures}`);
  const pytest = (program: string, ...args: string[]) =>
    spawnSync(python, ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', ...args, folder], {
      cwd: folder,
      env: environment({ ASSETLOG_PROGRAM: program, PYTHONPATH: folder }),
      encoding: 'utf8',
      timeout: HANG_MS,
    });
  for (const args of [[], ['-n', '4'], ['--import-mode=importlib']]) {
    const passed = pytest(SERVER, ...args);
    assert.match(passed.stdout, /^18 passed/m, passed.stdout + passed.stderr);
    write('__init__.py', ''); // makes the tests a package
  }
  write('test_more.py', UNMET);
  assert.match(pytest(SERVER).stdout, /no report met .*'nearest': .*'differs': \{'asset_key': \['order'\]\}/);
  writeFileSync(join(folder, 'load_orders.py'), LOAD_ORDERS.replace('range(5)', 'range(2)'));
  assert.match(pytest(SERVER, '-k', 'tries_again').stdout, /assert 0 == 1/);
  const wrong = pytest(join(folder, 'missing.js'), '-k', 'tries_again').stdout;
  assert.match(wrong, /assetlog did not start: exit code 1(.|\n)*Cannot find module/);
});

const WRONG_CALLS: Readonly<Record<string, string>> = {
  'events(keys="a")': 'there is no parameter "keys" here; did you mean key?',
  'events(key=object())': 'GET /events failed: Object of type object is not JSON serializable',
  'fail({"then": {"stauts": 503}})': 'faults[0].then.stauts is unknown; did you mean status?',
  'fail("x")': 'faults[0] is "x"; send an object',
  'fail([{"then": {"status": 503}}, {}])': 'faults[1].then is missing; ',
  'fail({"then": b""})': 'POST /test/faults failed: Object of type bytes is not JSON serializable',
  'wait_for("orders")': "count is 'orders'; give a whole number from 1",
  'wait_for(0)': 'count is 0; give a whole number from 1',
  'wait_for(key="a", timeout=0)': "0 of 1 events matched {'key': 'a'}; ",
  'wait_for(timeout="1")': "timeout is '1'; give seconds from 0",
  'expect_none(timeout=float("nan"))': 'timeout is nan; give seconds from 0',
  'expect_none(check_name="a")': 'there is no parameter "check_name" here; it takes ',
  '__class__("http://127.0.0.1:9").met()': 'GET /test/faults failed: ',
};

test('a wrong call of a pytest fixture shows its line and one line that says what is wrong', {
  skip: withoutModule('pytest'),
}, (t) => {
  const folder = newFolder(t);
  const calls = Object.entries(WRONG_CALLS);
  writeFileSync(join(folder, 'conftest.py'), run(process.execPath, [SERVER, 'pytest'], folder));
  const tests = calls.map(([call], index) => `def test_${index}(assetlog):\n    assetlog.${call}\n`);
  writeFileSync(join(folder, 'test_wrong.py'), tests.join('\n'));
  const { stdout } = spawnSync(python, ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', folder], {
    env: environment({ ASSETLOG_PROGRAM: SERVER }),
    encoding: 'utf8',
    timeout: HANG_MS,
  });
  const shown = stdout.split(/^_+ test_\d+ _+$/m).slice(1);
  assert.equal(shown.length, calls.length, stdout);
  for (const [index, [call, problem]] of calls.entries()) {
    assert.ok(shown[index]?.includes(`\n>       assetlog.${call}\nE       AssertionError: ${problem}`), shown[index]);
    assert.equal(shown[index]?.match(/^E /gm)?.length, 1, shown[index]);
    assert.doesNotMatch(shown[index] ?? '', /conftest\.py/);
  }
});

test('a wait in pytest ends although freezegun has frozen the time, even before the fixtures are loaded', {
  skip: ['pytest', 'requests', 'freezegun'].map(withoutModule).find(Boolean) ?? false,
}, (t) => {
  const folder = newFolder(t);
  const fixtures = run(process.execPath, [SERVER, 'pytest'], folder);
  const frozen = pythonText('fixtures-frozen.py');
  for (const before of ['', 'from freezegun import freeze_time\nfreeze_time("2026-11-20").start()\n']) {
    writeFileSync(join(folder, 'conftest.py'), before + fixtures);
    writeFileSync(join(folder, 'test_frozen.py'), frozen);
    const { stdout } = spawnSync(python, ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', folder], {
      env: environment({ ASSETLOG_PROGRAM: SERVER }),
      encoding: 'utf8',
      timeout: HANG_MS,
    });
    assert.match(stdout, /^1 passed/m, stdout);
  }
});

test('the fixtures find the program on the PATH, and otherwise fail with the variable to set', {
  skip: withoutModule('pytest'),
}, (t) => {
  const folder = newFolder(t);
  writeFileSync(join(folder, 'conftest.py'), run(process.execPath, [SERVER, 'pytest'], folder));
  writeFileSync(join(folder, 'test_empty.py'), 'def test_empty(assetlog):\n    assert assetlog.events() == []\n');
  const pytest = (path: string) =>
    spawnSync(python, ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', folder], {
      env: { PATH: path, http_proxy: 'http://127.0.0.1:9' },
      encoding: 'utf8',
      timeout: HANG_MS,
    }).stdout;
  assert.match(pytest(folder), /no assetlog on the PATH; set ASSETLOG_PROGRAM to its path/);
  writeFileSync(join(folder, 'assetlog'), `#!/bin/sh\nexec '${process.execPath}' '${SERVER}' "$@"\n`, { mode: 0o755 });
  assert.match(pytest(folder), /^1 passed/m);
});

const withoutGo = missing('Go is not installed', 'go', ['version']);

test('the test in Go counts the attempts of a client', { skip: withoutGo }, async (t) => {
  const { url } = await startService(t, { args: ['--test'] });
  const folder = newFolder(t);
  const example = linkedFrom('orders_test.go', 'test-recipes');
  const client = (attempts: number) => `package orders

import (
	"errors"
	"net/http"
)

func LoadOrders(url string) error {
	for attempt := 0; attempt < ${attempts}; attempt++ {
		reply, err := http.Post(url+"/report_asset_materialization/warehouse/orders", "", nil)
		if err != nil {
			return err
		}
		reply.Body.Close()
		if reply.StatusCode == 200 {
			return nil
		}
	}
	return errors.New("given up")
}
`;
  writeFileSync(join(folder, 'go.mod'), 'module orders\n\ngo 1.19\n');
  writeFileSync(join(folder, 'orders_test.go'), example);
  const goTest = (attempts: number) => {
    writeFileSync(join(folder, 'orders.go'), client(attempts));
    return spawnSync('go', ['test', '-vet=all', '-count=1', './...'], {
      cwd: folder,
      env: environment({ GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local', ASSETLOG_URL: url }),
      encoding: 'utf8',
      timeout: HANG_MS,
    });
  };
  assert.equal(run('gofmt', ['-l', '.'], folder), '');
  const passed = goTest(3);
  assert.match(passed.stdout, /^ok\s+orders/m, passed.stdout + passed.stderr);
  assert.match(goTest(2).stdout, /given up/);
});

/** The parts of JUnit and Testcontainers that the recipe uses. The container is a service of the test; the environment has its address. */
const JAVA: Readonly<Record<string, string>> = {
  'org/junit/jupiter/api/Test.java': 'package org.junit.jupiter.api; public @interface Test {}',
  'org/junit/jupiter/api/Assertions.java': `package org.junit.jupiter.api;
    public class Assertions {
      public static void assertEquals(long wanted, long found) { assertEquals(wanted, found, "not as often"); }
      public static void assertEquals(long wanted, long found, String text) {
        if (wanted != found) throw new AssertionError(text + ": " + found + " instead of " + wanted);
      }
    }`,
  'org/testcontainers/junit/jupiter/Testcontainers.java':
    'package org.testcontainers.junit.jupiter; public @interface Testcontainers {}',
  'org/testcontainers/junit/jupiter/Container.java':
    'package org.testcontainers.junit.jupiter; public @interface Container {}',
  'org/testcontainers/containers/wait/strategy/Wait.java': `package org.testcontainers.containers.wait.strategy;
    public class Wait { public static String forHttp(String path) { return path; } }`,
  'org/testcontainers/containers/GenericContainer.java': `package org.testcontainers.containers;
    public class GenericContainer<T extends GenericContainer<T>> {
      public GenericContainer(String image) {}
      public T withExposedPorts(Integer... ports) { return (T) this; }
      public T waitingFor(String path) { return (T) this; }
      public String getHost() { return "127.0.0.1"; }
      public Integer getMappedPort(int port) { return Integer.getInteger("port"); }
    }`,
  'Orders.java': `import java.net.URI; import java.net.http.*;
    class Orders {
      static void load(String url) throws Exception {
        var report = HttpRequest.newBuilder(URI.create(url + "/report_asset_materialization/warehouse/orders"))
            .POST(HttpRequest.BodyPublishers.noBody()).build();
        for (int attempt = 0; attempt < Integer.getInteger("attempts"); attempt += 1) {
          var reply = HttpClient.newHttpClient().send(report, HttpResponse.BodyHandlers.discarding());
          if (reply.statusCode() == 200) return;
        }
      }
    }`,
  'Run.java': `class Run {
    public static void main(String[] args) throws Exception {
      new OrdersTest().theLoadTriesAgain();
    }
  }`,
};

test('the test in Java counts the attempts of a client', {
  skip: missing('no JDK is installed', 'javac', ['-version']),
}, async (t) => {
  const service = await startService(t, { args: ['--test'] });
  const folder = newFolder(t);
  const example = linkedFrom('OrdersTest.java', 'test-recipes');
  for (const [name, text] of Object.entries({ ...JAVA, 'OrdersTest.java': example })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  run('javac', ['-nowarn', 'Run.java'], folder);
  const java = (attempts: number) => ['-cp', folder, `-Dport=${service.port}`, `-Dattempts=${attempts}`, 'Run'];
  run('java', java(3), folder);
  assert.throws(() => run('java', java(2), folder), /AssertionError: not as often: 0 instead of 1/);
});

test('the service container accepts reports under its name and shows events, and its workflow is YAML', {
  skip: withoutModule('yaml'),
}, async (t) => {
  const [yaml = ''] = blocksOf(recipes, 'yaml').filter((text) => text.startsWith('jobs:'));
  const script = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))';
  const parsed = JSON.parse(spawnSync(python, ['-c', script], { input: yaml, encoding: 'utf8' }).stdout);
  const { services, steps } = parsed.jobs.test;
  assert.deepEqual([services.assetlog.ports, steps.length], [['3000:3000'], 2]);
  const [dockerfile = ''] = blocksOf(recipes, 'dockerfile').filter((text) => text.startsWith('FROM assetlog'));
  const args: string[] = JSON.parse(/^CMD (.*)$/m.exec(dockerfile)?.[1] ?? '');
  const [command, ...flags] = args;
  assert.equal(command, 'serve');
  const env = { ASSETLOG_HOST: '0.0.0.0', ...services.assetlog.env };
  const service = await startService(t, { args: flags, env });
  for (const host of ['localhost:3000', 'assetlog:3000', '172.18.0.2:3000']) {
    assert.equal((await askAs(host, service.port, 'POST', '/test/reset')).status, 200);
    assert.equal((await askAs(host, service.port, 'POST', '/report_asset_observation/a')).status, 200);
    const { status, body } = await askAs(host, service.port, 'GET', '/events');
    assert.deepEqual([status, JSON.parse(body).seq], [200, 1], host);
  }
  assert.equal((await askAs('evil.example', service.port, 'GET', '/events')).status, 403);
});

async function askAs(host: string, port: number, method: string, path: string) {
  const sent = request({ host: '127.0.0.1', port, method, path, headers: { Host: host }, agent: false }).end();
  const [reply]: IncomingMessage[] = await once(sent, 'response');
  let body = '';
  for await (const text of reply!.setEncoding('utf8')) body += text;
  return { status: reply!.statusCode, body };
}

test('the CI step starts a service and passes its address on', {
  skip: missing('bash is not installed', 'bash', ['--version']),
}, async (t) => {
  const folder = newFolder(t);
  const [yaml = ''] = blocksOf(recipes, 'yaml').filter((text) => /^ {2}run: \|$/m.test(text));
  const script = /^ {2}run: \|\n((?: {4}.*\n)+)/m.exec(yaml)?.[1]?.replace(/^ {4}/gm, '') ?? '';
  assert.match(script, /^node server\.js /);
  writeFileSync(join(folder, 'server.js'), readFileSync(SERVER));
  const [temporary, variables, log] = [join(folder, 'temporary'), join(folder, 'variables'), join(folder, 'log')];
  mkdirSync(temporary);
  // A file, not a pipe: the service keeps it open after the step has ended.
  const output = openSync(log, 'w');
  const env = environment({ RUNNER_TEMP: temporary, GITHUB_ENV: variables });
  const step = spawn('bash', ['-e', '-c', script], { cwd: folder, env, stdio: ['ignore', output, output] });
  closeSync(output);
  try {
    assert.deepEqual(await once(step, 'exit'), [0, null], readFileSync(log, 'utf8'));
    const text = readFileSync(variables, 'utf8');
    const url = /^ASSETLOG_URL=(http:\/\/127\.0\.0\.1:\d+)\n$/.exec(text)?.[1] ?? assert.fail(text);
    await report({ url }, 'materialization/warehouse/orders');
  } finally {
    const pid = Number(/"message":"started".*"pid":(\d+)/.exec(readFileSync(log, 'utf8'))?.[1]);
    if (pid > 0) process.kill(pid, 'SIGTERM');
    await eventually(
      'the service stops',
      () => !(pid > 0) || readFileSync(log, 'utf8').includes('"message":"stopped"'),
    );
  }
});

test('DuckDB reads the journal with its types', { skip: withoutModule('duckdb') }, async (t) => {
  const folder = newFolder(t);
  const service = await startWithEvents(t, folder);
  const [sql = ''] = blocksOf(page('sql'), 'sql').filter((text) => text.includes('read_json'));
  const script = pythonText('query-duckdb.py');
  const duckdb = (statements: string) => {
    const ended = spawnSync(python, ['-c', script], {
      cwd: folder,
      input: statements,
      encoding: 'utf8',
      timeout: HANG_MS,
    });
    return {
      ...ended,
      rows: ended.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line || 'null')),
    };
  };
  const types = 'SELECT DISTINCT typeof(time), typeof(asset_key), typeof(passed), typeof(tags) FROM events;';
  const { rows, stderr } = duckdb(
    `${sql}${types} SELECT description FROM events WHERE seq = 1; SELECT count(*) FROM events`,
  );
  const [, assets, numbers, typed, texts, count] = rows;
  assert.equal(stderr, '');
  assert.deepEqual(assets[0].slice(0, 2), [['warehouse', 'orders'], 20]);
  assert.deepEqual(numbers.length, 20);
  assert.match(numbers[0][1], /^12345678901234567\d\d\d$/);
  assert.deepEqual(typed, [['TIMESTAMP', 'VARCHAR[]', 'BOOLEAN', 'STRUCT(data_version VARCHAR)']]);
  assert.deepEqual(texts, [[service.events()[0]?.['description']]]);
  assert.deepEqual(count, [[60]]);
  // Two cases of the handbook: half of a surrogate pair, and a last line that is not complete yet.
  await report(service, 'observation/late', { metadata: { half: '\ud800' } });
  assert.match(duckdb(sql).stderr, /Malformed JSON/);
  const lenient = sql.replace("'newline_delimited'", "'newline_delimited', ignore_errors = true");
  assert.deepEqual(duckdb(`${lenient} SELECT count(*), count(seq) FROM events`).rows.at(-1), [[61, 60]]);
  writeFileSync(join(folder, 'assetlog-data', FIRST), '{"seq":1,"id":"', { flag: 'a' });
  assert.match(duckdb(sql).stderr, /Malformed JSON/);
});

test('PostgreSQL loads the journal, also several times', { skip: withoutPostgres }, async (t) => {
  const folder = newFolder(t);
  const service = await startWithEvents(t, folder);
  const sql = linkedFrom('load.sql', 'sql');
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'assetlog'), `#!/bin/sh\nexec ${program.map((word) => `'${word}'`).join(' ')} "$@"\n`);
  chmodSync(join(bin, 'assetlog'), 0o755);
  writeFileSync(join(folder, 'load.sql'), sql);
  const database = startPostgres(t);
  const env = environment({
    PATH: `${bin}:${process.env['PATH']}`,
    PGHOST: database,
    PGUSER: 'assetlog',
    PGDATABASE: 'postgres',
  });
  const psql = (...args: string[]) =>
    run('psql', ['-X', '-q', '-t', '-A', '-v', 'ON_ERROR_STOP=1', ...args], folder, env);
  psql('-f', 'load.sql');
  psql('-f', 'load.sql');
  await report(service, 'observation/late');
  psql('-f', 'load.sql');
  const columns = `seq, to_char(time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time, type, asset_key, partition,
    check_name, passed, severity, description, data_version, metadata`;
  const rows = psql('-c', `SELECT row_to_json(r) FROM (SELECT ${columns} FROM events ORDER BY seq) r`)
    .trim()
    .split('\n');
  const expected = service.events().map(({ id, crc, tags, ...event }) => ({
    ...Object.fromEntries(
      ['partition', 'check_name', 'passed', 'severity', 'description', 'metadata'].map((name) => [name, null]),
    ),
    ...event,
    data_version: (tags as { data_version?: string } | undefined)?.data_version ?? null,
  }));
  assert.equal(expected.length, 61);
  assert.deepEqual(
    rows.map((row) => JSON.parse(row)),
    expected,
  );
  assert.match(psql('-c', `SELECT metadata->'rows' FROM events WHERE seq = 1`), /^12345678901234567\d\d\d\n$/);
  await report(service, 'observation/late', { metadata: { none: '\u0000' } });
  assert.throws(() => psql('-f', 'load.sql'), /ERROR: +unsupported Unicode escape sequence/);
  assert.equal(psql('-c', 'SELECT count(*) FROM events'), '61\n');
});

const withoutS3 =
  missing('the client of AWS is not installed', 'aws', ['--version']) ||
  missing('moto_server, which behaves like S3, is not installed', 'moto_server', ['--help']);

test('the client of S3 copies all files but the newest, each once', { skip: withoutS3 }, async (t) => {
  const folder = newFolder(t);
  const service = await startWithEvents(t, folder);
  const [script = ''] = blocksOf(page('sql'), 'bash').filter((text) => text.includes('aws s3 sync'));
  const env = environment({
    AWS_ENDPOINT_URL: await startMoto(t, folder),
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_DEFAULT_REGION: 'us-east-1',
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
  });
  run('aws', ['s3', 'mb', 's3://assets'], folder, env);
  const closed = () =>
    readdirSync(service.data)
      .filter((name) => name.startsWith('events-'))
      .sort()
      .slice(0, -1);
  const listed = () => run('aws', ['s3', 'ls', 's3://assets/journal/'], folder, env).match(/events-\S+/g);
  const uploads = () => run('bash', ['-euc', script], folder, env).match(/upload: \S+/g)?.length ?? 0;
  assert.ok(closed().length >= 3);
  assert.equal(uploads(), closed().length);
  assert.deepEqual(listed(), closed());
  assert.equal(uploads(), 0);
  const before = closed().length;
  while (closed().length === before) await report(service, 'observation/more');
  assert.equal(uploads(), 1);
  assert.deepEqual(listed(), closed());
});

/** Starts a local server with the protocol of S3. @returns its address */
async function startMoto(t: TestContext, folder: string): Promise<string> {
  const log = join(folder, 'moto.log');
  const output = openSync(log, 'w');
  const child = spawn('moto_server', ['-H', '127.0.0.1', '-p', '0'], { stdio: ['ignore', output, output] });
  closeSync(output);
  t.after(() => end(child));
  const address = () => /Running on (http:\/\/127\.0\.0\.1:\d+)/.exec(readFileSync(log, 'utf8'))?.[1];
  await eventually('moto_server listens', () => address() !== undefined || child.exitCode !== null);
  return address() ?? assert.fail(readFileSync(log, 'utf8'));
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill('SIGTERM');
  await Promise.race([once(child, 'exit'), sleep(5_000, undefined, { ref: false })]);
}
