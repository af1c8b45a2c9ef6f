/** Commands that read a service at a URL, which can be any server: replies are bounded and checked, and no token is printed. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { newToken } from '../../../src/deployments/tokens.ts';
import { runHere } from '../../support/command-output.ts';
import { newFolder } from '../../support/program.ts';
import { HANG_MS, within } from '../../support/tools.ts';
import { listenOn } from '../../world/http-server.ts';

const MIB = 1024 * 1024;
process.setMaxListeners(100); // each command with --follow listens for signals

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function serve(t: TestContext, answer: Answer): Promise<{ url: string; sentBytes: () => number }> {
  let sent = 0;
  const server = createServer((request, response) => {
    request.resume();
    response.socket?.on('close', () => {
      sent += response.socket?.bytesWritten ?? 0;
    });
    answer(request, response);
  });
  return { url: `http://127.0.0.1:${await listenOn(t, server)}`, sentBytes: () => sent };
}

function runCommand(name: string, args: readonly string[]) {
  return within(args.join(' '), HANG_MS, runHere([name, ...args]));
}

/** Sends the same text repeatedly, as fast as the client reads it, until the client disconnects. */
function endless(type: string, text: string, start = ''): Answer {
  return (_, response) => {
    response.writeHead(200, { 'Content-Type': type });
    response.write(start);
    const piece = Buffer.from(text.repeat(Math.ceil(65_536 / text.length)));
    const more = () => {
      while (!response.destroyed && response.write(piece));
      if (!response.destroyed) response.once('drain', more);
    };
    more();
  };
}

const always =
  (status: number, type: string, body: string): Answer =>
  (_, response) => {
    response.writeHead(status, { 'Content-Type': type }).end(body);
  };

const LINES = 'application/x-ndjson';
const STREAM = 'text/event-stream';
const eventWith = (
  seq: number | string,
  more = '"type":"AssetObservation","asset_key":["a"]',
  time = 'T15:19:45.266Z',
) => `{"seq":${seq},"id":"0193e0c2-1234-7000-8000-000000000001","time":"2026-11-20${time}",${more},"crc":"00000000"}\n`;
const assetWith = (more: string) => `{"asset_key":["a"],"checks":[]${more}}\n`;
const sourceWith = (wrong: string) =>
  `{"id":"i","name":null,"token_name":null,"deployment":null,"last_seq":0,"last_event":null,"last_seen":null,"lost_events":0,"lag_events":null,${wrong}}\n`;
const LATEST = '"count":1,"seq":1,"time":"2026-11-20T15:19:45.266Z"';

test('a command reads little of an endless reply, and ends with 1 and one sentence', async (t) => {
  const padding = 'x'.repeat(1_000);
  for (const [command, args, answer, problem] of [
    ['assets', [], endless(LINES, padding), /with a line of more than \d+ bytes/],
    ['assets', [], endless(LINES, '\n'), /with a line that is not an asset/],
    ['assets', [], endless(LINES, assetWith('')), /with assets that are not in order/],
    ['assets', ['--key', 'a'], endless(LINES, padding), /with a line of more than \d+ bytes/],
    ['assets', [], endless('text/html', padding), /answers 200 with text\/html/],
    ['events', [], endless(LINES, padding), /with a line of more than \d+ bytes/],
    ['events', [], endless(LINES, eventWith(1)), /with more than 1000 events in a reply/],
    ['events', ['--last', '3'], endless(LINES, eventWith(7)), /with more than 3 events in a reply/],
    ['events', ['--follow'], endless(STREAM, padding, 'data: '), /with a line of more than \d+ bytes/],
    ['events', [], endless('text/html', padding), /answers 200 with text\/html/],
    ['report', ['observation', 'a'], endless('application/json', padding), /answers 200: xxx/],
    [
      'report',
      ['observation', 'a'],
      (_: IncomingMessage, response: ServerResponse) => {
        response.writeHead(400, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ error: 'no '.repeat(20_000) }));
      },
      /answers 400: no no .*…$/,
    ],
  ] as const) {
    const { url, sentBytes } = await serve(t, answer);
    const { code, stderr } = await runCommand(command, ['--url', url, ...args]);
    assert.deepEqual([code, stderr.split('\n').length], [1, 2], stderr.slice(0, 1_000));
    assert.match(stderr.trimEnd(), problem);
    assert.ok(stderr.length < 2_500, `${stderr.length} characters`);
    assert.ok(sentBytes() < 40 * MIB, `${args} ${problem}: ${sentBytes()} bytes`);
  }
});

test('a reply that is not a journal ends the command with 1 and one sentence, and none of it is shown', async (t) => {
  const key = '"type":"AssetObservation","asset_key"';
  const lines = [
    'nonsense\n',
    '\n',
    '[]\n',
    eventWith(0),
    eventWith(`${2 ** 53}`),
    eventWith(1, `${key}:"a"`),
    eventWith(1, `${key}:[]`),
    eventWith(1, `${key}:[1]`),
    eventWith(1, `${key}:{"map":1}`),
    eventWith(1, '"type":"AssetObservation"'),
    eventWith(1, `${key}:["a"],"seq":2`),
    eventWith(1, `${key}:["a"],"tags":5`),
    eventWith(1, `${key}:["a"],"tags":{"data_version":{}}`),
    eventWith(1, `${key}:["a"],"event_time":7`),
    eventWith(1, `${key}:["a"],"passed":"no"`),
    eventWith(1, `${key}:["a"],"metadata":{"a":}`),
    eventWith(1, `${key}:["a"],"partition":null`),
    eventWith(1, `${key}:["a"]`, 'T25:19:45.266Z'),
    eventWith(1, `${key}:["a"]`, '0'),
    eventWith(1, `${key}:["\\u00`),
  ];
  const notAssets = [
    'null\n',
    '7\n',
    '{}\n',
    '{"asset_key":"a","checks":[]}\n',
    '{"asset_key":[1],"checks":[]}\n',
    '{"asset_key":["a"]}\n',
    assetWith(',"materialization":7'),
    assetWith(',"materialization":{"count":1,"seq":1,"time":"never"}'),
    assetWith(',"observation":{"count":"1","seq":1,"time":"2026-11-20T15:19:45.266Z"}'),
    `{"asset_key":["a"],"checks":[{${LATEST},"check_name":"c","passed":1,"severity":"ERROR"}]}\n`,
    `{"asset_key":["a"],"checks":[null]}\n`,
    `{"asset_key":["a"],"checks":[{${LATEST},"passed":true,"severity":"ERROR"}]}\n`,
    assetWith(',"materialization":{"count":1,"seq":0,"time":"2026-11-20T15:19:45.266Z"}'),
    '{"asset_key":["a\\u001b"],"checks":[]}\n',
  ];
  const notSources = ['7\n', sourceWith('"id":7'), sourceWith('"last_seen":"never"'), sourceWith('"lag_events":-1')];
  const gaps = '7 null {} { {"first":1} {"first":"1","last":2} {"first":5,"last":4} {"first":0,"last":4}'.split(' ');
  const cases: (readonly [string, readonly string[], Answer])[] = [
    ...lines.flatMap((line) => {
      const answer = always(200, LINES, line);
      return [
        ['events', ['--csv'], answer],
        ['events', ['--table', '--by', 'event_time'], answer],
      ] as const;
    }),
    ...notAssets.map((line) => ['assets', ['--json'], always(200, LINES, line)] as const),
    ...notSources.map((line) => ['sources', ['--json'], always(200, LINES, line)] as const),
    ...gaps.map((gap) => ['events', ['--follow'], always(200, STREAM, `event: gap\ndata: ${gap}\n\n`)] as const),
    ...[1, 5].map(
      (seq) =>
        [
          'events',
          ['--after-seq', '5'],
          always(410, 'application/json', `{"error":"continue with after_seq=${seq}"}`),
        ] as const,
    ),
  ];
  let answer: Answer = always(500, '', '');
  const { url } = await serve(t, (request, response) => answer(request, response));
  for (const [index, [command, args, own]] of cases.entries()) {
    answer = own;
    const { code, stdout, stderr } = await runCommand(command, ['--url', url, '--retry-for', '0', ...args]);
    const which = `case ${index} ${args.join(' ')}: ${stderr}`;
    assert.deepEqual([code, stderr.split('\n').length], [1, 2], which);
    assert.match(stderr, / answers .*; is this the address of a service\?\n$/, which);
    assert.ok(!stdout.includes('{') && !stdout.includes('0193e0c2'), `${which}${stdout}`);
  }
});

test('replies of an older service with fewer members, and of a later one with more, are accepted', async (t) => {
  const check = `{${LATEST},"check_name":"c","passed":true,"severity":"NOTE","more":[]}`;
  for (const [command, line] of [
    ['assets', `{"asset_key":["a"],"checks":[${check}],"more":1}\n`],
    ['sources', sourceWith('"more":1')],
    ['events', eventWith(1, '"type":"AssetCheckEvaluation","asset_key":["a"],"severity":"NOTE","more":1')],
  ] as const) {
    const { url } = await serve(t, always(200, LINES, line));
    const { code, stdout, stderr } = await runCommand(command, ['--url', url, '--json']);
    assert.deepEqual([code, stdout.includes('{'), stderr], [0, true, ''], command);
  }
});

test('a command ends with 1 if every request gets a 410, or if the head of a reply never ends', async (t) => {
  let seq = 0;
  const gone = await serve(t, (request, response) => {
    seq += 1;
    always(410, 'application/json', `{"error":"continue with after_seq=${seq}"}`)(request, response);
  });
  for (const args of [[], ['--last', '3']]) {
    const { code, stderr } = await runCommand('events', ['--url', gone.url, ...args]);
    assert.equal(code, 1);
    assert.match(stderr, /answers 410 to after_seq=\d+ for the 11\. time in a row, and names \d+; /);
  }
  const server = createNetServer((socket) => {
    const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), 20);
    socket.on('error', () => {}).on('close', () => clearInterval(timer));
  });
  const url = `http://127.0.0.1:${await listenOn(t, server)}`;
  const { code, stderr } = await runCommand('events', ['--url', url, '--timeout', '300ms', '--retry-for', '0']);
  assert.deepEqual(
    [code, stderr],
    [75, `assetlog: ${url} sent no complete reply: no data arrived within 0.3 s; try again later\n`],
  );
});

test('the last events are requested again when the connection breaks', async (t) => {
  let requests = 0;
  const { url } = await serve(t, (_, response) => {
    requests += 1;
    response.writeHead(200, { 'Content-Type': LINES });
    if (requests > 1) response.end(eventWith(7));
    else response.write(eventWith(7).slice(0, 20), () => response.destroy());
  });
  const { code, stdout, stderr } = await runCommand('events', ['--url', url, '--last', '1', '--json']);
  assert.deepEqual([code, stdout.includes('"seq":7'), stderr], [0, true, '']);
});

test('no command prints the token that a service repeats', async (t) => {
  const tokenFile = join(newFolder(t), 'token');
  const { token } = newToken();
  writeFileSync(tokenFile, token, { mode: 0o600 });
  const got = new Set<unknown>();
  let status = 401;
  let type = 'application/json';
  let location: string | undefined;
  let body = (received: string) => JSON.stringify({ error: `no ${received}` });
  const { url } = await serve(t, ({ headers }, response) => {
    const received = headers['service-cloud-api-token'];
    got.add(received);
    response.writeHead(status, { 'Content-Type': type, ...(location !== undefined && { Location: location }) });
    response.end(body(String(received)));
  });
  const file = join(newFolder(t), 'lines');
  writeFileSync(file, '{"type":"observation","asset_key":"a"}\n');
  const replies: readonly (() => void)[] = [
    () => {},
    () => ([status] = [400]),
    () => ([status, type] = [404, 'text/html']),
    () => ([status, type] = [200, `text/html; ${token}`]),
    () => ([status, location] = [301, `http://localhost/${token}?x`]),
    () => ([status, location, body] = [503, undefined, (received) => `<html>${received.slice(0, 30)}`]),
    () => ([status, body] = [500, (received) => `{"error":"${received.replaceAll('_', '\\u005f')}"}`]),
    () =>
      ([status, body] = [
        400,
        (received) => JSON.stringify({ recorded: 0, failed: 1, errors: [{ item: 1, error: received }] }),
      ]),
  ];
  for (const [index, reply] of replies.entries()) {
    reply();
    for (const [command, args] of [
      ['events', []],
      ['events', ['--follow', '--last', '1']],
      ['assets', []],
      ['report', ['observation', 'a']],
      ['report', ['--from', file]],
    ] as readonly (readonly [string, readonly string[]])[]) {
      if (args.includes('--follow') && status >= 500) continue; // retried until the service answers
      const more = ['--url', url, '--token-file', tokenFile, '--retry-for', '0'];
      const { code, stdout, stderr } = await runCommand(command, [...args, ...more]);
      assert.ok(code === 1 || code === 75, `${index} ${args}: ${code} ${stderr}`);
      assert.doesNotMatch(stdout + stderr, /asl_|asl.u005f/, `${index} ${args.join(' ')}`);
    }
  }
  assert.deepEqual(
    [...got].filter((one) => one !== undefined),
    [token],
  );
});
