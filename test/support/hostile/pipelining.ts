/** Several requests on one connection, and slow ones. */

import {
  announced,
  answered,
  BODY,
  both,
  CHUNK,
  CHUNKED,
  CHUNKS,
  ends,
  FIRST_KEY,
  type Forms,
  HOST,
  KEY,
  keeps,
  LAST_CHUNK,
  OFFER,
  type Row,
  recorded,
  repeated,
  row,
  rows,
  SECOND_KEY,
  SIZED,
  SMUGGLED_KEY,
  silence,
  taken,
} from './forms.ts';
import { bodyOf } from './limits.ts';

export type Refused = readonly [what: string, bytes: string, status: number];

/** Refusals that end the connection: requests after them are not served. */
export const refusalsThatEnd = ({
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
  ['a wrong Content-Type', typed('Content-Type: text/plain'), 400],
  ['a Content-Encoding', json('{}', TARGET, 'Content-Encoding: gzip'), 415],
  ['an Expect before a body', framed([SIZED, 'Expect: dance']), 417],
  ['an unknown path with a body', json('{}', NOWHERE), 404],
  ['a wrong method with a body', `${head(`GET ${CHECK} HTTP/1.1`, HOST, SIZED)}${BODY}`, 405],
  ['a foreign Origin with a body', json('{}', TARGET, 'Origin: null'), 403],
  ['too many headers', report(...padding(101)), 431],
  ['a fragment', reportTo(`${TARGET}#x`), 400],
  ['HTTP/2.0', head(`POST ${TARGET} HTTP/2.0`, HOST), 400],
  ['a broken chunk', chunked(`zz\r\n${LAST_CHUNK}`), 400],
  ['too large a body', json(bodyOf(1_048_577), MATERIALIZATION), 413],
];

/** Refusals that keep the connection: requests after them are served. */
export const refusalsThatKeep = ({
  MATERIALIZATION,
  TARGET,
  NOWHERE,
  head,
  reportTo,
  report,
  framed,
  json,
}: Forms): readonly Refused[] => [
  ['a body that is not JSON', json('{'), 400],
  ['a missing key', reportTo(MATERIALIZATION), 400],
  ['an unknown path', reportTo(NOWHERE), 404],
  ['a wrong method', head(`GET ${TARGET} HTTP/1.1`, HOST), 405],
  ['a foreign Origin', report('Origin: null'), 403],
  ['an Expect', report('Expect: dance'), 417],
  ['a Content-Encoding on chunks', framed([CHUNKED, 'Content-Encoding: gzip'], CHUNKS), 415],
];

export const pipelining = (
  { TARGET, LIVE, SMUGGLED, FIRST, SECOND, head, report, framed, chunked, json, offer }: Forms,
  refusalsThatEnd: readonly Refused[],
  refusalsThatKeep: readonly Refused[],
): readonly Row[] => [
  ...refusalsThatEnd.map(([what, bytes, status]) =>
    row(`A report after ${what} is not served`, `${FIRST}${bytes}${SMUGGLED}`, both(recorded(FIRST_KEY), ends(status))),
  ),
  ...refusalsThatKeep.map(([what, bytes, status]) =>
    row(
      `A report after ${what} is served`,
      `${FIRST}${bytes}${SECOND}`,
      both(both(recorded(FIRST_KEY), keeps(status)), recorded(SECOND_KEY)),
    ),
  ),
  row('Replies are sent in order when a GET follows a report', `${FIRST}${LIVE}${SECOND}${LIVE}`, {
    replies: [
      { status: 200, records: FIRST_KEY },
      { status: 200 },
      { status: 200, records: SECOND_KEY },
      { status: 200 },
    ],
    afterwards: 'kept',
  }),
  ...rows(recorded(KEY, SECOND_KEY), {
    'A report after a body is found where the body ends': `${framed([SIZED])}${SECOND}`,
    'A report after the last chunk is found': `${chunked(CHUNKS)}${SECOND}`,
  }),
  row('A report after an empty line is found', `${FIRST}\r\n${SECOND}`, recorded(FIRST_KEY, SECOND_KEY)),
  ...rows(keeps(400), {
    'A body that looks like a report': json(SMUGGLED),
    'A chunk that looks like a report': chunked(`${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n${LAST_CHUNK}`),
  }),
  row('50 reports in one packet are recorded', FIRST.repeat(50), repeated(50, recorded(FIRST_KEY))),
  row('50 reports in pieces are recorded', FIRST.repeat(50), repeated(50, recorded(FIRST_KEY)), { pieceBytes: 11 }),
  ...rows(announced(taken), {
    'A report after Connection: close is not served': `${report('Connection: close')}${SMUGGLED}`,
    'A report after an upgrade is refused, since it is not served': `${offer}${SMUGGLED}`,
    'A report after HTTP/1.0 is not served': `${head(`POST ${TARGET} HTTP/1.0`)}${SMUGGLED}`,
  }),
  row(
    'A report after an Expect without a body is a request of its own',
    `${report('Expect: 100-continue')}${SMUGGLED}`,
    recorded(KEY, SMUGGLED_KEY),
  ),
  row(
    'A report after a refused Expect is a request of its own',
    `${report('Expect: 100-continue').replace('POST', 'PUT')}${SMUGGLED}`,
    both(keeps(405), recorded(SMUGGLED_KEY)),
  ),
  row('The body of a report after an upgrade is not served', `${offer}${json(SMUGGLED)}`, announced(taken), {
    pieceBytes: `${offer}${json(SMUGGLED)}`.length - SMUGGLED.length,
  }),
  row(
    'Nonsense after two reports is answered after their replies',
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
  row('A client that closes its half after a chunked body gets its reply', chunked(CHUNKS), taken, {
    half: true,
  }),
  row(
    'A client that closes its half inside the second report gets the first reply',
    `${FIRST}${SECOND.slice(0, -9)}`,
    both(recorded(FIRST_KEY), ends(400)),
    { half: true },
  ),
  row('A client that closes its half at once is disconnected', '', { replies: [], afterwards: 'kept' }, { half: true }),
];

export const slowness = ({ MATERIALIZATION, FIRST, SECOND, report, framed, chunked }: Forms): readonly Row[] => [
  ...rows(silence, {
    // Node reports no parse error for a request that offers an upgrade; only the deadline of the request ends it, with 408.
    'A broken chunk beside an upgrade is not accepted': framed([CHUNKED, ...OFFER], 'zz\r\n'),
    'A connection without a byte is left alone': '',
    'A request line that does not end is waited for': `POST ${MATERIALIZATION}`,
    'A head that does not end is waited for': report().slice(0, -2),
    'A header that does not end is waited for': report('X: y').slice(0, -5),
    'A body that does not end is waited for': framed([`Content-Length: ${BODY.length + 1}`]),
    'A chunk that does not end is waited for': chunked(CHUNK.slice(0, -5)),
    'Chunks that do not end are waited for': chunked(CHUNK),
    'A trailer that does not end is waited for': chunked(`${CHUNK}0\r\nX: y\r\n`),
  }),
  row('A body that was promised 100 Continue is waited for', framed([SIZED, 'Expect: 100-continue'], ''), {
    replies: [{ status: 100 }],
    afterwards: 'open',
  }),
  row('A second report that does not end does not delay a reply', `${FIRST}${SECOND.slice(0, -4)}`, {
    ...recorded(FIRST_KEY),
    afterwards: 'open',
  }),
];
