/**
 * Hostile inputs as data: the bytes of a client, and the replies, the recorded events and the state of the connection. A row
 * with several outcomes has a reason. `hostile.test.ts` runs each row, and checks that other clients are served at the same time.
 * This file has the building blocks, the other files have a group of rows each, and `table.ts` has all groups.
 */

/** A way to run the service, and the parts of a good request there. */
export interface Style {
  /** The first part of the path of every report. */
  readonly prefix: string;
  /** The last headers of each request. */
  readonly headers: readonly string[];
  /** The status of a path outside all prefixes. */
  readonly outside: number;
}

export const local: Style = { prefix: '', headers: [], outside: 404 };

export const TOKEN_NAME = 'Service-Cloud-Api-Token';
export const TOKEN = `asl_${'Tt0-_'.repeat(9)}`;
export const OTHER_TOKEN = `asl_${'Oo1-_'.repeat(9)}`;
export const EXPIRED_TOKEN = `asl_${'Ee2-_'.repeat(9)}`;
export const SPOKEN_TOKEN = 'schlüssel';
const READING_TOKEN = `asl_${'Rr3-_'.repeat(9)}`;
export const EXPIRED_READING_TOKEN = `asl_${'Xx4-_'.repeat(9)}`;
export const GOOD_TOKEN = `${TOKEN_NAME}: ${TOKEN}`;
/** A valid token that may only read. */
export const READER = `${TOKEN_NAME}: ${READING_TOKEN}`;
export const LONGEST_NAME = `L${'o'.repeat(61)}g`;

/** The deployments file, with each token in place of its SHA-256. */
export const deployments: readonly {
  name: string;
  tokens: readonly { token: string; notAfter?: string; may?: readonly string[] }[];
}[] = [
  {
    name: 'prod',
    tokens: [
      { token: OTHER_TOKEN.toLowerCase() },
      { token: TOKEN, may: ['report', 'read', 'forward'] },
      { token: READING_TOKEN, may: ['read'] },
      { token: EXPIRED_READING_TOKEN, may: ['read'], notAfter: '2026-01-31' },
      { token: EXPIRED_TOKEN, notAfter: '2026-01-31' },
      { token: SPOKEN_TOKEN },
    ],
  },
  { name: 'test', tokens: [{ token: OTHER_TOKEN }] },
  { name: LONGEST_NAME, tokens: [{ token: OTHER_TOKEN }] },
];
/** A folder beside the folders of deployments, which belongs to none. */
export const FOREIGN_FOLDER = 'attic';

export const hosted: Style = { prefix: '/prod', headers: [GOOD_TOKEN], outside: 401 };

/**
 * Replaced by another key of the same length in each row, so that rows can run side by side and be counted exactly. A key that is
 * recorded for another deployment than the style's ends with ` in NAME`.
 */
export const KEY = 'key-000';

/** The connection after the last reply: `kept` accepts another report, `closed` was announced, `open` waits. */
export type Afterwards = 'kept' | 'closed' | 'open';

export interface Outcome {
  readonly replies: readonly {
    readonly status: number;
    readonly records?: string | readonly string[];
    /** The reply has `Idempotent-Replayed: true`; no other reply has it. */
    readonly replayed?: true;
    /** The reply shows events, assets or refusals. */
    readonly reads?: true;
  }[];
  readonly afterwards: Afterwards;
}

export interface Row {
  /** A sentence, or what is sent and what follows. */
  readonly name: string;
  /** In latin1: a character is a byte. */
  readonly bytes: string;
  /** The accepted outcomes. */
  readonly outcomes: readonly Outcome[];
  /** Why there are several outcomes. */
  readonly reason?: string;
  /** The client closes its half of the connection after the bytes. */
  readonly half?: boolean;
  /** The number of bytes in one packet; all by default. */
  readonly pieceBytes?: number;
  /** The replies answer HEAD requests: each has the length of a body that is not sent. */
  readonly bodiless?: boolean;
  /** Why the row makes no sense in hosted mode. */
  readonly localOnly?: string;
  /** What the service does instead: a known defect, not a failure. */
  readonly defect?: string;
}

type More = Pick<Row, 'reason' | 'half' | 'pieceBytes' | 'bodiless' | 'localOnly' | 'defect'>;

export function row(name: string, bytes: string, outcome: Outcome | readonly Outcome[], more: More = {}): Row {
  return { name, bytes, outcomes: 'afterwards' in outcome ? [outcome] : outcome, ...more };
}

/** @param named the bytes of rows with the same outcome, by what is sent */
export function rows(
  outcome: Outcome | readonly Outcome[],
  named: Readonly<Record<string, string>>,
  more?: More,
): Row[] {
  const ends = [outcome].flat().map(({ replies, afterwards }) => {
    const statuses = replies.map(({ status }) => status).join(', ');
    return `${statuses || 'no reply'}, ${afterwards}`;
  });
  return Object.entries(named).map(([what, bytes]) => row(`${what}: ${ends.join(' or ')}`, bytes, outcome, more));
}

export const taken = recorded(KEY);
export const answered: Outcome = { replies: [{ status: 200 }], afterwards: 'kept' };
/** The report was recorded earlier with the same idempotency key. */
export const replayed: Outcome = { replies: [{ status: 200, replayed: true }], afterwards: 'kept' };
export const silence: Outcome = { replies: [], afterwards: 'open' };

export function recorded(...keys: readonly string[]): Outcome {
  return { replies: keys.map((records) => ({ status: 200, records })), afterwards: 'kept' };
}

/** The request is refused, and the connection is kept. */
export function keeps(status: number): Outcome {
  return { replies: [{ status }], afterwards: 'kept' };
}

/** The request is refused, and the connection ends. */
export function ends(status: number): Outcome {
  return { replies: [{ status }], afterwards: 'closed' };
}

/** One outcome after another on the same connection. */
export function both(first: Outcome, second: Outcome): Outcome {
  return { replies: [...first.replies, ...second.replies], afterwards: second.afterwards };
}

export const announced = (outcome: Outcome): Outcome => ({ ...outcome, afterwards: 'closed' });

export const HOST = 'Host: localhost';
export const JSON_TYPE = 'Content-Type: application/json';
export const CHUNKED = 'Transfer-Encoding: chunked';
export const BODY = `{"asset_key":"${KEY}"}`;
export const SIZED = `Content-Length: ${BODY.length}`;
export const CHUNK = `${BODY.length.toString(16)}\r\n${BODY}\r\n`;
export const LAST_CHUNK = '0\r\n\r\n';
/** The body in one chunk. */
export const CHUNKS = `${CHUNK}${LAST_CHUNK}`;
/** A report that an attacker wants to smuggle in. It must never be recorded, unless a row has it in its outcome. */
export const SMUGGLED_KEY = `${KEY}/smuggled`;
export const FIRST_KEY = `${KEY}/first`;
export const SECOND_KEY = `${KEY}/second`;
export const OFFER = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMA'];

export function utf8(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** The building blocks of rows, for one way to run the service. */
export function formsOf({ prefix, headers, outside }: Style) {
  const MATERIALIZATION = `${prefix}/report_asset_materialization/`;
  const TARGET = `${MATERIALIZATION}${KEY}`;
  const BATCH = `${prefix}/report_asset_batch/`;
  /** A head: lines with their line ends, and the empty line. */
  const head = (...lines: readonly string[]) => `${[...lines, ...headers].join('\r\n')}\r\n\r\n`;
  const reportTo = (target: string, ...more: readonly string[]) => head(`POST ${target} HTTP/1.1`, HOST, ...more);
  /** A report whose key is in the path. */
  const report = (...more: readonly string[]) => reportTo(TARGET, ...more);
  /** A report whose key is in the body, framed by the given headers. */
  const framed = (more: readonly string[], body = BODY) => `${reportTo(MATERIALIZATION, JSON_TYPE, ...more)}${body}`;
  const chunked = (body: string) => framed([CHUNKED], body);
  /** A well-framed body for a target that has the key, so that only the body decides. */
  const json = (body: string, target = TARGET, ...more: readonly string[]) =>
    `${reportTo(target, JSON_TYPE, `Content-Length: ${body.length}`, ...more)}${body}`;
  /** Harmless headers, as many as a report needs to have `count` headers. */
  const padding = (count: number) => Array<string>(count - 1 - headers.length).fill('X: 1');
  return {
    prefix,
    /** The status of a path outside all prefixes. */
    outside,
    MATERIALIZATION,
    TARGET,
    CHECK: `${prefix}/report_asset_check/`,
    BATCH,
    NOWHERE: `${prefix}/nowhere`,
    GOOD_LINE: `POST ${TARGET} HTTP/1.1`,
    LIVE: head('GET /livez HTTP/1.1', HOST),
    SMUGGLED: reportTo(`${MATERIALIZATION}${SMUGGLED_KEY}`),
    FIRST: reportTo(`${MATERIALIZATION}${FIRST_KEY}`),
    SECOND: reportTo(`${MATERIALIZATION}${SECOND_KEY}`),
    head,
    reportTo,
    report,
    framed,
    chunked,
    json,
    batch: (body: string, type = 'application/x-ndjson', target = BATCH, ...more: readonly string[]) =>
      `${reportTo(target, `Content-Type: ${type}`, `Content-Length: ${body.length}`, ...more)}${body}`,
    typed: (...more: readonly string[]) => `${reportTo(TARGET, 'Content-Length: 2', ...more)}{}`,
    offer: report(...OFFER),
    offerTo: (line: string) => head(`${line} HTTP/1.1`, HOST, 'Connection: Upgrade', 'Upgrade: websocket'),
    /** A report with a head of `bytes` bytes. */
    headOf: (bytes: number) => report(`X: ${'x'.repeat(bytes - report('X: ').length)}`),
    /** The same, in 100 headers without a space after the colon. */
    headOfManyHeaders: (bytes: number) => {
      const short = padding(99).map(() => 'X:1');
      return report(...short, `X:${'x'.repeat(bytes - report(...short, 'X:').length)}`);
    },
    inChunks: (body: string) => chunked(`${body.length.toString(16)}\r\n${body}\r\n${LAST_CHUNK}`),
    padding,
  };
}

export function repeated(times: number, outcome: Outcome): Outcome {
  return { ...outcome, replies: Array.from({ length: times }, () => outcome.replies).flat() };
}

export function shorten(name: string): string {
  if (name === '') return 'Nothing';
  return name.length > 64 ? `A name of ${name.length} characters` : `A path that starts with ${name}`;
}

/** @returns the value of a row, for its name */
export function shown(value: string): string {
  if (value.length <= 80) return JSON.stringify(value);
  return `${JSON.stringify(value.slice(0, 20))} … ${JSON.stringify(value.slice(-20))} (${value.length})`;
}

export const itemOf = (name: string, more = '') => `{"type":"observation","asset_key":["${KEY}","${name}"]${more}}`;
export const FIRST_ITEM = itemOf('first');
export const SECOND_ITEM = itemOf('second');
export const WRONG_ITEM = `{"type":"check","asset_key":"${KEY}","check_name":"c"}`;
export const TWO_ITEMS = `${FIRST_ITEM}\n${SECOND_ITEM}`;
export const BYTE_ORDER_MARK = utf8('\ufeff');
export const JSON_LINES = 'application/x-ndjson';

export type Forms = ReturnType<typeof formsOf>;
