/** The OpenAPI document describes exactly the behaviour of the service. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type Limits, limits } from '../../../src/config/limits.ts';
import { version } from '../../../src/config/names.ts';
import { batchPath } from '../../../src/event/item.ts';
import { endpoints } from '../../../src/event/parameters.ts';
import { eventSchema } from '../../../src/journal/line/line-schema.ts';
import { entryOf, rewrite, writeDeployments } from '../../support/deployments.ts';
import { SentJournal, SOURCE } from '../../support/forwarding.ts';
import { rounds, sampled } from '../../support/long.ts';
import { eventsIn, newFolder, root, type Scope } from '../../support/program.ts';
import { serve } from '../../support/service.ts';
import { sources } from '../../support/sources.ts';
import { ask, errorOf, get, post, Wire, type WireReply } from '../../support/wire.ts';

interface Document {
  readonly openapi: string;
  readonly info: { readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Item>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly responses: Readonly<Record<string, Response>>;
    readonly securitySchemes?: Readonly<Record<string, { readonly name?: string }>>;
  };
}

type Item = { readonly parameters?: readonly Ref[] } & { readonly [Method in Methods]?: Operation };
type Methods = 'get' | 'head' | 'post' | 'put' | 'delete';
type Ref = { readonly $ref: string };

interface Operation {
  readonly operationId: string;
  readonly description: string;
  readonly parameters?: readonly Ref[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, Ref | Response>>;
  readonly security?: readonly unknown[];
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly schema?: unknown;
  readonly example?: unknown;
}

interface Response {
  readonly description: string;
  readonly content: Content;
  readonly headers?: Readonly<Record<string, { readonly required: boolean; readonly schema: object }>>;
}

type Content = Readonly<Record<'application/json', { readonly schema: Body; readonly example?: unknown }>>;

interface Body {
  readonly description?: string;
  readonly maxProperties: number;
  readonly properties: Readonly<Record<string, object>>;
}

const READINGS = ['/events', '/assets', '/sources', '/refusals'];
const BOOLEANS: Readonly<Record<string, boolean>> = { true: true, false: false };
const READING_VALUES: readonly string[] = [
  '',
  ' ',
  '2026-11-20 15:04:05.123+01:00',
  '7 d',
  ...'0 1 60 61 1000 1001 -1 1.5 9007199254740991 9007199254740992 true false True'.split(' '),
  ...'check AssetObservation Check warehouse/orders a//b /a a/ ["a","b/c"]'.split(' '),
  ...'2026-11-20 2026-11-20T15:04 2026-11-20Z 2026-13-01 2026-02-30 2026-11-20T25:00 2026-11-20T15'.split(' '),
  ...'7d 9999d 99999d 2h 1m 500ms 7D 1w'.split(' '),
];
const TOKEN = 'token-of-the-contract';
const TOKEN_HEADER = 'Service-Cloud-Api-Token';
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE'];

/** Both ways to run the service. */
const modes = [
  { mode: 'local', base: '', tokens: [] },
  { mode: 'hosted', base: '/{deployment_name}', tokens: [`${TOKEN_HEADER}: ${TOKEN}`] },
] as const;
type Mode = (typeof modes)[number];

/** By mode, as served. */
const documents = new Map<string, Document>();
for (const mode of modes) {
  const releases: (() => unknown)[] = [];
  const { port } = await start({ after: (release) => releases.push(release) }, mode);
  documents.set(mode.mode, JSON.parse((await ask(port, get('/openapi.json'))).body));
  for (const release of releases.reverse()) await release();
}

function documentOf({ mode }: Mode): Document {
  return documents.get(mode) as Document;
}

interface Started {
  readonly port: number;
  readonly data: string;
  readonly notices: readonly string[];
  /** @returns a path of the document with its parameters filled in */
  readonly fill: (path: string) => string;
  readonly report: (path: string, body?: unknown) => Promise<WireReply>;
}

async function start(t: Scope, { mode, tokens }: Mode, short: Partial<Limits> = {}): Promise<Started> {
  const file = join(newFolder(t), 'deployments.json');
  rewrite(file, entryOf('prod', TOKEN, { may: ['report', 'read', 'forward', 'erase'] }));
  const args = mode === 'hosted' ? ['--deployments', file] : [];
  const { data, port, notices } = await serve(t, { args, limits: short, logLevel: 'debug' });
  const fill = (path: string) => path.replace('{deployment_name}', 'prod').replace('{asset_key}', 'orders');
  return {
    port,
    data: mode === 'hosted' ? join(data, 'prod') : data,
    notices,
    fill,
    report: (path, body) => ask(port, post(fill(path), body === undefined ? undefined : JSON.stringify(body), tokens)),
  };
}

function operationsOf({ paths }: Document): { path: string; method: string; operation: Operation }[] {
  return Object.entries(paths).flatMap(([path, { parameters: _, ...methods }]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
}

/** @returns the target of a reference, or the thing itself */
function follow<Thing>(document: Document, thing: Ref | Thing): Thing {
  if (typeof thing !== 'object' || thing === null || !('$ref' in thing)) return thing as Thing;
  let found: unknown = document;
  for (const name of thing.$ref.split('/').slice(1)) found = (found as Record<string, unknown>)[name];
  return found as Thing;
}

/** @returns a function that reports why a value does not match a schema of the document; undefined if it does */
function checkerOf(document: Document): (schema: object, value: unknown) => string | undefined {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, 'document');
  const compiled = new Map<string, ValidateFunction>();
  return (schema, value) => {
    // References inside the schema point into the whole document.
    const text = JSON.stringify(schema).replaceAll('"#/', '"document#/');
    const validate = compiled.get(text) ?? ajv.compile(JSON.parse(text));
    compiled.set(text, validate);
    return validate(value) ? undefined : ajv.errorsText(validate.errors);
  };
}

function reportsOf(document: Document): { path: string; operation: Operation; body: Body; names: string[] }[] {
  return operationsOf(document)
    .filter(({ path, method }) => method === 'POST' && path.includes('/report_') && !path.includes(batchPath))
    .map(({ path, operation }) => {
      const body = operation.requestBody?.content['application/json'].schema as Body;
      return { path, operation, body, names: Object.keys(body.properties) };
    });
}

/** @returns whether each parameter of a path is required, without the key if the path has it */
function parametersAt(path: string): Readonly<Record<string, boolean>> {
  const { parameters } = endpoints.find((endpoint) => path.includes(`${endpoint.path}/`)) ?? assert.fail(path);
  const accepted = Object.fromEntries(parameters.map(({ name, required }) => [name, required]));
  const { asset_key, ...others } = accepted;
  return path.endsWith('{asset_key}') ? others : accepted;
}

for (const mode of modes) {
  const document = documentOf(mode);
  const violationOf = checkerOf(document);

  test(`${mode.mode}: the document is OpenAPI 3.1`, async () => {
    const { valid, errors } = await new Validator().validate({ ...document });
    assert.ok(valid, JSON.stringify(errors));
    assert.match(document.openapi, /^3\.1\./);
    assert.equal(document.info.version, version);
    const ids = operationsOf(document).map(({ operation }) => operation.operationId);
    assert.equal(new Set(ids).size, ids.length);
  });

  test(`${mode.mode}: the document has exactly the routes and methods of the service`, async (t) => {
    const own = '/livez /readyz /server_info /openapi.json /metrics /'.split(' ');
    const reports = [...endpoints.flatMap(({ path }) => [`${path}/`, `${path}/{asset_key}`]), `${batchPath}/`];
    const below = [
      ...reports,
      ...READINGS,
      ...(mode.base === '' ? [] : ['/readyz', '/erase']),
      '/forward/{source}',
      '/forward/{source}/{first_seq}',
    ];
    const paths = [...own, ...below.map((path) => `${mode.base}${path}`)];
    assert.deepEqual(Object.keys(document.paths).sort(), paths.sort());
    const { port, fill } = await start(t, mode);
    for (const [path, { parameters: _, ...documented }] of Object.entries(document.paths)) {
      const allowed = Object.keys(documented).map((method) => method.toUpperCase());
      for (const method of METHODS) {
        const lines = [`${method} ${fill(path)} HTTP/1.1`, 'Host: localhost', ...mode.tokens, 'Content-Length: 0'];
        const wire = await Wire.open(port);
        wire.send(`${lines.join('\r\n')}\r\n\r\n`);
        const reply = await wire.reply(method === 'HEAD');
        wire.close();
        const outside = path === '/' && mode.mode === 'hosted' ? 401 : 404;
        const refused = reply?.status === outside || reply?.status === 405;
        assert.equal(refused, !allowed.includes(method), `${method} ${path}: ${reply?.status}`);
        // A report without its endpoint gets the 404 with a hint, or in hosted mode a 401.
        if (refused && reply?.status === 405) assert.deepEqual(reply?.headers.get('allow')?.split(', '), allowed);
      }
    }
  });

  test(`${mode.mode}: a body is accepted exactly if its schema allows it`, async (t) => {
    const { report } = await start(t, mode);
    const times =
      '2026-11-20T15:19:45.123456789+01:00 2026-11-20t15:19:45z 2026-11-20T15:19:45 2026-11-20T15:19:60Z ' +
      '0000-11-20T15:19:45Z 0001-01-01T00:00:00Z 0010-01-01T00:00:00+00:00 0100-01-01T00:00:00+00:00 ' +
      '9999-12-31T23:59:59.999999999-00:00 2026-00-20T15:19:45Z 2026-11-20T24:00:00Z 2026-11-20T15:19:45+24:00 ' +
      '2026-11-20T15:19:45.1234567890Z';
    // Not here: a space in place of the T, which the service takes, but no `date-time` has.
    const texts = ['', 'a b', '2026-11-20 15:19:45 01:00', ...'WARN ERROR INFO'.split(' '), ...times.split(' ')];
    const values = [null, true, false, 0, 1.5, ...texts, [], ['a', 'b/c'], ['a', ''], [1], {}, { a: [1] }];
    const controls = Array.from({ length: 33 }, (_, code) => `a${String.fromCharCode(code)}`);
    const keys = [...values, ...controls, ['\u007f'], '\u0080'];
    for (const { path, operation, body, names } of reportsOf(document)) {
      const example = operation.requestBody?.content['application/json'].example as Record<string, unknown>;
      const tries = names.flatMap((name) =>
        (name === 'asset_key' ? keys : values).map((value) => [name, value] as const),
      );
      const check = async ([name, value]: (typeof tries)[number]) => {
        const sent = { ...example, [name]: value };
        const violation = violationOf(body, sent);
        const expected = violation === undefined ? 200 : 400;
        assert.equal(
          (await report(path, sent)).status,
          expected,
          `${path} ${name} ${JSON.stringify(value)}: ${violation}`,
        );
      };
      await Promise.all(sampled(tries).map(check));
      const unknown = Array.from({ length: body.maxProperties - names.length + 1 }, (_, index) => [`x${index}`, 0]);
      const tooMany = { ...example, ...Object.fromEntries(unknown) };
      assert.notEqual(violationOf(body, tooMany), undefined);
      assert.equal((await report(path, tooMany)).status, 400);
      const { x0: _, ...most } = tooMany as Record<string, unknown>;
      assert.equal(violationOf(body, most), undefined);
      assert.equal((await report(path, most)).status, 200);
    }
  });

  test(`${mode.mode}: a report accepts the parameters of the document, needs the required ones, and records every example unchanged`, async (t) => {
    const { report, data, notices } = await start(t, mode);
    let count = 0;
    for (const { path, operation, body, names } of reportsOf(document)) {
      const accepted = parametersAt(path);
      assert.deepEqual(names, Object.keys(accepted), path);
      const required = names.filter((name) => accepted[name]);
      assert.match(operation.description, new RegExp(`^Required: ${required.join(', ') || 'nothing more'}\\. `));
      const example = operation.requestBody?.content['application/json'].example as Record<string, unknown>;
      assert.deepEqual(Object.keys(example), names);
      assert.equal(violationOf(body, example), undefined);
      for (const name of names) {
        const { [name]: _, ...others } = example;
        const reply = await report(path, others);
        assert.equal(reply.status, accepted[name] ? 400 : 200, `${path} without ${name}`);
        if (accepted[name]) assert.match(errorOf(reply), new RegExp(`^${name} is missing`));
      }
      const parameters = operation.parameters?.map((parameter) => follow<Parameter>(document, parameter)) ?? [];
      assert.deepEqual(
        parameters.map((parameter) => [parameter.name, parameter.in]),
        [...names.map((name) => [name, 'query']), ['Idempotency-Key', 'header']],
      );
      const query = new URLSearchParams();
      for (const { name, schema, example: value } of parameters) {
        assert.equal(value === undefined, name === 'Idempotency-Key', 'tools send examples');
        if (value === undefined) continue;
        assert.equal(violationOf(schema as object, value), undefined, name);
        query.set(name, String(value));
      }
      const expected = follow<Response>(document, operation.responses['200'] as Ref);
      for (const reply of [await report(path, example), await report(`${path}?${query}`)]) {
        assert.equal(reply.status, 200, reply.body);
        assert.deepEqual(JSON.parse(reply.body), expected.content['application/json'].example);
        count += 1;
      }
      const [fromBody, fromQuery] = eventsIn(data)
        .slice(-2)
        .map(({ seq: _, id: __, time: ___, crc: ____, ...event }) => event);
      assert.deepEqual(fromBody, fromQuery);
      const { data_version, ...members } = example;
      const tags = data_version === undefined ? {} : { tags: { data_version } };
      assert.deepEqual(fromBody, { asset_key: ['orders'], ...members, ...tags, type: fromBody?.['type'] });
    }
    assert.equal(count, 12);
    assert.deepEqual(
      notices.filter((line) => line.includes('unknown parameter')),
      [],
    );
  });

  test(`${mode.mode}: a reading accepts a parameter exactly if its schema allows it, and replies as documented`, async (t) => {
    const { port, fill, report } = await start(t, mode);
    for (const { path, operation } of reportsOf(document)) {
      const { example } = operation.requestBody?.content['application/json'] ?? assert.fail(path);
      assert.equal((await report(path, example)).status, 200);
    }
    const headers = Object.fromEntries(mode.tokens.map((line) => line.split(': ')));
    const url = `http://127.0.0.1:${port}${fill(mode.base)}`;
    assert.equal((await new SentJournal(1).put(url, 1, 1, { headers })).status, 200);
    const read = (target: string, ...more: readonly string[]) => ask(port, get(target, ...mode.tokens, ...more));
    let checked = 0;
    for (const name of READINGS) {
      const path = `${mode.base}${name}`;
      const { parameters = [], responses, security } = document.paths[path]?.get ?? assert.fail(path);
      assert.deepEqual(security, mode.mode === 'hosted' ? [{ token: ['read'] }, { bearer: ['read'] }] : undefined);
      for (const parameter of parameters as unknown as Parameter[]) {
        for (const value of sampled(READING_VALUES)) {
          const { type } = parameter.schema as { type: string };
          const meant =
            type === 'integer' ? Number(value.trim() || 'none') : type === 'boolean' ? BOOLEANS[value] : value;
          const violation = violationOf(parameter.schema as object, meant);
          const query = `${parameter.name}=${encodeURIComponent(value)}`;
          const reply = await read(`${fill(path)}?${query}${parameter.name === 'wait' ? '&after_seq=0' : ''}`);
          assert.equal(
            reply.status,
            violation === undefined ? 200 : 400,
            `${name} ${query}: ${violation} ${reply.body}`,
          );
          checked += 1;
        }
      }
      assert.equal((await read(`${fill(path)}?other=1`)).status, 400);
      const { content } = follow<Response>(document, responses['200'] as Response);
      for (const [type, { schema }] of Object.entries(content as Record<string, { schema: object }>)) {
        if (type === 'text/event-stream') continue;
        const reply = await read(fill(path), `Accept: ${type}`);
        assert.deepEqual([reply.status, reply.headers.get('content-type')], [200, type]);
        assert.equal(violationOf(schema, type.endsWith('/json') ? JSON.parse(reply.body) : reply.body), undefined);
        const expected = { '/refusals': '', '/sources': SOURCE }[name] ?? 'orders';
        assert.ok(reply.body.includes(expected), reply.body);
      }
    }
    assert.ok(checked > rounds({ long: 300, short: 50 }), `${checked} values`);
  });

  test(`${mode.mode}: every status is documented, and every documented status occurs, with its headers`, async (t) => {
    const short = { headersMs: 3_000, requestMs: 3_000, deadlineCheckMs: 20, uploadBytesMax: 300_000, failuresMax: 1 };
    const { port, fill } = await start(t, mode, short);
    const path = fill(`${mode.base}/report_asset_observation/`);
    const good = mode.tokens;
    const provoked: Record<string, string> = {
      200: post(`${path}a`, undefined, good),
      400: post(path, undefined, good),
      403: post(path, undefined, [...good, 'Origin: https://example.com']),
      404: post(fill(`${mode.base}/nowhere`), undefined, good),
      405: post(path, undefined, good).replace('POST', 'PUT'),
      408: post(path, '{}', good).slice(0, -1),
      413: `${post(path, undefined, good).split('\r\nContent-Length')[0]}\r\nContent-Length: ${limits.bodyBytesMax + 1}\r\n\r\n`,
      415: post(path, '{}', [...good, 'Content-Encoding: gzip']),
      417: post(path, '{}', [...good, 'Expect: fast']),
      422: post(`${path}b`, undefined, [...good, 'Idempotency-Key: k']),
      431: post(`${path}?description=${'x'.repeat(limits.headBytesMax)}`, undefined, good),
      503: post(path, `{"description":"${'x'.repeat(short.uploadBytesMax)}"}`, good),
      ...(mode.mode === 'hosted' && { 401: post(path), 429: post(path) }),
    };
    for (const { path, method, operation } of operationsOf(document)) {
      const tokenless = operation.security === undefined && mode.mode === 'hosted';
      const isOneReport = method === 'POST' && !path.includes(batchPath) && !path.endsWith('/erase');
      const elsewhere = [...(tokenless ? ['401', '429'] : []), ...(isOneReport ? [] : ['422'])];
      const also = path.endsWith('/events') ? ['410'] : method === 'PUT' ? ['409'] : []; // see below, and test/forward/hub/hub.test.ts
      const expected = Object.keys(provoked).filter((status) => !elsewhere.includes(status));
      const answered = Object.keys(operation.responses).filter((status) => status !== '207'); // only for a batch, see below
      assert.deepEqual(answered, [...expected, ...also].sort(), operation.operationId);
    }
    const { responses } = document.components;
    const ok = reportsOf(document)[0]?.operation.responses['200'] as Response;
    assert.equal((await ask(port, post(`${path}a`, undefined, [...good, 'Idempotency-Key: k']))).status, 200);
    for (const [status, bytes] of Object.entries(provoked)) {
      const reply = await ask(port, bytes);
      assert.equal(reply.status, Number(status), reply.body);
      const { content, headers = {} } = responses[status] ?? ok;
      assert.equal(reply.headers.get('content-type'), Object.keys(content)[0]);
      assert.equal(violationOf(content['application/json'].schema, JSON.parse(reply.body)), undefined, status);
      for (const [name, { required, schema }] of Object.entries(headers)) {
        if (required !== true) continue; // Idempotent-Replayed: only in some replies
        const text = reply.headers.get(name.toLowerCase()) ?? '';
        assert.ok(text.length > 0, `${status} ${name}`);
        assert.equal(
          violationOf(schema, /^\d+$/.test(text) ? Number(text) : text),
          undefined,
          `${status} ${name}: ${text}`,
        );
      }
    }
  });
}

test('a batch is accepted exactly if the schema of its items allows it, and its replies are as documented', async (t) => {
  const document = documentOf(modes[0]);
  const violationOf = checkerOf(document);
  const { port } = await start(t, modes[0]);
  const operation = document.paths[`${batchPath}/`]?.post as Operation;
  const content = operation.requestBody?.content as Record<string, { schema: object; example: unknown }>;
  const batch = content['application/json'] as { schema: object; example: unknown[] };
  assert.equal(violationOf(batch.schema, batch.example), undefined);
  const send = (body: string, type: string, ...headers: string[]) =>
    ask(port, post(`${batchPath}/`, body, headers).replace('Content-Type: application/json', `Content-Type: ${type}`));
  const documented = (reply: WireReply) => {
    const { content } = follow<Response>(document, operation.responses[String(reply.status)] as Response);
    assert.equal(violationOf(content['application/json'].schema, JSON.parse(reply.body)), undefined, reply.body);
  };
  for (const [type, { example }] of Object.entries(content)) {
    const reply = await send(typeof example === 'string' ? example : JSON.stringify(example), type);
    assert.deepEqual([reply.status, reply.body], [200, '{"recorded":2}'], type);
  }
  const [good] = batch.example as Record<string, unknown>[];
  const line = { ...good, seq: 7, id: 'x', time: null, crc: '', from: [], recorded: 1, type: 'AssetMaterialization' };
  const tries = [
    line,
    { ...good, tags: { data_version: 'v' } },
    { ...good, tags: {} },
    { ...good, tags: { other: 'v' } },
    { ...good, tags: { data_version: 7 } },
    { ...good, tags: { data_version: null } },
    { ...good, partition: null },
    { ...good, passed: true },
    { ...good, type: 'check' },
    { ...good, type: 'AssetObservation' },
    { ...good, type: 'Check' },
    { ...good, idempotency_key: 'a' },
    { ...good, idempotency_key: null },
    { ...good, idempotency_key: 'a b' },
    { ...good, idempotency_key: '' },
    { ...good, idempotency_key: 7 },
    { ...good, asset_key: null },
    { type: 'materialization' },
    {},
    [],
    7,
    null,
  ];
  for (const item of tries) {
    const violation = violationOf(batch.schema, [item]);
    const reply = await send(JSON.stringify([item]), 'application/json');
    assert.equal(
      reply.status,
      violation === undefined ? 200 : 400,
      `${JSON.stringify(item)}: ${violation} ${reply.body}`,
    );
    documented(reply);
  }
  for (const [count, status] of [
    [limits.batchItemsMax, 200],
    [limits.batchItemsMax + 1, 400],
  ] as const) {
    const many = Array(count).fill({ type: 'observation', asset_key: 'many' });
    assert.equal(violationOf(batch.schema, many) === undefined, status === 200, `${count} items`);
    assert.equal((await send(JSON.stringify(many), 'application/json')).status, status, `${count} items`);
  }
  const mixed = await send(JSON.stringify([good, 7]), 'application/json', 'Prefer: handling=lenient');
  assert.equal(mixed.status, 207);
  documented(mixed);
});

test('no schema is a boolean, since generators of clients do not support it', () => {
  const booleans = (value: unknown, at: string): string[] => {
    if (typeof value === 'boolean') return [at];
    if (typeof value !== 'object' || value === null) return [];
    return Object.entries(value).flatMap(([name, member]) => booleans(member, `${at}/${name}`));
  };
  for (const document of documents.values()) {
    const found = booleans(document, '').filter(
      (at) => !/\/(example\b.*|default|additionalProperties|required)$/.test(at),
    );
    assert.deepEqual(found, []);
  }
});

test('with --strict and in test mode an unknown member is refused, unless --strict is false, as documented', async (t) => {
  const why = {
    test: 'test mode is strict; --strict=false ignores it',
    strict: '--strict refuses it; --strict=false ignores it',
  };
  for (const [args, reason] of [
    [[], ''],
    [['--strict'], why.strict],
    [['--strict=true', '--test'], why.strict],
    [['--test'], why.test],
    [['--test', '--strict', 'false'], ''],
    [['--strict=false'], ''],
  ] as const) {
    const isTaken = reason === '';
    const { port } = await serve(t, { args });
    const document = JSON.parse((await ask(port, get('/openapi.json'))).body) as Document;
    const says = isTaken ? /Unknown parameters are ignored; with --strict/ : /Unknown parameters are refused\./;
    assert.match(document.info.description, says);
    const violationOf = checkerOf(document);
    for (const { path, operation, body } of reportsOf(document)) {
      const example = operation.requestBody?.content['application/json'].example as object;
      for (const [sent, isGood] of [
        [example, true],
        [{ ...example, partion: 'p' }, isTaken],
      ] as const) {
        const { status } = await ask(port, post(path.replace('{asset_key}', 'orders'), JSON.stringify(sent)));
        assert.deepEqual([status === 200, violationOf(body, sent) === undefined], [isGood, isGood], path);
      }
    }
    const inQuery = await ask(port, post('/report_asset_observation/a?colour=red&partitoin=1'));
    assert.equal(inQuery.status, isTaken ? 200 : 400);
    if (!isTaken) {
      const start = 'a report of kind observation has no "partitoin"; did you mean partition?';
      assert.equal(errorOf(inQuery), `${start} (${reason})`);
      const unlike = await ask(port, post('/report_asset_check/a', '{"check_name":"c","passed":true,"run_id":"1"}'));
      assert.equal(errorOf(unlike), `a report of kind check has no "run_id" (${reason})`);
    }
  }
});

test('no status of the source is missing from the document', () => {
  const { responses } = documentOf(modes[1]).components;
  // 301: the address of a page without its last slash, which the document does not have.
  const documented = new Set([200, 207, 301, ...Object.keys(responses).map(Number)]);
  let found = 0;
  for (const [name, text] of sources) {
    if (name.startsWith('test-mode/')) continue; // a fault replies like the reference
    for (const [, status] of text.matchAll(/(?:new Refusal\(\s*|refuse\(|status: )([1-9][0-9]{2})\b/g)) {
      assert.ok(documented.has(Number(status)), `${name}: ${status}`);
      found += 1;
    }
  }
  assert.ok(found > 30, `${found} places`);
});

const notBuilt = !existsSync(join(root, 'dist/event.schema.json')) && 'nothing is built here';
test('the shipped documents equal the served ones', { skip: notBuilt }, () => {
  const read = (name: string) => JSON.parse(readFileSync(join(root, 'dist', name), 'utf8'));
  assert.deepEqual(read('openapi.json'), { ...documentOf(modes[0]), servers: [{ url: 'http://127.0.0.1:3000' }] });
  assert.deepEqual(read('event.schema.json'), JSON.parse(JSON.stringify(eventSchema())));
  const { Event, AssetEvent, CheckEvent } = documentOf(modes[0]).components.schemas;
  assert.deepEqual({ ...Event, oneOf: [AssetEvent, CheckEvent] }, read('event.schema.json'));
});

test('each kind of service serves its own document, which needs no token', async (t) => {
  const { args: hosted } = writeDeployments(t, ['prod']);
  const read = async (...args: readonly string[]): Promise<Document> => {
    const { url } = await serve(t, { args });
    return JSON.parse(await (await fetch(`${url}/openapi.json`)).text());
  };
  const [local, below] = modes.map(documentOf) as [Document, Document];
  assert.deepEqual(await read(), local);
  assert.deepEqual(await read(...hosted), below);
  assert.deepEqual(await read('--path-prefix', '/some/path'), { ...local, servers: [{ url: '/some/path' }] });
  const { token, bearer } = below.components.securitySchemes ?? {};
  assert.deepEqual([token?.name, bearer], [TOKEN_HEADER, { type: 'http', scheme: 'bearer' }]);
  const renamed = JSON.stringify(below).replaceAll(TOKEN_HEADER, 'X-Token');
  assert.deepEqual(await read(...hosted, '--token-header', 'X-Token'), JSON.parse(renamed));
  const { paths, ...others } = await read('--test');
  const { '/test/reset': reset, '/test/faults': faults, ...known } = paths;
  assert.deepEqual({ ...others, paths: known }, await read('--strict'));
  assert.deepEqual(Object.keys(reset ?? {}), ['post']);
  assert.deepEqual(Object.keys(faults ?? {}), ['get', 'head', 'put', 'post', 'delete']);
  assert.deepEqual(
    [faults?.put, faults?.get].map((one) => one?.requestBody !== undefined),
    [true, false],
  );
});
