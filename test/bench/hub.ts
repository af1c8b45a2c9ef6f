/**
 * The cost of a forwarded event at a hub: `node --import tsx test/bench/hub.ts [--rounds 9] [--events 100000] [--request-kib 1024]
 * [--report-bytes 300] [--against PATH] [--scratch FOLDER] [--node PATH]`, after `npm run bundle`. In each round each side gets the
 * lines of one more journal, in requests of `--request-kib`, one after the other over one connection. `--against` is the built file
 * of another version, measured in turn with this one.
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { parseArgs } from 'node:util';
import type { ChainPosition } from '../../src/journal/line/record.ts';
import { encodeBatch, hex } from '../../src/journal/line/record.ts';
import { encodeMembers } from '../support/plain-event.ts';
import { countText, medianOf, ratioText, spreadOf, spreadText, table } from './figures.ts';
import { reportOf } from './load.ts';
import { eventOf } from './machine.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { countLines, ROOT, type Server, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    events: { type: 'string', default: '100000' },
    'request-kib': { type: 'string', default: '1024' },
    'report-bytes': { type: 'string', default: '300' },
    against: { type: 'string' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

interface Side {
  readonly name: string;
  readonly data: string;
  readonly server: Server;
  /** Events per second, by round. */
  readonly rates: number[];
  /** Processor time of an event in microseconds, by round: all, and in user mode. */
  readonly costsUs: number[];
  readonly userUs: number[];
  events: number;
}

/** Consecutive lines of a journal, as a sender sends them. */
interface Request {
  readonly firstSeq: number;
  readonly crc: number;
  readonly body: Buffer;
}

function requestsOf(events: number, bytesMax: number): Request[] {
  const members = encodeMembers(eventOf(reportOf(Number(values['report-bytes']))));
  const requests: Request[] = [];
  const lineBytes = encodeBatch([members], { seq: events, crc: 0 }, new Date()).bytes.length;
  const count = Math.max(1, Math.floor(bytesMax / lineBytes));
  for (let chain: ChainPosition = { seq: 1, crc: 0 }; chain.seq <= events; ) {
    const batch = Array.from({ length: Math.min(count, events + 1 - chain.seq) }, () => members);
    const encoded = encodeBatch(batch, chain, new Date());
    requests.push({ firstSeq: chain.seq, crc: chain.crc, body: encoded.bytes });
    chain = encoded.chain;
  }
  return requests;
}

async function measure(side: Side, requests: readonly Request[]): Promise<void> {
  const socket = connect({ port: Number(new URL(side.server.url).port), host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  const source = randomUUID();
  const [used, usedInUserMode, startMs] = [
    side.server.processorSeconds(),
    side.server.userSeconds(),
    performance.now(),
  ];
  for (const { firstSeq, crc, body } of requests) {
    const head = [
      `PUT /forward/${source}/${firstSeq} HTTP/1.1`,
      'Host: localhost',
      'Content-Type: application/x-ndjson',
      `Assetlog-Crc: ${hex(crc)}`,
      `Content-Length: ${body.length}`,
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    socket.write(body);
    const [reply] = (await once(socket, 'data')) as [Buffer];
    if (!reply.toString('latin1', 0, 12).endsWith(' 200')) throw new Error(`it answers ${reply}`);
  }
  const count = Number(values.events);
  side.rates.push((count * 1000) / (performance.now() - startMs));
  side.costsUs.push(((side.server.processorSeconds() - used) * 1e6) / count);
  side.userUs.push(((side.server.userSeconds() - usedInUserMode) * 1e6) / count);
  side.events += count;
  socket.destroy();
}

async function main(scratch: Scratch): Promise<void> {
  const startSide = async (name: string, program?: string): Promise<Side> => {
    const data = scratch.newFolder('hub');
    const server = await startAssetlog({ scratch, node: values.node, data, program });
    return { name, data, server, rates: [], costsUs: [], userUs: [], events: 0 };
  };
  const sides = values.against === undefined ? [] : [await startSide('against', values.against)];
  sides.push(await startSide('this version'));
  const requests = requestsOf(Number(values.events), Number(values['request-kib']) * 1024);
  for (const side of sides) {
    await measure(side, requests); // warms up V8
    for (const figures of [side.rates, side.costsUs, side.userUs]) figures.length = 0;
  }
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) await measure(side, requests);
  }
  const rows = sides.map(({ name, rates, costsUs, userUs }) => {
    const ratios = userUs.map((cost, round) => cost / sides[0]!.userUs[round]!);
    const cells = [medianOf(costsUs).toFixed(2), medianOf(userUs).toFixed(2), ratioText(medianOf(ratios))];
    return [name, countText(medianOf(rates)), ...cells, spreadText(spreadOf(ratios))];
  });
  const head = ['', 'events/s', 'processor time of an event, µs', 'in user mode', '÷ the first', 'quartiles'];
  console.log(table(head, rows));
  for (const { name, server, data, events } of sides) {
    await server.stop();
    if (countLines(data) !== events) throw new Error(`${name}: the journal has other lines`);
  }
}

await inScratch(values.scratch, main);
