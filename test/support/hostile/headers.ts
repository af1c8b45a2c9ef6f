/** Header lines, and exactly one `Host`. */

import {
  announced,
  answered,
  BODY,
  both,
  CHUNKED,
  CHUNKS,
  ends,
  type Forms,
  HOST,
  JSON_TYPE,
  keeps,
  OFFER,
  type Row,
  row,
  rows,
  SIZED,
  shown,
  TOKEN_NAME,
  taken,
  utf8,
} from './forms.ts';

/** Values of the only Host. */
const badHosts: readonly string[] = [
  ...['', 'localhost/path', 'http://localhost', 'localhost?x', 'localhost#x', 'user@localhost'],
  ...['localhost@evil.example', 'localhost:http', 'localhost:-80', 'localhost:80:81', 'localhost evil.example'],
  ...['localhost, evil.example', 'localhost\\evil.example', '::1', '[::1', '[::1]x', utf8('löcalhost')],
  '<localhost>',
];

/** Wrong lines among good headers. */
const badLines: readonly string[] = [
  ...['X-Name : value', 'X Name: value', ': value', 'X-Name', 'X(Name: value', 'X@Name: value', 'X/Name: value'],
  ...['"X": value', 'X\xe9: value', 'X\0Name: value', 'X-Name: val\0ue', 'X-Name: val\x01ue', 'X-Name: val\x08ue'],
  ...['X-Name: \x1b[31m', 'X-Name: val\x7fue', 'X-Name: val\rue', 'X-Name: value\r', 'X-Name: value\nX-Other: value'],
];

export const headers = ({
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
  ...rows(ends(400), {
    'No Host is refused on HTTP/1.1': head(GOOD_LINE),
    'Two equal Hosts': report(HOST),
    'Two different Hosts, the good one first,': report('Host: evil.example'),
    'Two different Hosts, the good one last,': head(GOOD_LINE, 'Host: evil.example', HOST),
    'Two Hosts are refused when one is in capitals': report('HOST: localhost'),
    'Two Hosts are refused on HTTP/1.0': head(`POST ${TARGET} HTTP/1.0`, HOST, HOST),
    'A malformed Host beside a good authority': head(`POST http://localhost${TARGET} HTTP/1.1`, 'Host: a b'),
    'No Host is refused although the target has an authority': head(`POST http://localhost${TARGET} HTTP/1.1`),
    'A Host whose second half is folded': head(GOOD_LINE, 'Host: localhost', ' evil'),
    'White space before the first header': head(GOOD_LINE, ` X: y`, HOST),
    'Lines that end in bare line feeds': report().replaceAll('\r\n', '\n'),
    'A head whose last line end is a bare line feed': `${report().slice(0, -2)}\n`,
    'Lines that end in bare carriage returns': report().replaceAll('\r\n', '\r'),
    'Two equal Content-Types': json(BODY, TARGET, JSON_TYPE),
    'Two Content-Types are refused although there is no body': report(JSON_TYPE, 'Content-Type: text/plain'),
  }),
  ...rows(announced(taken), {
    'No Host is accepted on HTTP/1.0, and the connection ends': head(`POST ${TARGET} HTTP/1.0`),
    'Connection: close is honoured': report('Connection: close'),
    'Connection: Close among other words is honoured': report('Connection: x, CLOSE'),
    'Expect on HTTP/1.0 is ignored': `${head(`POST ${TARGET} HTTP/1.0`, JSON_TYPE, 'Content-Length: 2', 'Expect: dance')}{}`,
    'Expect: 100-continue on HTTP/1.0 gets no 100': `${head(`POST ${TARGET} HTTP/1.0`, JSON_TYPE, 'Content-Length: 2', 'Expect: 100-continue')}{}`,
    'An upgrade to h2c is ignored, and the connection ends': offer,
    'An upgrade beside a chunked body is ignored, and the connection ends': framed([CHUNKED, ...OFFER], CHUNKS),
    'Upgrade that Connection does not name ends the connection as well': report('Upgrade: h2c'),
  }),
  ...rows(taken, {
    'HTTP/1.0 with keep-alive keeps the connection': head(`POST ${TARGET} HTTP/1.0`, 'Connection: keep-alive'),
    'A Host can have white space around it': head(GOOD_LINE, 'Host: \t localhost \t '),
    'Bytes over 127 in the value of a header are accepted': report('X-Name: caf\xe9 \xff'),
    'A tab in the value of a header is accepted': report('X-Name: a\tb'),
    'A header without a value is accepted': report('X-Name:'),
    'An Authorization header is ignored': report('Authorization: Basic eDp5'),
    'TE is ignored': report('TE: trailers, deflate;q=0.5'),
    'Expect without a body gets no 100, and the connection is kept': report('Expect: 100-continue'),
  }),
  ...badHosts.map((value) => row(`A Host ${shown(value)} is refused`, head(GOOD_LINE, `Host: ${value}`), ends(400))),
  ...badLines.map((line) => row(`A header ${shown(line)} is refused`, report(line), ends(400))),
  row('A folded header is refused or read as one line', report('X-Name: value', ' folded'), [ends(400), taken], {
    reason: 'RFC 9112 section 5.2 lets a server do either',
  }),
  row(
    'A Host on a folded line is not a second Host',
    head(GOOD_LINE, 'X-Name: value', '\tHost: evil.example', HOST),
    [ends(400), taken],
    { reason: 'RFC 9112 section 5.2 lets a server do either' },
  ),
  ...rows(ends(431), {
    '2,100 headers are refused, not dropped': report(...Array(2_100).fill('X:1')),
    'A Host after 2,100 headers is not overlooked': head(GOOD_LINE, ...Array(2_100).fill('X:1'), HOST),
    'A header value over 16 KiB': report(`X: ${'x'.repeat(20_000)}`),
    'A header name over 16 KiB': report(`${'x'.repeat(20_000)}: x`),
    'A header value over 16 KiB that never ends': `${GOOD_LINE}\r\nX: ${'x'.repeat(20_000)}`,
  }),
  row('Two tokens are ignored if none is needed', report(`${TOKEN_NAME}: a`, `${TOKEN_NAME}: b`), taken, {
    localOnly: 'a hosted service needs a token and refuses two',
  }),
  ...rows(keeps(417), {
    'Expect other than 100-continue': report('Expect: dance'),
    'Expect with a second expectation': report('Expect: 100-continue, dance'),
    'Two Expects are refused when one cannot be met': report('Expect: 100-continue', 'Expect: dance'),
  }),
  row('Expect other than 100-continue is refused before its body', framed([SIZED, 'Expect: dance']), ends(417)),
  row('Expect in capitals is met', framed([SIZED, 'Expect: 100-CONTINUE']), both(keeps(100), taken)),
  row('Expect gets a 413 and no 100', framed(['Content-Length: 9000000', 'Expect: 100-continue'], ''), ends(413)),
  ...rows(ends(404), {
    'Expect gets a 404 and no 100': reportTo(NOWHERE, 'Content-Length: 9', 'Expect: 100-continue'),
    'An upgrade with an unknown path ends the connection': offerTo(`GET ${NOWHERE}`),
  }),
  row(
    'Expect gets a 415 and no 100',
    framed(['Content-Length: 9', 'Expect: 100-continue', 'Content-Encoding: gzip'], ''),
    ends(415),
  ),
  row(
    'Expect gets a 403 and no 100',
    framed(['Content-Length: 9', 'Expect: 100-continue', 'Origin: null'], ''),
    ends(403),
  ),
  row('An upgrade to a WebSocket is ignored, and the connection ends', offerTo('GET /livez'), announced(answered)),
];
