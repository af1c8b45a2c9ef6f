/**
 * What nobody should send, as data: bytes in, and what the service answers, records and does with the connection. Where a
 * row allows several outcomes it says why. `hostile.test.ts` runs each row and then shows that nobody else is disturbed.
 */

/** One way to run the service, and what rows that are good have to look like there. */
export interface Style {
  /** What every path of a report is under. */
  readonly prefix: string;
  /** Stand at the end of each head. */
  readonly headers: readonly string[];
  /** The status of a path that leads nowhere whatever is under it. */
  readonly outside: number;
}

export const local: Style = { prefix: '', headers: [], outside: 404 };

const TOKEN_NAME = 'Service-Cloud-Api-Token';
const TOKEN = `asl_${'Tt0-_'.repeat(9)}`;
const OTHER_TOKEN = `asl_${'Oo1-_'.repeat(9)}`;
const EXPIRED_TOKEN = `asl_${'Ee2-_'.repeat(9)}`;
const SPOKEN_TOKEN = 'schlüssel';
const READING_TOKEN = `asl_${'Rr3-_'.repeat(9)}`;
const EXPIRED_READING_TOKEN = `asl_${'Xx4-_'.repeat(9)}`;
const GOOD_TOKEN = `${TOKEN_NAME}: ${TOKEN}`;
/** A good token that may only read. */
const READER = `${TOKEN_NAME}: ${READING_TOKEN}`;
const LONGEST_NAME = `L${'o'.repeat(61)}g`;

/** What is in the deployments file; the token itself stands where the file has its SHA-256. */
export const deployments: readonly {
  name: string;
  tokens: readonly { token: string; notAfter?: string; may?: readonly string[] }[];
}[] = [
  {
    name: 'prod',
    tokens: [
      { token: OTHER_TOKEN.toLowerCase() },
      { token: TOKEN, may: ['report', 'read'] },
      { token: READING_TOKEN, may: ['read'] },
      { token: EXPIRED_READING_TOKEN, may: ['read'], notAfter: '2026-01-31' },
      { token: EXPIRED_TOKEN, notAfter: '2026-01-31' },
      { token: SPOKEN_TOKEN },
    ],
  },
  { name: 'test', tokens: [{ token: OTHER_TOKEN }] },
  { name: LONGEST_NAME, tokens: [{ token: OTHER_TOKEN }] },
];
/** A folder beside those of the deployments; it belongs to nobody. */
export const FOREIGN_FOLDER = 'attic';

export const hosted: Style = { prefix: '/prod', headers: [GOOD_TOKEN], outside: 401 };

/**
 * Stands in each row for a key of its own, of the same length: so rows can run side by side and be counted exactly. What is
 * recorded for another deployment than that of the style has ` in NAME` behind its key.
 */
export const KEY = 'key-000';

/** The connection after the last reply: `kept` takes another report; of `closed` the end was announced; `open` waits. */
export type Afterwards = 'kept' | 'closed' | 'open';

export interface Outcome {
  readonly replies: readonly {
    readonly status: number;
    readonly records?: string | readonly string[];
    /** It has `Idempotent-Replayed: true`; no other reply does. */
    readonly replayed?: true;
    /** It shows events, assets or refusals. */
    readonly reads?: true;
  }[];
  readonly afterwards: Afterwards;
}

export interface Row {
  /** A sentence. */
  readonly name: string;
  /** As latin1: a character is a byte. */
  readonly bytes: string;
  /** One of them comes true, whole. */
  readonly outcomes: readonly Outcome[];
  /** Why there are several. */
  readonly reason?: string;
  /** The client closes its half behind the bytes. */
  readonly half?: boolean;
  /** How many bytes go in one packet; all of them when it is not given. */
  readonly pieceBytes?: number;
  /** They answer a HEAD: each tells the length of a body that it has not got. */
  readonly bodiless?: boolean;
  /** Why the row makes no sense in hosted mode. */
  readonly localOnly?: string;
  /** What the service does instead: the row is a task, not a failure. */
  readonly defect?: string;
}

type More = Pick<Row, 'reason' | 'half' | 'pieceBytes' | 'bodiless' | 'localOnly' | 'defect'>;

function row(name: string, bytes: string, outcome: Outcome | readonly Outcome[], more: More = {}): Row {
  return { name, bytes, outcomes: 'afterwards' in outcome ? [outcome] : outcome, ...more };
}

const taken = recorded(KEY);
const answered: Outcome = { replies: [{ status: 200 }], afterwards: 'kept' };
/** The report was recorded before, with the same idempotency key. */
const replayed: Outcome = { replies: [{ status: 200, replayed: true }], afterwards: 'kept' };
const silence: Outcome = { replies: [], afterwards: 'open' };

function recorded(...keys: readonly string[]): Outcome {
  return { replies: keys.map((records) => ({ status: 200, records })), afterwards: 'kept' };
}

/** Refused, and the connection goes on. */
function keeps(status: number): Outcome {
  return { replies: [{ status }], afterwards: 'kept' };
}

/** Refused, and the connection ends. */
function ends(status: number): Outcome {
  return { replies: [{ status }], afterwards: 'closed' };
}

/** One outcome behind another on the same connection. */
function both(first: Outcome, second: Outcome): Outcome {
  return { replies: [...first.replies, ...second.replies], afterwards: second.afterwards };
}

const announced = (outcome: Outcome): Outcome => ({ ...outcome, afterwards: 'closed' });

const HOST = 'Host: localhost';
const JSON_TYPE = 'Content-Type: application/json';
const CHUNKED = 'Transfer-Encoding: chunked';
const BODY = `{"asset_key":"${KEY}"}`;
const SIZED = `Content-Length: ${BODY.length}`;
const CHUNK = `${BODY.length.toString(16)}\r\n${BODY}\r\n`;
const LAST_CHUNK = '0\r\n\r\n';
/** What an attacker wants to be taken for a request of its own. It must never be recorded unless a row says so. */
const SMUGGLED_KEY = `${KEY}/smuggled`;
const FIRST_KEY = `${KEY}/first`;
const SECOND_KEY = `${KEY}/second`;
const OFFER = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMA'];

function utf8(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** What rows are made of, for one way to run the service. */
function formsOf({ prefix, headers, outside }: Style) {
  const MATERIALIZATION = `${prefix}/report_asset_materialization/`;
  const TARGET = `${MATERIALIZATION}${KEY}`;
  const BATCH = `${prefix}/report_asset_batch/`;
  /** A head: lines with their ends, and the empty one. */
  const head = (...lines: readonly string[]) => `${[...lines, ...headers].join('\r\n')}\r\n\r\n`;
  const reportTo = (target: string, ...more: readonly string[]) => head(`POST ${target} HTTP/1.1`, HOST, ...more);
  /** A report whose key is in the path. */
  const report = (...more: readonly string[]) => reportTo(TARGET, ...more);
  /** A report whose key is in the body, framed as the headers say. */
  const framed = (more: readonly string[], body = BODY) => `${reportTo(MATERIALIZATION, JSON_TYPE, ...more)}${body}`;
  const chunked = (body: string) => framed([CHUNKED], body);
  /** A well-framed body for a target that has the key, so that only the body decides. */
  const json = (body: string, target = TARGET, ...more: readonly string[]) =>
    `${reportTo(target, JSON_TYPE, `Content-Length: ${body.length}`, ...more)}${body}`;
  /** So many headers of no meaning that a report has so many with its own. */
  const padding = (count: number) => Array<string>(count - 1 - headers.length).fill('X: 1');
  return {
    prefix,
    /** What the service answers where nothing can be. */
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
    /** A report with so many bytes of head. */
    headOf: (bytes: number) => report(`X: ${'x'.repeat(bytes - report('X: ').length)}`),
    /** The same in 100 headers that have no space behind their colon. */
    headOfManyHeaders: (bytes: number) => {
      const short = padding(99).map(() => 'X:1');
      return report(...short, `X:${'x'.repeat(bytes - report(...short, 'X:').length)}`);
    },
    inChunks: (body: string) => chunked(`${body.length.toString(16)}\r\n${body}\r\n${LAST_CHUNK}`),
    padding,
  };
}

type Forms = ReturnType<typeof formsOf>;

/** Each of these as the value of Content-Length, with a good body behind it. */
const badLengths: readonly (readonly [what: string, value: string])[] = [
  ['a negative one', '-23'],
  ['one with a plus', '+23'],
  ['a hexadecimal one', '0x17'],
  ['a fraction', '23.0'],
  ['an exponent', '2e1'],
  ['two numbers with a space', '2 3'],
  ['a list of equal numbers', '23, 23'],
  ['a list of different numbers', '23, 5'],
  ['an empty one', ''],
  ['a word', 'chunked'],
  ['quotes', '"23"'],
  ['a comma behind it', '23,'],
  ['a semicolon behind it', '23;'],
  ['an underscore', '2_3'],
  ['a digit that is not ASCII', utf8('٢٣')],
  ['2 to the power of 64', '18446744073709551616'],
  ['a hundred digits', '9'.repeat(100)],
  ['a vertical tab before it', '\x0b23'],
];

/** Each of these as the value of Transfer-Encoding, with a good chunked body behind it. */
const badCodings: readonly (readonly [what: string, value: string])[] = [
  ['chunked twice', 'chunked, chunked'],
  ['gzip before chunked', 'gzip, chunked'],
  ['gzip', 'gzip'],
  ['identity', 'identity'],
  ['identity before chunked', 'identity, chunked'],
  ['chunked before identity', 'chunked, identity'],
  ['an unknown coding', 'cow'],
  ['a longer word', 'xchunked'],
  ['a longer word behind', 'chunkedx'],
  ['quotes', '"chunked"'],
  ['a parameter', 'chunked;q=1'],
  ['nothing', ''],
  ['a comma before it', ', chunked'],
  ['a comma behind it', 'chunked,'],
  ['a vertical tab before it', '\x0bchunked'],
  ['a no-break space before it', '\xa0chunked'],
  ['a Kelvin sign for its k', utf8('chun\u212aed')],
];

const smuggling = ({ MATERIALIZATION, TARGET, SMUGGLED, head, report, framed }: Forms): readonly Row[] => [
  row('Content-Length before chunked is refused', framed([SIZED, CHUNKED], `${CHUNK}${LAST_CHUNK}`), ends(400)),
  row('Content-Length behind chunked is refused', framed([CHUNKED, SIZED], `${CHUNK}${LAST_CHUNK}`), ends(400)),
  row(
    'CL.TE: what a short Content-Length leaves behind is not a request',
    framed(['Content-Length: 5', CHUNKED], `${LAST_CHUNK}${SMUGGLED}`),
    ends(400),
  ),
  row(
    'TE.CL: what a chunk hides is not a request',
    framed([CHUNKED, 'Content-Length: 4'], `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n${LAST_CHUNK}`),
    ends(400),
  ),
  row(
    'TE.TE: of two Transfer-Encodings neither is followed when one is unknown',
    framed([CHUNKED, 'Transfer-Encoding: cow'], `${LAST_CHUNK}${SMUGGLED}`),
    ends(400),
  ),
  row(
    'TE.TE: the unknown one first is refused as well',
    framed(['Transfer-Encoding: cow', CHUNKED], `${LAST_CHUNK}${SMUGGLED}`),
    ends(400),
  ),
  row('Two headers that both say chunked are refused', framed([CHUNKED, CHUNKED], `${CHUNK}${LAST_CHUNK}`), ends(400)),
  row('Two equal Content-Lengths are refused', framed([SIZED, SIZED]), ends(400)),
  row(
    'Two Content-Lengths, the larger first, are refused',
    framed([`Content-Length: ${BODY.length + SMUGGLED.length}`, SIZED], `${BODY}${SMUGGLED}`),
    ends(400),
  ),
  row(
    'Two Content-Lengths, the smaller first, are refused',
    framed(['Content-Length: 0', SIZED], `${BODY}${SMUGGLED}`),
    ends(400),
  ),
  ...badLengths.map(([what, value]) =>
    row(`Content-Length that is ${what} is refused`, framed([`Content-Length: ${value}`]), ends(400)),
  ),
  ...badCodings.map(([what, value]) =>
    row(
      `Transfer-Encoding that is ${what} is refused`,
      framed([`Transfer-Encoding: ${value}`], `${CHUNK}${LAST_CHUNK}`),
      ends(400),
    ),
  ),
  row('Content-Length may have zeros before it', framed([`Content-Length: 000${BODY.length}`]), taken),
  row('Content-Length may have white space around it', framed([`Content-Length: \t ${BODY.length}  `]), taken),
  row('Content-Length may have a tab behind it', framed([`Content-Length: ${BODY.length}\t`]), [taken, ends(400)], {
    reason: 'llhttp took no tab there before 9.4; RFC 9112 section 5 allows it',
  }),
  row('Content-Length in capitals counts', framed([SIZED.toUpperCase()]), taken),
  row(
    'The largest Content-Length of 64 bits is a large body',
    framed(['Content-Length: 18446744073709551615']),
    ends(413),
  ),
  row('A Content-Length that doubles round is a large body', framed(['Content-Length: 9007199254740993']), ends(413)),
  row('Chunked may be written in capitals', framed(['TRANSFER-ENCODING: CHUNKED'], `${CHUNK}${LAST_CHUNK}`), taken),
  row(
    'Chunked may have white space around it',
    framed(['Transfer-Encoding:\t chunked  '], `${CHUNK}${LAST_CHUNK}`),
    taken,
  ),
  row(
    'Chunked may have a tab behind it',
    framed(['Transfer-Encoding: chunked\t'], `${CHUNK}${LAST_CHUNK}`),
    [taken, ends(400)],
    {
      reason: 'llhttp takes no tab there; RFC 9112 section 5 allows it, and a refusal does no harm',
    },
  ),
  row(
    'Transfer-Encoding on HTTP/1.0 is refused',
    `${head(`POST ${MATERIALIZATION} HTTP/1.0`, HOST, JSON_TYPE, CHUNKED)}${CHUNK}${LAST_CHUNK}`,
    ends(400),
  ),
  row(
    'Transfer-Encoding on HTTP/1.0 with keep-alive is refused, and what is behind it is not served',
    `${head(`POST ${TARGET} HTTP/1.0`, HOST, 'Connection: keep-alive', CHUNKED)}${LAST_CHUNK}${SMUGGLED}`,
    ends(400),
  ),
  row(
    'Both framings on HTTP/1.0 are refused',
    `${head(`POST ${TARGET} HTTP/1.0`, HOST, CHUNKED, 'Content-Length: 5')}${LAST_CHUNK}`,
    ends(400),
  ),
  row('A space before the colon of Content-Length is refused', framed([`Content-Length : ${BODY.length}`]), ends(400)),
  row(
    'A tab before the colon of Transfer-Encoding is refused',
    framed(['Transfer-Encoding\t: chunked'], LAST_CHUNK),
    ends(400),
  ),
  row('A space before the name of Transfer-Encoding is refused', framed([` ${CHUNKED}`], LAST_CHUNK), ends(400)),
  row(
    'Transfer-Encoding folded over two lines is refused',
    framed(['Transfer-Encoding:\r\n chunked'], LAST_CHUNK),
    ends(400),
  ),
  row('Content-Length folded over two lines is refused', framed([`Content-Length:\r\n ${BODY.length}`]), ends(400)),
  row('Content-Length with a digit on a folded line is refused', framed(['Content-Length: 2\r\n 3']), ends(400)),
  row(
    'Transfer-Encoding behind a bare line feed is not hidden',
    framed([`X: y\n${CHUNKED}`, 'Content-Length: 5'], `${LAST_CHUNK}${SMUGGLED}`),
    ends(400),
  ),
  row(
    'Transfer-Encoding behind a bare carriage return is not hidden',
    framed([`X: y\r${CHUNKED}`, 'Content-Length: 5'], `${LAST_CHUNK}${SMUGGLED}`),
    ends(400),
  ),
  row(
    'Transfer-Encoding with a NUL in its name is refused',
    framed(['Transfer-Encoding\0: chunked'], LAST_CHUNK),
    ends(400),
  ),
  row(
    'Content_Length is another header, so its body is no body and breaks the connection',
    `${report(`Content_Length: ${BODY.length}`)}${BODY}`,
    both(taken, ends(400)),
  ),
  row(
    'Transfer_Encoding is another header, so its chunks are no chunks',
    `${report('Transfer_Encoding: chunked')}${LAST_CHUNK}`,
    both(taken, ends(400)),
  ),
  row('The Connection header can not take Content-Length away', framed(['Connection: content-length', SIZED]), taken),
  row(
    'X-HTTP-Method-Override is another header',
    head('GET /livez HTTP/1.1', HOST, 'X-HTTP-Method-Override: POST'),
    answered,
  ),
  row(
    'A GET with a body is one request',
    `${head('GET /livez HTTP/1.1', HOST, `Content-Length: ${SMUGGLED.length}`, JSON_TYPE)}${SMUGGLED}`,
    keeps(400),
  ),
  row(
    'A header that is split over many packets is the same header',
    framed([CHUNKED, SIZED], `${CHUNK}${LAST_CHUNK}`),
    ends(400),
    { pieceBytes: 7 },
  ),
];

const framing = ({ TARGET, SMUGGLED, report, framed, chunked }: Forms): readonly Row[] => [
  row('A body in one chunk is taken', chunked(`${CHUNK}${LAST_CHUNK}`), taken),
  row(
    'A body in several chunks, a byte a packet, is taken',
    chunked(`e\r\n{"asset_key":"\r\n7\r\n${KEY}\r\n1\r\n"\r\n1\r\n}\r\n${LAST_CHUNK}`),
    taken,
    { pieceBytes: 1 },
  ),
  row('A chunk size may have zeros before it', chunked(`00000000000000000000${CHUNK}${LAST_CHUNK}`), taken),
  row('A last chunk may have several zeros', chunked(`${CHUNK}0000\r\n\r\n`), taken),
  row('A chunk size over 64 bits is refused', chunked(`1000000000000000${CHUNK}${LAST_CHUNK}`), ends(400)),
  row('A negative chunk size is refused', chunked(`-1\r\nx\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk size with a plus is refused', chunked(`+1\r\nx\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk size with 0x is refused', chunked(`0x1\r\nx\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk size with a space before it is refused', chunked(` ${CHUNK}${LAST_CHUNK}`), ends(400)),
  row('A chunk size with a space behind it is refused', chunked(`17 \r\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk size with an underscore is refused', chunked(`1_7\r\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk without a size is refused', chunked(`\r\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk size that is a word is refused', chunked(`zz\r\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk extension is ignored', chunked(`17;name=value;other="quo;ted\\""\r\n${BODY}\r\n${LAST_CHUNK}`), taken),
  row('An extension of the last chunk is ignored', chunked(`${CHUNK}0;last\r\n\r\n`), taken),
  row('A chunk extension with a bare line feed is refused', chunked(`17;a\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row(
    'A chunk extension whose quotes never close is refused',
    chunked(`17;a="b\r\n${BODY}\r\n${LAST_CHUNK}`),
    ends(400),
  ),
  row('A chunk extension with a control byte is refused', chunked(`17;a\x01\r\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row(
    'Chunk extensions over 16 KiB are refused',
    chunked(`17;${'a'.repeat(17_000)}\r\n${BODY}\r\n${LAST_CHUNK}`),
    ends(413),
  ),
  row('A bare line feed behind a chunk size is refused', chunked(`17\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A bare carriage return behind a chunk size is refused', chunked(`17\r${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A bare line feed behind a chunk is refused', chunked(`17\r\n${BODY}\n${LAST_CHUNK}`), ends(400)),
  row('A chunk without its line end is refused', chunked(`17\r\n${BODY}${LAST_CHUNK}`), ends(400)),
  row('A chunk longer than its size is refused', chunked(`10\r\n${BODY}\r\n${LAST_CHUNK}`), ends(400)),
  row('A chunk shorter than its size is refused', chunked(`20\r\n${BODY}\r\n${LAST_CHUNK}`), ends(400), { half: true }),
  row('A bare line feed as the end of the chunks is refused', chunked(`${CHUNK}0\r\n\n`), ends(400)),
  row('A trailer is ignored', chunked(`${CHUNK}0\r\nX-Checksum: 1\r\n\r\n`), taken),
  row('Two Hosts in the trailer change nothing', chunked(`${CHUNK}0\r\nHost: evil\r\nHost: evil\r\n\r\n`), taken),
  row('Origin in the trailer changes nothing', chunked(`${CHUNK}0\r\nOrigin: http://evil.example\r\n\r\n`), taken),
  row('Content-Type in the trailer changes nothing', chunked(`${CHUNK}0\r\nContent-Type: text/plain\r\n\r\n`), taken),
  row(
    'Content-Length in the trailer frames nothing',
    chunked(`${CHUNK}0\r\nContent-Length: ${SMUGGLED.length}\r\n\r\n`),
    [ends(400), taken],
    { reason: 'RFC 9110 section 6.5.1 forbids it to the sender; a receiver may refuse or ignore it' },
  ),
  row(
    'Transfer-Encoding in the trailer frames nothing',
    chunked(`${CHUNK}0\r\n${CHUNKED}\r\n\r\n`),
    [ends(400), taken],
    { reason: 'RFC 9110 section 6.5.1 forbids it to the sender; a receiver may refuse or ignore it' },
  ),
  row('A trailer without a colon is refused', chunked(`${CHUNK}0\r\nnonsense\r\n\r\n`), ends(400)),
  row('A trailer with a NUL is refused', chunked(`${CHUNK}0\r\nX: \0\r\n\r\n`), ends(400)),
  row('A trailer over 16 KiB is refused', chunked(`${CHUNK}0\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`), ends(431)),
  row('An empty line behind the last chunk is skipped', chunked(`${CHUNK}${LAST_CHUNK}\r\n`), taken),
  row(
    'Nonsense behind the last chunk is refused behind the reply',
    chunked(`${CHUNK}${LAST_CHUNK}nonsense\r\n\r\n`),
    both(taken, ends(400)),
  ),
  row('Chunks that never end leave no event when the client goes', chunked(CHUNK), ends(400), { half: true }),
  row('A chunk that is cut leaves no event', chunked(CHUNK.slice(0, 9)), ends(400), { half: true }),
  row('A chunk size that is cut leaves no event', chunked('1'), ends(400), { half: true }),
  row('A last chunk without its empty line leaves no event', chunked(`${CHUNK}0\r\n`), ends(400), { half: true }),
  row('A trailer that is cut leaves no event', chunked(`${CHUNK}0\r\nX: y`), ends(400), { half: true }),
  row('A body shorter than Content-Length leaves no event', framed([`Content-Length: ${BODY.length + 1}`]), ends(400), {
    half: true,
  }),
  row('A head that is cut leaves no event', report().slice(0, -2), ends(400), { half: true }),
  row('A request line that is cut leaves no event', `POST ${TARGET} HT`, ends(400), { half: true }),
  row(
    'A body without a length is none, and what is there breaks the connection',
    `${report(JSON_TYPE)}${BODY}`,
    both(taken, ends(400)),
  ),
  row(
    'A body longer than Content-Length breaks the connection behind the reply',
    framed([SIZED], `${BODY}}`),
    both(taken, ends(400)),
  ),
  row('A chunked body of no bytes is no body', `${report(CHUNKED, 'Content-Type: text/plain')}${LAST_CHUNK}`, taken),
  row('Empty lines before the request line are skipped', `\r\n\r\n${report()}`, taken),
  row('A chunk of nearly 64 bits is waited for, not reserved', chunked('FFFFFFFFFFFFFFF\r\n{'), silence),
];

/** Each of these as the value of the one Host. */
const badHosts: readonly (readonly [what: string, value: string])[] = [
  ['empty', ''],
  ['a path', 'localhost/path'],
  ['a URL', 'http://localhost'],
  ['a query', 'localhost?x'],
  ['a fragment', 'localhost#x'],
  ['a user', 'user@localhost'],
  ['a user with a good host in front', 'localhost@evil.example'],
  ['a port that is a word', 'localhost:http'],
  ['a negative port', 'localhost:-80'],
  ['two ports', 'localhost:80:81'],
  ['two names with a space', 'localhost evil.example'],
  ['a list', 'localhost, evil.example'],
  ['a backslash', 'localhost\\evil.example'],
  ['an IPv6 address without brackets', '::1'],
  ['brackets that do not close', '[::1'],
  ['text behind brackets', '[::1]x'],
  ['not ASCII', utf8('löcalhost')],
  ['an angle bracket', '<localhost>'],
];

/** Each of these stands as a line among good headers. */
const badLines: readonly (readonly [what: string, line: string])[] = [
  ['a space before the colon', 'X-Name : value'],
  ['a space in the name', 'X Name: value'],
  ['no name', ': value'],
  ['no colon', 'X-Name'],
  ['a parenthesis in the name', 'X(Name: value'],
  ['an at sign in the name', 'X@Name: value'],
  ['a slash in the name', 'X/Name: value'],
  ['quotes in the name', '"X": value'],
  ['a byte over 127 in the name', 'X\xe9: value'],
  ['a NUL in the name', 'X\0Name: value'],
  ['a NUL in the value', 'X-Name: val\0ue'],
  ['a control byte in the value', 'X-Name: val\x01ue'],
  ['a backspace in the value', 'X-Name: val\x08ue'],
  ['an escape in the value', 'X-Name: \x1b[31m'],
  ['a DEL in the value', 'X-Name: val\x7fue'],
  ['a bare carriage return in the value', 'X-Name: val\rue'],
  ['a bare carriage return at its end', 'X-Name: value\r'],
  ['a bare line feed', 'X-Name: value\nX-Other: value'],
];

const headers = ({
  TARGET,
  NOWHERE,
  GOOD_LINE,
  head,
  reportTo,
  report,
  framed,
  json,
  offer,
  offerTo,
}: Forms): readonly Row[] => [
  row('No Host is refused on HTTP/1.1', head(GOOD_LINE), ends(400)),
  row('No Host is fine on HTTP/1.0, which ends the connection', head(`POST ${TARGET} HTTP/1.0`), announced(taken)),
  row(
    'HTTP/1.0 with keep-alive keeps the connection',
    head(`POST ${TARGET} HTTP/1.0`, 'Connection: keep-alive'),
    taken,
  ),
  row('Two equal Hosts are refused', report(HOST), ends(400)),
  row('Two different Hosts, the good one first, are refused', report('Host: evil.example'), ends(400)),
  row('Two different Hosts, the good one last, are refused', head(GOOD_LINE, 'Host: evil.example', HOST), ends(400)),
  row('Two Hosts are refused when one is in capitals', report('HOST: localhost'), ends(400)),
  row('Two Hosts are refused on HTTP/1.0', head(`POST ${TARGET} HTTP/1.0`, HOST, HOST), ends(400)),
  ...badHosts.map(([what, value]) =>
    row(`A Host that is ${what} is refused`, head(GOOD_LINE, `Host: ${value}`), ends(400)),
  ),
  row(
    'A malformed Host is refused although the target has an authority',
    head(`POST http://localhost${TARGET} HTTP/1.1`, 'Host: a b'),
    ends(400),
  ),
  row(
    'No Host is refused although the target has an authority',
    head(`POST http://localhost${TARGET} HTTP/1.1`),
    ends(400),
  ),
  row('A Host may have white space around it', head(GOOD_LINE, 'Host: \t localhost \t '), taken),
  ...badLines.map(([what, line]) => row(`A header with ${what} is refused`, report(line), ends(400))),
  row('A folded header is refused or read as one line', report('X-Name: value', ' folded'), [ends(400), taken], {
    reason: 'RFC 9112 section 5.2 lets a server do either',
  }),
  row(
    'A Host on a folded line is not a second Host',
    head(GOOD_LINE, 'X-Name: value', '\tHost: evil.example', HOST),
    [ends(400), taken],
    { reason: 'RFC 9112 section 5.2 lets a server do either' },
  ),
  row('A Host whose second half is folded is refused', head(GOOD_LINE, 'Host: localhost', ' evil'), ends(400)),
  row('White space before the first header is refused', head(GOOD_LINE, ` X: y`, HOST), ends(400)),
  row('Bytes over 127 in the value of a header are let through', report('X-Name: caf\xe9 \xff'), taken),
  row('A tab in the value of a header is let through', report('X-Name: a\tb'), taken),
  row('A header without a value is let through', report('X-Name:'), taken),
  row('Lines that end in bare line feeds are refused', report().replaceAll('\r\n', '\n'), ends(400)),
  row('A head whose last line end is a bare line feed is refused', `${report().slice(0, -2)}\n`, ends(400)),
  row('Lines that end in bare carriage returns are refused', report().replaceAll('\r\n', '\r'), ends(400)),
  row('2,100 headers are refused, not dropped', report(...Array(2_100).fill('X:1')), ends(431)),
  row('A Host behind 2,100 headers is not overlooked', head(GOOD_LINE, ...Array(2_100).fill('X:1'), HOST), ends(431)),
  row('A header value over 16 KiB is refused', report(`X: ${'x'.repeat(20_000)}`), ends(431)),
  row('A header name over 16 KiB is refused', report(`${'x'.repeat(20_000)}: x`), ends(431)),
  row('A header value over 16 KiB that never ends is refused', `${GOOD_LINE}\r\nX: ${'x'.repeat(20_000)}`, ends(431)),
  row('Two equal Content-Types are refused', json(BODY, TARGET, JSON_TYPE), ends(400)),
  row(
    'Two Content-Types are refused although there is no body',
    report(JSON_TYPE, 'Content-Type: text/plain'),
    ends(400),
  ),
  row('Two tokens are harmless where none is asked for', report(`${TOKEN_NAME}: a`, `${TOKEN_NAME}: b`), taken, {
    localOnly: 'there a token is asked for, and two of them are refused',
  }),
  row('An Authorization header is ignored', report('Authorization: Basic eDp5'), taken),
  row('TE is ignored', report('TE: trailers, deflate;q=0.5'), taken),
  row('Connection: close is honoured', report('Connection: close'), announced(taken)),
  row('Connection: Close among other words is honoured', report('Connection: x, CLOSE'), announced(taken)),
  row('Expect other than 100-continue is refused', report('Expect: dance'), keeps(417)),
  row('Expect other than 100-continue is refused before its body', framed([SIZED, 'Expect: dance']), ends(417)),
  row('Expect with one more expectation is refused', report('Expect: 100-continue, dance'), keeps(417)),
  row('Two Expects are refused when one can not be met', report('Expect: 100-continue', 'Expect: dance'), keeps(417)),
  row(
    'Expect in other letters is met',
    framed([SIZED, 'Expect: 100-CONTINUE']),
    both({ replies: [{ status: 100 }], afterwards: 'kept' }, taken),
  ),
  row('Expect without a body gets no 100, and the connection is kept', report('Expect: 100-continue'), taken),
  row(
    'Expect on HTTP/1.0 is ignored',
    `${head(`POST ${TARGET} HTTP/1.0`, JSON_TYPE, 'Content-Length: 2', 'Expect: dance')}{}`,
    announced(taken),
  ),
  row(
    'Expect: 100-continue on HTTP/1.0 gets no 100',
    `${head(`POST ${TARGET} HTTP/1.0`, JSON_TYPE, 'Content-Length: 2', 'Expect: 100-continue')}{}`,
    announced(taken),
  ),
  row(
    'Expect gets a 413 before the upload and no 100',
    framed(['Content-Length: 9000000', 'Expect: 100-continue'], ''),
    ends(413),
  ),
  row(
    'Expect gets a 404 before the upload and no 100',
    reportTo(NOWHERE, 'Content-Length: 9', 'Expect: 100-continue'),
    ends(404),
  ),
  row(
    'Expect gets a 415 before the upload and no 100',
    framed(['Content-Length: 9', 'Expect: 100-continue', 'Content-Encoding: gzip'], ''),
    ends(415),
  ),
  row(
    'Expect gets a 403 before the upload and no 100',
    framed(['Content-Length: 9', 'Expect: 100-continue', 'Origin: null'], ''),
    ends(403),
  ),
  row('An upgrade to h2c is ignored, and the connection ends', offer, announced(taken)),
  row('An upgrade to a WebSocket is ignored, and the connection ends', offerTo('GET /livez'), announced(answered)),
  row('An upgrade with a path that is unknown ends the connection', offerTo(`GET ${NOWHERE}`), ends(404)),
  row(
    'An upgrade beside a chunked body is ignored, and the connection ends',
    framed([CHUNKED, ...OFFER], `${CHUNK}${LAST_CHUNK}`),
    announced(taken),
  ),
  row('Upgrade that Connection does not name ends the connection as well', report('Upgrade: h2c'), announced(taken)),
];

/** Each of these instead of a good request line. */
const badRequestLines = ({ TARGET }: Forms): readonly (readonly [what: string, line: string])[] => [
  ['a method in lower case', `post ${TARGET} HTTP/1.1`],
  ['an unknown method', `REPORT_IT ${TARGET} HTTP/1.1`],
  ['a method that goes on', `POSTS ${TARGET} HTTP/1.1`],
  ['a space before the method', ` POST ${TARGET} HTTP/1.1`],
  ['a tab behind the method', `POST\t${TARGET} HTTP/1.1`],
  ['a space in the target', `POST ${TARGET} x HTTP/1.1`],
  ['a tab in the target', `POST ${TARGET}\tx HTTP/1.1`],
  ['a NUL in the target', `POST ${TARGET}\0 HTTP/1.1`],
  ['a DEL in the target', `POST ${TARGET}\x7f HTTP/1.1`],
  ['bytes over 127 in the target', `POST ${TARGET}\xc3\xa9 HTTP/1.1`],
  ['bytes over 127 in the query', `POST ${TARGET}?partition=\xc3\xa9 HTTP/1.1`],
  ['a fragment', `POST ${TARGET}#part HTTP/1.1`],
  ['a fragment behind a query', `POST ${TARGET}?x=y#part HTTP/1.1`],
  ['a target without a slash', `POST ${TARGET.slice(1)} HTTP/1.1`],
  ['an asterisk', 'POST * HTTP/1.1'],
  ['an authority as target', 'POST localhost:80 HTTP/1.1'],
  ['a query as target', `POST ?asset_key=${KEY} HTTP/1.1`],
  ['another scheme', `POST ftp://localhost${TARGET} HTTP/1.1`],
  ['an authority that is empty', `POST http://${TARGET} HTTP/1.1`],
  ['an authority with a user', `POST http://user@localhost${TARGET} HTTP/1.1`],
  ['an authority with a port that is a word', `POST http://localhost:http${TARGET} HTTP/1.1`],
  ['HTTP/2.0', `POST ${TARGET} HTTP/2.0`],
  ['HTTP/1.2', `POST ${TARGET} HTTP/1.2`],
  ['HTTP/0.9', `POST ${TARGET} HTTP/0.9`],
  ['HTTP/3', `POST ${TARGET} HTTP/3`],
  ['HTTP/1.10', `POST ${TARGET} HTTP/1.10`],
  ['HTTP/01.1', `POST ${TARGET} HTTP/01.1`],
  ['HTTP/1,1', `POST ${TARGET} HTTP/1,1`],
  ['http in lower case', `POST ${TARGET} http/1.1`],
  ['another protocol', `POST ${TARGET} SHTTP/1.1`],
  ['text behind the version', `POST ${TARGET} HTTP/1.1 x`],
  ['no version', `POST ${TARGET}`],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0'],
  ['CONNECT and an authority', 'CONNECT localhost:80 HTTP/1.1'],
];

/** A path behind the endpoint that is no key: refused, and the connection kept. */
const badPaths: readonly (readonly [what: string, path: string])[] = [
  ['an escape that is no number', `${KEY}%zz`],
  ['an escape that is cut', `${KEY}%2`],
  ['an escape of no character', `${KEY}%FF`],
  ['an escaped character that is cut', `${KEY}%C3`],
  ['an overlong escape', `${KEY}%C0%AF`],
  ['an escaped surrogate', `${KEY}%ED%A0%80`],
  ['an escaped NUL', `${KEY}%00`],
  ['an escaped line feed', `${KEY}%0a`],
  ['an escaped DEL', `${KEY}%7F`],
  ['an empty part inside', `${KEY}//x`],
  ['an empty part in front', `/${KEY}`],
  ['an empty part at its end', `${KEY}/`],
  ['nothing but slashes', '//'],
];

const targets = (
  { prefix, outside, MATERIALIZATION, TARGET, SMUGGLED, head, reportTo }: Forms,
  badRequestLines: readonly (readonly [what: string, line: string])[],
): readonly Row[] => [
  ...badRequestLines.map(([what, line]) => row(`A request line with ${what} is refused`, head(line, HOST), ends(400))),
  ...badPaths.map(([what, path]) =>
    row(`A path with ${what} is refused`, reportTo(`${MATERIALIZATION}${path}`), keeps(400)),
  ),
  row('An absolute target with the authority of Host is served', reportTo(`http://localhost${TARGET}`), taken),
  row('An absolute target in capitals is served', reportTo(`HTTP://LOCALHOST:80${TARGET}`), taken),
  row(
    'An absolute target wins over a foreign Host',
    head(`POST http://localhost${TARGET} HTTP/1.1`, 'Host: evil.example'),
    taken,
  ),
  row(
    'An absolute target of a foreign authority is refused whatever the Host',
    reportTo(`http://evil.example${TARGET}`),
    keeps(403),
  ),
  row('An absolute https target is served', reportTo(`https://localhost${TARGET}`), taken),
  row('An absolute target without a path is unknown', reportTo('http://localhost'), keeps(outside)),
  row('OPTIONS of everything is refused', head('OPTIONS * HTTP/1.1', HOST), ends(400)),
  row('CONNECT to a path is refused', head(`CONNECT ${TARGET} HTTP/1.1`, HOST), [ends(405), ends(400)], {
    reason: 'llhttp may refuse the target of a CONNECT before the service sees it',
  }),
  row('What is behind a CONNECT is not served', `${head('CONNECT localhost:80 HTTP/1.1', HOST)}${SMUGGLED}`, ends(400)),
  row('TRACE is refused and echoes nothing', head(`TRACE ${TARGET} HTTP/1.1`, HOST), keeps(405)),
  row('PUT is refused', head(`PUT ${TARGET} HTTP/1.1`, HOST, 'Content-Length: 0'), keeps(405)),
  row('PROPFIND is refused', head(`PROPFIND ${TARGET} HTTP/1.1`, HOST), keeps(405)),
  row('POST on /livez is refused', reportTo('/livez'), keeps(405)),
  row(
    'The method of a body that is refused ends the connection',
    `${head(`PUT ${TARGET} HTTP/1.1`, HOST, SIZED)}${BODY}`,
    ends(405),
  ),
  row('A target over 16 KiB is refused', reportTo(`${TARGET}/${'x'.repeat(17_000)}`), ends(431)),
  row('A target over 16 KiB that never ends is refused', `POST ${TARGET}/${'x'.repeat(17_000)}`, ends(431)),
  row('A query over 16 KiB is refused', reportTo(`${TARGET}?partition=${'x'.repeat(17_000)}`), ends(431)),
  row('Dot segments are parts of the key', reportTo(`${TARGET}/../../livez/.`), recorded(`${KEY}/../../livez/.`)),
  row('Escaped dot segments are parts of the key', reportTo(`${TARGET}/%2e%2E`), recorded(`${KEY}/..`)),
  row('An escaped slash does not separate parts', reportTo(`${TARGET}%2Fx%2f`), recorded(`${KEY}|x|`)),
  row('An escape is decoded once', reportTo(`${TARGET}%252F`), recorded(`${KEY}%2F`)),
  row('A plus in the path is a plus', reportTo(`${TARGET}+x`), recorded(`${KEY}+x`)),
  row(
    'A semicolon and a backslash in the path are taken as they are',
    reportTo(`${TARGET};a=b\\c`),
    recorded(`${KEY};a=b\\c`),
  ),
  row('Angle brackets in the path are taken as they are', reportTo(`${TARGET}<script>"`), recorded(`${KEY}<script>"`)),
  row('Dot segments do not lead from one path to another', reportTo(`/livez/..${TARGET}`), keeps(outside)),
  row('Two slashes at the beginning are another path', reportTo(`/${TARGET}`), keeps(outside)),
  row('An escaped endpoint is another path', reportTo(TARGET.replace('_', '%5f')), keeps(404)),
  row(
    'An endpoint in capitals is another path',
    reportTo(`${prefix}${TARGET.slice(prefix.length).toUpperCase()}`),
    keeps(404),
  ),
  row('A longer endpoint is another path', reportTo(TARGET.replace('ion/', 'ions/')), keeps(404)),
  row('A second question mark belongs to the query', reportTo(`${TARGET}?partition=a?b`), taken),
  row('A bare + in the query is a space', reportTo(`${TARGET}?event_time=2026-11-20T15:19:45+01:00`), keeps(400)),
  row('An escaped + in the query is a +', reportTo(`${TARGET}?event_time=2026-11-20T15:19:45%2B01:00`), taken),
  row('A query with an escape that is no number is refused', reportTo(`${TARGET}?partition=%zz`), keeps(400)),
  row('A query with an escape of no character is refused', reportTo(`${TARGET}?partition=%FF`), keeps(400)),
  row('A name in the query with an escape of no character is refused', reportTo(`${TARGET}?%FF=x`), keeps(400)),
  row(
    'A key in the query that is a broken list is refused',
    reportTo(`${MATERIALIZATION}?asset_key=["${KEY}"`),
    keeps(400),
  ),
  row(
    'A key in the query that is a list of numbers is refused',
    reportTo(`${MATERIALIZATION}?asset_key=[1]`),
    keeps(400),
  ),
  row('A key in the query with a NUL is refused', reportTo(`${MATERIALIZATION}?asset_key=${KEY}%00`), keeps(400)),
  row(
    'Of a repeated name in the query the last is taken',
    reportTo(`${MATERIALIZATION}?asset_key=no&asset_key=${KEY}`),
    taken,
  ),
  row(
    'Two spaces in the request line are read as one or refused',
    head(`POST  ${TARGET}  HTTP/1.1`, HOST),
    [taken, ends(400)],
    {
      reason: 'RFC 9112 section 3 lets a receiver split the line at white space',
    },
  ),
  row('RTSP is refused', head(`POST ${TARGET} RTSP/1.0`, HOST), ends(400), {
    defect: 'llhttp takes it for HTTP/1.0 and Node does not tell the protocol: it is answered 200 and recorded',
  }),
  row('A protocol of radio stations is refused', head(`SOURCE ${TARGET} ICE/1.0`, HOST), [ends(400), ends(405)], {
    reason: 'llhttp takes it for HTTP/1.0 with a method of its own',
  }),
  row('HTTP/0.9 without headers is refused', `GET /livez\r\n\r\n`, ends(400)),
  row('A TLS handshake is refused', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', ends(400)),
  row('Bytes of chance are refused', '\xff\xfe\x00\x01\x80\x81nonsense\r\n\r\n', ends(400)),
  row('A reply sent as a request is refused', head('HTTP/1.1 200 OK', HOST), ends(400)),
  row('A request of the Redis protocol is refused', '*1\r\n$4\r\nPING\r\n', ends(400)),
];

/** Content-Type of a body: refused before it is read, so the connection ends. */
const badTypes: readonly (readonly [what: string, value: string])[] = [
  ['text/plain', 'text/plain'],
  ['a form', 'application/x-www-form-urlencoded'],
  ['a form of several parts', 'multipart/form-data; boundary=x'],
  ['empty', ''],
  ['a list', 'application/json, application/json'],
  ['a longer word', 'application/jsonp'],
  ['JSON of another kind', 'application/ld+json'],
  ['text/json', 'text/json'],
  ['latin1', 'application/json; charset=iso-8859-1'],
  ['UTF-16', 'application/json; charset=utf-16'],
  ['an empty charset', 'application/json; charset='],
  ['a charset that is not closed', 'application/json; charset="utf-8'],
  ['two charsets of which one is good', 'application/json; charset=utf-8; charset=latin1'],
];

/** Bodies that are not UTF-8, as bytes. */
const badBytes: readonly (readonly [what: string, bytes: string])[] = [
  ['a byte that begins no character', '\xff'],
  ['a continuation byte alone', '\x80'],
  ['a character that is cut', '\xc3'],
  ['an emoji that is cut', '\xf0\x9f\x98'],
  ['an overlong slash', '\xc0\xaf'],
  ['an overlong NUL', '\xc0\x80'],
  ['an overlong character of three bytes', '\xe0\x80\xaf'],
  ['a surrogate', '\xed\xa0\x80'],
  ['a pair of surrogates', '\xed\xa0\xbd\xed\xb8\x80'],
  ['a character beyond U+10FFFF', '\xf4\x90\x80\x80'],
];

const encodings = ({ TARGET, report, framed, json, typed }: Forms): readonly Row[] => [
  ...['gzip', 'GZIP', 'br', 'deflate', 'identity, gzip', 'unknown'].map((coding) =>
    row(
      `Content-Encoding ${coding} on a body is refused before it is read`,
      json('{}', TARGET, `Content-Encoding: ${coding}`),
      ends(415),
    ),
  ),
  row(
    'Two Content-Encodings are refused when one can not be read',
    json('{}', TARGET, 'Content-Encoding: identity', 'Content-Encoding: gzip'),
    ends(415),
  ),
  row(
    'Content-Encoding gzip on a chunked body is refused when it is there',
    framed([CHUNKED, 'Content-Encoding: gzip'], `${CHUNK}${LAST_CHUNK}`),
    keeps(415),
  ),
  row('Content-Encoding identity is no encoding', json('{}', TARGET, 'Content-Encoding: Identity'), taken),
  row('Content-Encoding without a body matters to nobody', report('Content-Encoding: gzip'), taken),
  ...badTypes.map(([what, value]) =>
    row(`A body whose Content-Type is ${what} is refused`, typed(`Content-Type: ${value}`), ends(400)),
  ),
  row('A body without Content-Type is refused', typed(), ends(400)),
  row(
    'A chunked body without Content-Type is refused when it is there',
    `${report(CHUNKED)}${CHUNK}${LAST_CHUNK}`,
    keeps(400),
  ),
  row(
    'Content-Type in other letters with a quoted charset is JSON',
    typed('Content-Type: Application/JSON ; a=b; Charset="UTF\\-8"'),
    taken,
  ),
  row('No body may have any Content-Type', report('Content-Type: nonsense', 'Content-Length: 0'), taken),
  ...badBytes.map(([what, bytes]) =>
    row(`A body with ${what} is refused`, json(`{"description":"${bytes}"}`), keeps(400)),
  ),
  row(
    'A body in UTF-16 with its mark is refused',
    json(Buffer.from('\ufeff{}', 'utf16le').toString('latin1')),
    keeps(400),
  ),
  row(
    'A body in UTF-16 without its mark is refused',
    json(Buffer.from('{}', 'utf16le').toString('latin1')),
    keeps(400),
  ),
  row('A body in UTF-32 is refused', json('{\0\0\0}\0\0\0'), keeps(400)),
  row('A byte order mark is skipped', json(utf8('\ufeff{}')), taken),
  row('Two byte order marks are refused', json(utf8('\ufeff\ufeff{}')), keeps(400)),
  row('A byte order mark alone is refused', json(utf8('\ufeff')), keeps(400)),
  row('A body cut inside a character is refused', json(`{"description":"x\xe2\x82`), keeps(400)),
  row('U+FFFD, U+FFFF and U+2028 are characters', json(utf8('{"description":"\ufffd\uffff\u2028"}')), taken),
  row('A gzip stream that says it is JSON is refused', json('\x1f\x8b\x08\x00\x00\x00\x00\x00'), keeps(400)),
];

/** Bodies that are no JSON object, for a target that has the key. */
const badJson: readonly (readonly [what: string, body: string])[] = [
  ['white space', ' \r\n'],
  ['a string', '"text"'],
  ['a number', '1'],
  ['null', 'null'],
  ['true', 'true'],
  ['an array', '[{}]'],
  ['two objects', '{}{}'],
  ['an object and a NUL', '{}\0'],
  ['a trailing comma', '{"a":1,}'],
  ['a trailing comma in an array', '{"a":[1,]}'],
  ['a comma in front', '{,"a":1}'],
  ['two commas', '{"a":1,,"b":2}'],
  ['no colon', '{"a" 1}'],
  ['two colons', '{"a"::1}'],
  ['a name without quotes', '{a:1}'],
  ['single quotes', "{'a':1}"],
  ['a comment', '{"a":1/* no */}'],
  ['a comment of one line', '{}//no'],
  ['NaN', '{"metadata":{"a":NaN}}'],
  ['Infinity', '{"metadata":{"a":-Infinity}}'],
  ['True', '{"metadata":{"a":True}}'],
  ['undefined', '{"metadata":{"a":undefined}}'],
  ['a number with a plus', '{"a":+1}'],
  ['a number with a zero before it', '{"a":01}'],
  ['a number without digits before the point', '{"a":.5}'],
  ['a number without digits behind the point', '{"a":1.}'],
  ['a number without an exponent', '{"a":1e}'],
  ['a hexadecimal number', '{"a":0x10}'],
  ['a raw line feed in a string', '{"a":"\n"}'],
  ['a raw tab in a string', '{"a":"\t"}'],
  ['a raw NUL in a string', '{"a":"\0"}'],
  ['an unknown escape', '{"a":"\\x41"}'],
  ['an escape of three digits', '{"a":"\\u041"}'],
  ['a string that is never closed', '{"a":"'],
  ['an escape at the end', '{"a":"\\'],
  ['an object that is never closed', '{"a":1'],
  ['a bracket too many', '{}}'],
  ['brackets that cross', '{"a":[}]'],
  ['a vertical tab between tokens', '{\x0b}'],
  ['a no-break space between tokens', utf8('{\u00a0}')],
  ['5,000 open brackets', `{"a":${'['.repeat(5_000)}`],
  ['200,000 open braces', '{"a":'.repeat(200_000)],
];

/** JSON objects that are no report. */
const badReports = ({
  MATERIALIZATION,
  CHECK,
}: Forms): readonly (readonly [what: string, body: string, target?: string])[] => [
  ['a data version that is a number', '{"data_version":3}'],
  ['a partition that is an object', '{"partition":{}}'],
  ['a description that is half of a pair', '{"description":"\\ud800"}'],
  ['a partition that is the other half', '{"partition":"\\udc00"}'],
  ['a pair the wrong way round', '{"data_version":"\\udc00\\ud800"}'],
  ['an event time that is a number', '{"event_time":1763650785}'],
  ['an event time of digits', '{"event_time":"1763650785250"}'],
  ['an event time without a zone', '{"event_time":"2026-11-20T15:19:45"}'],
  ['an event time in second 60', '{"event_time":"2026-11-20T23:59:60Z"}'],
  ['an event time on February 30', '{"event_time":"2026-02-30T00:00:00Z"}'],
  ['an event time before the year 1 of UTC', '{"event_time":"0001-01-01T00:00:00+00:01"}'],
  ['an event time of ten digits after the second', '{"event_time":"2026-11-20T15:19:45.1234567890Z"}'],
  ['an event time with a line feed after it', '{"event_time":"2026-11-20T15:19:45Z\\n"}'],
  ['metadata that is a list', '{"metadata":[]}'],
  ['metadata that is text', '{"metadata":"{}"}'],
  ['no key', '{}', MATERIALIZATION],
  ['a key that is null', '{"asset_key":null}', MATERIALIZATION],
  ['a key that is a number', '{"asset_key":5}', MATERIALIZATION],
  ['a key that is an object', '{"asset_key":{"0":"a"}}', MATERIALIZATION],
  ['a key that is empty', '{"asset_key":""}', MATERIALIZATION],
  ['a key of no parts', '{"asset_key":[]}', MATERIALIZATION],
  ['a key with an empty part', `{"asset_key":["${KEY}",""]}`, MATERIALIZATION],
  ['a key with a number', `{"asset_key":["${KEY}",1]}`, MATERIALIZATION],
  ['a key with null', `{"asset_key":["${KEY}",null]}`, MATERIALIZATION],
  ['a key of lists', `{"asset_key":[["${KEY}"]]}`, MATERIALIZATION],
  ['a key with an escaped NUL', `{"asset_key":"${KEY}\\u0000"}`, MATERIALIZATION],
  ['a key with an escaped line feed', `{"asset_key":"${KEY}\\n"}`, MATERIALIZATION],
  ['a key with half of a pair', `{"asset_key":"${KEY}\\ud83d"}`, MATERIALIZATION],
  ['a key in __proto__', `{"__proto__":{"asset_key":"${KEY}"}}`, MATERIALIZATION],
  ['a key whose name has a space', `{"asset_key ":"${KEY}"}`, MATERIALIZATION],
  ['a key in capitals', `{"ASSET_KEY":"${KEY}"}`, MATERIALIZATION],
  ['a good key and then null', `{"asset_key":"${KEY}","asset_key":null}`, MATERIALIZATION],
  ['a check without passed', '{"check_name":"c"}', `${CHECK}${KEY}`],
  ['a check whose passed is text', '{"check_name":"c","passed":"true"}', `${CHECK}${KEY}`],
  ['a check whose passed is 1', '{"check_name":"c","passed":1}', `${CHECK}${KEY}`],
  ['a check whose name is empty', '{"check_name":"","passed":true}', `${CHECK}${KEY}`],
  ['a check of another severity', '{"check_name":"c","passed":true,"severity":"warn"}', `${CHECK}${KEY}`],
];

const jsonBodies = (
  { MATERIALIZATION, json }: Forms,
  badReports: readonly (readonly [what: string, body: string, target?: string])[],
): readonly Row[] => [
  ...badJson.map(([what, body]) => row(`A body that is ${what} is refused`, json(body), keeps(400))),
  ...badReports.map(([what, body, target]) => row(`A report with ${what} is refused`, json(body, target), keeps(400))),
  row(
    'Of a repeated member the last is taken',
    json(`{"asset_key":"no","asset_key":"${KEY}"}`, MATERIALIZATION),
    taken,
  ),
  row(
    'A name that is written with escapes is the same name',
    json(`{"\\u0061sset_key":"${KEY}"}`, MATERIALIZATION),
    taken,
  ),
  row(
    '__proto__ and constructor are names like others',
    json('{"__proto__":{"partition":1},"constructor":{},"toString":1}'),
    taken,
  ),
  row('__proto__ in metadata is kept', json('{"metadata":{"__proto__":{"a":1},"__proto__":2}}'), taken),
  row('Numbers beyond a double are kept', json(`{"metadata":{"a":1e400,"b":-0,"c":${'9'.repeat(5_000)}}}`), taken),
  row('Half of a pair in metadata is kept as it was sent', json('{"metadata":{"\\ud800":"\\udc00"}}'), taken),
  row('An event time may be any nanosecond', json('{"event_time":"0001-01-01t00:00:00.000000001z"}'), taken),
  row('A pair in escapes is one character', json('{"description":"\\ud83d\\ude00"}'), taken),
  row('White space between tokens is no part of a value', json('\t\r\n {\n"metadata" :\t{ } }\r\n'), taken),
  row('An empty member name is a name', json('{"":1,"metadata":{"":{}}}'), taken),
  row('A key in the body keeps its slashes', json(`{"asset_key":"${KEY}/x"}`, MATERIALIZATION), recorded(`${KEY}|x`)),
  row('An unknown member may hold anything', json('{"uri":[[[{"a":null}]]]}'), taken),
];

/** Nothing of it but the key is recorded, so that the journal stays small. */
const bodyOf = (bytes: number) => `{"asset_key":"${KEY}","unknown":"${'x'.repeat(bytes - BODY.length - 13)}"}`;
const deep = (depth: number) => `{"metadata":{"a":${'['.repeat(depth - 2)}${']'.repeat(depth - 2)}}}`;
const members = (count: number) => `{${Array.from({ length: count }, (_, index) => `"m${index}":0`).join()}}`;
const longKey = (bytes: number) => KEY.padEnd(bytes, 'x');
const limits = ({
  MATERIALIZATION,
  TARGET,
  reportTo,
  report,
  framed,
  json,
  headOf,
  headOfManyHeaders,
  inChunks,
  padding,
}: Forms): readonly Row[] => [
  row('A head of 16 KiB is read', headOf(16_384), taken),
  row('A head of one byte more is refused', headOf(16_385), ends(431)),
  row(
    'A head of 16 KiB in one target is read',
    reportTo(`${TARGET}?x=${'x'.repeat(16_384 - reportTo(`${TARGET}?x=`).length)}`),
    taken,
  ),
  row(
    'A head of one byte more in one target is refused',
    reportTo(`${TARGET}?x=${'x'.repeat(16_385 - reportTo(`${TARGET}?x=`).length)}`),
    ends(431),
  ),
  row('A head of 16 KiB in many headers without spaces is read', headOfManyHeaders(16_384), [taken, ends(431)], {
    reason: 'Node does not tell white space: a space behind each colon is counted, so up to 100 bytes may be missing',
  }),
  row('A head of one byte more in many headers without spaces is refused', headOfManyHeaders(16_385), ends(431)),
  row(
    'A head that white space before a value makes too long is refused',
    report(`X: ${' '.repeat(20_000)}x`),
    ends(431),
    {
      defect:
        'llhttp counts no white space before a value, and Node does not tell it: megabytes of it are read and forgotten',
    },
  ),
  row('100 headers are read', report(...padding(100)), taken),
  row('101 headers are refused', report(...padding(101)), ends(431)),
  row('A body of 1 MiB is read', json(bodyOf(1_048_576), MATERIALIZATION), taken),
  row('A body of one byte more is refused', json(bodyOf(1_048_577), MATERIALIZATION), ends(413)),
  row('A chunked body of 1 MiB is read', inChunks(bodyOf(1_048_576)), taken),
  row('A chunked body of one byte more is refused', inChunks(bodyOf(1_048_577)), ends(413)),
  row('A body of one byte more is refused before it is sent', framed(['Content-Length: 1048577'], ''), ends(413)),
  row(
    'A key of 4,096 bytes in the path is taken',
    reportTo(`${MATERIALIZATION}${longKey(4_096)}`),
    recorded(longKey(4_096)),
  ),
  row('A key of one byte more in the path is refused', reportTo(`${MATERIALIZATION}${longKey(4_097)}`), keeps(400)),
  row(
    'A key of 4,096 bytes in the body is taken',
    json(`{"asset_key":"${longKey(4_096)}"}`, MATERIALIZATION),
    recorded(longKey(4_096)),
  ),
  row(
    'A key of one byte more in the body is refused',
    json(`{"asset_key":"${longKey(4_097)}"}`, MATERIALIZATION),
    keeps(400),
  ),
  row(
    'A key of 4,096 bytes in the query is taken',
    reportTo(`${MATERIALIZATION}?asset_key=${longKey(4_096)}`),
    recorded(longKey(4_096)),
  ),
  row(
    'A key of one byte more in the query is refused',
    reportTo(`${MATERIALIZATION}?asset_key=${longKey(4_097)}`),
    keeps(400),
  ),
  row(
    'The separators of a key are counted',
    json(`{"asset_key":["${KEY}"${',"x"'.repeat(2_045)}]}`, MATERIALIZATION),
    keeps(400),
  ),
  row(
    'A key is counted in bytes, not in characters',
    json(`{"asset_key":"${KEY}${utf8('é'.repeat(2_045))}"}`, MATERIALIZATION),
    keeps(400),
  ),
  row('128 levels are read', json(deep(128)), taken),
  row('129 levels are refused', json(deep(129)), keeps(400)),
  row('1,000 members are read', json(members(1_000)), taken),
  row('1,001 members are refused', json(members(1_001)), keeps(400)),
  row(
    '1,001 members are refused when they all have one name',
    json(`{${Array(1_001).fill('"a":0').join()}}`),
    keeps(400),
  ),
  row('What is inside metadata is not counted', json(`{"metadata":${members(5_000)}}`), taken),
];

/** Every path there is, and one that there is not: a foreign page learns of none of them. */
const routes = ({ prefix, TARGET, CHECK, NOWHERE }: Forms): readonly string[] => [
  `POST ${TARGET}`,
  `POST ${CHECK}${KEY}?check_name=c&passed=true`,
  `POST ${prefix}/report_asset_observation/${KEY}`,
  'GET /livez',
  'GET /readyz',
  `GET ${NOWHERE}`,
  ...READINGS.map((path) => `GET ${prefix}${path}`),
];

/** The paths that read a journal, below its prefix. */
const READINGS = ['/events', '/assets', '/refusals'];

/** What a page of another site, or a name that was rebound to this machine, makes a browser send. */
const foreign: readonly (readonly [what: string, headers: readonly string[]])[] = [
  ['an Origin of another site', [HOST, 'Origin: http://evil.example']],
  ['an Origin that is null', [HOST, 'Origin: null']],
  ['an Origin of another port', ['Host: localhost:3000', 'Origin: http://localhost:3001']],
  ['Sec-Fetch-Site: cross-site', [HOST, 'Sec-Fetch-Site: cross-site']],
  ['Sec-Fetch-Site: same-site', [HOST, 'Sec-Fetch-Site: same-site']],
  ['a Host of another name', ['Host: evil.example']],
];

const access = ({ TARGET, GOOD_LINE, head, report, json }: Forms, routes: readonly string[]): readonly Row[] => [
  ...routes.flatMap((line) =>
    foreign.map(([what, lines]) =>
      row(`${line.replace(KEY, 'x')} with ${what} is refused`, head(`${line} HTTP/1.1`, ...lines), keeps(403)),
    ),
  ),
  ...[
    ['an empty one', ''],
    ['a host without a scheme', 'localhost'],
    ['a longer name', 'http://localhost.evil.example'],
    ['a user', 'http://localhost@evil.example'],
    ['a path', 'http://localhost/'],
    ['another scheme', 'file://localhost'],
    ['two of them', 'http://localhost http://evil.example'],
  ].map(([what, value]) => row(`An Origin that is ${what} is refused`, report(`Origin: ${value}`), keeps(403))),
  row(
    'Two Origins are refused although one is good',
    report('Origin: http://localhost', 'Origin: http://evil.example'),
    keeps(403),
  ),
  row(
    'Two Sec-Fetch-Sites are refused although one is good',
    report('Sec-Fetch-Site: none', 'Sec-Fetch-Site: cross-site'),
    keeps(403),
  ),
  row('Sec-Fetch-Site with an unknown word is refused', report('Sec-Fetch-Site: sideways'), keeps(403)),
  ...[
    'localhost.evil.example',
    'evil.localhost',
    'localhost.',
    '127.0.0.1.evil.example',
    '127.0.0.2',
    '0.0.0.0',
    '2130706433',
    '[::2]',
    'localhost,evil.example',
    '%6cocalhost',
  ].map((name) => row(`Host ${name} is not this machine`, head(GOOD_LINE, `Host: ${name}`), keeps(403))),
  ...['LOCALHOST', 'localhost:', 'localhost:99999', '127.0.0.1:1', '[::1]', '[::1]:80'].map((name) =>
    row(`Host ${name} is this machine`, head(GOOD_LINE, `Host: ${name}`), taken),
  ),
  row(
    'An Origin of this server is taken',
    head(GOOD_LINE, 'Host: localhost:3000', 'Origin: http://LOCALHOST:3000', 'Sec-Fetch-Site: same-origin'),
    taken,
  ),
  row('A page that a person opened is taken', report('Sec-Fetch-Site: none', 'Sec-Fetch-Mode: navigate'), taken),
  row(
    'A preflight is refused and allows nothing',
    head(`OPTIONS ${TARGET} HTTP/1.1`, HOST, 'Origin: http://evil.example', 'Access-Control-Request-Method: POST'),
    keeps(403),
  ),
  row(
    'A foreign Origin is refused before the body is looked at',
    json('{', TARGET, 'Origin: http://evil.example'),
    ends(403),
  ),
  row(
    'X-Forwarded-Host opens no door',
    head(GOOD_LINE, 'Host: evil.example', 'X-Forwarded-Host: localhost'),
    keeps(403),
  ),
];

type Refused = readonly [what: string, bytes: string, status: number];

/** Refusals that end the connection: what is pipelined behind them is not served. */
const endings = ({
  MATERIALIZATION,
  TARGET,
  CHECK,
  NOWHERE,
  head,
  reportTo,
  report,
  framed,
  chunked,
  json,
  typed,
  padding,
}: Forms): readonly Refused[] => [
  ['two Hosts', report(HOST), 400],
  ['a Content-Type that is wrong', typed('Content-Type: text/plain'), 400],
  ['a Content-Encoding', json('{}', TARGET, 'Content-Encoding: gzip'), 415],
  ['an Expect before a body', framed([SIZED, 'Expect: dance']), 417],
  ['an unknown path with a body', json('{}', NOWHERE), 404],
  ['a method that is wrong, with a body', `${head(`GET ${CHECK} HTTP/1.1`, HOST, SIZED)}${BODY}`, 405],
  ['a foreign Origin with a body', json('{}', TARGET, 'Origin: null'), 403],
  ['too many headers', report(...padding(101)), 431],
  ['a fragment', reportTo(`${TARGET}#x`), 400],
  ['HTTP/2.0', head(`POST ${TARGET} HTTP/2.0`, HOST), 400],
  ['a chunk that is broken', chunked(`zz\r\n${LAST_CHUNK}`), 400],
  ['a body that is too large', json(bodyOf(1_048_577), MATERIALIZATION), 413],
];

/** Refusals that keep it: what is behind them is served. */
const goings = ({
  MATERIALIZATION,
  TARGET,
  NOWHERE,
  head,
  reportTo,
  report,
  framed,
  json,
}: Forms): readonly Refused[] => [
  ['a body that is no JSON', json('{'), 400],
  ['a key that is missing', reportTo(MATERIALIZATION), 400],
  ['an unknown path', reportTo(NOWHERE), 404],
  ['a method that is wrong', head(`GET ${TARGET} HTTP/1.1`, HOST), 405],
  ['a foreign Origin', report('Origin: null'), 403],
  ['an Expect', report('Expect: dance'), 417],
  ['a Content-Encoding on chunks', framed([CHUNKED, 'Content-Encoding: gzip'], `${CHUNK}${LAST_CHUNK}`), 415],
];

const pipelining = (
  { TARGET, LIVE, SMUGGLED, FIRST, SECOND, head, report, framed, chunked, json, offer }: Forms,
  endings: readonly Refused[],
  goings: readonly Refused[],
): readonly Row[] => [
  ...endings.map(([what, bytes, status]) =>
    row(
      `A report behind ${what} is not served`,
      `${FIRST}${bytes}${SMUGGLED}`,
      both(recorded(FIRST_KEY), ends(status)),
    ),
  ),
  ...goings.map(([what, bytes, status]) =>
    row(
      `A report behind ${what} is served`,
      `${FIRST}${bytes}${SECOND}`,
      both(both(recorded(FIRST_KEY), keeps(status)), recorded(SECOND_KEY)),
    ),
  ),
  row('Replies come in order when a GET stands behind a report', `${FIRST}${LIVE}${SECOND}${LIVE}`, {
    replies: [
      { status: 200, records: FIRST_KEY },
      { status: 200 },
      { status: 200, records: SECOND_KEY },
      { status: 200 },
    ],
    afterwards: 'kept',
  }),
  row('A report behind a body is found where the body ends', `${framed([SIZED])}${SECOND}`, recorded(KEY, SECOND_KEY)),
  row(
    'A report behind the last chunk is found',
    `${chunked(`${CHUNK}${LAST_CHUNK}`)}${SECOND}`,
    recorded(KEY, SECOND_KEY),
  ),
  row('A report behind an empty line is found', `${FIRST}\r\n${SECOND}`, recorded(FIRST_KEY, SECOND_KEY)),
  row('A report that a body looks like is no report', json(SMUGGLED), keeps(400)),
  row(
    'A report that a chunk looks like is no report',
    chunked(`${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n${LAST_CHUNK}`),
    keeps(400),
  ),
  row(
    '50 reports in one packet are all recorded, in order',
    FIRST.repeat(50),
    recorded(...Array<string>(50).fill(FIRST_KEY)),
  ),
  row(
    '50 reports in pieces of 11 bytes are all recorded',
    FIRST.repeat(50),
    recorded(...Array<string>(50).fill(FIRST_KEY)),
    { pieceBytes: 11 },
  ),
  row('A report behind Connection: close is not served', `${report('Connection: close')}${SMUGGLED}`, announced(taken)),
  row(
    'A report behind an Expect without a body is a request of its own',
    `${report('Expect: 100-continue')}${SMUGGLED}`,
    recorded(KEY, SMUGGLED_KEY),
  ),
  row(
    'A report behind an Expect that is refused is a request of its own',
    `${report('Expect: 100-continue').replace('POST', 'PUT')}${SMUGGLED}`,
    both(keeps(405), recorded(SMUGGLED_KEY)),
  ),
  row('A report behind an upgrade is told that it is not served', `${offer}${SMUGGLED}`, announced(taken)),
  row('The body of a report behind an upgrade is no report', `${offer}${json(SMUGGLED)}`, announced(taken), {
    pieceBytes: `${offer}${json(SMUGGLED)}`.length - SMUGGLED.length,
  }),
  row('A report behind HTTP/1.0 is not served', `${head(`POST ${TARGET} HTTP/1.0`)}${SMUGGLED}`, announced(taken)),
  row(
    'Nonsense behind two reports is answered behind them',
    `${FIRST}${SECOND}nonsense\r\n\r\n`,
    both(recorded(FIRST_KEY, SECOND_KEY), ends(400)),
  ),
  row('A client that closes its half gets its reply', report(), taken, { half: true }),
  row(
    'A client that closes its half gets all its replies',
    `${FIRST}${SECOND}${LIVE}`,
    both(recorded(FIRST_KEY, SECOND_KEY), answered),
    { half: true },
  ),
  row('A client that closes its half behind a chunked body gets its reply', chunked(`${CHUNK}${LAST_CHUNK}`), taken, {
    half: true,
  }),
  row(
    'A client that closes its half inside the second report gets the first reply',
    `${FIRST}${SECOND.slice(0, -9)}`,
    both(recorded(FIRST_KEY), ends(400)),
    { half: true },
  ),
  row(
    'A client that closes its half before it sent anything is let go',
    '',
    { replies: [], afterwards: 'kept' },
    { half: true },
  ),
];

const slowness = ({ MATERIALIZATION, FIRST, SECOND, report, framed, chunked }: Forms): readonly Row[] => [
  // Node tells no parse error of a request that offers an upgrade; only the deadline of the request ends it, with 408.
  row('A broken chunk beside an upgrade is not taken', framed([CHUNKED, ...OFFER], 'zz\r\n'), silence),
  row('A connection without a byte is left alone', '', silence),
  row('A request line that does not end is waited for', `POST ${MATERIALIZATION}`, silence),
  row('A head that does not end is waited for', report().slice(0, -2), silence),
  row('A header that does not end is waited for', report('X: y').slice(0, -5), silence),
  row('A body that does not end is waited for', framed([`Content-Length: ${BODY.length + 1}`]), silence),
  row('A chunk that does not end is waited for', chunked(CHUNK.slice(0, -5)), silence),
  row('Chunks that do not end are waited for', chunked(CHUNK), silence),
  row('A trailer that does not end is waited for', chunked(`${CHUNK}0\r\nX: y\r\n`), silence),
  row('A body that was promised 100 Continue is waited for', framed([SIZED, 'Expect: 100-continue'], ''), {
    replies: [{ status: 100 }],
    afterwards: 'open',
  }),
  row('A second report that does not end holds no reply back', `${FIRST}${SECOND.slice(0, -4)}`, {
    ...recorded(FIRST_KEY),
    afterwards: 'open',
  }),
];

/** Headers that do not have the token in the one place where it counts. */
const badTokens: readonly (readonly [what: string, ...lines: readonly string[]])[] = [
  ['no token'],
  ['an empty token', `${TOKEN_NAME}:`],
  ['white space for a token', `${TOKEN_NAME}: \t `],
  ['a wrong token', `${TOKEN_NAME}: nobody`],
  ['a token of another deployment', `${TOKEN_NAME}: ${OTHER_TOKEN}`],
  ['an expired token', `${TOKEN_NAME}: ${EXPIRED_TOKEN}`],
  ['the beginning of a token', `${TOKEN_NAME}: ${TOKEN.slice(0, -1)}`],
  ['the end of a token', `${TOKEN_NAME}: ${TOKEN.slice(1)}`],
  ['a token and more', `${TOKEN_NAME}: ${TOKEN}x`],
  ['a token whose SHA-256 begins with the same 16 bits', `${TOKEN_NAME}: nobody-19537`],
  ['a token twice', `${TOKEN_NAME}: ${TOKEN}${TOKEN}`],
  ['a list of tokens', `${TOKEN_NAME}: ${TOKEN}, ${TOKEN}`],
  ['a token in capitals', `${TOKEN_NAME}: ${TOKEN.toUpperCase()}`],
  ['a token in quotes', `${TOKEN_NAME}: "${TOKEN}"`],
  ['a token with a space inside', `${TOKEN_NAME}: ${TOKEN.slice(0, 9)} ${TOKEN.slice(9)}`],
  ['a token with an escape', `${TOKEN_NAME}: %61${TOKEN.slice(1)}`],
  ['a token behind Bearer', `${TOKEN_NAME}: Bearer ${TOKEN}`],
  ['a token with a byte over 127 behind it', `${TOKEN_NAME}: ${TOKEN}\xe9`],
  ['a token with a no-break space before it', `${TOKEN_NAME}: \xa0${TOKEN}`],
  ['a token of 8 KiB', `${TOKEN_NAME}: ${TOKEN.repeat(160)}`],
  ['a token that is not ASCII in latin1', `${TOKEN_NAME}: ${SPOKEN_TOKEN}`],
  ['a token in Authorization', `Authorization: Bearer ${TOKEN}`],
  ['a token in a cookie', `Cookie: ${TOKEN_NAME}=${TOKEN}`],
  ['a token in a header with underscores', `Service_Cloud_Api_Token: ${TOKEN}`],
  ['a token in a header with a longer name', `X-${TOKEN_NAME}: ${TOKEN}`],
  ['a token in a header without dashes', `ServiceCloudApiToken: ${TOKEN}`],
  ['a token that Connection names', `Connection: ${TOKEN_NAME}`],
];

const goodTokens: readonly (readonly [what: string, line: string])[] = [
  ['in lower case', `service-cloud-api-token: ${TOKEN}`],
  ['in capitals', `SERVICE-CLOUD-API-TOKEN: ${TOKEN}`],
  ['of the reference', `Dagster-Cloud-Api-Token: ${TOKEN}`],
  ['of the reference in lower case', `dagster-cloud-api-token: ${TOKEN}`],
  ['with white space before the token', `${TOKEN_NAME}: \t  ${TOKEN}`],
  ['with white space behind the token', `${TOKEN_NAME}: ${TOKEN} \t `],
  ['without a space behind the colon', `${TOKEN_NAME}:${TOKEN}`],
  ['with another token of the deployment', `${TOKEN_NAME}: ${OTHER_TOKEN.toLowerCase()}`],
  ['with a token in UTF-8', `${TOKEN_NAME}: ${utf8(SPOKEN_TOKEN)}`],
];

/** Two headers that may hold a token: whatever is in them, nobody knows which one a proxy looked at. */
const twoTokens: readonly (readonly [what: string, first: string, second: string])[] = [
  ['that are equal', GOOD_TOKEN, GOOD_TOKEN],
  ['of both names', GOOD_TOKEN, `Dagster-Cloud-Api-Token: ${TOKEN}`],
  ['of both names, the other one first', `Dagster-Cloud-Api-Token: ${TOKEN}`, GOOD_TOKEN],
  ['of which the first is good', GOOD_TOKEN, `${TOKEN_NAME}: nobody`],
  ['of which the last is good', `${TOKEN_NAME}: nobody`, GOOD_TOKEN],
  ['of which one is empty', GOOD_TOKEN, `${TOKEN_NAME}:`],
  ['of which one is in capitals', GOOD_TOKEN, GOOD_TOKEN.toUpperCase()],
  ['that are both wrong', `${TOKEN_NAME}: nobody`, `${TOKEN_NAME}: nobody`],
];

/** What is no deployment, in the place of its name. */
const badNames: readonly string[] = [
  ...[
    '',
    '.',
    '..',
    '...',
    '~',
    '*',
    '-',
    'nobody',
    'PROD',
    'Prod',
    'prod.',
    'prod,test',
    'prod;x',
    'prod\\',
    'prod&',
    'pro',
  ],
  ...[
    '%70rod',
    'pro%64',
    'prod%2F',
    'prod%2F..',
    '%2Fprod',
    'prod%00',
    'prod%20',
    '%20prod',
    'prod%0d%0a',
    '%2e%2e',
    '%2e',
  ],
  ...['..%2fprod', '..%5cprod', 'test%2F..%2Fprod', '%c0%ae%c0%ae'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'size', 'undefined', 'null', '0'],
  ...[`${LONGEST_NAME}g`, 'x'.repeat(64), 'x'.repeat(5_000)],
  ...[FOREIGN_FOLDER, '.lock', '.stopped-cleanly', 'events-00000000000000000001.jsonl'],
  ...['livez', 'readyz', 'report_asset_materialization'],
];

/** Behind a good deployment, and with its token: paths where nothing is. */
const badRests: readonly string[] = [
  ...['', '/', '//', '/.', '/..', '/../test/report_asset_check/x', '/%2e%2e/test/report_asset_check/x'],
  ...['//report_asset_check/x', '/./report_asset_check/x', '/prod/report_asset_check/x', '/test/report_asset_check/x'],
  ...['/livez', '/readyz', '?x=/report_asset_check/x'],
];

/** What is refused for another reason as well: who has no token is not told. */
const alsoWrong = ({
  CHECK,
  BATCH,
  NOWHERE,
  TARGET,
  head,
  reportTo,
  report,
  framed,
  json,
  batch,
}: Forms): readonly (readonly [what: string, bytes: string])[] => [
  ['an unknown path', reportTo(NOWHERE)],
  ['a method that is wrong', head(`GET ${TARGET} HTTP/1.1`, HOST)],
  ['OPTIONS', head(`OPTIONS ${TARGET} HTTP/1.1`, HOST)],
  ['TRACE', head(`TRACE ${TARGET} HTTP/1.1`, HOST)],
  ['an idempotency key that is none', report('Idempotency-Key: "')],
  ['a batch', batch(FIRST_ITEM)],
  ['a batch that is no JSON', batch('[', 'application/json')],
  ['a batch of another type', batch(FIRST_ITEM, 'text/plain')],
  ['GET on the path of a batch', head(`GET ${BATCH} HTTP/1.1`, HOST)],
  ['an Expect', report('Expect: dance')],
  ['an Expect before a body', framed([SIZED, 'Expect: dance'])],
  ['a body that is announced too large', framed(['Content-Length: 9000000'], '')],
  ['a body of 1 MiB that is not sent', framed(['Content-Length: 1048576', 'Expect: 100-continue'], '')],
  ['a Content-Encoding', json('{}', TARGET, 'Content-Encoding: gzip')],
  ['a Content-Type', `${report('Content-Type: text/plain', 'Content-Length: 2')}{}`],
  ['a body that is no JSON', json('{')],
  ['a chunk that is broken', framed([CHUNKED], 'zz\r\n')],
  ['a key that is no key', reportTo(`${TARGET}%zz`)],
  ['a query that is broken', reportTo(`${TARGET}?x=%zz`)],
  ['a parameter that is missing', reportTo(`${CHECK}${KEY}`)],
];

/** What is refused before anybody looks for a token. */
const beforeTokens = ({ TARGET, LIVE, head, reportTo, report, framed }: Forms): readonly Refused[] => [
  ['two Hosts', report(HOST), 400],
  ['no Host', head(`POST ${TARGET} HTTP/1.1`), 400],
  ['two framings', framed([SIZED, CHUNKED], `${CHUNK}${LAST_CHUNK}`), 400],
  ['two Content-Types', report(JSON_TYPE, JSON_TYPE), 400],
  ['a fragment', reportTo(`${TARGET}#x`), 400],
  ['HTTP/2.0', head(`POST ${TARGET} HTTP/2.0`, HOST), 400],
  ['a space before a colon', report(`${TOKEN_NAME} : ${TOKEN}`), 400],
  ['a control byte in the token', report(`${GOOD_TOKEN}\x01`), 400],
  ['a NUL in the token', report(`${GOOD_TOKEN}\0`), 400],
  ['a NUL in the name of the deployment', reportTo(TARGET.replace('prod', 'prod\0')), 400],
  ['a byte over 127 in the name of the deployment', reportTo(TARGET.replace('prod', 'pr\xf6d')), 400],
  ['a token in the authority', reportTo(`http://prod:${TOKEN}@localhost${TARGET}`), 400],
  ['a head that a token makes too long', report(`${TOKEN_NAME}: ${'x'.repeat(16_384)}`), 431],
  ['a token behind 2,100 headers', report(...Array(2_100).fill('X:1'), GOOD_TOKEN), 431],
  ['two tokens on a path that needs none', LIVE.replace(HOST, `${HOST}\r\n${GOOD_TOKEN}\r\n${GOOD_TOKEN}`), 400],
];

const NAMED = `Idempotency-Key: ${KEY}`;
const JSON_LINES = 'application/x-ndjson';
const NO_TOKENS_MAX = 20;
const unknown = (count: number): Outcome => ({ replies: Array(count).fill({ status: 401 }), afterwards: 'kept' });

/** Only a hosted service knows these. The forms have no token. */
const tokens = (forms: Forms): readonly Row[] => {
  const { TARGET, NOWHERE, LIVE, head, reportTo, report, framed, json } = forms;
  const good = (target: string, ...more: readonly string[]) => reportTo(target, ...more, GOOD_TOKEN);
  const FIRST = good(`${forms.MATERIALIZATION}${FIRST_KEY}`);
  const SECOND = good(`${forms.MATERIALIZATION}${SECOND_KEY}`);
  const SMUGGLED = good(`${forms.MATERIALIZATION}${SMUGGLED_KEY}`);
  const OTHER = reportTo(TARGET.replace('prod', 'test'), `${TOKEN_NAME}: ${OTHER_TOKEN}`);
  const first = recorded(FIRST_KEY);
  const second = recorded(SECOND_KEY);
  return [
    ...badTokens.map(([what, ...lines]) => row(`A report with ${what} is refused`, report(...lines), keeps(401))),
    ...goodTokens.map(([what, line]) => row(`A header ${what} lets a report in`, report(line), taken)),
    ...twoTokens.map(([what, ...lines]) => row(`Two token headers ${what} are refused`, report(...lines), ends(400))),
    ...badNames.map((name) =>
      row(`${shorten(name)} leads to no deployment`, good(TARGET.replace('prod', () => name)), keeps(401)),
    ),
    ...badRests.map((rest) => row(`With its token nothing is at /prod${rest}`, good(`/prod${rest}`), keeps(404))),
    ...alsoWrong(forms).map(([what, bytes]) =>
      row(
        `Without a token ${what} gets 401`,
        bytes,
        /\r\n(Content-Length|Transfer)/.test(bytes) ? ends(401) : keeps(401),
      ),
    ),
    ...beforeTokens(forms).map(([what, bytes, status]) =>
      row(`Without a good token ${what} gets ${status}`, bytes, ends(status)),
    ),
    ...foreign.map(([what, lines]) =>
      row(`Without a token ${what} gets 403`, head(`POST ${TARGET} HTTP/1.1`, ...lines), keeps(403)),
    ),
    ...['/livez', '/readyz', '/livez?x', 'http://localhost/livez'].map((path) =>
      row(`GET ${path} needs no token`, head(`GET ${path} HTTP/1.1`, HOST), answered),
    ),
    ...[
      '/prod/livez',
      '/prod/readyz',
      '/livez/x',
      '/LIVEZ',
      '/livezz',
      '//livez',
      '/nobody/livez',
      '//',
      '/nobody',
    ].map((path) => row(`GET ${path} needs a token`, head(`GET ${path} HTTP/1.1`, HOST), keeps(401))),
    row('POST on /livez is refused without a token as with one', reportTo('/livez'), keeps(405)),
    row('HEAD without a token gets no body', head(`HEAD ${TARGET} HTTP/1.1`, HOST), keeps(401), { bodiless: true }),
    row('HEAD with a token gets no body', head(`HEAD ${TARGET} HTTP/1.1`, HOST, GOOD_TOKEN), keeps(405), {
      bodiless: true,
    }),
    row('HEAD of a health path needs no token', head('HEAD /readyz HTTP/1.1', HOST), answered, { bodiless: true }),
    row(
      'CONNECT to a path without a token is refused',
      head(`CONNECT ${TARGET} HTTP/1.1`, HOST),
      [ends(401), ends(400)],
      {
        reason: 'llhttp may refuse the target of a CONNECT before the service sees it',
      },
    ),
    row('HTTP/1.0 without a token is refused', head(`POST ${TARGET} HTTP/1.0`), ends(401)),
    row('An upgrade without a token is refused, and the connection ends', forms.offer, ends(401)),
    row('A token in a trailer comes too late', framed([CHUNKED], `${CHUNK}0\r\n${GOOD_TOKEN}\r\n\r\n`), ends(401)),
    row(
      'A token in a trailer is not a second one',
      framed([CHUNKED, GOOD_TOKEN], `${CHUNK}0\r\n${TOKEN_NAME}: nobody\r\n\r\n`),
      taken,
    ),
    row('A token on a folded line is refused', report(`${TOKEN_NAME}:`, ` ${TOKEN}`), [ends(400), taken], {
      reason: 'RFC 9112 section 5.2 lets a server refuse it or read it as one line',
    }),
    row('A token in the query is none', reportTo(`${TARGET}?${TOKEN_NAME}=${TOKEN}`), keeps(401)),
    row('A token in the body is none', json(`{"${TOKEN_NAME}":"${TOKEN}","token":"${TOKEN}"}`), ends(401)),
    row('A token that comes a few bytes at a time is a token', FIRST, first, { pieceBytes: 3 }),
    row('A head of 16 KiB that is nearly all token is read', headWithToken(forms, 16_384), keeps(401)),
    row('An absolute target leads to its deployment', good(`http://localhost${TARGET}`), taken),
    row('An absolute target without a token is refused', reportTo(`http://localhost${TARGET}`), keeps(401)),
    row('An authority is no deployment', good(`http://prod${TARGET.slice('/prod'.length)}`), keeps(403)),
    row('A report for another deployment lands there', OTHER, recorded(`${KEY} in test`)),
    row(
      'An idempotency key is for one deployment',
      `${good(TARGET, NAMED)}${reportTo(TARGET.replace('prod', 'test'), `${TOKEN_NAME}: ${OTHER_TOKEN}`, NAMED)}${good(TARGET, NAMED)}`,
      both(recorded(KEY, `${KEY} in test`), replayed),
    ),
    row(
      'A batch lands in the deployment of its path',
      forms.batch(FIRST_ITEM, JSON_LINES, forms.BATCH.replace('prod', 'test'), `${TOKEN_NAME}: ${OTHER_TOKEN}`),
      recorded(`${FIRST_KEY} in test`),
    ),
    row(
      'A batch with the token of another deployment is refused',
      forms.batch(FIRST_ITEM, JSON_LINES, forms.BATCH, `${TOKEN_NAME}: ${OTHER_TOKEN}`),
      ends(401),
    ),
    row('A batch under no deployment is refused', good('/report_asset_batch/'), keeps(401)),
    row(
      'A name of 63 characters is a deployment',
      reportTo(TARGET.replace('prod', LONGEST_NAME), `${TOKEN_NAME}: ${OTHER_TOKEN}`),
      recorded(`${KEY} in ${LONGEST_NAME}`),
    ),
    row(
      'Dot segments in a key lead to no other deployment',
      good(`${TARGET}/../../../test/report_asset_materialization/x`),
      recorded(`${KEY}/../../../test/report_asset_materialization/x`),
    ),
    row('Dot segments before a deployment are no way to it', good(`/test/..${TARGET}`), keeps(401)),
    row('Two slashes before a deployment are no way to it', good(`/${TARGET}`), keeps(401)),
    row('An endpoint without a deployment is refused', good(TARGET.slice('/prod'.length)), keeps(401)),
    row('A path that is unknown is told to who has a token', good(NOWHERE), keeps(404)),
    row('A method that is wrong is told to who has a token', FIRST.replace('POST', 'PUT'), keeps(405)),
    row(
      'Each report on a connection goes where its own path leads',
      `${FIRST}${OTHER}${SECOND}`,
      recorded(FIRST_KEY, `${KEY} in test`, SECOND_KEY),
    ),
    row('A token counts for one request', `${FIRST}${report()}${SECOND}`, both(both(first, keeps(401)), second)),
    row('A report behind a 401 is served', `${report()}${FIRST}`, both(keeps(401), first)),
    row('A report behind a 401 with a body is not served', `${framed([SIZED])}${SMUGGLED}`, ends(401)),
    row(
      'A report behind a 401 with chunks is not served',
      `${framed([CHUNKED], `${CHUNK}${LAST_CHUNK}`)}${SMUGGLED}`,
      ends(401),
    ),
    row(
      'A report behind a 401 with an Expect is a request of its own',
      `${report('Expect: 100-continue')}${SMUGGLED}`,
      both(keeps(401), recorded(SMUGGLED_KEY)),
    ),
    row('A report in a body that is refused with 401 is none', json(SMUGGLED), ends(401)),
    row('A report behind two token headers is not served', `${report(GOOD_TOKEN, GOOD_TOKEN)}${SMUGGLED}`, ends(400)),
    row('A client that closes its half gets its 401', report(), keeps(401), { half: true }),
    row(
      'The 21st failure of an address in a minute gets 429',
      report().repeat(NO_TOKENS_MAX + 1),
      both(unknown(NO_TOKENS_MAX), keeps(429)),
    ),
    row(
      'Behind a 429 a good token is let in, and the next bad one is not',
      `${report().repeat(NO_TOKENS_MAX + 1)}${FIRST}${report()}${SECOND}`,
      both(both(both(unknown(NO_TOKENS_MAX), keeps(429)), both(first, keeps(429))), second),
    ),
    row(
      'Good reports between failures are not counted, and do not wipe them out',
      `${`${report()}${FIRST}`.repeat(NO_TOKENS_MAX)}${report()}`,
      both(repeated(NO_TOKENS_MAX, both(unknown(1), first)), keeps(429)),
    ),
    row(
      'Behind a 429 health paths, foreign pages and bad syntax are answered as before',
      `${report().repeat(NO_TOKENS_MAX + 1)}${LIVE}${report('Origin: null')}${report(HOST)}`,
      both(both(both(unknown(NO_TOKENS_MAX), keeps(429)), both(answered, keeps(403))), ends(400)),
    ),
    row(
      'Refusals for another reason are not counted',
      `${good(NOWHERE).repeat(NO_TOKENS_MAX)}${report('Origin: null').repeat(NO_TOKENS_MAX)}${report()}`,
      both(both(repeated(NO_TOKENS_MAX, keeps(404)), repeated(NO_TOKENS_MAX, keeps(403))), keeps(401)),
    ),
    row(
      'A body behind a 429 is not read',
      `${good('/nobody/x').repeat(NO_TOKENS_MAX)}${framed([SIZED])}${SMUGGLED}`,
      both(unknown(NO_TOKENS_MAX), ends(429)),
    ),
  ];
};

function repeated(times: number, outcome: Outcome): Outcome {
  return { ...outcome, replies: Array.from({ length: times }, () => outcome.replies).flat() };
}

function shorten(name: string): string {
  if (name === '') return 'Nothing';
  return name.length > 64 ? `A name of ${name.length} characters` : `A path that begins with ${name}`;
}

/** A report with so many bytes of head, all but a few of them a wrong token. */
function headWithToken({ report }: Forms, bytes: number): string {
  return report(`${TOKEN_NAME}: ${'x'.repeat(bytes - report(`${TOKEN_NAME}: `).length)}`);
}

const itemOf = (name: string, more = '') => `{"type":"observation","asset_key":["${KEY}","${name}"]${more}}`;
const FIRST_ITEM = itemOf('first');
const SECOND_ITEM = itemOf('second');
const WRONG_ITEM = `{"type":"check","asset_key":"${KEY}","check_name":"c"}`;
const TWO_ITEMS = `${FIRST_ITEM}\n${SECOND_ITEM}`;
const BYTE_ORDER_MARK = utf8('\ufeff');
const LENIENT = 'Prefer: handling=lenient';

/** Bodies of lines that are no batch. */
const badBatches: readonly (readonly [what: string, body: string])[] = [
  ['nothing but line ends', '\n\r\n\n'],
  ['a JSON array', `[${FIRST_ITEM}]`],
  ['two items on a line', `${FIRST_ITEM}${SECOND_ITEM}`],
  ['two items with a comma between them', `${FIRST_ITEM},\n${SECOND_ITEM}`],
  ['lines that end in CR alone', `${FIRST_ITEM}\r${SECOND_ITEM}`],
  ['lines that end in U+2028', `${FIRST_ITEM}${utf8('\u2028')}${SECOND_ITEM}`],
  ['an item over two lines', FIRST_ITEM.replace(',', ',\n')],
  ['a wrong item at its end', `${TWO_ITEMS}\n${WRONG_ITEM}`],
  ['a wrong item at its beginning', `${WRONG_ITEM}\n${TWO_ITEMS}`],
  ['an item that is a number', `${FIRST_ITEM}\n5`],
  ['an item that is null', `${FIRST_ITEM}\nnull`],
  ['an item that is an array', `${FIRST_ITEM}\n[]`],
  ['an item that is a string', `${FIRST_ITEM}\n"observation"`],
  ['an item without members', `${FIRST_ITEM}\n{}`],
  ['an item whose type is a number', FIRST_ITEM.replace('"observation"', '1')],
  ['an item whose type is empty', FIRST_ITEM.replace('observation', '')],
  ['an item whose type is in capitals', FIRST_ITEM.replace('observation', 'OBSERVATION')],
  ['an item whose type is constructor', FIRST_ITEM.replace('observation', 'constructor')],
  ['an item whose type is that of a batch', FIRST_ITEM.replace('observation', 'batch')],
  ['two types in an item, the last one unknown', itemOf('first', ',"type":"x"')],
  ['two keys in an item, the last one null', itemOf('first', ',"asset_key":null')],
  ['a member constructor', itemOf('first', ',"constructor":{}')],
  ['a member of another kind of report', itemOf('first', ',"passed":true')],
  ['tags that are null', itemOf('first', ',"tags":null')],
  ['tags that are empty', itemOf('first', ',"tags":{}')],
  ['tags with a member __proto__', itemOf('first', ',"tags":{"__proto__":"v"}')],
  ['1,001 members in an item', itemOf('first', ',"seq":1'.repeat(1_001))],
  ['an event time without a zone', itemOf('first', ',"event_time":"2026-11-20T15:19:45"')],
  ['an event time in the year 0', itemOf('first', ',"event_time":"0000-12-31T23:59:59Z"')],
  ['an event time after the year 9999', itemOf('first', ',"event_time":"9999-12-31T23:59:59-00:01"')],
  ['an event time in a leap second', itemOf('first', ',"event_time":"2016-12-31T23:59:60Z"')],
  ['an item without a type', `${FIRST_ITEM}\n{"asset_key":"${KEY}"}`],
  ['an item whose type is __proto__', FIRST_ITEM.replace('observation', '__proto__')],
  ['an item whose type is a list', FIRST_ITEM.replace('"observation"', '["observation"]')],
  ['an unknown member', itemOf('first', ',"uri":"x"')],
  ['a member __proto__', itemOf('first', ',"__proto__":{"type":"check"}')],
  ['a tag that is none', itemOf('first', ',"tags":{"owner":"x"}')],
  ['an event time that is a number', itemOf('first', ',"event_time":1763650785')],
  ['an idempotency key with a space', itemOf('first', ',"idempotency_key":"a b"')],
  ['an idempotency key that is a number', itemOf('first', ',"idempotency_key":7')],
  ['an idempotency key that is empty', itemOf('first', ',"idempotency_key":""')],
  ['an idempotency key outside ASCII', itemOf('first', ',"idempotency_key":"\\u00e9"')],
  ['an idempotency key of 264 characters', itemOf('first', `,"idempotency_key":"${'k'.repeat(264)}"`)],
  [
    'one idempotency key for two events',
    `${itemOf('first', `,"idempotency_key":"${KEY}"`)}\n${itemOf('second', `,"idempotency_key":"${KEY}"`)}`,
  ],
  ['half of a pair in a key', itemOf('\\ud800')],
  ['a NUL after its items', `${TWO_ITEMS}\n\0`],
  ['a NUL in an item', `${FIRST_ITEM}\0\n${SECOND_ITEM}`],
  ['a form feed between its items', `${FIRST_ITEM}\n\f\n${SECOND_ITEM}`],
  ['UTF-16 with its mark', Buffer.from(`\ufeff${TWO_ITEMS}`, 'utf16le').toString('latin1')],
  ['UTF-16 without its mark', Buffer.from(TWO_ITEMS, 'utf16le').toString('latin1')],
  ['a record separator before each item (RFC 7464)', `\x1e${FIRST_ITEM}\n\x1e${SECOND_ITEM}`],
  ['a byte order mark in its second line', `${FIRST_ITEM}\n${BYTE_ORDER_MARK}${SECOND_ITEM}`],
  ['bytes that are not UTF-8', `${FIRST_ITEM}\n${itemOf('\xff')}`],
  ['metadata deeper than 128 levels', itemOf('first', `,"metadata":{"a":${'['.repeat(127)}${']'.repeat(127)}}`)],
  ['an item of 100,000 levels', `${FIRST_ITEM}\n${'['.repeat(100_000)}`],
  ['10,001 items', `${'{}\n'.repeat(10_001)}`],
  ['10,000 wrong items', `${'{}\n'.repeat(10_000)}`],
  [
    'a request of its own',
    `${FIRST_ITEM}\r\n\r\nPOST /report_asset_observation/${KEY} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  ],
];

/** JSON that is no array of reports. */
const badArrays: readonly (readonly [what: string, body: string])[] = [
  ['empty', '[]'],
  ['an object', FIRST_ITEM],
  ['lines', TWO_ITEMS],
  ['an array of arrays', `[[${FIRST_ITEM}]]`],
  ['an array with a trailing comma', `[${FIRST_ITEM},]`],
  ['an array that is never closed', `[${FIRST_ITEM}`],
  ['an array and more', `[${FIRST_ITEM}]${FIRST_ITEM}`],
  ['10,001 items', `[${'{},'.repeat(10_000)}{}]`],
  ['an array that holds null', `[${FIRST_ITEM},null]`],
  ['an array with a hole', `[${FIRST_ITEM},,${SECOND_ITEM}]`],
  ['an array of 100,000 levels', '['.repeat(100_000)],
  ['an item of over 128 levels', `[${itemOf('first', `,"metadata":{"a":${'['.repeat(127)}${']'.repeat(127)}}`)}]`],
  ['null', 'null'],
  ['UTF-16', Buffer.from(`[${FIRST_ITEM}]`, 'utf16le').toString('latin1')],
];

/** Each of these as the value of Prefer asks for lenient handling. */
const lenientPreferences: readonly string[] = [
  'HANDLING=Lenient',
  'handling="lenient"',
  'handling="len\\ient"',
  'handling\t= lenient',
  'handling=lenient;x="y,z"',
  'return=minimal, handling=lenient, handling=strict',
  ',, x="a, handling=strict", handling=lenient',
];

/** Each of these does not, for one reason or another, and is no mistake either. */
const otherPreferences: readonly (readonly [what: string, value: string])[] = [
  ['that is empty', ''],
  ['without a value', 'handling'],
  ['with an empty value', 'handling='],
  ['that is strict', 'handling=strict, handling=lenient'],
  ['that is a longer word', 'handling=lenients'],
  ['that is only the value', 'lenient'],
  ['with a colon', 'handling:lenient'],
  ['in single quotes', "handling='lenient'"],
  ['whose name is in quotes', '"handling"=lenient'],
  ['whose quotes are not closed', 'handling="lenient'],
  ['with another word behind it', 'handling=lenient please'],
  ['that is in the quotes of another', 'x="handling=lenient"'],
  ['that is a parameter of another', 'x;handling=lenient'],
  ['behind quotes that are not closed', 'x=", handling=lenient'],
  ['outside ASCII', 'handling=l\xe9nient'],
  ['behind bytes outside ASCII', '\xff, handling=lenient'],
  ['of 15,000 spaces', `x=${' '.repeat(15_000)}\xff, handling=lenient`],
  ['of 15,000 commas and a mistake', `${','.repeat(15_000)}=`],
  ['of 15,000 quotes', '"'.repeat(15_000)],
];

/** Each of these as the value of Idempotency-Key, twice: the second report is the same one. */
const goodKeys: readonly (readonly [what: string, value: string])[] = [
  ['of one character', '~'],
  ['of 255 characters', `${KEY}${'k'.repeat(255 - KEY.length)}`],
  ['of 255 characters in quotes', `"${KEY}${'k'.repeat(255 - KEY.length)}"`],
  ['of 255 characters, most of them escaped', `"${KEY}${'\\"'.repeat(255 - KEY.length)}"`],
  ['with all that may be bare', `${KEY}!#$%&'()*+-./:;<=>?@[\\]^_\`{|}~`],
  ['with a comma, a semicolon and escapes in quotes', `"${KEY},;\\\\\\""`],
  ['with white space around it', `\t ${KEY} \t`],
  ['that looks like a parameter', `${KEY};a=1`],
  ['that looks like a byte sequence (RFC 8941)', `:${KEY}:`],
  ['that looks like a number', KEY.replace('key-', '-1.')],
  ['that is __proto__ and more', `__proto__${KEY}`],
];

/** Each of these is no key. */
const badKeys: readonly (readonly [what: string, value: string])[] = [
  ['that is empty', ''],
  ['of white space', ' \t'],
  ['of 256 characters', `${KEY}${'k'.repeat(256 - KEY.length)}`],
  ['of 256 characters in quotes', `"${KEY}${'k'.repeat(256 - KEY.length)}"`],
  ['of 256 escaped characters', `"${'\\"'.repeat(256)}"`],
  ['of 15,000 characters', 'k'.repeat(15_000)],
  ['of 15,000 backslashes', `"${'\\'.repeat(15_000)}`],
  ['that is empty in quotes', '""'],
  ['that is one quote', '"'],
  ['whose quotes are not closed', `"${KEY}`],
  ['whose quotes are not opened', `${KEY}"`],
  ['whose closing quote is escaped', `"${KEY}\\"`],
  ['with an escape of another character', `"${KEY}\\a"`],
  ['with a quote inside of it', `${KEY}"a`],
  ['with something behind its quotes', `"${KEY}"a`],
  ['with a parameter', `"${KEY}";a=1`],
  ['with a parameter behind a space', `${KEY}; a=1`],
  ['that is a list', `${KEY},a`],
  ['that is a list of quoted ones', `"${KEY}", "a"`],
  ['with a comma behind it', `${KEY},`],
  ['with a space', `${KEY} a`],
  ['with a space in quotes', `"${KEY} a"`],
  ['with a tab', `${KEY}\ta`],
  ['with a tab in quotes', `"${KEY}\ta"`],
  ['with a byte outside ASCII', `${KEY}\xe9`],
  ['with a byte outside ASCII in quotes', `"${KEY}\xff"`],
  ['in UTF-8', utf8(`${KEY}é`)],
  ['with a no-break space behind it', `${KEY}\xa0`],
];

/** What is another event with the same key: its members, where the first has `"metadata":{"a":1.0,"b":2}`. */
const otherEvents: readonly (readonly [what: string, members: string])[] = [
  ['without metadata', ''],
  ['with null for metadata', '"metadata":null'],
  ['with its metadata in another order', '"metadata":{"b":2,"a":1.0}'],
  ['with another spelling of a number', '"metadata":{"a":1.00,"b":2}'],
  ['with another escape', '"metadata":{"\\u0061":1.0,"b":2}'],
  ['with a partition', '"metadata":{"a":1.0,"b":2},"partition":""'],
  ['with a data version', '"metadata":{"a":1.0,"b":2},"data_version":"v"'],
  ['with a time', '"metadata":{"a":1.0,"b":2},"event_time":"2026-11-20T15:19:45Z"'],
];

/** Reports with an idempotency key; the key of a row is part of each, so that no row meets the report of another. */
const idempotency = ({
  MATERIALIZATION,
  TARGET,
  BATCH,
  GOOD_LINE,
  head,
  reportTo,
  report,
  framed,
  json,
  batch: send,
}: Forms): readonly Row[] => {
  const named = (value: string) => `Idempotency-Key: ${value}`;
  const keyed = (value: string) => report(named(value));
  const good = keyed(KEY);
  const event = (members: string, ...more: readonly string[]) => json(`{${members}}`, TARGET, ...more);
  const first = event('"metadata":{"a":1.0,"b":2}', named(KEY));
  const batch = (body: string, ...more: readonly string[]) => send(body, 'application/x-ndjson', BATCH, ...more);
  const item = (key: string) => `{"type":"materialization","asset_key":"${KEY}","idempotency_key":"${key}"}`;
  const twoRecorded: Outcome = { replies: [{ status: 200, records: [FIRST_KEY, SECOND_KEY] }], afterwards: 'kept' };
  const conflict = keeps(422);
  return [
    ...goodKeys.map(([what, value]) =>
      row(`An idempotency key ${what} is one`, `${keyed(value)}${keyed(value)}`, both(taken, replayed)),
    ),
    ...badKeys.map(([what, value]) =>
      row(`An idempotency key ${what} is refused`, `${keyed(value)}${report()}`, both(keeps(400), taken)),
    ),
    ...[...['\0', '\x01', '\x0b', '\x7f'].map((byte) => `${KEY}${byte}`), `${KEY}\r\n a`, `${KEY}\n a`].map((value) =>
      row(
        `A request with ${JSON.stringify(value.slice(KEY.length))} in an idempotency key is refused`,
        keyed(value),
        ends(400),
      ),
    ),
    ...otherEvents.map(([what, members]) =>
      row(
        `A report ${what} is another one than that with its idempotency key`,
        `${first}${event(members, named(KEY))}${first}`,
        both(both(taken, conflict), replayed),
      ),
    ),
    row('Two equal idempotency keys are refused', report(named(KEY), named(KEY)), keeps(400)),
    row('Two idempotency keys are refused', report(named(`"${KEY}"`), named('"a"')), keeps(400)),
    row('Two halves of a quoted idempotency key are refused', report(named(`"${KEY}`), named('a"')), keeps(400)),
    row('An empty idempotency key beside a good one is refused', report(named(''), named(KEY)), keeps(400)),
    row(
      'A key is the same in quotes and bare, and its name in any case',
      `${good}${report(`IDEMPOTENCY-KEY: "${KEY}"`)}${report(`idempotency-key:${KEY}`)}`,
      both(both(taken, replayed), replayed),
    ),
    row(
      'An escaped backslash in quotes is one that is bare',
      `${keyed(`${KEY}\\a`)}${keyed(`"${KEY}\\\\a"`)}`,
      both(taken, replayed),
    ),
    row('Idempotency_Key is another header', `${good}${report(`Idempotency_Key: ${KEY}`)}`, recorded(KEY, KEY)),
    row(
      'An idempotency key in a trailer is none',
      twice(framed([CHUNKED], `${CHUNK}0\r\n${named(KEY)}\r\n\r\n`)),
      recorded(KEY, KEY),
    ),
    row(
      'An idempotency key in the query or in the body of a report is none',
      `${twice(reportTo(`${TARGET}?idempotency_key=${KEY}&Idempotency-Key=${KEY}`))}${twice(event(`"idempotency_key":"${KEY}"`))}`,
      recorded(KEY, KEY, KEY, KEY),
    ),
    row('White space before the colon of Idempotency-Key is refused', report(`Idempotency-Key : ${KEY}`), ends(400)),
    row(
      'A report with an idempotency key and HTTP/1.0 is replayed as well',
      `${good}${head(GOOD_LINE.replace('1.1', '1.0'), named(KEY))}`,
      both(taken, announced(replayed)),
    ),
    row(
      'A report that is sent again while it is on its way is recorded once',
      good.repeat(12),
      both(taken, repeated(11, replayed)),
      { pieceBytes: 65_536 },
    ),
    row(
      'A report that is refused leaves its idempotency key free',
      `${event('"partition":5', named(KEY))}${good}${good}`,
      both(both(keeps(400), taken), replayed),
    ),
    row(
      'The place of the asset key makes no other event',
      `${good}${framed([SIZED, named(KEY)])}${reportTo(`${MATERIALIZATION}?asset_key=${KEY}`, named(KEY))}`,
      both(both(taken, replayed), replayed),
    ),
    row(
      'A time in another zone makes no other event, and another fraction does',
      ['15:19:45Z', '16:19:45%2B01:00', '15:19:45.0Z']
        .map((time) => reportTo(`${TARGET}?event_time=2026-11-20T${time}`, named(KEY)))
        .join(''),
      both(both(taken, replayed), conflict),
    ),
    row(
      'Another kind of report is another event',
      `${good}${reportTo(TARGET.replace('materialization', 'observation'), named(KEY))}`,
      both(taken, conflict),
    ),
    row(
      'A batch that is sent again with its key is all duplicates',
      twice(batch(TWO_ITEMS, named(KEY))),
      both(twoRecorded, answered),
    ),
    row(
      'The key of a batch gives each item a key of its own, by its line',
      `${batch(`\n${TWO_ITEMS}`, named(`"${KEY}"`))}${reportTo(TARGET.replace('materialization', 'observation'), named(`${KEY}/2`))}`,
      both(twoRecorded, conflict),
    ),
    row(
      'An item with a key and a report with that key are one event',
      `${batch(item(KEY), named('other'))}${good}`,
      both(taken, replayed),
    ),
    row(
      'An item with the key of a report is a duplicate',
      `${good}${batch(`${item(KEY)}\n${item(KEY)}`)}`,
      both(taken, answered),
    ),
    row(
      'A batch in which a key belongs to another event is refused whole',
      `${first}${batch(`${TWO_ITEMS}\n${item(KEY)}`)}`,
      both(taken, keeps(400)),
    ),
    row(
      'Of a lenient batch such an item is left out',
      `${first}${batch(`${TWO_ITEMS}\n${item(KEY)}`, LENIENT)}`,
      both(taken, { ...twoRecorded, replies: [{ ...twoRecorded.replies[0], status: 207 }] }),
    ),
    row(
      'A batch with two idempotency keys in its head is refused',
      batch(TWO_ITEMS, named(KEY), named(KEY)),
      keeps(400),
    ),
  ];
};

function twice(bytes: string): string {
  return `${bytes}${bytes}`;
}

const batches = ({ BATCH, TARGET, head, reportTo, batch: send }: Forms): readonly Row[] => {
  const array = (body: string) => send(body, 'application/json');
  const keys = (...records: readonly string[]): Outcome => ({
    replies: [{ status: 200, records }],
    afterwards: 'kept',
  });
  const both = keys(FIRST_KEY, SECOND_KEY);
  const lenient: Outcome = { replies: [{ status: 207, records: [FIRST_KEY] }], afterwards: 'kept' };
  const chunk = `${TWO_ITEMS.length.toString(16)}\r\n${TWO_ITEMS}\r\n`;
  const known = `,"idempotency_key":"${KEY}"`;
  return [
    row('A batch of two lines is recorded', send(TWO_ITEMS), both),
    row('A batch that arrives byte by byte is recorded', send(TWO_ITEMS), both, { pieceBytes: 1 }),
    row(
      'A batch with a byte order mark and CR LF is recorded',
      send(`${BYTE_ORDER_MARK}\r\n${TWO_ITEMS.replace('\n', '\r\n\r\n')}\r\n`),
      both,
    ),
    row(
      'A chunked batch is recorded',
      `${reportTo(BATCH, 'Content-Type: application/jsonl', CHUNKED)}${chunk}${LAST_CHUNK}`,
      both,
    ),
    row('A batch in an array is recorded', array(`[ ${FIRST_ITEM} ,\n${SECOND_ITEM} ]`), both),
    row('A batch without its last slash is recorded', send(TWO_ITEMS, 'application/ndjson', BATCH.slice(0, -1)), both),
    row(
      'An item with a time in another zone is recorded',
      send(itemOf('first', ',"event_time":"2026-11-20T15:19:45+01:00"')),
      keys(FIRST_KEY),
    ),
    row(
      'An item that is there twice with its idempotency key is recorded once',
      send(`${itemOf('first', known)}\n${itemOf('first', known)}`),
      keys(FIRST_KEY),
    ),
    row(
      'Of a batch with lenient handling the good items are recorded',
      send(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'application/x-ndjson', BATCH, LENIENT),
      lenient,
    ),
    row(
      'A batch with lenient handling and no good item is refused',
      send(WRONG_ITEM, 'application/x-ndjson', BATCH, LENIENT),
      keeps(400),
    ),
    row(
      'Of two handlings the first decides',
      send(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'application/x-ndjson', BATCH, 'Prefer: handling=strict', LENIENT),
      keeps(400),
    ),
    ...lenientPreferences.map((value) =>
      row(
        `Prefer: ${value} is lenient handling`,
        send(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'application/x-ndjson', BATCH, `Prefer: ${value}`),
        lenient,
      ),
    ),
    row(
      'A preference may be in the second of two Prefer headers',
      send(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'application/x-ndjson', BATCH, 'Prefer: return=minimal', LENIENT),
      lenient,
    ),
    ...otherPreferences.map(([what, value]) =>
      row(
        `A preference ${what} is ignored`,
        `${send(`${FIRST_ITEM}\n${WRONG_ITEM}`, 'application/x-ndjson', BATCH, `Prefer: ${value}`)}${reportTo(TARGET, `Prefer: ${value}`)}`,
        { replies: [{ status: 400 }, { status: 200, records: KEY }], afterwards: 'kept' },
      ),
    ),
    ...badBatches.map(([what, body]) => row(`A batch with ${what} is refused whole`, send(body), keeps(400))),
    ...badArrays.map(([what, body]) =>
      row(`A batch as JSON that is ${what} is refused whole`, array(body), keeps(400)),
    ),
    row('A batch without a body is refused', reportTo(BATCH), keeps(400)),
    ...['text/plain', 'application/x-ndjson+json', 'application/json-seq', 'application/x-ndjson; charset=utf-16'].map(
      (type) => row(`A batch of type ${type} is refused`, send(TWO_ITEMS, type), ends(400)),
    ),
    ...['application/x-ndjson;charset=UTF-8', 'APPLICATION/JSONL; charset="utf-8"; x=y', 'application/ndjson;'].map(
      (type) => row(`A batch of type ${type} is recorded`, send(TWO_ITEMS, type), both),
    ),
    row('A batch without a type is refused', `${reportTo(BATCH, 'Content-Length: 2')}{}`, ends(400)),
    row('A chunked batch without a type is refused', `${reportTo(BATCH, CHUNKED)}${chunk}${LAST_CHUNK}`, keeps(400)),
    row(
      'A batch with Content-Encoding gzip is refused',
      send('\x1f\x8b\x08', 'application/x-ndjson', BATCH, 'Content-Encoding: gzip'),
      ends(415),
    ),
    row('A batch that is gzip and does not say so is refused', send('\x1f\x8b\x08\0'), keeps(400)),
    row('A batch that says application/json and is lines is refused', array(`${TWO_ITEMS}\n`), keeps(400)),
    row(
      'Of members that are there twice in an item the last counts',
      send(itemOf('other', `,"asset_key":["${KEY}","first"],"type":"check","type":"AssetObservation"`)),
      keys(FIRST_KEY),
    ),
    row(
      'A line of the journal is an item, and what it says of its position is not looked at',
      send(
        itemOf(
          'first',
          ',"seq":"x","id":[],"time":{},"crc":null,"from":0,"recorded":false,"tags":{"data_version":"v"}',
        ),
      ),
      keys(FIRST_KEY),
    ),
    row(
      'An item of 128 levels is recorded',
      send(itemOf('first', `,"metadata":{"a":${'['.repeat(126)}${']'.repeat(126)}}`)),
      keys(FIRST_KEY),
    ),
    row(
      'An array may be one level deeper than its items',
      array(`[${itemOf('first', `,"metadata":{"a":${'['.repeat(126)}${']'.repeat(126)}}`)}]`),
      keys(FIRST_KEY),
    ),
    row(
      'An idempotency key of 263 characters is that of an item',
      send(itemOf('first', `,"idempotency_key":"${KEY}${'k'.repeat(263 - KEY.length)}"`)),
      keys(FIRST_KEY),
    ),
    row(
      'An idempotency key of an item that is null is none',
      send(`${itemOf('first', ',"idempotency_key":null')}\n${itemOf('second', ',"idempotency_key":null')}`),
      both,
    ),
    row('A batch of exactly 1 MiB is recorded', send(`${TWO_ITEMS}\n`.padEnd(1_048_576, ' ')), both),
    row(
      'A batch of 10,000 empty lines and an item is recorded',
      send(`${'\n'.repeat(10_000)}${FIRST_ITEM}`),
      keys(FIRST_KEY),
    ),
    row(
      'A chunked batch of one byte over 1 MiB is refused',
      `${reportTo(BATCH, 'Content-Type: application/jsonl', CHUNKED)}100001\r\n${TWO_ITEMS.padEnd(1_048_577, '\n')}\r\n${LAST_CHUNK}`,
      ends(413),
    ),
    row('A batch that its client leaves in the middle is not recorded', send(TWO_ITEMS).slice(0, -1), ends(400), {
      half: true,
    }),
    row(
      'Lines to an endpoint of single reports are refused',
      send(TWO_ITEMS, 'application/x-ndjson', TARGET),
      ends(400),
    ),
    row(
      'A key after the path of a batch is no path',
      send(TWO_ITEMS, 'application/x-ndjson', `${BATCH}${KEY}`),
      ends(404),
    ),
    ...['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'].flatMap((method) =>
      [BATCH, BATCH.slice(0, -1)].map((path) =>
        row(
          `${method} on ${path.endsWith('/') ? 'the path of a batch' : 'the same without its slash'} is refused`,
          head(`${method} ${path} HTTP/1.1`, HOST),
          keeps(405),
        ),
      ),
    ),
    ...[
      `${BATCH}/`,
      `${BATCH}.`,
      BATCH.replace('batch', 'BATCH'),
      BATCH.replace('_batch', '%5Fbatch'),
      BATCH.replace('batch', 'batches'),
    ].map((path) => row(`Nothing is at ${path.replace(/^\/prod/, '')}`, reportTo(path), keeps(404))),
    row(
      'A key in the query is none of its items',
      send('{"type":"observation"}', 'application/x-ndjson', `${BATCH}?asset_key=${KEY}`),
      keeps(400),
    ),
    row(
      'A batch with a malformed query is refused',
      send(TWO_ITEMS, 'application/x-ndjson', `${BATCH}?x=%zz`),
      keeps(400),
    ),
    row(
      'A batch with a malformed Idempotency-Key is refused',
      send(TWO_ITEMS, 'application/x-ndjson', BATCH, 'Idempotency-Key: "a'),
      keeps(400),
    ),
    row(
      'A batch of one byte over 1 MiB is refused before it is sent',
      reportTo(BATCH, 'Content-Type: application/x-ndjson', 'Content-Length: 1048577'),
      ends(413),
    ),
    row('A report after a batch on the connection is one of its own', `${send(TWO_ITEMS)}${reportTo(TARGET)}`, {
      replies: [
        { status: 200, records: [FIRST_KEY, SECOND_KEY] },
        { status: 200, records: KEY },
      ],
      afterwards: 'kept',
    }),
  ];
};

/** Of a reading: paths that are not its own. */
const badReadingPaths: readonly string[] = [
  ...['/events/', '/events/x', '//events', '/./events', '/x/../events', '/EVENTS', '/Events', '/event', '/eventss'],
  ...['/events%2F', '/%65vents', '/events%00', '/events;x=1', '/events.json', '/assets/orders', '/refusals/1'],
];

/** Queries that no reading takes: a filter that is ignored would show everything. */
const badReadingQueries: readonly string[] = [
  ...['x=1', 'Limit=1', 'limit', 'limit=', 'limit=0', 'limit=-1', 'limit=1.0', 'limit=1e3', 'limit=0x1', 'limit=%31x'],
  ...['limit=1%00', 'limit=+1', 'limit=99999999999999999999', 'limit=%zz', 'limit=%ff', '=1', '%00=1', 'x=%zz'],
  ...['limit[]=1', '__proto__=1', 'constructor=1', `x=${'y'.repeat(8_000)}`],
];

const badEventQueries: readonly string[] = [
  ...['after_seq=-1', 'after_seq=1.5', 'after_seq=9007199254740992', 'after_seq=NaN', 'last=0', 'last=1&limit=1'],
  ...['wait=1', 'wait=61&after_seq=0', 'wait=-1&after_seq=0', 'type=nothing', 'passed=1', 'passed=TRUE', 'key=a//b'],
  ...['key=[', 'key=%5B%22a%22', 'since=yesterday', 'since=2026-02-30', 'until=1e9'],
];

/** What reads a journal, and what looks like it. */
const readings = (forms: Forms): readonly Row[] => {
  const { prefix, FIRST, SMUGGLED, head, reportTo } = forms;
  const get = (target: string, ...more: readonly string[]) => head(`GET ${prefix}${target} HTTP/1.1`, HOST, ...more);
  const withBody = (target: string, body: string, ...more: readonly string[]) =>
    `${get(target, `Content-Length: ${Buffer.byteLength(body, 'latin1')}`, ...more)}${body}`;
  const readOnce: Outcome = { replies: [{ status: 200, reads: true }], afterwards: 'kept' };
  const methods = ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND', 'QUERY', 'get'];
  return [
    ...READINGS.flatMap((path) => [
      row(`GET ${path} reads`, get(`${path}${path === '/refusals' ? '' : '?limit=2'}`), readOnce),
      row(`HEAD ${path} gets the head alone`, get(path).replace('GET', 'HEAD'), readOnce, { bodiless: true }),
      ...methods.map((method) =>
        row(
          `The method ${method} on ${path} is refused`,
          get(path).replace('GET', method),
          method === method.toUpperCase() && method !== 'QUERY' ? keeps(405) : [keeps(405), ends(400)],
          method === method.toUpperCase() && method !== 'QUERY'
            ? {}
            : { reason: 'llhttp knows some methods only, and by their exact names' },
        ),
      ),
      row(`TRACE ${path} is refused`, get(path).replace('GET', 'TRACE'), keeps(405)),
      ...badReadingQueries.map((query) =>
        row(`GET ${path} with the query ${shorten(query)} is refused`, get(`${path}?${query}`), keeps(400)),
      ),
      row(`A body that is no JSON is refused on GET ${path}`, withBody(path, '{', JSON_TYPE), keeps(400)),
      row(`A body without a type is refused on GET ${path}`, withBody(path, '{}'), ends(400)),
      row(
        `A body of another type is refused on GET ${path}`,
        withBody(path, '{}', 'Content-Type: text/plain'),
        ends(400),
      ),
      row(`A report in the body of GET ${path} is none`, withBody(path, SMUGGLED, JSON_TYPE), keeps(400)),
      row(`A fragment is refused on GET ${path}`, get(`${path}#x`), ends(400)),
      row(`GET ${path} with an Expect that is none is refused`, get(path, 'Expect: dance'), keeps(417)),
    ]),
    ...badReadingPaths.map((path) => row(`GET ${path} reads nothing`, get(path), keeps(404))),
    ...badEventQueries.map((query) =>
      row(`GET /events with ${shorten(query)} is refused`, get(`/events?${query}`), keeps(400)),
    ),
    row('A body of GET that is announced and empty is read', withBody('/events?limit=1', ''), readOnce),
    row(
      'A body in chunks is read with GET /events',
      `${get('/events?limit=1', CHUNKED, JSON_TYPE)}${LAST_CHUNK}`,
      readOnce,
    ),
    row('GET /events on HTTP/1.0 reads to the end of the connection', head(`GET ${prefix}/events?limit=1 HTTP/1.0`), {
      ...readOnce,
      afterwards: 'closed',
    }),
    row('An Accept that names nothing gets the standard type', get('/events?limit=1', 'Accept: ,;q=,/'), readOnce),
    row('An Accept of 8 KiB is read', get('/events?limit=1', `Accept: ${'a/b;q=0.1,'.repeat(800)}`), readOnce),
    row(
      'A Last-Event-ID that is no number ends no stream',
      get('/events', 'Accept: text/event-stream', 'Last-Event-ID: x'),
      keeps(400),
    ),
    row(
      'A reading between two reports is answered in order',
      `${FIRST}${get('/events?limit=1')}${reportTo(`${forms.MATERIALIZATION}${SECOND_KEY}`)}`,
      both(both(recorded(FIRST_KEY), readOnce), recorded(SECOND_KEY)),
    ),
    row('An upgrade to a reading is its last', get('/events?limit=1', ...OFFER), announced(readOnce)),
    row('A client that closes its half gets what it asked for', get('/events?limit=1'), readOnce, { half: true }),
  ];
};

/** Who may do what in hosted mode. The forms have no token. */
const rights = (forms: Forms): readonly Row[] => {
  const { TARGET, BATCH, CHECK, NOWHERE, MATERIALIZATION, head, reportTo, batch, json } = forms;
  const get = (target: string, ...more: readonly string[]) => head(`GET ${target} HTTP/1.1`, HOST, ...more);
  const reporter = `${TOKEN_NAME}: ${OTHER_TOKEN.toLowerCase()}`;
  const expired = `${TOKEN_NAME}: ${EXPIRED_READING_TOKEN}`;
  const readOnce: Outcome = { replies: [{ status: 200, reads: true }], afterwards: 'kept' };
  const asks = ['', '?limit=1', '?key=orders', '?x=1', '?x=%zz', '?limit=0'];
  return [
    ...badTokens.map(([what, ...lines]) =>
      row(`A reading with ${what} is refused`, get('/prod/events', ...lines), keeps(401)),
    ),
    ...READINGS.flatMap((path) => [
      ...['/prod', '/test', '/nobody', '/..', '/%70rod', ''].map((name) =>
        row(`Without a token GET ${name}${path} gets 401`, get(`${name}${path}`), keeps(401)),
      ),
      ...asks.map((query) =>
        row(`GET ${path}${query} without the right gets 403`, get(`/prod${path}${query}`, reporter), keeps(403)),
      ),
      row(`HEAD ${path} without the right gets 403`, get(`/prod${path}`, reporter).replace('GET', 'HEAD'), keeps(403), {
        bodiless: true,
      }),
      row(`POST ${path} without the right gets 403`, reportTo(`/prod${path}`, reporter), keeps(403)),
      row(`GET ${path} with a token that may read is answered`, get(`/prod${path}`, READER), readOnce),
      row(`POST ${path} with a token that may read gets 405`, reportTo(`/prod${path}`, READER), keeps(405)),
      row(
        `GET ${path} of another deployment with a token that may read gets 401`,
        get(`/test${path}`, READER),
        keeps(401),
      ),
      row(
        `GET ${path} with a token that might read and has expired gets 401`,
        get(`/prod${path}`, expired),
        keeps(401),
      ),
      row(`GET ${path} under no deployment gets 401 with a token that may read`, get(path, READER), keeps(401)),
      row(
        `GET ${path} of a page of another site gets 403`,
        get(`/prod${path}`, READER, 'Origin: http://evil.example'),
        keeps(403),
      ),
    ]),
    row('A report with a token that may only read gets 403', reportTo(TARGET, READER), keeps(403)),
    row(
      'A report with a token that may only read gets 403 before its query',
      reportTo(`${CHECK}${KEY}?x=%zz`, READER),
      keeps(403),
    ),
    row('A report with a token that may only read gets 403 before its body', json('{', TARGET, READER), ends(403)),
    row('A batch with a token that may only read gets 403', batch(FIRST_ITEM, JSON_LINES, BATCH, READER), ends(403)),
    row('GET on an endpoint with a token that may only read gets 403', get(TARGET, READER), keeps(403)),
    row('An unknown path with a token that may only read gets 404', reportTo(NOWHERE, READER), keeps(404)),
    row(
      'Requests without the right are not counted as failures',
      `${get('/prod/events', reporter).repeat(NO_TOKENS_MAX + 1)}${reportTo(TARGET)}`,
      both(repeated(NO_TOKENS_MAX + 1, keeps(403)), keeps(401)),
    ),
    row(
      'A right counts for one request',
      `${get('/prod/refusals', READER)}${get('/prod/refusals')}${reportTo(`${MATERIALIZATION}${FIRST_KEY}`, GOOD_TOKEN)}`,
      both(both(readOnce, keeps(401)), recorded(FIRST_KEY)),
    ),
  ];
};

/** Bodies for a hub, with a seq that fits the path: none of them is a line of a journal. */
const badForwarded: readonly (readonly [what: string, body: string])[] = [
  ['a report', FIRST_ITEM],
  ['a report with its newline', `${FIRST_ITEM}\n`],
  ['JSON of another form', '[]\n'],
  ['an empty line', '\n'],
  ['spaces', '   \n'],
  ['a line with a wrong crc', `{"seq":1,"id":"x","asset_key":["${KEY}"],"type":"AssetObservation","crc":"00000000"}\n`],
  ['a line with a crc that is none', `{"seq":1,"asset_key":["${KEY}"],"crc":"0000000g"}\n`],
  ['a line with another seq', `{"seq":2,"asset_key":["${KEY}"],"crc":"00000000"}\n`],
  ['a line with a seq that is text', `{"seq":"1","asset_key":["${KEY}"],"crc":"00000000"}\n`],
  ['a line with a carriage return', `{"seq":1,"asset_key":["${KEY}"],"crc":"00000000"}\r\n`],
  ['a line without a newline', `{"seq":1,"asset_key":["${KEY}"],"crc":"00000000"}`],
  ['bytes that are not UTF-8', '\xff\xfe\n'],
  ['a byte order mark', `${BYTE_ORDER_MARK}{"seq":1,"crc":"00000000"}\n`],
  ['U+2028', '{"seq":1,"a":"\xe2\x80\xa8","crc":"00000000"}\n'],
  ['zeros', '\0\0\0\n'],
];

const badForwardPaths = ['x/1', '0193E0C2-0000-7000-8000-000000000001/1', '0193e0c2-0000-7000-8000-000000000001/0'];
const noForwardPaths = ['', '/a/1/2', '/0193e0c2-0000-7000-8000-000000000001/1/', '//1/1'];

const forwarding = (forms: Forms): readonly Row[] => {
  const { prefix, head } = forms;
  const source = `${prefix}/forward/0193e0c2-0000-7000-8000-000000000001`;
  const type = 'Content-Type: application/x-ndjson';
  const to = (method: string, target: string, ...more: readonly string[]) =>
    head(`${method} ${target} HTTP/1.1`, HOST, ...more);
  const put = (body: string, target = `${source}/1`, ...more: readonly string[]) =>
    `${to('PUT', target, `Content-Length: ${body.length}`, type, ...more)}${body}`;
  return [
    row('A hub says how far it is', to('GET', source), answered),
    row('A hub says how far it is to a HEAD', to('HEAD', source), answered, { bodiless: true }),
    ...badForwarded.map(([what, body]) => row(`Forwarded lines that are ${what} are refused`, put(body), keeps(400))),
    ...badForwarded.map(([what, body]) =>
      row(
        `Forwarded lines that are ${what} are refused with a crc`,
        put(body, `${source}/1`, 'Assetlog-Crc: 00000000'),
        keeps(400),
      ),
    ),
    row('Forwarded lines without a body are refused', to('PUT', `${source}/1`), keeps(400)),
    row(
      'Forwarded lines in chunks that end early are refused',
      `${to('PUT', `${source}/1`, type, CHUNKED)}${LAST_CHUNK}`,
      keeps(400),
    ),
    ...['application/json', 'text/plain', 'application/x-ndjson; charset=utf-16'].map((other) =>
      row(
        `Forwarded lines of type ${other} are refused`,
        `${to('PUT', `${source}/1`, 'Content-Length: 2', `Content-Type: ${other}`)}{}`,
        ends(400),
      ),
    ),
    row(
      'Forwarded lines that are gzip are refused',
      put('\x1f\x8b', `${source}/1`, 'Content-Encoding: gzip'),
      ends(415),
    ),
    ...badForwardPaths.map((path) =>
      row(
        `Lines are not forwarded to ${path}`,
        put(`{"asset_key":"${KEY}"}\n`, `${prefix}/forward/${path}`),
        keeps(400),
      ),
    ),
    ...noForwardPaths.map((path) =>
      row(`Nothing is at /forward${path}`, to('PUT', `${prefix}/forward${path}`), keeps(404)),
    ),
    ...['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'].map((method) =>
      row(`The method ${method} does not ask a hub`, to(method, source), keeps(405)),
    ),
    ...['POST', 'GET', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS'].map((method) =>
      row(
        `The method ${method} forwards nothing`,
        to(method, `${source}/1`),
        keeps(405),
        method === 'HEAD' ? { bodiless: true } : {},
      ),
    ),
    row('A question to a hub with a body is refused', `${to('GET', source, 'Content-Length: 2', type)}{}`, keeps(400)),
    row(
      'A question to a hub with a body of JSON is refused',
      `${to('GET', source, 'Content-Length: 2', JSON_TYPE)}{}`,
      ends(400),
    ),
    row('A question to a hub with a bad query is refused', to('GET', `${source}?%zz`), keeps(400)),
    ...['Assetlog-Crc: 0', 'Assetlog-Crc: 0000000A', 'Assetlog-Lost: 1', 'Assetlog-Lost: 0-1', 'Assetlog-Lost: -'].map(
      (header) => row(`Forwarded lines with ${header} are refused`, put('\n', `${source}/1`, header), keeps(400)),
    ),
    row(
      'Forwarded lines with two crcs are refused',
      put('\n', `${source}/1`, 'Assetlog-Crc: 00000000', 'Assetlog-Crc: 00000000'),
      keeps(400),
    ),
    row(
      'Forwarded lines of a page of another site are refused',
      put('\n', `${source}/1`, 'Origin: http://evil.example'),
      ends(403),
    ),
    row(
      'Forwarded lines of 4 MiB and more are refused before they are sent',
      `${to('PUT', `${source}/1`, 'Content-Length: 4194305', type)}`,
      ends(413),
    ),
  ];
};

/** The table, for one way to run the service. */
export function groupsFor(style: Style): Readonly<Record<string, readonly Row[]>> {
  const forms = formsOf(style);
  return {
    smuggling: smuggling(forms),
    framing: framing(forms),
    headers: headers(forms),
    targets: targets(forms, badRequestLines(forms)),
    encodings: encodings(forms),
    JSON: jsonBodies(forms, badReports(forms)),
    limits: limits(forms),
    batches: batches(forms),
    forwarding: forwarding(forms),
    idempotency: idempotency(forms),
    access: access(forms, routes(forms)),
    readings: readings(forms),
    pipelining: pipelining(forms, endings(forms), goings(forms)),
    slowness: slowness(forms),
  };
}

/** The same table with a token in each head, less what makes no sense there, and what only a hosted service knows. */
export function hostedGroups(): Readonly<Record<string, readonly Row[]>> {
  const both = Object.entries(groupsFor(hosted)).map(
    ([group, rows]) => [group, rows.filter(({ localOnly }) => localOnly === undefined)] as const,
  );
  const forms = formsOf({ ...hosted, headers: [] });
  return { ...Object.fromEntries(both), tokens: [...tokens(forms), ...rights(forms)] };
}
