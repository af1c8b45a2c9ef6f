import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { type Config, readConfig } from '../../src/config/options-of-service.ts';
import { onlyNames } from '../../src/forward/only.ts';
import { appliesTo, readDestinations, resolveSettings, watchDestinations } from '../../src/forward/settings-file.ts';
import { newFolder } from '../support/program.ts';
import { quiet } from '../support/segments.ts';

const HEADER = 'Service-Cloud-Api-Token';
const LOGIN =
  'has a login before its host; leave it out, and give headers with "Authorization" to the destination, in the file of --forward';

function configOf(...args: string[]): Config {
  const read = readConfig(args, {});
  assert.ok(read.kind === 'valid', JSON.stringify(read));
  return read.config;
}

const local = configOf('--forward', '/etc/forward.json');
const hosted = configOf('--forward', '/etc/forward.json', '--deployments', '/etc/deployments.json');
const fileOf = (...destinations: unknown[]) => JSON.stringify({ destinations });

function good(text: string, config = local) {
  const found = readDestinations(text, config);
  assert.ok(found.kind === 'valid', JSON.stringify(found));
  return found.value;
}

function problems(text: string, config = local): readonly string[] {
  const found = readDestinations(text, config);
  assert.ok(found.kind === 'invalid', text);
  return found.problems;
}

function watch(config: Config, journals = 1, problemsOf: string[] = [], seen: string[][] = []) {
  const notices = {
    ...quiet,
    error: (message: string, fields = {}) => problemsOf.push(`${message} ${JSON.stringify(fields)}`),
    warn: (message: string, fields = {}) => problemsOf.push(`${message} ${JSON.stringify(fields)}`),
  };
  const fast = { ...limits, deploymentsCheckMs: 3_600_000 };
  return watchDestinations(
    config,
    { limits: fast, notices },
    () => journals,
    (now) => seen.push(now.map(({ name }) => name)),
  );
}

test('a destination in the file can have every member, and its paths are relative to the file', () => {
  const full = {
    name: 'dagster-2',
    to: 'http://[::1]:3000/base/',
    deployments: ['prod'],
    tokenFile: 'secrets/hub',
    tokenHeader: 'X-Token',
    headers: { 'CF-Access-Client-Id': { file: '/id' }, 'X-Team': 'data  2' },
    caFile: '/ca.pem',
    ratePerSecond: 0.5,
    lingerMs: 0,
    stamp: true,
    inDoubt: 'once',
    begin: 'now',
    hold: false,
  };
  const paths = { tokenFile: '/etc/secrets/hub', passwordFile: undefined, caFile: '/ca.pem' };
  assert.deepEqual(good(fileOf(full), hosted), [{ ...full, to: 'http://[::1]:3000/base', ...paths }]);
  const plain = { stamp: false, inDoubt: 'again', begin: 'first', hold: true, tokenHeader: HEADER };
  const none = { deployments: undefined, tokenFile: undefined, passwordFile: undefined, caFile: undefined };
  assert.deepEqual(good(fileOf({ name: 'a', to: 'https://hub.example' })), [
    { name: 'a', to: 'https://hub.example', ...plain, ...none },
  ]);
  assert.deepEqual(good(fileOf()), []);
});

test('--when-behind remove overrides the hold of each destination', async () => {
  const args = ['--when-behind', 'remove', '--forward-to', 'http://a'];
  assert.equal(good(fileOf({ name: 'a', to: 'http://a', hold: true }), configOf(...args))[0]?.hold, false);
  assert.equal((await watch(configOf(...args)))?.current[0]?.hold, false);
  assert.equal((await watch(configOf('--forward-to', 'http://a')))?.current[0]?.hold, true);
});

test('every mistake in a file is reported with its line, its member and what to do', () => {
  const text = `{"destinations": [
    {"name": "Hub", "to": "https://hub.example/prod", "tokenfile": "t"},
    {"name": "a", "to": "clickhouse+https://w@ch.example/assets.events"},
    {"name": "a", "to": "ftp://h", "stamp": 1, "inDoubt": "never", "begin": "last", "hold": "no"},
    {"name": "upstream", "to": "http://h/report_asset_check/", "ratePerSecond": 0, "tokenHeader": "a b",
     "tokenFile": "", "caFile": 7},
    {"to": "hub.example", "deployments": ["prod"]},
    {"name": "b", "to": "https://me:secret@hub.example", "lingerMs": 60001},
    {"name": "c", "to": "https://hub.example?token=secret"},
    {"name": "d", "to": "https://hub.example/{deployment}"},
    {"name": "e", "to": "https://hub.example/{name}"},
    7
  ]}`;
  const config = configOf('--forward', '/etc/f.json', '--forward-to', 'http://a');
  assert.deepEqual(
    problems(text, config).join('\n').split('\n'),
    [
      'line 2: destinations[0].tokenfile is unknown; use one of name, to, deployments, tokenFile, tokenHeader, user, passwordFile, caFile, ratePerSecond, lingerMs, stamp, inDoubt, begin, hold, on, staleAfter, headers, proxy, only; did you mean tokenFile?',
      'line 2: destinations[0].name must be up to 63 lower-case letters, digits and -, and begin with a letter or a digit',
      'line 3: destinations[1].to has a login before its host; leave it out, and name user and passwordFile in the file of --forward',
      'line 4: destinations[2].name is a, like another destination; choose another',
      'line 4: destinations[2].stamp must be true or false',
      'line 4: destinations[2].inDoubt must be "again" or "once"',
      'line 4: destinations[2].begin must be "first" or "now"',
      'line 4: destinations[2].hold must be true or false',
      'line 4: destinations[2].to has the scheme ftp, which no destination has; use one of http://, https://, hook+http://, hook+https://, nats://, nats+tls://, clickhouse+http://, clickhouse+https://',
      'line 5: destinations[3].name is upstream, like another destination; choose another',
      'line 6: destinations[3].tokenFile must be the path of a file',
      'line 5: destinations[3].tokenHeader must be the name of a header',
      'line 6: destinations[3].caFile must be the path of a file',
      'line 5: destinations[3].ratePerSecond must be a number above 0',
      'line 5: destinations[3].to names the endpoint report_asset_check; give the URL of the service, as http://h',
      'line 7: destinations[4].name must be up to 63 lower-case letters, digits and -, and begin with a letter or a digit',
      'line 7: destinations[4].deployments is for a service with --deployments; leave it out',
      'line 7: destinations[4].to must be a URL such as https://hub.example/prod',
      'line 8: destinations[5].lingerMs must be a number of milliseconds from 0 to 60000',
      `line 8: destinations[5].to ${LOGIN}`,
      'line 9: destinations[6].to has a query or a fragment; leave it out: a token goes into a token file',
      'line 10: destinations[7].to has {deployment}, and a service without --deployments has none; write its name',
      'line 11: destinations[8].to has { or }, and only {deployment} is replaced',
      'line 12: destinations[9] must be an object',
    ].sort(byPlace),
  );
  assert.deepEqual(problems('{"destinations": [}'), ['line 1, column 19: expected a value, found }']);
  assert.deepEqual(problems('[]'), ['line 1: destinations must be an array with the destinations']);
});

/** The order in which they are found: an entry that is no object is found before the members of the others. */
function byPlace(one: string, other: string): number {
  return Number(other.includes('[9]')) - Number(one.includes('[9]'));
}

test('an engine may have several hosts, needs no {deployment}, and has members of its own', () => {
  for (const to of [
    'nats://n1.example,n2.example:4223,[::1]:4222/ASSETLOG',
    'nats+tls://n1.example/asset-log_2',
    'clickhouse+http://10.0.0.7:8123,ch2/assets.events',
    'clickhouse+https://ch.example/{deployment}.events',
  ]) {
    const [one] = good(fileOf({ name: 'a', to, user: 'writer', passwordFile: 'p' }), hosted);
    assert.deepEqual([one?.to, one?.user, one?.passwordFile], [to, 'writer', '/etc/p']);
  }
  const stream = 'line 1: destinations[0].to must be a URL such as nats://n1.example,n2.example/ASSETLOG';
  const table = 'line 1: destinations[0].to must be a URL such as clickhouse+https://ch.example/assets.events';
  for (const [to, problem] of [
    ['nats://n1.example', stream],
    ['nats://n1.example/A.B', stream],
    ['nats://n1.example,/A', stream],
    ['nats://n1.example:0/A', stream],
    ['nats://n1.example:65536/A', stream],
    ['nats://n1.example/A?x=1', stream],
    ['clickhouse+http://ch/events', table],
    ['clickhouse+http://ch/assets.events.x', table],
    [
      'nats://me:secret@n1.example/A',
      stream.replace(
        /must be .*/,
        'has a login before its host; leave it out, and name user and passwordFile in the file of --forward',
      ),
    ],
  ] as const) {
    assert.deepEqual(problems(fileOf({ name: 'a', to })), [problem], to);
  }
  const nats = 'nats://n1.example/A';
  for (const [members, problem] of [
    [{ to: nats, stamp: true }, '.stamp has no meaning for a destination with the scheme nats; leave it out'],
    [{ to: nats, headers: { A: 'b' } }, '.headers has no meaning for a destination with the scheme nats; leave it out'],
    [{ to: nats, inDoubt: 'once' }, '.inDoubt has no meaning for a destination with the scheme nats; leave it out'],
    [{ to: nats, user: 'a' }, ' has only one of user and passwordFile, which belong together'],
    [
      { to: nats, user: 'a', passwordFile: 'p', tokenFile: 't' },
      '.tokenFile is one way to log in, and user is another; leave one of them out',
    ],
    [
      { to: 'clickhouse+http://ch/a.b', tokenFile: 't' },
      '.tokenFile has no meaning for a destination with the scheme clickhouse+http; leave it out',
    ],
    [
      { to: 'https://hub.example', user: 'a', passwordFile: 'p' },
      '.user has no meaning for a destination with the scheme https; leave it out',
    ],
  ] as const) {
    assert.equal(problems(fileOf({ name: 'a', ...members }))[0], `line 1: destinations[0]${problem}`);
  }
});

test('--forward-to accepts an engine, and a token only where it has a meaning', async () => {
  const args = ['--forward-token-file', '/etc/t'];
  const [one] = (await watch(configOf('--forward-to', 'nats://n1.example/A', ...args)))?.current ?? [];
  assert.deepEqual([one?.to, one?.tokenFile], ['nats://n1.example/A', '/etc/t']);
  const instead = 'leave it out; user and passwordFile are members of the file of --forward';
  await assert.rejects(watch(configOf('--forward-to', 'clickhouse+http://ch/a.b', ...args)), {
    message: `--forward-token-file has no meaning for a destination with the scheme clickhouse+http; ${instead}`,
  });
  await assert.rejects(watch(configOf('--forward-to', 'nats://n1.example/A', '--forward-token-header', 'X-Token')), {
    message: `--forward-token-header has no meaning for a destination with the scheme nats; ${instead}`,
  });
});

test('headers are bounded, are not those of the protocol or the token, and no error shows a value', () => {
  const full = 'must be an object with 1 to 8 headers, such as {"X-Team": "data"}';
  const value = 'must be a text of one line of ASCII, or {"file": "PATH"}';
  const taken = 'is a header of the protocol or of the token, or is given twice; leave it out';
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`X-${at}`, 'secret']));
  const named = (name: string, given: unknown = 'secret') => ({ [name]: given });
  const owned = ['Host', 'connection', 'Content-Type', 'Content-Anything', 'TRANSFER-ENCODING', 'Idempotency-Key'];
  const more = ['Assetlog-Through', HEADER.toLowerCase(), 'Proxy-Authorization', 'X-ClickHouse-Key', 'Expect', 'TE'];
  const values = [
    '',
    ' secret',
    'secret ',
    'secret\r\nX: y',
    'secr\u00e9t',
    'secret\u007f',
    'secret\0',
    's'.repeat(1_001),
  ];
  for (const [headers, at, problem] of [
    ...['secret', 7, null, ['secret'], {}, many(9)].map((wrong) => [wrong, '', full] as const),
    ...['', 'a b', 'secret:', 'X\r\nY', 'X-\u00fc', 'x'.repeat(101)].map(
      (name) => [named(name), '', 'has a name that no header can have'] as const,
    ),
    ...[...owned, ...more].map((name) => [named(name), `.${name}`, taken] as const),
    [{ 'X-A': 'secret', 'x-a': 'secret' }, '.x-a', taken],
    ...[...values, 7, null, {}, { file: '' }, { file: 7 }, { file: 'f', secret: 1 }, ['f']].map(
      (wrong) => [named('X-A', wrong), '.X-A', value] as const,
    ),
  ] as const) {
    const found = problems(fileOf({ name: 'a', to: 'https://h', headers }));
    assert.deepEqual(found, [`line 1: destinations[0].headers${at} ${problem}`], JSON.stringify(headers));
  }
  const [line] = problems(
    '{"destinations": [{"name": "a", "to": "http://h", "headers": {\n"X-A": "b",\n"Host": "c"}}]}',
  );
  assert.equal(line, `line 3: destinations[0].headers.Host ${taken}`);
  for (const to of ['https://h', 'hook+https://h/x', 'clickhouse+https://ch/a.b']) {
    const headers = { ...many(7), 'X-Full': 's'.repeat(1_000) };
    assert.deepEqual(good(fileOf({ name: 'a', to, headers }))[0]?.headers, headers);
  }
  const own = { name: 'a', to: 'http://h', tokenHeader: 'Authorization', headers: { authorization: 'x' } };
  assert.match(problems(fileOf(own)).join(), /headers\.authorization is a header of the protocol or of the token/);
});

test('--forward-proxy is for destinations over HTTP on other machines, and no error shows its login', async () => {
  const global = configOf('--forward', '/etc/f.json', '--forward-proxy', 'http://me:secret@p.example:3128');
  const proxyOf = (to: string, proxy?: unknown) => good(fileOf({ name: 'a', to, proxy }), global)[0]?.proxy;
  const [one, other] = ['http://me:secret@p.example:3128', 'http://other.example'];
  for (const to of ['https://h', 'http://h', 'hook+https://h/x', 'clickhouse+http://h/a.b']) {
    assert.deepEqual([proxyOf(to), proxyOf(to, other), proxyOf(to, 'none')], [one, other, undefined], to);
    assert.deepEqual(proxyOf(to, { file: 'p' }), { file: '/etc/p' });
  }
  for (const to of ['nats://n/A', 'http://127.0.0.1:3', 'hook+http://localhost/x', 'http://[::1]:3000'])
    assert.equal(proxyOf(to), undefined, to);
  const problem = 'must be a URL such as http://proxy.example:3128';
  for (const wrong of [
    7,
    'secret',
    'https://me:secret@p',
    'socks5://secret',
    'http://p/secret',
    {},
    { file: '' },
    null,
  ])
    assert.deepEqual(
      problems(fileOf({ name: 'a', to: 'https://h', proxy: wrong })),
      [`line 1: destinations[0].proxy ${problem}, {"file": "PATH"} or "none"`],
      JSON.stringify(wrong),
    );
  assert.match(
    problems(fileOf({ name: 'a', to: 'nats://n/A', proxy: other })).join(),
    /proxy has no meaning for a dest/,
  );
  await assert.rejects(watch(configOf('--forward-to', 'http://h', '--forward-proxy', 'socks5://me:secret@p')), {
    message: `--forward-proxy ${problem}`,
  });
  const upstream = configOf('--forward-to', 'http://h', '--on-failed-check', 'http://i/x', '--forward-proxy', one);
  const watched = (await watch(upstream))?.current ?? [];
  assert.deepEqual(
    watched.map(({ proxy }) => proxy),
    [one, one],
  );
});

test('a hook is shown by its host alone, with the events that it gets', () => {
  const [one, other] = good(
    fileOf(
      {
        name: 'a',
        to: 'hook+https://hooks.example/services/T1/{deployment}?key=x',
        only: { type: 'check', passed: false },
      },
      {
        name: 'b',
        to: 'hook+http://[::1]:8080',
        only: { key_prefix: ['a/b'], severity: 'ERROR', check: 'c', key: 'a/b/c', key_begins_with: 'a/' },
      },
    ),
    hosted,
  );
  assert.equal(one?.to, 'hook+https://hooks.example/…');
  assert.equal(one?.hookPath, '/services/T1/{deployment}?key=x');
  assert.deepEqual(one?.only, { type: 'AssetCheckEvaluation', passed: false });
  assert.deepEqual([other?.to, other?.hookPath], ['hook+http://[::1]:8080', '']);
  const keys = { keyPrefix: ['a/b'], assetKey: ['a', 'b', 'c'], keyStart: ['a', ''] };
  assert.deepEqual(other?.only, { ...keys, severity: 'ERROR', checkName: 'c' });
  const url = '.to must be a URL such as hook+https://hooks.example/path';
  const asObject = 'must be as {"type": "check", "passed": false}';
  const to = 'hook+https://hooks.example/secret';
  for (const [members, problem] of [
    ...['u:secret@h/', 'u:sec/ret@h', ':secret@h/x'].map(
      (rest) => [{ to: `hook+https://${rest}` }, `.to ${LOGIN}`] as const,
    ),
    ...['h/secret#x', 'h/@secret#x', 'h\\secret', 'h:x/secret', '', ' h/secret'].map(
      (rest) => [{ to: `hook+https://${rest}` }, url] as const,
    ),
    ...(
      [
        [7, asObject],
        [[], asObject],
        [{ passed: 'false' }, 'has a wrong passed; write true or false'],
        [{ type: 'x' }, 'has a wrong type; write materialization, check or observation'],
        [{ typ: 'check' }, `has no member "typ"; did you mean type?; there are ${onlyNames.join(', ')}`],
        [{ since: '1d' }, `has no member "since"; there are ${onlyNames.join(', ')}`],
        [{ key_prefix: '' }, 'has a wrong key_prefix; write warehouse/orders'],
        [{ key: ['a', ''] }, 'has a wrong key; write warehouse/orders'],
        [{ key: 5 }, 'has a wrong key; write warehouse/orders'],
        [{ key_begins_with: '' }, 'has a wrong key_begins_with; write warehouse/ord'],
        [{ key_begins_with: ['', 'a'] }, 'has a wrong key_begins_with; write warehouse/ord'],
        [{ severity: 'LOW' }, 'has a wrong severity; write WARN or ERROR'],
      ] as const
    ).map(([only, problem]) => [{ to, only }, `.only ${problem}`] as const),
    [{ to, stamp: true }, '.stamp has no meaning for a destination with the scheme hook+https; leave it out'],
    [{ to, inDoubt: 'once' }, '.inDoubt has no meaning for a destination with the scheme hook+https; leave it out'],
    [{ to: 'http://h', only: {} }, '.only has no meaning for a destination with the scheme http; leave it out'],
  ] as const)
    assert.deepEqual(problems(fileOf({ name: 'a', ...members })), [`line 1: destinations[0]${problem}`]);
});

test('--on-failed-check is a hook for failed checks from now on, and no error shows its URL', async () => {
  const file = await watch(configOf('--on-failed-check', 'https://hooks.example/secret/', '--when-behind', 'remove'));
  const [{ name, to, hookPath, only, begin, hold } = assert.fail()] = file?.current ?? [];
  assert.deepEqual([name, to, hookPath], ['failed-checks', 'hook+https://hooks.example/…', '/secret/']);
  assert.deepEqual([only, begin, hold], [{ type: 'AssetCheckEvaluation', passed: false }, 'now', false]);
  const wrong = ['hooks.example/secret', 'ftp://hooks.example/secret', 'hook+https://h/secret'];
  for (const url of wrong) {
    const message = '--on-failed-check must be a URL such as https://hooks.example/path';
    await assert.rejects(watch(configOf('--on-failed-check', url)), { message });
  }
  for (const url of ['https://u@h/secret', 'https://u:secret@h/x'])
    await assert.rejects(watch(configOf('--on-failed-check', url)), { message: `--on-failed-check ${LOGIN}` });
  await assert.rejects(watch(configOf('--on-failed-check', 'http://h', '--ack', 'failed-checks')), {
    message: /^--on-failed-check has failed-checks as a hook, and --ack needs a hub or an engine$/,
  });
  const named = readDestinations(fileOf({ name: 'failed-checks', to: 'http://a' }), configOf('--on-failed-check', 'x'));
  assert.match(JSON.stringify(named), /like another destination/);
});

test('lingerMs is refused for the destination of --ack', async (t) => {
  const file = join(newFolder(t), 'forward.json');
  const config = configOf('--forward', file, '--ack', 'hub');
  const write = (lingerMs: number) => writeFileSync(file, fileOf({ name: 'hub', to: 'https://hub.example', lingerMs }));
  write(0);
  const found = await watch(config);
  found?.stop();
  assert.equal(found?.current.length, 1);
  write(1);
  await assert.rejects(watch(config), {
    message: `${file}, line 1: has lingerMs for hub, and with --ack each reply would wait as long; leave it out`,
  });
});

test('deployments share a URL only if they are listed', () => {
  const [problem] = problems(fileOf({ name: 'a', to: 'https://hub.example/all' }), hosted);
  assert.match(
    problem ?? '',
    /has no \{deployment\}, so that the events of all deployments would be mixed; add it, or/,
  );
  const [all] = good(fileOf({ name: 'a', to: 'https://hub.example/{deployment}/x/{deployment}/' }), hosted);
  assert.ok(all !== undefined);
  assert.deepEqual(
    [resolveSettings(all, 'prod').to, appliesTo(all, 'prod')],
    ['https://hub.example/prod/x/prod', true],
  );
  const [some] = good(fileOf({ name: 'a', to: 'https://hub.example/all', deployments: ['prod', 'eu'] }), hosted);
  assert.ok(some !== undefined);
  assert.deepEqual([appliesTo(some, 'prod'), appliesTo(some, 'test')], [true, false]);
  const wrong = problems(fileOf({ name: 'a', to: 'https://hub.example/all', deployments: ['../prod'] }), hosted);
  assert.deepEqual(wrong, ['line 1: destinations[0].deployments must be an array of names of deployments']);
});

test('--forward-to defines one destination, and without it there is none', async () => {
  assert.equal(await watch(configOf()), undefined);
  const args = ['--forward-token-file', 't', '--forward-token-header', 'X', '--forward-ca-file', 'c'];
  assert.deepEqual((await watch(configOf('--forward-to', 'https://hub.example/prod/', ...args)))?.current, [
    {
      ...{ name: 'upstream', to: 'https://hub.example/prod', tokenFile: 't', tokenHeader: 'X', caFile: 'c' },
      ...{ stamp: false, inDoubt: 'again', begin: 'first', hold: true },
    },
  ]);
  for (const [url, problem] of [
    ['https://u:p@hub.example', `--forward-to ${LOGIN}`],
    ['https://u:p/w@hub.example', `--forward-to ${LOGIN}`],
    [
      'http://h/report_asset_check',
      '--forward-to names the endpoint report_asset_check; give the URL of the service, as http://h',
    ],
  ] as const)
    await assert.rejects(watch(configOf('--forward-to', url)), { message: problem });
  await assert.rejects(
    watch(configOf('--forward-to', 'https://hub.example', '--deployments', 'f')),
    /has no \{deployment\}/,
  );
});

test('a file that is missing at the start is reported with its option', async (t) => {
  const path = join(newFolder(t), 'none');
  await assert.rejects(watch(configOf('--forward', path)), { message: /^--forward: ENOENT.*none'$/, code: 'ENOENT' });
});

test('an invalid file changes nothing at a reload, and too many destinations are refused', async (t) => {
  const path = join(newFolder(t), 'forward.json');
  const entry = (name: string) => ({ name, to: 'http://127.0.0.1:1' });
  writeFileSync(path, fileOf(entry('a')));
  const [found, seen]: [string[], string[][]] = [[], []];
  const file = await watch(configOf('--forward', path), 1, found, seen);
  assert.ok(file !== undefined);
  t.after(() => file.stop());
  const write = (text: string) => {
    writeFileSync(path, text);
    return file.reload();
  };
  await write('{"destinations": 7}');
  await file.reload();
  const many = Array.from({ length: 65 }, (_, index) => entry(`n${index}`));
  await write(fileOf(...many));
  assert.deepEqual([file.current.map(({ name }) => name), seen], [['a'], []]);
  assert.equal(found.length, 2, 'each problem once');
  assert.match(found[0] ?? '', /is refused; the previous destinations stay in effect .*must be an array/);
  assert.match(
    found[1] ?? '',
    /line 1: has 65 destinations, counted for each deployment, and at most 64 are allowed; list fewer/,
  );
  await write(fileOf(...many.slice(1)));
  assert.deepEqual(
    seen.map(({ length }) => length),
    [64],
  );
  await assert.rejects(watch(configOf('--forward-to', 'http://a/{deployment}', '--deployments', 'f'), 65), {
    message: /^--forward-to has 65 destinations/,
  });
});

test('the members that say when a hook is called are read strictly, and refused elsewhere', () => {
  const hook = { name: 'a', to: 'hook+http://h' };
  const of = (more: object) => problems(fileOf({ ...hook, ...more }));
  const [one] = good(fileOf({ ...hook, on: ['recovered', 'fresh'], staleAfter: '26h', hold: true }));
  assert.deepEqual([one?.on, one?.hold], [['recovered', 'fresh'], false]);
  const kinds = 'must be an array of "failed", "recovered", "stale", "fresh"';
  for (const on of [[], 'failed', ['passed']]) assert.deepEqual(of({ on }), [`line 1: destinations[0].on ${kinds}`]);
  const both = 'line 1: destinations[0] has only one of "stale" or "fresh" in on and staleAfter, which belong together';
  for (const on of [['stale'], ['fresh']]) assert.deepEqual(of({ on }), [both]);
  assert.deepEqual(of({ on: ['failed'], staleAfter: '1h' }), [both]);
  const after = 'line 1: destinations[0].staleAfter must be a duration such as 26h';
  for (const staleAfter of ['0s', '26', 26]) assert.deepEqual(of({ on: ['stale'], staleAfter }), [after]);
  const only = 'line 1: destinations[0].only has type or passed, which on says; leave them out';
  for (const one of [{ passed: false }, { type: 'check' }]) assert.deepEqual(of({ on: ['failed'], only: one }), [only]);
  const lacks =
    'line 1: destinations[0].only has data_version, description or idempotency_key, which an alarm does not have; leave them out';
  for (const name of ['data_version', 'description', 'idempotency_key'])
    assert.deepEqual(of({ on: ['failed'], only: { [name]: 'x' } }), [lacks]);
  for (const name of ['key', 'key_prefix', 'key_begins_with', 'check', 'partition'])
    assert.deepEqual(good(fileOf({ ...hook, on: ['failed'], only: { [name]: 'x' } })).length, 1);
  const noUse = 'has no meaning for a destination with the scheme nats; leave it out';
  const engine = { name: 'a', to: 'nats://n/S', on: ['failed'] };
  assert.deepEqual(problems(fileOf(engine)), [`line 1: destinations[0].on ${noUse}`]);
});

test('the types of a 0.3 hook are read as the nearest ones of today, with one warning', async (t) => {
  const file = join(newFolder(t), 'forward.json');
  const log: string[] = [];
  const readOf = async (...on: string[][]) => {
    log.length = 0;
    writeFileSync(file, fileOf(...on.map((one, at) => ({ name: `h${at}`, to: 'hook+http://h', on: one }))));
    const found = await watch(configOf('--forward', file), 1, log);
    found?.stop();
    return found?.current.map((one) => one.on);
  };
  assert.deepEqual(await readOf(['failed', 'recovered']), [['failed', 'recovered']]);
  assert.deepEqual(log, []);
  assert.deepEqual(await readOf(['failed'], ['changed'], ['recovered', 'changed'], ['recovered']), [
    ['failed'],
    ['failed', 'recovered'],
    ['recovered', 'failed'],
    ['recovered'],
  ]);
  assert.equal(log.length, 1);
  assert.match(log[0]!, /^"failed" now posts when a check starts to fail; for each failure leave out "on" and write/);
  assert.match(log[0]!, /\{"destinations":"h0, h1, h2"\}$/);
});
