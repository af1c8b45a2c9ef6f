/**
 * What a destination that floods or drips costs a report: `node --import tsx test/bench/floods.ts [--seconds 3] [--rounds 3]
 * [--only ping,drip] [--program PATH] [--scratch FOLDER]`, after `npm run bundle`. One client reports, one report after the other, to
 * a service that forwards nothing, and to one that forwards to a peer of each kind, which is then stopped beside the flood.
 */

import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { messageOf, startNatsStub } from '../support/nats-stub.ts';
import { listenOn } from '../support/sent-lines.ts';
import { mebibytesText, medianOf, millisecondsText, ratioText, table } from './figures.ts';
import { reportOneByOne } from './one-by-one.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ASSETLOG, ROOT, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', default: '' },
    program: { type: 'string', default: ASSETLOG },
    scratch: { type: 'string', default: ROOT },
    /** The process of a peer: its kind. */
    peer: { type: 'string', default: '' },
  },
});
const SECONDS = Number(values.seconds);
const NEVER = { after: () => {} };
const CHUNK_BYTES = 64 * 1024;
const MESSAGE_BYTES = 8 * 1024 * 1024;
const OK = 'HTTP/1.1 200 OK\r\nX-ClickHouse-Summary: {}\r\n';

/** Sends a text without end, as fast as it is read, or one byte at a time. */
function flood(socket: Socket, text: string, dripping = false): void {
  const bytes = Buffer.from(dripping ? text : text.repeat(Math.ceil(CHUNK_BYTES / text.length)));
  let at = 0;
  const send = () => {
    if (socket.destroyed) return;
    if (!dripping) while (socket.write(bytes));
    else {
      at += 1;
      socket.write(bytes.subarray(at % bytes.length, (at % bytes.length) + 1), send);
    }
  };
  socket.setNoDelay().on('error', () => {});
  if (!dripping) socket.on('drain', send);
  send();
}

/** @returns the URL of a NATS server that floods once it has been asked */
async function startNats(text: string, dripping = false): Promise<string> {
  const stub = await startNatsStub(NEVER, {
    answer: ({ subject, reply }, { sockets }) => {
      if (!subject.startsWith('$JS.API.STREAM.MSG.GET.')) return undefined;
      const socket = sockets.at(-1)!;
      if (!dripping) setTimeout(() => flood(socket, text), 50);
      else socket.write(text.replace('REPLY', reply!), () => flood(socket, 'x', true));
      return dripping ? '' : undefined;
    },
  });
  return stub.to;
}

/** @returns the URL of a server that answers every request so, and then floods */
async function startHttp(scheme: string, head: string, text: string, dripping = false): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.write(head, () => setTimeout(() => flood(socket, text, dripping), 50)));
  });
  return `${scheme}://127.0.0.1:${await listenOn(NEVER, server)}`;
}

const PEERS: Readonly<Record<string, () => Promise<string>>> = {
  'nats PING': () => startNats('PING\r\n'),
  'nats +OK': () => startNats('+OK\r\n'),
  'nats INFO': () =>
    startNats(`INFO ${JSON.stringify({ version: '2.12.0', connect_urls: Array(4_000).fill('a') })}\r\n`),
  'nats messages to nobody': () => startNats(messageOf('x', 'x')),
  'nats large messages to nobody': () => startNats(messageOf('x', 'x'.repeat(1_000_000))),
  'nats byte by byte': () =>
    startNats(`MSG REPLY 1 ${MESSAGE_BYTES}\r\n${'x'.repeat(MESSAGE_BYTES - 1_000_000)}`, true),
  'hub interim replies': () => startHttp('http', '', 'HTTP/1.1 102 Processing\r\n\r\n'),
  'hub chunks of a byte': () => startHttp('http', `${OK}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nx\r\n'),
  'hub byte by byte': () => startHttp('http', `${OK}Content-Length: 65000\r\n\r\n`, 'x', true),
  'hub between requests': () => startHttp('http', 'HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n', 'x'),
  'clickhouse chunks of a byte': () =>
    startHttp('clickhouse+http', `${OK}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nx\r\n').then((to) => `${to}/a.b`),
};

async function beside(scratch: Scratch, kind: string) {
  const program = [process.execPath, '--import', 'tsx', import.meta.filename, '--peer', kind];
  const peer = scratch.spawn(program, { stdio: ['ignore', 'pipe', 'inherit'], cwd: ROOT });
  const [to] = await once(createInterface(peer.stdout!), 'line');
  const args = ['--forward-to', to];
  const data = scratch.newFolder('data');
  const service = await startAssetlog({ scratch, node: process.execPath, program: values.program, data, args });
  await reportOneByOne(service.url, 1); // until the flood is under way
  const usedBefore = service.processorSeconds();
  const times = await reportOneByOne(service.url, SECONDS);
  // Alone with the flood: what it takes of a core.
  const usedAfter = service.processorSeconds();
  await sleep(1_000 * SECONDS);
  const idle = (service.processorSeconds() - usedAfter) / SECONDS;
  const memory = service.memoryBytes();
  const stopMs = performance.now();
  const code = await service.stop();
  const found = {
    times,
    idle,
    memory,
    code,
    busy: (usedAfter - usedBefore) / SECONDS,
    stopMs: performance.now() - stopMs,
  };
  const ended = once(peer, 'exit');
  peer.kill('SIGKILL');
  await ended;
  return found;
}

async function main(scratch: Scratch): Promise<void> {
  const data = scratch.newFolder('alone');
  const alone = await startAssetlog({ scratch, node: process.execPath, program: values.program, data });
  const words = values.only.split(',');
  const rows: string[][] = [];
  for (const kind of Object.keys(PEERS).filter((name) => words.some((word) => name.includes(word)))) {
    const rounds: ({ alone: number; loaded: number; longest: number } & Awaited<ReturnType<typeof beside>>)[] = [];
    for (let round = 0; round < Number(values.rounds); round += 1) {
      const unloaded = medianOf(await reportOneByOne(alone.url, SECONDS));
      const found = await beside(scratch, kind);
      rounds.push({ ...found, alone: unloaded, loaded: medianOf(found.times), longest: Math.max(...found.times) });
    }
    const of = (figure: (round: (typeof rounds)[number]) => number) => medianOf(rounds.map(figure));
    rows.push([
      kind,
      millisecondsText(of((round) => round.alone)),
      millisecondsText(of(({ loaded }) => loaded)),
      ratioText(of((round) => round.loaded / round.alone)),
      millisecondsText(of(({ longest }) => longest)),
      `${Math.round(100 * of(({ idle }) => idle))} %`,
      mebibytesText(of(({ memory }) => memory)),
      [...new Set(rounds.map(({ code }) => code ?? 'killed'))].join(', '),
      millisecondsText(of(({ stopMs }) => stopMs)),
    ]);
    console.error(rows.at(-1)?.join(' | '));
  }
  const heads = [
    'peer',
    'a report alone',
    'beside',
    'ratio',
    'the longest',
    'of a core, idle',
    'resident',
    'exit',
    'stop',
  ];
  console.log(table(heads, rows));
  await alone.stop();
}

if (values.peer === '') await inScratch(values.scratch, main);
else console.log(await PEERS[values.peer]!());
