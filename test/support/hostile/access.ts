/** Requests that pages of other sites, and rebound names, make a browser send. */

import { ends, type Forms, HOST, KEY, keeps, type Row, row, rows, taken } from './forms.ts';

/** Every path, and an unknown one: a foreign page learns of none of them. */
export const routes = ({ prefix, TARGET, CHECK, NOWHERE }: Forms): readonly string[] => [
  ...[`POST ${TARGET}`, `POST ${CHECK}${KEY}?check_name=c&passed=true`],
  ...[`POST ${prefix}/report_asset_observation/${KEY}`, 'GET /livez', 'GET /readyz', `GET ${NOWHERE}`],
  ...READINGS.map((path) => `GET ${prefix}${path}`),
];

/** The paths that read a journal, below its prefix. */
export const READINGS = ['/events', '/assets', '/refusals'];

/** The headers that a browser sends for a page of another site, or of a name rebound to this machine. */
export const foreign: readonly (readonly [what: string, headers: readonly string[]])[] = [
  ['an Origin of another site', [HOST, 'Origin: http://evil.example']],
  ['an Origin that is null', [HOST, 'Origin: null']],
  ['an Origin of another port', ['Host: localhost:3000', 'Origin: http://localhost:3001']],
  ['Sec-Fetch-Site: cross-site', [HOST, 'Sec-Fetch-Site: cross-site']],
  ['Sec-Fetch-Site: same-site', [HOST, 'Sec-Fetch-Site: same-site']],
  ['a Host of another name', ['Host: evil.example']],
];

export const access = ({ TARGET, GOOD_LINE, head, report, json }: Forms, routes: readonly string[]): readonly Row[] => [
  ...routes.flatMap((line) =>
    foreign.map(([what, lines]) =>
      row(`${line.replace(KEY, 'x')} with ${what} is refused`, head(`${line} HTTP/1.1`, ...lines), keeps(403)),
    ),
  ),
  ...[
    ['empty', ''],
    ['a host without a scheme', 'localhost'],
    ['a longer name', 'http://localhost.evil.example'],
    ['a user', 'http://localhost@evil.example'],
    ['a path', 'http://localhost/'],
    ['another scheme', 'file://localhost'],
    ['a list of two', 'http://localhost http://evil.example'],
  ].map(([what, value]) => row(`An Origin that is ${what} is refused`, report(`Origin: ${value}`), keeps(403))),
  ...rows(keeps(403), {
    'Two Origins are refused although one is good': report('Origin: http://localhost', 'Origin: http://evil.example'),
    'Two Sec-Fetch-Sites, one of them good': report('Sec-Fetch-Site: none', 'Sec-Fetch-Site: cross-site'),
    'Sec-Fetch-Site with an unknown word': report('Sec-Fetch-Site: sideways'),
    'A preflight is refused and allows nothing': head(
      `OPTIONS ${TARGET} HTTP/1.1`,
      HOST,
      'Origin: http://evil.example',
      'Access-Control-Request-Method: POST',
    ),
    'X-Forwarded-Host is ignored': head(GOOD_LINE, 'Host: evil.example', 'X-Forwarded-Host: localhost'),
  }),
  ...[
    ...['localhost.evil.example', 'evil.localhost', 'localhost.', '127.0.0.1.evil.example', '127.0.0.2', '0.0.0.0'],
    ...['2130706433', '[::2]', 'localhost,evil.example', '%6cocalhost'],
  ].map((name) => row(`Host ${name} is not this machine`, head(GOOD_LINE, `Host: ${name}`), keeps(403))),
  ...['LOCALHOST', 'localhost:', 'localhost:99999', '127.0.0.1:1', '[::1]', '[::1]:80'].map((name) =>
    row(`Host ${name} is this machine`, head(GOOD_LINE, `Host: ${name}`), taken),
  ),
  ...rows(taken, {
    'An Origin of this server is accepted': head(
      GOOD_LINE,
      'Host: localhost:3000',
      'Origin: http://LOCALHOST:3000',
      'Sec-Fetch-Site: same-origin',
    ),
    'A page that a person opened is accepted': report('Sec-Fetch-Site: none', 'Sec-Fetch-Mode: navigate'),
  }),
  row('A foreign Origin is refused before the body', json('{', TARGET, 'Origin: http://evil.example'), ends(403)),
];
