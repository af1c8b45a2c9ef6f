/**
 * The engine of a current ClickHouse behind its HTTP interface, as a process (`clickhouse.py`). It needs a Python with chdb, named by
 * ASSETLOG_TEST_CHDB.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { listenOn } from '../world/http-server.ts';
import { freePort, newFolder, root, type Scope } from './program.ts';
import { HANG_MS, within } from './tools.ts';

const python = process.env['ASSETLOG_TEST_CHDB'];

/** Why tests with ClickHouse are skipped; false if it is there. */
export const withoutClickhouse =
  python === undefined && 'chdb is missing; name a Python that has it in ASSETLOG_TEST_CHDB (pip install chdb==4.4.0)';

export interface Clickhouse {
  readonly port: number;
  /** @returns the rows of a query, each as the values of its columns @throws the text of an exception */
  rows(query: string): Promise<unknown[][]>;
  /** Runs statements that have no rows, separated by `;` and an empty line. */
  run(statements: string): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** Starts the engine with a new folder. Both end with the test. */
export async function startClickhouse(t: Scope): Promise<Clickhouse> {
  const folder = newFolder(t);
  const port = await freePort(t);
  let child: ChildProcess | undefined;
  const start = async () => {
    const script = join(root, 'test/support/clickhouse.py');
    child = spawn(python!, [script, join(folder, 'engine'), `${port}`], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [text] = await within('a line of the engine', HANG_MS, once(child.stdout!, 'data'));
    assert.equal(`${text}`.trim(), 'ready');
  };
  const kill = async () => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };
  const query = async (text: string): Promise<string> => {
    const reply = await fetch(`http://127.0.0.1:${port}/?${new URLSearchParams({ query: text })}`, { method: 'POST' });
    const body = await reply.text();
    assert.equal(reply.status, 200, `${body} in ${text}`);
    return body;
  };
  t.after(kill);
  await start();
  return {
    ...{ port, kill, start },
    rows: async (text) => {
      const body = await query(`${text} FORMAT JSONCompactEachRow`);
      return body.split('\n').flatMap((row) => (row === '' ? [] : [JSON.parse(row)]));
    },
    run: async (statements) => {
      for (const one of statements.split(/;\n(?:\n|$)/)) if (one.trim() !== '') await query(one);
    },
  };
}

/** The lost part of an exchange with the engine, if any. */
export type Loss = 'request' | 'reply' | undefined;

/** @param lossOf called with the parameters of each request. @returns the port of a proxy in front of the engine */
export function startLossyProxy(
  t: Scope,
  { port }: Clickhouse,
  lossOf: (url: URLSearchParams) => Loss,
): Promise<number> {
  const proxy = createServer((request, response) => {
    const { url = '', headers, method, socket } = request;
    const loss = lossOf(new URL(url, 'http://localhost').searchParams);
    if (loss === 'request') return socket.destroy();
    const passed = httpRequest({ port, host: '127.0.0.1', path: url, headers, method, agent: false }, (reply) => {
      if (loss === 'reply') reply.resume().once('end', () => socket.destroy());
      else reply.pipe(response.writeHead(reply.statusCode ?? 500, reply.headers));
      reply.on('error', () => socket.destroy());
    });
    passed.on('error', () => socket.destroy()); // the engine was killed
    return request.pipe(passed);
  });
  return listenOn(t, proxy);
}
