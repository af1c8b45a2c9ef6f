import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { type Limits, limits } from '../../src/config/limits.ts';
import { platformOf } from '../../src/config/platform.ts';
import { createAuthenticator } from '../../src/deployments/authenticator.ts';
import { readDeployments } from '../../src/deployments/file.ts';
import { type Deployments, findToken, newToken } from '../../src/deployments/tokens.ts';
import { readFields } from '../../src/http/headers.ts';
import { type Head, Refusal } from '../../src/http/message.ts';
import { type Right, rights } from '../../src/http/router.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { quiet } from '../support/segments.ts';

const [first, second, expired] = [newToken(), newToken(), newToken()];
const FILE = JSON.stringify({
  deployments: [
    {
      name: 'prod',
      tokens: [
        { name: 'old', sha256: first.digest },
        { name: 'new', sha256: second.digest.toUpperCase() },
      ],
    },
    { name: 'test_2', tokens: [{ name: 'ci', sha256: expired.digest, notAfter: '2026-01-31' }] },
  ],
});

/** A file with the deployment `prod` and these tokens. */
const fileOf = (...tokens: object[]) => JSON.stringify({ deployments: [{ name: 'prod', tokens }] });
const entry = (more: object = {}) => ({ name: 'ci', sha256: first.digest, ...more });

function good(text: string): Deployments {
  const found = readDeployments(text);
  assert.ok(found.kind === 'valid', JSON.stringify(found));
  return found.value;
}

function problems(text: string): readonly string[] {
  const found = readDeployments(text);
  assert.ok(found.kind === 'invalid', text);
  return found.problems;
}

/** @returns whether a token may report to a deployment at a time */
function mayReport(deployments: Deployments, name: string, token: string | undefined, now = 0): boolean {
  return findToken(deployments, name, token, now, 'report') !== undefined;
}

test('a deployment accepts each of its tokens until the last day of the token, and no other token', () => {
  const deployments = good(FILE);
  const before = Date.parse('2026-01-30');
  const may = (name: string, token: string | undefined, now = before) => mayReport(deployments, name, token, now);
  assert.deepEqual(
    [may('prod', first.token), may('prod', second.token), may('test_2', expired.token)],
    [true, true, true],
  );
  assert.deepEqual(
    [may('test_2', first.token), may('prod', expired.token), may('nobody', first.token)],
    [false, false, false],
  );
  assert.equal(may('test_2', expired.token, Date.parse('2026-01-31T23:59:59.999Z')), true);
  assert.equal(may('test_2', expired.token, Date.parse('2026-02-01')), false);
  for (const wrong of [undefined, '', first.token.slice(0, -1), `${first.token}x`, first.digest, ` ${first.token}`]) {
    assert.equal(may('prod', wrong), false, wrong);
  }
  for (const name of ['', 'Prod', 'prod ', '__proto__', '../prod']) assert.equal(may(name, first.token), false, name);
});

test('with recordTokens the name of a token has no ", no \\, no control character and at most 100 characters', () => {
  const naming = (name: string, recordTokens: unknown = true) =>
    readDeployments(JSON.stringify({ recordTokens, deployments: [{ name: 'prod', tokens: [entry({ name })] }] }));
  const isGood = (...given: Parameters<typeof naming>) => naming(...given).kind === 'valid';
  for (const name of ['a"', 'a\\', '\u0000', '\n', '\u007f', '\u0085', '\u2028', '\u2029', '\ud800', 'a'.repeat(101)]) {
    assert.deepEqual([isGood(name), isGood(name, false)], [false, true], name);
  }
  for (const name of ['a', 'night load', 'büro', '😀'.repeat(100)]) assert.ok(isGood(name), name);
  assert.match(
    JSON.stringify(naming('"')),
    /line 1: deployments\[0\]\.tokens\[0\]\.name is recorded, so it must have at most 100 characters and/,
  );
  for (const wrong of [null, 1, 'true']) assert.ok(!isGood('a', wrong));
  assert.match(
    JSON.stringify(readDeployments('{"recordToken": true, "deployments": []}')),
    /recordToken is unknown; .*did you mean recordTokens\?/,
  );
});

test('limits of a deployment are sizes and days, as numbers or with a unit', () => {
  const limitsWith = (limits: object) =>
    readDeployments(JSON.stringify({ deployments: [{ name: 'a', tokens: [], ...limits }] }));
  const found = limitsWith({ retainBytes: '300MB', retainDays: 90, maxBytes: 16_384 });
  const wanted = { retainBytes: 300_000_000, retainDays: 90, maxBytes: 16_384 };
  assert.deepEqual(found.kind === 'valid' && [...(found.value.limitsOf ?? [])], [['a', wanted]]);
  for (const wrong of [16_383, -1, '300mb', '', null, true, [], 1e21, 20_000.5]) {
    for (const name of ['retainBytes', 'maxBytes']) {
      assert.match(
        JSON.stringify(limitsWith({ [name]: wrong })),
        /must be a size from 16384 bytes on/,
        `${name} ${wrong}`,
      );
    }
  }
  for (const wrong of [0, 36_501, 1.5, null, 'x'])
    assert.match(JSON.stringify(limitsWith({ retainDays: wrong })), /must be a whole number of days/);
  assert.match(JSON.stringify(limitsWith({ maxByte: 1 })), /maxByte is unknown; .*did you mean maxBytes\?/);
});

test('a token may report and forward unless its entry limits it, and one with two entries has the rights of both', () => {
  const mayOf = (...tokens: object[]) =>
    good(fileOf(...tokens))
      .tokensOf.get('prod')
      ?.map(({ may }) => may);
  const [read, both] = [entry({ may: ['read'] }), entry({ may: ['read', 'report'] })];
  assert.deepEqual(mayOf(entry()), [['report', 'forward']]);
  assert.equal(findToken(good(fileOf(entry())), 'prod', first.token, 0, 'erase')?.may.includes('erase'), false);
  assert.deepEqual(mayOf(read, both), [['read'], ['read', 'report']]);
  for (const may of [[], ['write'], ['read', 'Report'], ['read', 1], 'read', { read: true }, null, true, [['read']]]) {
    assert.deepEqual(
      problems(fileOf(entry({ may }))),
      [
        'line 1: deployments[0].tokens[0].may must be an array with at least one of "report", "read", "forward", "erase"',
      ],
      JSON.stringify(may),
    );
  }
  for (const order of [[entry(), read] as const, [read, entry()] as const]) {
    const deployments = good(fileOf(...order));
    for (const right of rights.filter((one) => one !== 'erase'))
      assert.ok(findToken(deployments, 'prod', first.token, 0, right)?.may.includes(right));
  }
});

test('names of deployments that a system takes for one folder, or for no folder, are refused on that system', () => {
  const named = (...names: string[]) => JSON.stringify({ deployments: names.map((name) => ({ name, tokens: [] })) });
  const problemsOn = (system: NodeJS.Platform, ...names: string[]) => {
    const found = readDeployments(named(...names), platformOf(system));
    return found.kind === 'invalid' ? found.problems : [];
  };
  const device = (name: string) =>
    `line 1: deployments[0].name is ${name}, which is a device on Windows; choose another`;
  for (const name of ['CON', 'nul', 'Com1', 'LPT9', 'aux', 'PRN']) {
    assert.deepEqual(problemsOn('win32', name), [device(name)]);
    assert.deepEqual([...problemsOn('linux', name), ...problemsOn('darwin', name)], []);
  }
  assert.deepEqual(problemsOn('win32', 'con1', 'com', 'lpt10', 'nulls'), []);
  const clash =
    'line 1: deployments[2].name is Prod, whose folder is that of prod, since this system ignores case; choose another';
  for (const [system, found] of [
    ['win32', [clash]],
    ['darwin', [clash]],
    ['linux', []],
  ] as const)
    assert.deepEqual(problemsOn(system, 'prod', 'test', 'Prod'), found);
});

test('every mistake in a file is reported with line and member', () => {
  const text = `{
  "deployments": [
    {"name": "ok", "tokens": [{"name": "a", "sha256": "${first.digest}"}]},
    {"name": "-bad", "tokens": [
      {"name": "a", "sha256": "abc"},
      {"name": "", "sha256": "${first.digest}", "notAfter": "soon"},
      {"name": "b", "sha256": "${first.digest}", "notafter": "2027-01-31"},
      {"sha256": 5},
      {"name": "c", "sha256": "${createHash('sha256').digest('hex').toUpperCase()}"}
    ]},
    {"name": "ok", "tokens": []},
    {"name": "server_info", "tokens": [{"name": "a", "sha256": "${first.digest}"}]},
    7,
    {"name": "no"}
  ]
}`;
  const all = problems(text).join('\n');
  for (const sentence of [
    /^line 13: deployments\[4\] must be an object$/m,
    /^line 4: deployments\[1\]\.name must be up to 63 letters/m,
    /^line 11: deployments\[2\]\.name is ok, as in an earlier entry/m,
    /^line 12: deployments\[3\]\.name is server_info, which is a path of the service itself/m,
    /^line 14: deployments\[5\]\.tokens must be an array with the tokens$/m,
  ]) {
    assert.match(all, sentence);
  }
  const tokens = problems(text.replace('-bad', 'bad')).join('\n');
  for (const sentence of [
    /^line 5: deployments\[1\]\.tokens\[0\]\.sha256 must be the SHA-256 .*assetlog token prints one$/m,
    /^line 6: deployments\[1\]\.tokens\[1\]\.name must be a text/m,
    /^line 6: deployments\[1\]\.tokens\[1\]\.notAfter must be a day that exists, such as 2027-01-31 /m,
    /^line 7: deployments\[1\]\.tokens\[2\]\.notafter is unknown; use one of name, sha256, notAfter, may; did you mean notAfter\?$/m,
    /^line 8: deployments\[1\]\.tokens\[3\]\.name must be a text/m,
    /^line 9: deployments\[1\]\.tokens\[4\]\.sha256 is the SHA-256 of an empty text/m,
  ]) {
    assert.match(tokens, sentence);
  }
});

test('a token can only end on a date that exists', () => {
  for (const [date, end] of Object.entries({
    '2028-02-29': '2028-03-01T00:00:00Z',
    '2027-12-31': '2028-01-01T00:00:00Z',
    '2027-01-31T23:59:59Z': '2027-01-31T23:59:59Z',
    '2027-01-31 23:59:59+01:00': '2027-01-31T22:59:59Z',
    '2027-01-31T12:00:00.5+02:30': '2027-01-31T09:30:00.500Z',
    '2027-01-31T23:30:00-23:59': '2027-02-01T23:29:00Z',
  })) {
    const deployments = good(fileOf(entry({ notAfter: date })));
    const endMs = Date.parse(end);
    assert.equal(mayReport(deployments, 'prod', first.token, endMs - 1), true, date);
    assert.equal(mayReport(deployments, 'prod', first.token, endMs), false, date);
  }
  for (const date of [
    ...['2027-02-31', '2027-02-29', '2027-04-31', '2027-00-10', '2027-13-01', '2027-01-00', '2027-01-32'],
    ...['2027-02-31T12:00:00Z', '2027-01-31T24:00:00Z', '2027-01-31T12:60:00Z', '2027-01-31T23:59:60Z'],
    ...['2027-01-31T12:00:00+24:00', '2027-01-31T12:00:00+02:60', '2027-01-31T12:00:00', '2027-01-31 ', '', 'soon'],
  ]) {
    assert.deepEqual(problems(fileOf(entry({ notAfter: date }))), [
      'line 1: deployments[0].tokens[0].notAfter must be a day that exists, such as 2027-01-31 (until its end in UTC), or a time such as 2027-01-31T12:00:00Z',
    ]);
  }
});

test('text that is not JSON, or not deployments, is reported too', () => {
  assert.deepEqual(problems('{"deployments": [\n1,]}'), [
    'line 2, column 2: trailing comma before ]; JSON allows none, remove it',
  ]);
  for (const text of ['[]', '{}', 'null', '{"deployments": {}}', '{"deployments": []}']) {
    assert.deepEqual(
      problems(text),
      ['line 1: deployments must be an array with at least one of the deployments'],
      text,
    );
  }
});

/** Authenticates requests. @returns the deployment, or the status, error and headers of the refusal */
function createAsk(text: string, own: Partial<Limits>, pathPrefix = '', nowMs = () => 0) {
  const deployments = good(text);
  const authenticate = createAuthenticator({
    pathPrefix,
    deployments: () => deployments,
    tokenHeader: 'T',
    clientAddress: (peer) => peer,
    limits: { ...limits, ...own },
    metrics: new Metrics(),
    notices: quiet,
    isToken: () => false,
    nowMs,
  });
  return (path: string, token?: string, needs: Right | 'any right' = 'report', remoteAddress = '10.0.0.1') => {
    const more = { socket: { remoteAddress }, ending: AbortSignal.abort(), endReply: () => {} };
    try {
      const incoming = { id: '1', httpVersion: '1.1', fields: readFields([]), ...more };
      return authenticate({ path, token } as Head, incoming, needs);
    } catch (error) {
      assert.ok(error instanceof Refusal);
      return [error.reply.status, error.message, ...(error.reply.headers ?? [])].join(' ');
    }
  };
}

test('authentication finds the deployment by its path, refuses all failures alike, and slows a client that keeps failing', () => {
  let now = 0;
  const few = { failuresMax: 3, failuresMs: 1_000, failedAddressesMax: 2 };
  const ask = createAsk(FILE, few, '/p', () => now);
  const wrong = (address?: string) => ask('/p/prod/x', 'wrong', 'report', address);
  assert.equal(ask('/p/prod/report_asset_check/a', first.token), 'prod');
  const refusals = [wrong(), ask('/p/nobody/x', first.token), ask('/elsewhere')];
  assert.equal(new Set(refusals).size, 1);
  assert.match(
    `${refusals[0]}`,
    /^401 no valid token for this path in T or .*: it is missing, wrong, expired, or for another deployment; paths start with \/p\/NAME\/ WWW-Authenticate /,
  );
  assert.match(`${wrong()}`, /^429 .* WWW-Authenticate .* Retry-After 1$/);
  assert.equal(ask('/p/prod/x', first.token), 'prod', 'a good token can share an address with a bad one');
  for (const address of ['10.0.0.2', '10.0.0.3']) assert.match(`${wrong(address)}`, /^401 /);
  assert.match(`${wrong()}`, /^401 /, 'only `failedAddressesMax` addresses are remembered');
  for (let count = 0; count < 5; count += 1) wrong();
  assert.match(`${wrong()}`, /^429 /);
  now = 1_001;
  assert.match(`${wrong()}`, /^401 /);
});
