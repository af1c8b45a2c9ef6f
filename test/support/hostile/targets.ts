/** Request lines, and paths. */

import {
  BODY,
  ends,
  type Forms,
  HOST,
  KEY,
  keeps,
  type Row,
  recorded,
  row,
  rows,
  SIZED,
  shown,
  taken,
} from './forms.ts';

/** Wrong request lines. */
export const badRequestLines = ({ TARGET }: Forms): readonly string[] => {
  const targets = [
    ...[
      ...[`${TARGET} x`, `${TARGET}\tx`, `${TARGET}\0`, `${TARGET}\x7f`, `${TARGET}\xc3\xa9`],
      `${TARGET}?partition=\xc3\xa9`,
    ],
    ...[`${TARGET}#part`, `${TARGET}?x=y#part`, TARGET.slice(1), '*', 'localhost:80', `?asset_key=${KEY}`],
    ...[
      `ftp://localhost${TARGET}`,
      `http://${TARGET}`,
      `http://user@localhost${TARGET}`,
      `http://localhost:http${TARGET}`,
    ],
  ];
  const versions = [
    ...['HTTP/2.0', 'HTTP/1.2', 'HTTP/0.9', 'HTTP/3', 'HTTP/1.10', 'HTTP/01.1', 'HTTP/1,1', 'http/1.1', 'SHTTP/1.1'],
    'HTTP/1.1 x',
  ];
  return [
    ...['post ', 'REPORT_IT ', 'POSTS ', ' POST ', 'POST\t'].map((method) => `${method}${TARGET} HTTP/1.1`),
    ...targets.map((target) => `POST ${target} HTTP/1.1`),
    ...versions.map((version) => `POST ${TARGET} ${version}`),
    ...[`POST ${TARGET}`, 'PRI * HTTP/2.0', 'CONNECT localhost:80 HTTP/1.1'],
  ];
};

/** Paths after the endpoint that are not a key: refused, and the connection is kept. */
const badPaths: readonly string[] = [
  ...[`${KEY}%zz`, `${KEY}%2`, `${KEY}%FF`, `${KEY}%C3`, `${KEY}%C0%AF`, `${KEY}%ED%A0%80`, `${KEY}%00`, `${KEY}%0a`],
  ...[`${KEY}%7F`, `${KEY}//x`, `/${KEY}`, `${KEY}/`, '//'],
];

export const targets = (
  { prefix, outside, MATERIALIZATION, TARGET, SMUGGLED, head, reportTo }: Forms,
  badRequestLines: readonly string[],
): readonly Row[] => [
  ...badRequestLines.map((line) => row(`A request line ${shown(line)} is refused`, head(line, HOST), ends(400))),
  ...badPaths.map((path) => row(`A path ${shown(path)} is refused`, reportTo(`${MATERIALIZATION}${path}`), keeps(400))),
  ...rows(taken, {
    'An absolute target with the authority of Host is served': reportTo(`http://localhost${TARGET}`),
    'An absolute target in capitals is served': reportTo(`HTTP://LOCALHOST:80${TARGET}`),
    'An absolute target beside a foreign Host': head(`POST http://localhost${TARGET} HTTP/1.1`, 'Host: evil.example'),
    'An absolute https target is served': reportTo(`https://localhost${TARGET}`),
    'A second question mark belongs to the query': reportTo(`${TARGET}?partition=a?b`),
    'An escaped + in the query is a +': reportTo(`${TARGET}?event_time=2026-11-20T15:19:45%2B01:00`),
  }),
  row('An absolute target of a foreign authority is refused', reportTo(`http://evil.example${TARGET}`), keeps(403)),
  ...rows(keeps(405), {
    'An absolute target without a path is the page, to which nothing is reported': reportTo('http://localhost'),
    'TRACE is refused and echoes nothing': head(`TRACE ${TARGET} HTTP/1.1`, HOST),
    PUT: head(`PUT ${TARGET} HTTP/1.1`, HOST, 'Content-Length: 0'),
    PROPFIND: head(`PROPFIND ${TARGET} HTTP/1.1`, HOST),
    'POST on /livez': reportTo('/livez'),
  }),
  ...rows(ends(400), {
    'OPTIONS of everything': head('OPTIONS * HTTP/1.1', HOST),
    'A report after a CONNECT is not served': `${head('CONNECT localhost:80 HTTP/1.1', HOST)}${SMUGGLED}`,
    'HTTP/0.9 without headers': `GET /livez\r\n\r\n`,
    'A TLS handshake': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'Random bytes': '\xff\xfe\x00\x01\x80\x81nonsense\r\n\r\n',
    'A reply sent as a request': head('HTTP/1.1 200 OK', HOST),
    'A request of the Redis protocol': '*1\r\n$4\r\nPING\r\n',
  }),
  row('CONNECT to a path is refused', head(`CONNECT ${TARGET} HTTP/1.1`, HOST), [ends(405), ends(400)], {
    reason: 'llhttp can refuse the target of a CONNECT before the service sees it',
  }),
  row('A method with a body is refused', `${head(`PUT ${TARGET} HTTP/1.1`, HOST, SIZED)}${BODY}`, ends(405)),
  ...rows(ends(431), {
    'A target over 16 KiB': reportTo(`${TARGET}/${'x'.repeat(17_000)}`),
    'A target over 16 KiB that never ends': `POST ${TARGET}/${'x'.repeat(17_000)}`,
    'A query over 16 KiB': reportTo(`${TARGET}?partition=${'x'.repeat(17_000)}`),
  }),
  row('Dot segments are parts of the key', reportTo(`${TARGET}/../../livez/.`), recorded(`${KEY}/../../livez/.`)),
  row('Escaped dot segments are parts of the key', reportTo(`${TARGET}/%2e%2E`), recorded(`${KEY}/..`)),
  row('An escaped slash does not separate parts', reportTo(`${TARGET}%2Fx%2f`), recorded(`${KEY}|x|`)),
  row('An escape is decoded once', reportTo(`${TARGET}%252F`), recorded(`${KEY}%2F`)),
  row('A plus in the path is a plus', reportTo(`${TARGET}+x`), recorded(`${KEY}+x`)),
  row('A semicolon and a backslash in the path are kept', reportTo(`${TARGET};a=b\\c`), recorded(`${KEY};a=b\\c`)),
  row('Angle brackets in the path are kept as sent', reportTo(`${TARGET}<script>"`), recorded(`${KEY}<script>"`)),
  ...rows(keeps(outside), {
    'Dot segments do not lead from one path to another': reportTo(`/livez/..${TARGET}`),
    'Two slashes at the start are another path': reportTo(`/${TARGET}`),
  }),
  ...rows(keeps(404), {
    'An escaped endpoint is another path': reportTo(TARGET.replace('_', '%5f')),
    'An endpoint in capitals is another path': reportTo(`${prefix}${TARGET.slice(prefix.length).toUpperCase()}`),
    'A longer endpoint is another path': reportTo(TARGET.replace('ion/', 'ions/')),
  }),
  ...rows(keeps(400), {
    'A bare + in the query is a space': reportTo(`${TARGET}?event_time=2026-11-20T15:19:45+01:00`),
    'A query with an invalid escape': reportTo(`${TARGET}?partition=%zz`),
    'A query with an escape of no character': reportTo(`${TARGET}?partition=%FF`),
    'A name in the query with an escape of no character': reportTo(`${TARGET}?%FF=x`),
    'A key in the query that is a broken list': reportTo(`${MATERIALIZATION}?asset_key=["${KEY}"`),
    'A key in the query that is a list of numbers': reportTo(`${MATERIALIZATION}?asset_key=[1]`),
    'A key in the query with a NUL': reportTo(`${MATERIALIZATION}?asset_key=${KEY}%00`),
    'A key with two values in the query': reportTo(`${MATERIALIZATION}?asset_key=no&asset_key=${KEY}`),
  }),
  row(
    'Two spaces in the request line are read as one or refused',
    head(`POST  ${TARGET}  HTTP/1.1`, HOST),
    [taken, ends(400)],
    {
      reason: 'RFC 9112 section 3 lets a receiver split the line at white space',
    },
  ),
  row('RTSP is refused', head(`POST ${TARGET} RTSP/1.0`, HOST), ends(400), {
    defect: 'llhttp parses it as HTTP/1.0 and Node does not expose the protocol: it is answered 200 and recorded',
  }),
  row('A protocol of radio stations is refused', head(`SOURCE ${TARGET} ICE/1.0`, HOST), [ends(400), ends(405)], {
    reason: 'llhttp parses it as HTTP/1.0 with an unknown method',
  }),
];
