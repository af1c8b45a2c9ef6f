/** Requests for a hosted service only: tokens, and names of deployments. */

import { foreign } from './access.ts';
import {
  answered,
  both,
  CHUNK,
  CHUNKED,
  CHUNKS,
  EXPIRED_TOKEN,
  ends,
  FIRST_ITEM,
  FIRST_KEY,
  FOREIGN_FOLDER,
  type Forms,
  GOOD_TOKEN,
  HOST,
  JSON_LINES,
  JSON_TYPE,
  KEY,
  keeps,
  LONGEST_NAME,
  OTHER_TOKEN,
  type Outcome,
  type Row,
  recorded,
  repeated,
  replayed,
  row,
  rows,
  SECOND_KEY,
  SIZED,
  SMUGGLED_KEY,
  SPOKEN_TOKEN,
  shorten,
  TOKEN,
  TOKEN_NAME,
  taken,
  utf8,
} from './forms.ts';
import type { Refused } from './pipelining.ts';

const BEARER = `Authorization: Bearer ${TOKEN}`;

/** Headers without the right token in the right place. */
export const badTokens: readonly (readonly [what: string, ...lines: readonly string[]])[] = [
  ['no token'],
  ['an empty token', `${TOKEN_NAME}:`],
  ['white space for a token', `${TOKEN_NAME}: \t `],
  ['a wrong token', `${TOKEN_NAME}: nobody`],
  ['a token of another deployment', `${TOKEN_NAME}: ${OTHER_TOKEN}`],
  ['an expired token', `${TOKEN_NAME}: ${EXPIRED_TOKEN}`],
  ['the start of a token', `${TOKEN_NAME}: ${TOKEN.slice(0, -1)}`],
  ['the end of a token', `${TOKEN_NAME}: ${TOKEN.slice(1)}`],
  ['a token and more', `${TOKEN_NAME}: ${TOKEN}x`],
  ['a token whose SHA-256 starts with the same 16 bits', `${TOKEN_NAME}: nobody-19537`],
  ['a token twice', `${TOKEN_NAME}: ${TOKEN}${TOKEN}`],
  ['a list of tokens', `${TOKEN_NAME}: ${TOKEN}, ${TOKEN}`],
  ['a token in capitals', `${TOKEN_NAME}: ${TOKEN.toUpperCase()}`],
  ['a token in quotes', `${TOKEN_NAME}: "${TOKEN}"`],
  ['a token with a space inside', `${TOKEN_NAME}: ${TOKEN.slice(0, 9)} ${TOKEN.slice(9)}`],
  ['a token with an escape', `${TOKEN_NAME}: %61${TOKEN.slice(1)}`],
  ['a token after Bearer', `${TOKEN_NAME}: Bearer ${TOKEN}`],
  ['a token with a byte over 127 after it', `${TOKEN_NAME}: ${TOKEN}\xe9`],
  ['a token with a no-break space before it', `${TOKEN_NAME}: \xa0${TOKEN}`],
  ['a token of 8 KiB', `${TOKEN_NAME}: ${TOKEN.repeat(160)}`],
  ['a token that is not ASCII in latin1', `${TOKEN_NAME}: ${SPOKEN_TOKEN}`],
  ['a token in Authorization without a scheme', `Authorization: ${TOKEN}`],
  ['a token in Authorization with another scheme', `Authorization: Basic ${TOKEN}`],
  ['a token in Authorization with a longer scheme', `Authorization: Bearers ${TOKEN}`],
  ['a token in Authorization right after Bearer', `Authorization: Bearer${TOKEN}`],
  ['a token in Authorization after a tab', `Authorization: Bearer\t${TOKEN}`],
  ['a token in Authorization with a name', `Authorization: Bearer token="${TOKEN}"`],
  ['a list in Authorization', `Authorization: Bearer ${TOKEN}, Bearer ${TOKEN}`],
  ['Bearer alone', 'Authorization: Bearer'],
  ['a wrong token after Bearer', 'Authorization: Bearer nobody'],
  ['an expired token after Bearer', `Authorization: Bearer ${EXPIRED_TOKEN}`],
  ['a bearer token of another deployment', `Authorization: Bearer ${OTHER_TOKEN}`],
  ['a wrong token beside a good one after Bearer', `${TOKEN_NAME}: nobody`, BEARER],
  ['an empty token beside a good one after Bearer', `${TOKEN_NAME}:`, BEARER],
  ['a bearer token for a proxy', `Proxy-Authorization: Bearer ${TOKEN}`],
  ['a token in a cookie', `Cookie: ${TOKEN_NAME}=${TOKEN}`],
  ['a token in a header with underscores', `Service_Cloud_Api_Token: ${TOKEN}`],
  ['a token in a header with a longer name', `X-${TOKEN_NAME}: ${TOKEN}`],
  ['a token in a header without dashes', `ServiceCloudApiToken: ${TOKEN}`],
  ['a token that Connection names', `Connection: ${TOKEN_NAME}`],
];

const goodTokens: readonly (readonly [what: string, ...lines: readonly string[]])[] = [
  ['of RFC 6750', BEARER],
  ['of RFC 6750 in lower case', `authorization: bearer ${TOKEN}`],
  ['of RFC 6750 in capitals', `AUTHORIZATION: BEARER ${TOKEN}`],
  ['of RFC 6750 with more than one space', `Authorization: Bearer   ${TOKEN} \t`],
  ['beside the bearer token of a proxy in front', GOOD_TOKEN, 'Authorization: Bearer nobody'],
  ['after an empty bearer token', 'Authorization: Bearer', GOOD_TOKEN],
  ['beside the credentials of a proxy in front', 'Authorization: Basic cHJveHk6c2VjcmV0', GOOD_TOKEN],
  ['beside credentials that are no token', 'Authorization: ', GOOD_TOKEN],
  ['in lower case', `service-cloud-api-token: ${TOKEN}`],
  ['in capitals', `SERVICE-CLOUD-API-TOKEN: ${TOKEN}`],
  ['of the reference', `Dagster-Cloud-Api-Token: ${TOKEN}`],
  ['of the reference in lower case', `dagster-cloud-api-token: ${TOKEN}`],
  ['with white space before the token', `${TOKEN_NAME}: \t  ${TOKEN}`],
  ['with white space after the token', `${TOKEN_NAME}: ${TOKEN} \t `],
  ['without a space after the colon', `${TOKEN_NAME}:${TOKEN}`],
  ['with another token of the deployment', `${TOKEN_NAME}: ${OTHER_TOKEN.toLowerCase()}`],
  ['with a token in UTF-8', `${TOKEN_NAME}: ${utf8(SPOKEN_TOKEN)}`],
];

/** Two tokens: the service cannot know which one a proxy checked. */
const twoTokens: readonly (readonly [what: string, first: string, second: string])[] = [
  ['that are equal', GOOD_TOKEN, GOOD_TOKEN],
  ['of both names', GOOD_TOKEN, `Dagster-Cloud-Api-Token: ${TOKEN}`],
  ['of both names, the other one first', `Dagster-Cloud-Api-Token: ${TOKEN}`, GOOD_TOKEN],
  ['with the good one first', GOOD_TOKEN, `${TOKEN_NAME}: nobody`],
  ['with the good one last', `${TOKEN_NAME}: nobody`, GOOD_TOKEN],
  ['with an empty one', GOOD_TOKEN, `${TOKEN_NAME}:`],
  ['with one in capitals', GOOD_TOKEN, GOOD_TOKEN.toUpperCase()],
  ['that are both wrong', `${TOKEN_NAME}: nobody`, `${TOKEN_NAME}: nobody`],
  ['that are the same bearer token', BEARER, BEARER],
];

/** Names that are not a deployment. */
const badNames: readonly string[] = [
  '',
  ...'. .. ... ~ * - nobody PROD Prod prod. prod,test prod;x prod\\ prod& pro'.split(' '),
  ...'%70rod pro%64 prod%2F prod%2F.. %2Fprod prod%00 prod%20 %20prod prod%0d%0a %2e%2e %2e'.split(' '),
  ...'..%2fprod ..%5cprod test%2F..%2Fprod %c0%ae%c0%ae'.split(' '),
  ...'__proto__ constructor toString hasOwnProperty size undefined null 0'.split(' '),
  ...[`${LONGEST_NAME}g`, 'x'.repeat(64), 'x'.repeat(5_000)],
  ...[FOREIGN_FOLDER, '.lock', '.stopped-cleanly', 'events-00000000000000000001.jsonl'],
  ...['livez', 'readyz', 'report_asset_materialization'],
];

/** Unknown paths after a good deployment, with its token. */
const badRests: readonly string[] = [
  ...['', '/', '//', '/.', '/..', '/../test/report_asset_check/x', '/%2e%2e/test/report_asset_check/x'],
  ...['//report_asset_check/x', '/./report_asset_check/x', '/prod/report_asset_check/x', '/test/report_asset_check/x'],
  ...['/livez', '/readyz/x', '?x=/report_asset_check/x'],
];

/** Requests with a second mistake: without a token the reply does not reveal it. */
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
  ['a wrong method', head(`GET ${TARGET} HTTP/1.1`, HOST)],
  ['OPTIONS', head(`OPTIONS ${TARGET} HTTP/1.1`, HOST)],
  ['TRACE', head(`TRACE ${TARGET} HTTP/1.1`, HOST)],
  ['an invalid idempotency key', report('Idempotency-Key: "')],
  ['a batch', batch(FIRST_ITEM)],
  ['a batch that is not JSON', batch('[', 'application/json')],
  ['a batch of another type', batch(FIRST_ITEM, 'text/plain')],
  ['GET on the path of a batch', head(`GET ${BATCH} HTTP/1.1`, HOST)],
  ['an Expect', report('Expect: dance')],
  ['an Expect before a body', framed([SIZED, 'Expect: dance'])],
  ['a body that is announced too large', framed(['Content-Length: 9000000'], '')],
  ['a body of 1 MiB that is not sent', framed(['Content-Length: 1048576', 'Expect: 100-continue'], '')],
  ['a Content-Encoding', json('{}', TARGET, 'Content-Encoding: gzip')],
  ['a Content-Type', `${report('Content-Type: text/plain', 'Content-Length: 2')}{}`],
  ['a body that is not JSON', json('{')],
  ['a broken chunk', framed([CHUNKED], 'zz\r\n')],
  ['an invalid key', reportTo(`${TARGET}%zz`)],
  ['a broken query', reportTo(`${TARGET}?x=%zz`)],
  ['a missing parameter', reportTo(`${CHECK}${KEY}`)],
];

/** Requests that are refused before the token is looked up. */
const beforeTokens = ({ TARGET, LIVE, head, reportTo, report, framed }: Forms): readonly Refused[] => [
  ['two Hosts', report(HOST), 400],
  ['no Host', head(`POST ${TARGET} HTTP/1.1`), 400],
  ['two framings', framed([SIZED, CHUNKED], CHUNKS), 400],
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
  ['a token after 2,100 headers', report(...Array(2_100).fill('X:1'), GOOD_TOKEN), 431],
  ['two tokens on a path that needs none', LIVE.replace(HOST, `${HOST}\r\n${GOOD_TOKEN}\r\n${GOOD_TOKEN}`), 400],
];

const NAMED = `Idempotency-Key: ${KEY}`;

export const NO_TOKENS_MAX = 20;
export const unknown = (count: number): Outcome => ({
  replies: Array(count).fill({ status: 401 }),
  afterwards: 'kept',
});

/** Rows for a hosted service only. The forms have no token. */
export const tokens = (forms: Forms): readonly Row[] => {
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
    ...goodTokens.map(([what, ...lines]) => row(`A header ${what} lets a report in`, report(...lines), taken)),
    ...twoTokens.map(([what, ...lines]) => row(`Two token headers ${what} are refused`, report(...lines), ends(400))),
    ...badNames.map((name) =>
      row(`${shorten(name)} leads to no deployment`, good(TARGET.replace('prod', () => name)), keeps(401)),
    ),
    ...badRests.map((rest) => row(`With its token nothing is at /prod${rest}`, good(`/prod${rest}`), keeps(404))),
    ...alsoWrong(forms).map(([what, bytes]) =>
      row(`Without a token ${what}`, bytes, /\r\n(Content-Length|Transfer)/.test(bytes) ? ends(401) : keeps(401)),
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
    ...'/prod/livez /prod/readyz /livez/x /LIVEZ /livezz //livez /nobody/livez // /nobody'
      .split(' ')
      .map((path) => row(`GET ${path} needs a token`, head(`GET ${path} HTTP/1.1`, HOST), keeps(401))),
    ...rows(keeps(405), {
      'POST on /livez is refused with and without a token': reportTo('/livez'),
      'With a token a wrong method is 405': FIRST.replace('POST', 'PUT'),
    }),
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
        reason: 'llhttp can refuse the target of a CONNECT before the service sees it',
      },
    ),
    ...rows(ends(401), {
      'HTTP/1.0 without a token': head(`POST ${TARGET} HTTP/1.0`),
      'An upgrade without a token is refused, and the connection ends': forms.offer,
      'A token in a trailer arrives too late': framed([CHUNKED], `${CHUNK}0\r\n${GOOD_TOKEN}\r\n\r\n`),
      'A token in the body is ignored': json(`{"${TOKEN_NAME}":"${TOKEN}","token":"${TOKEN}"}`),
      'A batch with another token': forms.batch(FIRST_ITEM, JSON_LINES, forms.BATCH, `${TOKEN_NAME}: ${OTHER_TOKEN}`),
      'A report after a 401 with a body is not served': `${framed([SIZED])}${SMUGGLED}`,
      'A report after a 401 with chunks is not served': `${framed([CHUNKED], CHUNKS)}${SMUGGLED}`,
      'A report in a body that is refused with 401 is not served': json(SMUGGLED),
    }),
    ...rows(taken, {
      'A second token in a trailer': framed([CHUNKED, GOOD_TOKEN], `${CHUNK}0\r\n${TOKEN_NAME}: nobody\r\n\r\n`),
      'An absolute target leads to its deployment': good(`http://localhost${TARGET}`),
    }),
    row('A token on a folded line is refused', report(`${TOKEN_NAME}:`, ` ${TOKEN}`), [ends(400), taken], {
      reason: 'RFC 9112 section 5.2 lets a server refuse it or read it as one line',
    }),
    ...rows(keeps(401), {
      'A token in the query is ignored': reportTo(`${TARGET}?${TOKEN_NAME}=${TOKEN}`),
      'A head of 16 KiB that is mostly token is read': headWithToken(forms, 16_384),
      'An absolute target without a token': reportTo(`http://localhost${TARGET}`),
      'A batch under no deployment': good('/report_asset_batch/'),
      'Dot segments before a deployment do not lead to it': good(`/test/..${TARGET}`),
      'Two slashes before a deployment do not lead to it': good(`/${TARGET}`),
      'An endpoint without a deployment': good(TARGET.slice('/prod'.length)),
    }),
    row('A token that arrives a few bytes at a time is accepted', FIRST, first, { pieceBytes: 3 }),
    row('An authority is no deployment', good(`http://prod${TARGET.slice('/prod'.length)}`), keeps(403)),
    row('A report for another deployment is recorded there', OTHER, recorded(`${KEY} in test`)),
    row(
      'An idempotency key is for one deployment',
      `${good(TARGET, NAMED)}${reportTo(TARGET.replace('prod', 'test'), `${TOKEN_NAME}: ${OTHER_TOKEN}`, NAMED)}${good(TARGET, NAMED)}`,
      both(recorded(KEY, `${KEY} in test`), replayed),
    ),
    row(
      'A batch is recorded in the deployment of its path',
      forms.batch(FIRST_ITEM, JSON_LINES, forms.BATCH.replace('prod', 'test'), `${TOKEN_NAME}: ${OTHER_TOKEN}`),
      recorded(`${FIRST_KEY} in test`),
    ),
    row(
      'A name of 63 characters is a deployment',
      reportTo(TARGET.replace('prod', LONGEST_NAME), `${TOKEN_NAME}: ${OTHER_TOKEN}`),
      recorded(`${KEY} in ${LONGEST_NAME}`),
    ),
    row(
      'Dot segments in a key do not lead to another deployment',
      good(`${TARGET}/../../../test/report_asset_materialization/x`),
      recorded(`${KEY}/../../../test/report_asset_materialization/x`),
    ),
    row('With a token an unknown path is 404', good(NOWHERE), keeps(404)),
    row(
      'Each report goes where its path leads',
      `${FIRST}${OTHER}${SECOND}`,
      recorded(FIRST_KEY, `${KEY} in test`, SECOND_KEY),
    ),
    row('A token is checked for each request', `${FIRST}${report()}${SECOND}`, both(both(first, keeps(401)), second)),
    row('A report after a 401 is served', `${report()}${FIRST}`, both(keeps(401), first)),
    row(
      'A report after a 401 with an Expect is a request of its own',
      `${report('Expect: 100-continue')}${SMUGGLED}`,
      both(keeps(401), recorded(SMUGGLED_KEY)),
    ),
    row('A report after two token headers is not served', `${report(GOOD_TOKEN, GOOD_TOKEN)}${SMUGGLED}`, ends(400)),
    row('A client that closes its half gets its 401', report(), keeps(401), { half: true }),
    row(
      'The 21st failure in a minute gets 429',
      report().repeat(NO_TOKENS_MAX + 1),
      both(unknown(NO_TOKENS_MAX), keeps(429)),
    ),
    row(
      'After a 429 a good token is accepted, and the next bad token is refused',
      `${report().repeat(NO_TOKENS_MAX + 1)}${FIRST}${report()}${SECOND}`,
      both(both(both(unknown(NO_TOKENS_MAX), keeps(429)), both(first, keeps(429))), second),
    ),
    row(
      'Good reports between failures are not counted, and do not reset the count',
      `${`${report()}${FIRST}`.repeat(NO_TOKENS_MAX)}${report()}`,
      both(repeated(NO_TOKENS_MAX, both(unknown(1), first)), keeps(429)),
    ),
    row(
      'After a 429 health paths, foreign pages and bad syntax are answered as before',
      `${report().repeat(NO_TOKENS_MAX + 1)}${LIVE}${report('Origin: null')}${report(HOST)}`,
      both(both(both(unknown(NO_TOKENS_MAX), keeps(429)), both(answered, keeps(403))), ends(400)),
    ),
    row(
      'Refusals for another reason are not counted',
      `${good(NOWHERE).repeat(NO_TOKENS_MAX)}${report('Origin: null').repeat(NO_TOKENS_MAX)}${report()}`,
      both(both(repeated(NO_TOKENS_MAX, keeps(404)), repeated(NO_TOKENS_MAX, keeps(403))), keeps(401)),
    ),
    row(
      'A body after a 429 is not read',
      `${good('/nobody/x').repeat(NO_TOKENS_MAX)}${framed([SIZED])}${SMUGGLED}`,
      both(unknown(NO_TOKENS_MAX), ends(429)),
    ),
  ];
};

/** A report with a head of `bytes` bytes, nearly all of them a wrong token. */
function headWithToken({ report }: Forms, bytes: number): string {
  return report(`${TOKEN_NAME}: ${'x'.repeat(bytes - report(`${TOKEN_NAME}: `).length)}`);
}
