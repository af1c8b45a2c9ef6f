/** The OpenAPI 3.1 document of the service, built on the first request. */

import type { Limits } from '../config/limits.ts';
import { deploymentName, version } from '../config/names.ts';
import { eventTimePattern } from '../event/event-time.ts';
import { batchPath } from '../event/item.ts';
import { ignoredMembers } from '../event/members.ts';
import { allParameters, endpoints, type Parameter } from '../event/parameters.ts';
import { keyPartSchema, orNull, type Schema, TEXT } from '../event/schema.ts';
import { batchTypes } from './batch.ts';
import { idempotencyKeyPattern } from './idempotency.ts';
import type { Route } from './router.ts';

const JSON_TYPE = 'application/json';

export interface OpenApiOptions {
  /** The base of every path: a URL, or only its path, such as `/some/path`. */
  readonly server: string;
  /** The JSON Schema of a line of the journal. */
  readonly lineSchema: Schema;
  /** Name of the token header in hosted mode, such as `Service-Cloud-Api-Token`; undefined otherwise. */
  readonly tokenHeader?: string | undefined;
  /** Whether `Idempotency-Key` is used. */
  readonly acceptsKeys: boolean;
  /** Whether a report with an unknown parameter is refused. */
  readonly strict: boolean;
  /** All routes of the service. Reports have no separate description. */
  readonly routes: readonly Route<unknown>[];
  readonly limits: Limits;
}

/** @returns an OpenAPI 3.1 document of all routes, for JSON.stringify */
export function openApi({
  server,
  lineSchema,
  tokenHeader,
  acceptsKeys,
  strict,
  routes,
  limits,
}: OpenApiOptions): Schema {
  const hosted = tokenHeader !== undefined;
  const refused = { ...refusals(hosted, limits), ...(acceptsKeys && KEY_REFUSAL) };
  return {
    openapi: '3.1.1',
    info: {
      title: 'assetlog',
      version,
      license: { name: 'MIT', identifier: 'MIT' },
      description: introduction(limits, acceptsKeys, strict),
    },
    servers: [{ url: server }],
    paths: {
      ...reportPaths({ hosted, acceptsKeys, strict, limits }, responsesOf(refused)),
      ...batchPaths({ hosted, acceptsKeys, strict, limits }, responsesOf(refusals(hosted, limits))),
      ...describedPaths(routes, hosted, limits),
    },
    components: {
      schemas: schemas(lineSchema, limits),
      parameters: { ...requestParameters(), ...(acceptsKeys && { [KEY_HEADER]: keyHeader }) },
      responses: Object.fromEntries(
        Object.entries({ ...refused, ...ALSO }).map(([status, [when, header]]) => {
          const headers = header && {
            [header]: { required: true, schema: { type: header === 'Retry-After' ? 'integer' : 'string' } },
          };
          return [status, { ...response(when, ref('schemas', 'Error')), headers }];
        }),
      ),
      ...(hosted && {
        securitySchemes: {
          token: { type: 'apiKey', in: 'header', name: tokenHeader },
          bearer: { type: 'http', scheme: 'bearer' },
        },
      }),
    },
  };
}

function introduction(limits: Limits, acceptsKeys: boolean, strict: boolean): string {
  const { bodyBytesMax, bodyMembersMax, jsonDepthMax, headBytesMax, headersMax, keyBytesMax } = limits;
  return [
    'Records reports about data assets. A 200 is sent only after the report is written and synced. A 4xx was not recorded. ' +
      `After a 503, a 408 or a broken connection it might have been recorded; sending it again can record it twice${acceptsKeys ? ', unless it has an Idempotency-Key' : ''}.`,
    'A parameter is read from the first place that has it: the path (the key only), the JSON body, the query. ' +
      'Null in the body means "not given" and hides the query. A required parameter can be in any of them, which JSON ' +
      `Schema cannot express. Unknown parameters are ${strict ? 'refused' : 'ignored; with --strict or --test they are refused'}.`,
    `At most: a body ${bodyBytesMax} bytes of UTF-8, ${bodyMembersMax} members, ${jsonDepthMax} levels; ` +
      `request line and headers ${headBytesMax} bytes, ${headersMax} headers; ` +
      `a key ${keyBytesMax} bytes of UTF-8, with one between its parts.`,
  ].join('\n\n');
}

/** The schema of a parameter's value without null; an optional parameter can also be null. */
function schemaOf(parameter: Parameter): Schema {
  const text = TEXT;
  switch (parameter.kind) {
    case 'key':
      return ref('schemas', 'Key');
    case 'metadata':
      return { type: 'object', additionalProperties: true, description: 'Recorded as sent.' };
    case 'boolean':
      return { type: 'boolean' };
    case 'one of':
      return { ...text, enum: parameter.choices, default: parameter.standard };
    case 'non-empty string':
      return { ...text, minLength: 1 };
    case 'time':
      return {
        ...text,
        format: 'date-time',
        pattern: eventTimePattern,
        description: 'In the years 0001 to 9999 of UTC.',
      };
    case 'string':
      return text;
  }
}

interface ReportPathOptions {
  readonly hosted: boolean;
  readonly acceptsKeys: boolean;
  readonly strict: boolean;
  readonly limits: Limits;
}

function reportPaths({ hosted, acceptsKeys, strict, limits }: ReportPathOptions, refused: Schema): Schema {
  const headers = {
    [REPLAYED_HEADER]: { description: 'The report was recorded earlier.', schema: { ...TEXT, const: 'true' } },
  };
  const paths: Record<string, Schema> = {};
  for (const { path: ending, type, parameters } of endpoints) {
    const describe = (id: string, about: string, inPath: readonly string[], accepted: readonly Parameter[]) => {
      const required = accepted.filter((one) => one.required).map(({ name }) => name);
      const example = Object.fromEntries(accepted.map((one) => [one.name, one.example]));
      const schema = {
        type: 'object',
        properties: propertiesOf(accepted),
        maxProperties: limits.bodyMembersMax,
        ...(strict && { additionalProperties: false }),
      };
      return {
        parameters: (hosted ? ['deployment_name', ...inPath] : inPath).map((one) => ref('parameters', one)),
        post: {
          operationId: `${ending.slice(1)}${id}`,
          summary: `Record an ${type}`,
          description: `Required: ${required.join(', ') || 'nothing more'}. ${about}`,
          parameters: [...accepted.map(({ name }) => name), ...(acceptsKeys ? [KEY_HEADER] : [])].map((name) =>
            ref('parameters', name),
          ),
          requestBody: { content: json(schema, example) },
          responses: {
            200: {
              ...response('The event is recorded.', { type: 'object', maxProperties: 0 }, {}),
              ...(acceptsKeys && { headers }),
            },
            ...refused,
          },
          ...(hosted && { security: needing('report') }),
        },
      };
    };
    const path = `${hosted ? '/{deployment_name}' : ''}${ending}/`;
    paths[path] = describe('', 'The last slash can be left out.', [], parameters);
    const about =
      'Each slash in the key starts another part; %2F is a slash inside a part. ' +
      `Generated clients escape slashes: with them a key of several parts goes into the body of ${path}.`;
    const besidesKey = parameters.filter(({ kind }) => kind !== 'key');
    paths[`${path}{asset_key}`] = describe('_by_path', about, ['asset_key_in_path'], besidesKey);
  }
  return paths;
}

function batchPaths({ hosted, acceptsKeys, limits }: ReportPathOptions, refused: Schema): Schema {
  const item = ref('schemas', 'BatchItem');
  const example = [
    { type: 'materialization', asset_key: ['warehouse', 'orders'], metadata: { rows: 10 } },
    { type: 'check', asset_key: ['warehouse', 'orders'], check_name: 'no_nulls', passed: true },
  ];
  const itemsMax = limits.batchItemsMax;
  const lines = {
    schema: { type: 'string', description: `One item per line, at most ${itemsMax}; empty lines are skipped.` },
    example: example.map((one) => `${JSON.stringify(one)}\n`).join(''),
  };
  const errors = { type: 'array', items: ref('schemas', 'ItemProblem') };
  const count = { type: 'integer', minimum: 0 };
  const some = { type: 'object', properties: { recorded: count, duplicates: count, failed: count, errors } };
  const all = { type: 'object', properties: { recorded: count, duplicates: count } };
  const description =
    'All items are recorded or none, unless the request prefers handling=lenient: then the wrong items are left out and the reply is 207. ' +
    'An item has the parameters of a report and its type. A journal line is also an item.';
  return {
    [`${hosted ? '/{deployment_name}' : ''}${batchPath}/`]: {
      parameters: hosted ? [ref('parameters', 'deployment_name')] : [],
      post: {
        operationId: batchPath.slice(1),
        summary: 'Record many events',
        description,
        parameters: ['Prefer', PACKED_HEADER, ...(acceptsKeys ? [KEY_HEADER] : [])].map((name) =>
          ref('parameters', name),
        ),
        requestBody: {
          required: true,
          content: {
            ...json({ type: 'array', items: item, minItems: 1, maxItems: itemsMax }, example),
            ...Object.fromEntries(batchTypes.filter((type) => type !== JSON_TYPE).map((type) => [type, lines])),
          },
        },
        responses: {
          200: response('All events are recorded.', all, { recorded: 2 }),
          207: response('Some events are recorded, others were refused; only with Prefer: handling=lenient.', some),
          ...refused,
        },
        ...(hosted && { security: needing('report') }),
      },
    },
  };
}

/** The schemas of an item of a batch (see `event/item.ts`), in the order of the endpoints. */
function batchItems(): Schema[] {
  const ignored = Object.fromEntries(ignoredMembers.map((name) => [name, {}]));
  return endpoints.map(({ name, type, parameters }) => {
    const tags = parameters.filter((one) => 'tag' in one).map((one) => [one.name, orNull(schemaOf(one))]);
    const tagged = {
      type: 'object',
      description: 'The tags of a journal line. Each must equal the parameter of that name if both are given.',
      properties: Object.fromEntries(tags),
      additionalProperties: false,
      minProperties: 1,
    };
    return {
      type: 'object',
      properties: {
        type: { ...TEXT, enum: [name, type] },
        ...propertiesOf(parameters),
        ...(tags.length > 0 && { tags: tagged }),
        idempotency_key: orNull({ type: 'string', pattern: '^[\\x21-\\x7e]+$' }),
        ...ignored,
      },
      required: ['type', ...parameters.filter((one) => one.required).map((one) => one.name)],
      additionalProperties: false,
    };
  });
}

function propertiesOf(parameters: readonly Parameter[]): Readonly<Record<string, Schema>> {
  const schemas = parameters.map((one) => [one.name, one.required ? schemaOf(one) : orNull(schemaOf(one))]);
  return Object.fromEntries(schemas);
}

/** @returns the two headers for a token with this right */
function needing(right: string): Schema[] {
  return [{ token: [right] }, { bearer: [right] }];
}

function describedPaths(routes: readonly Route<unknown>[], hosted: boolean, limits: Limits): Schema {
  const paths: Record<string, Schema> = {};
  for (const { needs, path, methods, bodyTypes, describe } of routes) {
    if (describe === undefined) continue;
    const { summary, description, query = {}, parameters = [], body, content, also = [] } = describe();
    const isBelow = hosted && needs !== 'nothing';
    const rest = parameters.filter((one) => one['in'] === 'path').map(({ name }) => `/{${name}}`);
    const whole = [path, ...rest].join('');
    const inQuery = Object.entries(query).map(([name, { schema, what }]) => ({
      name,
      in: 'query',
      description: what,
      schema,
    }));
    const media = Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }]));
    const ofOne = isBelow && paths[whole] !== undefined ? 'deployment_' : ''; // the path of the service is the same
    const operation = (method: string) => ({
      operationId: `${method}_${ofOne}${whole.slice(1).replace(/\W/g, '_') || 'page'}`,
      summary,
      description,
      parameters: [...parameters, ...inQuery],
      ...(body &&
        (method === 'put' || method === 'post') && {
          requestBody: { required: true, content: Object.fromEntries(bodyTypes.map((type) => [type, body])) },
        }),
      responses: {
        200: { description: 'Done.', content: media },
        ...responsesOf(refusals(isBelow, limits)),
        ...Object.fromEntries(also.map((status) => [status, ref('responses', `${status}`)])),
      },
      ...(isBelow && { security: needing(needs) }),
    });
    paths[`${isBelow ? '/{deployment_name}' : ''}${whole}`] = {
      ...(isBelow && { parameters: [ref('parameters', 'deployment_name')] }),
      ...Object.fromEntries(methods.map((method) => method.toLowerCase()).map((method) => [method, operation(method)])),
    };
  }
  return paths;
}

/** The names of the two forms of a line. */
const LINE_NAMES = ['AssetEvent', 'CheckEvent'];

/**
 * Each schema, and each form of a union, has a name unlike any parameter, since generators of clients turn them into
 * types.
 */
function schemas(lineSchema: Schema, limits: Limits): Schema {
  const items = batchItems();
  const itemNames = endpoints.map(({ type }) => `${type}Item`);
  const lines = lineSchema['oneOf'] as readonly Schema[];
  const part = ref('schemas', 'KeyPart');
  const error = { type: 'string', description: 'One line: what is wrong, and what to do.' };
  const request_id = {
    type: 'string',
    description: 'The id of the request, also in the log lines of the service about it.',
  };
  return {
    KeyPart: { ...keyPartSchema(), maxLength: limits.keyBytesMax },
    KeyParts: { type: 'array', items: part, minItems: 1 },
    Key: { anyOf: [part, ref('schemas', 'KeyParts')] },
    ...Object.fromEntries(items.map((item, index) => [itemNames[index], item])),
    BatchItem: { anyOf: itemNames.map((name) => ref('schemas', name)), maxProperties: limits.bodyMembersMax },
    ...Object.fromEntries(lines.map((one, index) => [LINE_NAMES[index], one])),
    Event: { ...lineSchema, oneOf: LINE_NAMES.map((name) => ref('schemas', name)) },
    Error: {
      type: 'object',
      properties: {
        error,
        request_id,
        errors: { type: 'array', items: ref('schemas', 'ItemProblem') },
        first_seq: {
          type: 'integer',
          minimum: 1,
          description: 'With a 410: the seq of the first available event.',
        },
        reason: {
          ...TEXT,
          enum: ['fork', 'gap', 'loop'],
          description: 'With a 409, in addition to the members of a 200.',
        },
      },
      required: ['error', 'request_id'],
    },
    ItemProblem: {
      type: 'object',
      description: 'A wrong item of a batch.',
      properties: { item: { type: 'integer', minimum: 1 }, error },
      required: ['item', 'error'],
    },
  };
}

/** The components of request parameters: query parameters under their own names, path parameters under other names. */
function requestParameters(): Schema {
  const inQuery = allParameters(endpoints).map((parameter) => {
    const { name, kind, example } = parameter;
    return [
      name,
      kind === 'metadata'
        ? { name, in: 'query', description: 'A JSON object.', schema: TEXT, example: JSON.stringify(example) }
        : { name, in: 'query', schema: schemaOf(parameter), example },
    ];
  });
  return {
    ...Object.fromEntries(inQuery),
    asset_key: {
      name: 'asset_key',
      in: 'query',
      description: 'A key of one part as plain text, or all parts as a JSON array.',
      // One pattern instead of a union, since generators of clients create no type for a union in a query.
      schema: { ...TEXT, pattern: '^(?:\\[|[^[\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$)' },
      example: '["warehouse","orders"]',
    },
    asset_key_in_path: pathParameter('asset_key', ref('schemas', 'KeyPart'), 'orders'),
    Prefer: {
      name: 'Prefer',
      in: 'header',
      description: 'handling=lenient records the right items (RFC 7240).',
      schema: { type: 'string' },
    },
    [PACKED_HEADER]: packedHeader,
    deployment_name: pathParameter('deployment_name', { type: 'string', pattern: deploymentName.source }, 'prod'),
  };
}

/** @returns the OpenAPI description of a path parameter */
export function pathParameter(name: string, schema: Schema, example: unknown): Schema {
  return { name, in: 'path', required: true, schema, example };
}

const PACKED_HEADER = 'Content-Encoding';
/**
 * The description of the header of a compressed body. It has no example, since tools would send it with a body that is not
 * compressed.
 */
export const packedHeader = {
  name: PACKED_HEADER,
  in: 'header',
  description: 'The body is one member of gzip. Compressed and decompressed it has at most the bytes of a body.',
  schema: { ...TEXT, enum: ['gzip'] },
};
const KEY_HEADER = 'Idempotency-Key';
const REPLAYED_HEADER = 'Idempotent-Replayed';
/** Has no example, since tools would send it with each report, and only one report with the same key is recorded. */
const keyHeader = {
  name: KEY_HEADER,
  in: 'header',
  description:
    'Identifies the report: a report that is sent again with the same key is recorded once. ' +
    'In quotes (RFC 8941), or bare without quotes and commas.',
  schema: { type: 'string', pattern: idempotencyKeyPattern.source },
};
const KEY_REFUSAL: Refusals = { 422: ['The Idempotency-Key was used before, for another event.'] };

/** The statuses that only some routes have. */
const ALSO: Refusals = {
  409: ['The events do not follow the last recorded event of their journal; see seq, id and reason.'],
  410: ['The events after after_seq were removed; first_seq is the first available event.'],
};

/** Refusals by status: when the status is sent, and the header that every such reply has. */
type Refusals = Readonly<Record<string, readonly [when: string, header?: string]>>;

function refusals(hosted: boolean, { bodyBytesMax }: Limits): Refusals {
  return {
    400: ['The request is invalid; the error names its first mistake.'],
    ...(hosted && { 401: ['No valid token, or no such deployment.', 'WWW-Authenticate'] }),
    403: [`A web page of another site, a foreign Host, or ${hosted ? 'a token without the right' : 'reading is off'}.`],
    404: ['No such path.'],
    405: ['Method not in Allow.', 'Allow'],
    408: ['The request arrived too slowly.'],
    413: [
      `The body has more than ${bodyBytesMax} bytes or too many tiny chunks, or the events of a batch need too much memory.`,
    ],
    415: ['The body has a Content-Encoding other than those of the path.'],
    417: ['Expect other than 100-continue.'],
    ...(hosted && { 429: ['Too many requests without a valid token.', 'Retry-After'] }),
    431: ['Request line and headers too large.'],
    503: ['The report cannot be recorded now, or the service is not ready.', 'Retry-After'],
  };
}

function responsesOf(refused: Refusals): Schema {
  return Object.fromEntries(Object.keys(refused).map((status) => [status, ref('responses', status)]));
}

function response(description: string, schema: Schema, example?: unknown): Schema {
  return { description, content: json(schema, example) };
}

function json(schema: Schema, example?: unknown): Schema {
  return { [JSON_TYPE]: { schema, example } };
}

function ref(kind: string, name: string): Schema {
  return { $ref: `#/components/${kind}/${name}` };
}
