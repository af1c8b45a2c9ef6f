/** Request smuggling, and bodies framed in wrong and unusual ways. */

import {
  answered,
  BODY,
  both,
  CHUNK,
  CHUNKED,
  CHUNKS,
  ends,
  type Forms,
  HOST,
  JSON_TYPE,
  KEY,
  keeps,
  LAST_CHUNK,
  type Row,
  row,
  rows,
  SIZED,
  shown,
  silence,
  taken,
  utf8,
} from './forms.ts';

/** Values of Content-Length, each with a good body. */
const badLengths: readonly string[] = [
  ...['-23', '+23', '0x17', '23.0', '2e1', '2 3', '23, 23', '23, 5', '', 'chunked', '"23"', '23,', '23;', '2_3'],
  ...[utf8('٢٣'), '18446744073709551616', '9'.repeat(100), '\x0b23'],
];

/** Values of Transfer-Encoding, each with a good chunked body. */
const badCodings: readonly string[] = [
  ...['chunked, chunked', 'gzip, chunked', 'gzip', 'identity', 'identity, chunked', 'chunked, identity', 'cow'],
  ...['xchunked', 'chunkedx', '"chunked"', 'chunked;q=1', '', ', chunked', 'chunked,', '\x0bchunked', '\xa0chunked'],
  utf8('chun\u212aed'),
];

export const smuggling = ({ MATERIALIZATION, TARGET, SMUGGLED, head, report, framed }: Forms): readonly Row[] => [
  ...rows(ends(400), {
    'Content-Length before chunked': framed([SIZED, CHUNKED], CHUNKS),
    'Content-Length after chunked': framed([CHUNKED, SIZED], CHUNKS),
    'CL.TE: a short Content-Length': framed(['Content-Length: 5', CHUNKED], `${LAST_CHUNK}${SMUGGLED}`),
    'TE.CL: a request hidden in a chunk': framed(
      [CHUNKED, 'Content-Length: 4'],
      `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n${LAST_CHUNK}`,
    ),
    'TE.TE: the second coding is unknown': framed([CHUNKED, 'Transfer-Encoding: cow'], `${LAST_CHUNK}${SMUGGLED}`),
    'TE.TE: the first coding is unknown': framed(['Transfer-Encoding: cow', CHUNKED], `${LAST_CHUNK}${SMUGGLED}`),
    'Two headers with chunked': framed([CHUNKED, CHUNKED], CHUNKS),
    'Two equal Content-Lengths': framed([SIZED, SIZED]),
    'A Content-Length and a smaller one': framed(
      [`Content-Length: ${BODY.length + SMUGGLED.length}`, SIZED],
      `${BODY}${SMUGGLED}`,
    ),
    'A Content-Length and a larger one': framed(['Content-Length: 0', SIZED], `${BODY}${SMUGGLED}`),
    'Transfer-Encoding on HTTP/1.0': `${head(`POST ${MATERIALIZATION} HTTP/1.0`, HOST, JSON_TYPE, CHUNKED)}${CHUNKS}`,
    'Chunks on HTTP/1.0 with keep-alive, and a report': `${head(`POST ${TARGET} HTTP/1.0`, HOST, 'Connection: keep-alive', CHUNKED)}${LAST_CHUNK}${SMUGGLED}`,
    'Both framings on HTTP/1.0': `${head(`POST ${TARGET} HTTP/1.0`, HOST, CHUNKED, 'Content-Length: 5')}${LAST_CHUNK}`,
    'A space before the colon of Content-Length': framed([`Content-Length : ${BODY.length}`]),
    'A tab before the colon of Transfer-Encoding': framed(['Transfer-Encoding\t: chunked'], LAST_CHUNK),
    'A space before the name of Transfer-Encoding': framed([` ${CHUNKED}`], LAST_CHUNK),
    'Transfer-Encoding folded over two lines': framed(['Transfer-Encoding:\r\n chunked'], LAST_CHUNK),
    'Content-Length folded over two lines': framed([`Content-Length:\r\n ${BODY.length}`]),
    'Content-Length with a digit on a folded line': framed(['Content-Length: 2\r\n 3']),
    'Chunked after a bare line feed': framed([`X: y\n${CHUNKED}`, 'Content-Length: 5'], `${LAST_CHUNK}${SMUGGLED}`),
    'Chunked after a bare carriage return': framed(
      [`X: y\r${CHUNKED}`, 'Content-Length: 5'],
      `${LAST_CHUNK}${SMUGGLED}`,
    ),
    'Transfer-Encoding with a NUL in its name': framed(['Transfer-Encoding\0: chunked'], LAST_CHUNK),
  }),
  ...badLengths.map((value) =>
    row(`Content-Length ${shown(value)} is refused`, framed([`Content-Length: ${value}`]), ends(400)),
  ),
  ...badCodings.map((value) =>
    row(`Transfer-Encoding ${shown(value)} is refused`, framed([`Transfer-Encoding: ${value}`], CHUNKS), ends(400)),
  ),
  ...rows(taken, {
    'Content-Length can have leading zeros': framed([`Content-Length: 000${BODY.length}`]),
    'Content-Length can have white space around it': framed([`Content-Length: \t ${BODY.length}  `]),
    'Content-Length in capitals counts': framed([SIZED.toUpperCase()]),
    'Chunked can be in capitals': framed(['TRANSFER-ENCODING: CHUNKED'], CHUNKS),
    'Chunked can have white space around it': framed(['Transfer-Encoding:\t chunked  '], CHUNKS),
    'The Connection header cannot remove Content-Length': framed(['Connection: content-length', SIZED]),
  }),
  row(
    'Content-Length with a tab after it is read or refused',
    framed([`Content-Length: ${BODY.length}\t`]),
    [taken, ends(400)],
    {
      reason: 'llhttp refused a tab there before 9.4; RFC 9112 section 5 allows it',
    },
  ),
  ...rows(ends(413), {
    'The largest Content-Length of 64 bits is a large body': framed(['Content-Length: 18446744073709551615']),
    'A Content-Length that a double rounds is a large body': framed(['Content-Length: 9007199254740993']),
  }),
  row(
    'Chunked with a tab after it is read or refused',
    framed(['Transfer-Encoding: chunked\t'], CHUNKS),
    [taken, ends(400)],
    {
      reason: 'llhttp refuses a tab there; RFC 9112 section 5 allows it, and a refusal does no harm',
    },
  ),
  ...rows(both(taken, ends(400)), {
    'Content_Length frames nothing, and bytes follow': `${report(`Content_Length: ${BODY.length}`)}${BODY}`,
    'Transfer_Encoding frames nothing, and chunks follow': `${report('Transfer_Encoding: chunked')}${LAST_CHUNK}`,
  }),
  row('X-HTTP-Method-Override is ignored', head('GET /livez HTTP/1.1', HOST, 'X-HTTP-Method-Override: POST'), answered),
  row(
    'A GET with a body is one request',
    `${head('GET /livez HTTP/1.1', HOST, `Content-Length: ${SMUGGLED.length}`, JSON_TYPE)}${SMUGGLED}`,
    keeps(400),
  ),
  row('A header that is split over many packets is the same header', framed([CHUNKED, SIZED], CHUNKS), ends(400), {
    pieceBytes: 7,
  }),
];

export const framing = ({ TARGET, SMUGGLED, report, framed, chunked }: Forms): readonly Row[] => [
  ...rows(taken, {
    'A body in one chunk is accepted': chunked(CHUNKS),
    'A chunk size can have leading zeros': chunked(`00000000000000000000${CHUNKS}`),
    'A last chunk can have several zeros': chunked(`${CHUNK}0000\r\n\r\n`),
    'A chunk extension is ignored': chunked(`17;name=value;other="quo;ted\\""\r\n${BODY}\r\n${LAST_CHUNK}`),
    'An extension of the last chunk is ignored': chunked(`${CHUNK}0;last\r\n\r\n`),
    'A trailer is ignored': chunked(`${CHUNK}0\r\nX-Checksum: 1\r\n\r\n`),
    'Two Hosts in the trailer change nothing': chunked(`${CHUNK}0\r\nHost: evil\r\nHost: evil\r\n\r\n`),
    'Origin in the trailer changes nothing': chunked(`${CHUNK}0\r\nOrigin: http://evil.example\r\n\r\n`),
    'Content-Type in the trailer changes nothing': chunked(`${CHUNK}0\r\nContent-Type: text/plain\r\n\r\n`),
    'An empty line after the last chunk is skipped': chunked(`${CHUNKS}\r\n`),
    'A chunked body without bytes counts as no body': `${report(CHUNKED, 'Content-Type: text/plain')}${LAST_CHUNK}`,
    'Empty lines before the request line are skipped': `\r\n\r\n${report()}`,
  }),
  row(
    'A body in several chunks, one byte per packet, is accepted',
    chunked(`e\r\n{"asset_key":"\r\n7\r\n${KEY}\r\n1\r\n"\r\n1\r\n}\r\n${LAST_CHUNK}`),
    taken,
    { pieceBytes: 1 },
  ),
  ...rows(ends(400), {
    'A chunk size over 64 bits': chunked(`1000000000000000${CHUNKS}`),
    'A negative chunk size': chunked(`-1\r\nx\r\n${LAST_CHUNK}`),
    'A chunk size with a plus': chunked(`+1\r\nx\r\n${LAST_CHUNK}`),
    'A chunk size with 0x': chunked(`0x1\r\nx\r\n${LAST_CHUNK}`),
    'A chunk size with a space before it': chunked(` ${CHUNKS}`),
    'A chunk size with a space after it': chunked(`17 \r\n${BODY}\r\n${LAST_CHUNK}`),
    'A chunk size with an underscore': chunked(`1_7\r\n${BODY}\r\n${LAST_CHUNK}`),
    'A chunk without a size': chunked(`\r\n${BODY}\r\n${LAST_CHUNK}`),
    'A chunk size that is a word': chunked(`zz\r\n${BODY}\r\n${LAST_CHUNK}`),
    'A chunk extension with a bare line feed': chunked(`17;a\n${BODY}\r\n${LAST_CHUNK}`),
    'A chunk extension whose quotes never close': chunked(`17;a="b\r\n${BODY}\r\n${LAST_CHUNK}`),
    'A chunk extension with a control byte': chunked(`17;a\x01\r\n${BODY}\r\n${LAST_CHUNK}`),
    'A bare line feed after a chunk size': chunked(`17\n${BODY}\r\n${LAST_CHUNK}`),
    'A bare carriage return after a chunk size': chunked(`17\r${BODY}\r\n${LAST_CHUNK}`),
    'A bare line feed after a chunk': chunked(`17\r\n${BODY}\n${LAST_CHUNK}`),
    'A chunk without its line end': chunked(`17\r\n${BODY}${LAST_CHUNK}`),
    'A chunk longer than its size': chunked(`10\r\n${BODY}\r\n${LAST_CHUNK}`),
    'A bare line feed as the end of the chunks': chunked(`${CHUNK}0\r\n\n`),
    'A trailer without a colon': chunked(`${CHUNK}0\r\nnonsense\r\n\r\n`),
    'A trailer with a NUL': chunked(`${CHUNK}0\r\nX: \0\r\n\r\n`),
  }),
  row('Chunk extensions over 16 KiB', chunked(`17;${'a'.repeat(17_000)}\r\n${BODY}\r\n${LAST_CHUNK}`), ends(413)),
  ...rows(
    ends(400),
    {
      'A chunk shorter than its size': chunked(`20\r\n${BODY}\r\n${LAST_CHUNK}`),
      'Chunks that never end leave no event when the client disconnects': chunked(CHUNK),
      'A chunk that is cut leaves no event': chunked(CHUNK.slice(0, 9)),
      'A chunk size that is cut leaves no event': chunked('1'),
      'A last chunk without its empty line leaves no event': chunked(`${CHUNK}0\r\n`),
      'A trailer that is cut leaves no event': chunked(`${CHUNK}0\r\nX: y`),
      'A head that is cut leaves no event': report().slice(0, -2),
      'A request line that is cut leaves no event': `POST ${TARGET} HT`,
    },
    { half: true },
  ),
  ...rows(
    [ends(400), taken],
    {
      'Content-Length in the trailer': chunked(`${CHUNK}0\r\nContent-Length: ${SMUGGLED.length}\r\n\r\n`),
      'Transfer-Encoding in the trailer': chunked(`${CHUNK}0\r\n${CHUNKED}\r\n\r\n`),
    },
    { reason: 'RFC 9110 section 6.5.1 forbids it to the sender; a receiver can refuse or ignore it' },
  ),
  row('A trailer over 16 KiB is refused', chunked(`${CHUNK}0\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`), ends(431)),
  ...rows(both(taken, ends(400)), {
    'Nonsense after the last chunk is refused after the reply': chunked(`${CHUNKS}nonsense\r\n\r\n`),
    'A body without a length is not a body, and its bytes break the connection': `${report(JSON_TYPE)}${BODY}`,
    'A body longer than Content-Length breaks the connection after the reply': framed([SIZED], `${BODY}}`),
  }),
  row('A body shorter than Content-Length leaves no event', framed([`Content-Length: ${BODY.length + 1}`]), ends(400), {
    half: true,
  }),
  row('A chunk of nearly 64 bits is waited for, not reserved', chunked('FFFFFFFFFFFFFFF\r\n{'), silence),
];
