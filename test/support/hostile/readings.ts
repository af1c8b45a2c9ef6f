/** Requests that read a journal, and the rights of tokens in hosted mode. */

import { READINGS } from './access.ts';
import {
  announced,
  both,
  CHUNKED,
  EXPIRED_READING_TOKEN,
  ends,
  FIRST_ITEM,
  FIRST_KEY,
  type Forms,
  GOOD_TOKEN,
  HOST,
  JSON_LINES,
  JSON_TYPE,
  KEY,
  keeps,
  LAST_CHUNK,
  OFFER,
  OTHER_TOKEN,
  type Outcome,
  READER,
  type Row,
  recorded,
  repeated,
  row,
  rows,
  SECOND_KEY,
  shorten,
  TOKEN_NAME,
} from './forms.ts';
import { badTokens, NO_TOKENS_MAX } from './tokens.ts';

/** Paths after a reading that are not its own. */
const badReadingPaths: readonly string[] = [
  ...['/events/', '/events/x', '//events', '/./events', '/x/../events', '/EVENTS', '/Events', '/event', '/eventss'],
  ...['/events%2F', '/%65vents', '/events%00', '/events;x=1', '/events.json', '/assets/orders', '/refusals/1'],
];

/** Queries that every reading refuses: an ignored filter would show everything. */
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

/** Requests that read a journal, and requests that look like them. */
export const readings = (forms: Forms): readonly Row[] => {
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
            : { reason: 'llhttp knows some methods only, by their exact names' },
        ),
      ),
      row(`TRACE ${path} is refused`, get(path).replace('GET', 'TRACE'), keeps(405)),
      ...badReadingQueries.map((query) =>
        row(`GET ${path} with the query ${shorten(query)} is refused`, get(`${path}?${query}`), keeps(400)),
      ),
      row(`A body that is not JSON is refused on GET ${path}`, withBody(path, '{', JSON_TYPE), keeps(400)),
      row(`A body without a type is refused on GET ${path}`, withBody(path, '{}'), ends(400)),
      row(`A body of text is refused on GET ${path}`, withBody(path, '{}', 'Content-Type: text/plain'), ends(400)),
      row(`A report in the body of GET ${path} is not recorded`, withBody(path, SMUGGLED, JSON_TYPE), keeps(400)),
      row(`A fragment is refused on GET ${path}`, get(`${path}#x`), ends(400)),
      row(`GET ${path} with an unknown Expect is refused`, get(path, 'Expect: dance'), keeps(417)),
    ]),
    ...badReadingPaths.map((path) => row(`GET ${path} reads nothing`, get(path), keeps(404))),
    ...badEventQueries.map((query) =>
      row(`GET /events with ${shorten(query)} is refused`, get(`/events?${query}`), keeps(400)),
    ),
    ...rows(readOnce, {
      'An announced empty body of a GET is accepted': withBody('/events?limit=1', ''),
      'A body in chunks is read with GET /events': `${get('/events?limit=1', CHUNKED, JSON_TYPE)}${LAST_CHUNK}`,
      'An Accept without a type gets the standard type': get('/events?limit=1', 'Accept: ,;q=,/'),
      'An Accept of 8 KiB is read': get('/events?limit=1', `Accept: ${'a/b;q=0.1,'.repeat(800)}`),
    }),
    row('GET /events on HTTP/1.0 reads to the end of the connection', head(`GET ${prefix}/events?limit=1 HTTP/1.0`), {
      ...readOnce,
      afterwards: 'closed',
    }),
    row(
      'A Last-Event-ID that is no number is refused',
      get('/events', 'Accept: text/event-stream', 'Last-Event-ID: x'),
      keeps(400),
    ),
    row(
      'A reading between two reports is answered in order',
      `${FIRST}${get('/events?limit=1')}${reportTo(`${forms.MATERIALIZATION}${SECOND_KEY}`)}`,
      both(both(recorded(FIRST_KEY), readOnce), recorded(SECOND_KEY)),
    ),
    row('An upgrade with a reading ends the connection', get('/events?limit=1', ...OFFER), announced(readOnce)),
    row('A reading whose client closes its half is answered', get('/events?limit=1'), readOnce, { half: true }),
  ];
};

/** The rights of tokens in hosted mode. The forms have no token. */
export const rights = (forms: Forms): readonly Row[] => {
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
      row(`GET ${path} of another deployment gets 401`, get(`/test${path}`, READER), keeps(401)),
      row(`GET ${path} with an expired token that may read gets 401`, get(`/prod${path}`, expired), keeps(401)),
      row(`GET ${path} under no deployment gets 401 with a token that may read`, get(path, READER), keeps(401)),
      row(`GET ${path} of a web page gets 403`, get(`/prod${path}`, READER, 'Origin: http://evil.example'), keeps(403)),
    ]),
    ...rows(keeps(403), {
      'A report with a token that may only read gets 403': reportTo(TARGET, READER),
      'A report with a token that may only read gets 403 before its query': reportTo(`${CHECK}${KEY}?x=%zz`, READER),
      'GET on an endpoint with a token that may only read gets 403': get(TARGET, READER),
    }),
    ...rows(ends(403), {
      'A report with a token that may only read gets 403 before its body': json('{', TARGET, READER),
      'A batch with a token that may only read gets 403': batch(FIRST_ITEM, JSON_LINES, BATCH, READER),
    }),
    row('An unknown path with a token that may only read gets 404', reportTo(NOWHERE, READER), keeps(404)),
    row(
      'Requests without the right are not counted as failures',
      `${get('/prod/events', reporter).repeat(NO_TOKENS_MAX + 1)}${reportTo(TARGET)}`,
      both(repeated(NO_TOKENS_MAX + 1, keeps(403)), keeps(401)),
    ),
    row(
      'A right is checked for each request',
      `${get('/prod/refusals', READER)}${get('/prod/refusals')}${reportTo(`${MATERIALIZATION}${FIRST_KEY}`, GOOD_TOKEN)}`,
      both(both(readOnce, keeps(401)), recorded(FIRST_KEY)),
    ),
  ];
};
