/** Lines that are sent to a hub. */

import {
  answered,
  BYTE_ORDER_MARK,
  CHUNKED,
  ends,
  FIRST_ITEM,
  type Forms,
  HOST,
  JSON_TYPE,
  KEY,
  keeps,
  LAST_CHUNK,
  type Row,
  row,
  rows,
} from './forms.ts';

/** Bodies for a hub, with a seq that fits the path, that are not a journal line. */
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

/** What a device may not say of itself: a name that would not be shown as it was sent, seqs, states and counts that are none. */
const badSourceHeaders = [
  ...['a%00b', '%1b%5B2J', '%E2%80%AEname', '%E2%80%A8', '%C2%85', '%ff', '%', '%ED%A0%80', '%20'],
  ...['x'.repeat(65), '%C3%BC'.repeat(65)],
]
  .map((name) => `Assetlog-Name: ${name}`)
  .concat(['-1', '9007199254740992'].map((seq) => `Assetlog-Last: ${seq}`))
  .concat(['', 'Stopped', 'a  b', 'x'.repeat(41), 'a1'].map((state) => `Assetlog-State: ${state}`))
  .concat(['-1', '01', '', '9007199254740992'].map((count) => `Assetlog-Unsent: ${count}`));

export const forwarding = (forms: Forms): readonly Row[] => {
  const { prefix, head } = forms;
  const source = `${prefix}/forward/0193e0c2-0000-7000-8000-000000000001`;
  const type = 'Content-Type: application/x-ndjson';
  const to = (method: string, target: string, ...more: readonly string[]) =>
    head(`${method} ${target} HTTP/1.1`, HOST, ...more);
  const put = (body: string, target = `${source}/1`, ...more: readonly string[]) =>
    `${to('PUT', target, `Content-Length: ${body.length}`, type, ...more)}${body}`;
  return [
    row('A hub reports its position', to('GET', source), answered),
    row('A hub answers a HEAD for its position', to('HEAD', source), answered, { bodiless: true }),
    ...badForwarded.map(([what, body]) => row(`Forwarded lines that are ${what} are refused`, put(body), keeps(400))),
    ...badForwarded.map(([what, body]) =>
      row(`Forwarded with a crc, ${what} is refused`, put(body, `${source}/1`, 'Assetlog-Crc: 00000000'), keeps(400)),
    ),
    ...rows(keeps(400), {
      'Forwarded lines without a body': to('PUT', `${source}/1`),
      'Forwarded lines in chunks that end early': `${to('PUT', `${source}/1`, type, CHUNKED)}${LAST_CHUNK}`,
      'Forwarded lines that are no whole gzip': put('\x1f\x8b', `${source}/1`, 'Content-Encoding: gzip'),
      'A question to a hub with a body': `${to('GET', source, 'Content-Length: 2', type)}{}`,
      'A question to a hub with a bad query': to('GET', `${source}?%zz`),
      'Forwarded lines with two crcs': put('\n', `${source}/1`, 'Assetlog-Crc: 00000000', 'Assetlog-Crc: 00000000'),
    }),
    ...['application/json', 'text/plain', 'application/x-ndjson; charset=utf-16'].map((other) =>
      row(
        `Forwarded lines of type ${other} are refused`,
        `${to('PUT', `${source}/1`, 'Content-Length: 2', `Content-Type: ${other}`)}{}`,
        ends(400),
      ),
    ),
    row('Forwarded lines in brotli are refused', put('\x1f\x8b', `${source}/1`, 'Content-Encoding: br'), ends(415)),
    ...badForwardPaths.map((path) =>
      row(`No line is for ${path}`, put(`{"asset_key":"${KEY}"}\n`, `${prefix}/forward/${path}`), keeps(400)),
    ),
    ...noForwardPaths.map((path) =>
      row(`Nothing is at /forward${path}`, to('PUT', `${prefix}/forward${path}`), keeps(404)),
    ),
    ...['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'].map((method) =>
      row(`The method ${method} does not ask a hub`, to(method, source), keeps(405)),
    ),
    ...['POST', 'GET', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS'].map((method) =>
      row(
        `${method} forwards nothing`,
        to(method, `${source}/1`),
        keeps(405),
        method === 'HEAD' ? { bodiless: true } : {},
      ),
    ),
    row(
      'A question to a hub with JSON is refused',
      `${to('GET', source, 'Content-Length: 2', JSON_TYPE)}{}`,
      ends(400),
    ),
    ...['Assetlog-Crc: 0', 'Assetlog-Crc: 0000000A', 'Assetlog-Lost: 1', 'Assetlog-Lost: 0-1', 'Assetlog-Lost: -'].map(
      (header) => row(`Forwarded lines with ${header} are refused`, put('\n', `${source}/1`, header), keeps(400)),
    ),
    ...badSourceHeaders.map((header) =>
      row(`Forwarded lines with ${header} are refused`, put('\n', `${source}/1`, header), keeps(400)),
    ),
    row(
      'Forwarded lines of a web page are refused',
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
