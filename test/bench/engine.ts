/** The engines that are measured, each with a minimal client: ASSETLOG_TEST_NATS and ASSETLOG_TEST_CHDB name them, as for the tests. */

import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { clickhouseDdl } from '../../src/forward/targets/clickhouse/ddl.ts';
import { type Clickhouse, startClickhouse } from '../support/clickhouse.ts';
import { STREAM, startNats } from '../support/nats.ts';
import type { Scope } from '../support/program.ts';

export interface Engine {
  readonly url: string;
  /** Of the node that is used, which leads the stream. */
  readonly port: number;
  /** Names of its processes, which are children of this one. */
  readonly command: RegExp;
  /** Sends lines with a minimal client, one request in flight. @returns the bytes that went over the connection */
  readonly sendAll: (lines: readonly Buffer[], round: number, turnMs: number) => Promise<number>;
  readonly events: () => Promise<number>;
  /** @returns the bytes of an event on the disks of all nodes together, as of now */
  readonly storedBytes: () => Promise<number>;
}

/** Each ends with the scope. Nodes of NATS sync each batch. */
export const engines: Readonly<Record<string, (t: Scope) => Promise<Engine>>> = {
  'nats-1': (t) => startStream(t, 1),
  'nats-3': (t) => startStream(t, 3),
  clickhouse: startTable,
};

const NATS_LINES = 1_000;
const INSERT_LINES = 10_000;
const NATS_BYTES = 1024 * 1024;
const INSERT_BYTES = 4 * NATS_BYTES;

async function startStream(t: Scope, nodes: 1 | 3): Promise<Engine> {
  const nats = await startNats(t, { nodes });
  await nats.createStream();
  const leader = await nats.leaderOf();
  const ports = [leader.port, ...nats.nodes.map(({ port }) => port).filter((port) => port !== leader.port)];
  const client = await nats.client();
  t.after(() => client.close());
  const state = async () => {
    const info = await client.api(`STREAM.INFO.${STREAM}`);
    return info['state'] as { readonly bytes: number; readonly messages: number };
  };
  return {
    url: `nats://${ports.map((port) => `127.0.0.1:${port}`).join()}/${STREAM}`,
    port: leader.port,
    command: /^nats-server/,
    sendAll: (lines, round) => publishAll(leader.port, lines, `assetlog.bench.${round}`),
    events: async () => (await state()).messages,
    storedBytes: async () => {
      const { bytes, messages } = await state();
      return (nodes * bytes) / messages;
    },
  };
}

async function publishAll(port: number, lines: readonly Buffer[], subject: string): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'data'); // INFO
  socket.write('CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB bench.reply 1\r\n');
  let last = 0;
  for (let first = 0; first < lines.length; ) {
    const end = endOf(lines, first, NATS_LINES, NATS_BYTES);
    const pieces: Buffer[] = [];
    for (let at = first; at < end; at += 1) {
      const expected = at === first ? `Nats-Expected-Last-Subject-Sequence:${last}\r\n` : '';
      const commit = at === end - 1 ? 'Nats-Batch-Commit:1\r\n' : '';
      const headers = `NATS/1.0\r\nNats-Batch-Id:${subject}-${first}\r\nNats-Batch-Sequence:${at - first + 1}\r\n${expected}${commit}\r\n`;
      const reply = at === end - 1 ? 'bench.reply ' : '';
      const head = `HPUB ${subject} ${reply}${headers.length} ${headers.length + lines[at]!.length}\r\n${headers}`;
      pieces.push(Buffer.from(head), lines[at]!, Buffer.from('\r\n'));
    }
    socket.write(Buffer.concat(pieces));
    let answer = '';
    while (!answer.includes('}')) answer += String((await once(socket, 'data'))[0]);
    if (!answer.includes(`"count":${end - first}`)) throw new Error(`it answers ${answer}`);
    last = Number(/"seq":(\d+)/.exec(answer)?.[1]);
    first = end;
  }
  const { bytesWritten } = socket;
  socket.destroy();
  return bytesWritten;
}

async function startTable(t: Scope): Promise<Engine> {
  const clickhouse = await startClickhouse(t);
  await clickhouse.run(clickhouseDdl(false));
  const numberOf = async (query: string) => Number((await clickhouse.rows(query))[0]?.[0]);
  const sizes = "sum(bytes_on_disk) / sum(rows) FROM system.parts WHERE active AND table = 'events'";
  return {
    url: `clickhouse+http://127.0.0.1:${clickhouse.port}/assets.events`,
    port: clickhouse.port,
    command: /^python/,
    sendAll: (lines, round, turnMs) => insertAll(clickhouse, lines, round, turnMs),
    events: () => numberOf('SELECT count() FROM assets.events'),
    storedBytes: () => numberOf(`SELECT ${sizes}`),
  };
}

async function insertAll(
  { port }: Clickhouse,
  lines: readonly Buffer[],
  round: number,
  turnMs: number,
): Promise<number> {
  const start = Buffer.from(`{"source":"bench-${round}","deployment":"_",`);
  let sent = 0;
  for (let first = 0, nextMs = 0; first < lines.length; ) {
    const end = endOf(lines, first, INSERT_LINES, INSERT_BYTES);
    const settings = {
      query: 'INSERT INTO assets.events FORMAT JSONEachRow',
      async_insert: '0',
      insert_deduplicate: '1',
      insert_deduplication_token: `${round}-${first}-${Date.now()}`,
      insert_quorum: 'auto',
      date_time_input_format: 'best_effort',
      input_format_skip_unknown_fields: '1',
      input_format_json_read_objects_as_strings: '1',
      wait_end_of_query: '1',
    };
    const rows = lines.slice(first, end).flatMap((line) => [start, line.subarray(1), Buffer.from('\n')]);
    const body = Buffer.concat(rows);
    sent += body.length;
    const nowMs = performance.now();
    if (nextMs > nowMs) await sleep(nextMs - nowMs);
    nextMs = Math.max(nowMs, nextMs) + turnMs;
    const one = request({ port, host: '127.0.0.1', path: `/?${new URLSearchParams(settings)}`, method: 'POST' });
    one.end(body);
    const [reply] = await once(one, 'response');
    if (reply.statusCode !== 200) throw new Error(`it answers ${reply.statusCode}`);
    await once(reply.resume(), 'end');
    first = end;
  }
  return sent;
}

/** @returns the end of a request that begins with a line */
function endOf(lines: readonly Buffer[], first: number, linesMax: number, bytesMax: number): number {
  let [end, bytes] = [first, 0];
  for (; end < lines.length && end - first < linesMax; end += 1) {
    bytes += lines[end]!.length + 1;
    if (end > first && bytes > bytesMax) break;
  }
  return end;
}
