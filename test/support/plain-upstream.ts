/**
 * A server that behaves like the reference where forwarding relies on it (measured: test/README.md). It never deduplicates, stores
 * a check that is repeated with its partition but answers 500, answers a GET of any path with an HTML page, and ends the
 * connection after a 500 without announcing it.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, type Scope } from './program.ts';

/** A recorded report: `{ key: ['warehouse', 'orders'], partition: '17', idempotencyKey: '0193…', body: {…} }`. */
export interface PlainEvent {
  readonly path: string;
  readonly key: readonly string[];
  readonly partition: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface PlainUpstream {
  readonly url: string;
  readonly port: number;
  readonly events: readonly PlainEvent[];
  /** The time for one report. */
  delayMs: number;
  /** The answer for a report that is not recorded; undefined: the report is recorded. */
  answer: (event: PlainEvent) => { readonly status: number; readonly text: string; readonly type?: string } | undefined;
  /** Like SIGKILL: recorded events stay, replies on their way are lost, and nothing listens. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

const HTML = '<!DOCTYPE html><html><body>an application</body></html>';

export async function startPlainUpstream(t: Scope): Promise<PlainUpstream> {
  const events: PlainEvent[] = [];
  const checks = new Set<string>();
  let server: Server | undefined;
  const port = await freePort(t);

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const own = server;
    const url = new URL(request.url ?? '/', 'http://localhost');
    let text = '';
    for await (const piece of request.setEncoding('utf8')) text += piece;
    const reply = (status: number, type: string, content: string) =>
      response.writeHead(status, { 'content-type': type }).end(content);
    if (request.method === 'GET') return void reply(200, 'text/html', HTML);
    if (request.method !== 'POST' || !/^\/report_asset_(materialization|observation|check)\//.test(url.pathname))
      return void reply(405, 'text/plain', 'Method Not Allowed');
    if (upstream.delayMs > 0) await sleep(upstream.delayMs);
    if (own !== server) return; // it was killed in the meantime
    const event = eventOf(url, text, request.headers['idempotency-key']);
    const answer = upstream.answer(event);
    if (answer !== undefined) return void reply(answer.status, answer.type ?? 'application/json', answer.text);
    events.push(event);
    const check =
      event.path === '/report_asset_check/' &&
      event.partition !== undefined &&
      JSON.stringify([event.key, event.partition]);
    if (check && checks.has(check)) {
      reply(500, 'text/plain', 'Internal Server Error');
      response.once('finish', () => request.socket.destroySoon());
      return;
    }
    if (check) checks.add(check);
    reply(200, 'application/json', '{}');
  }

  async function start(): Promise<void> {
    server = createServer((request, response) => {
      handle(request, response).catch(() => request.socket.destroy()); // the client went away
    }).listen(port, '127.0.0.1');
    await once(server, 'listening');
  }
  async function kill(): Promise<void> {
    const ending = server;
    server = undefined;
    ending?.closeAllConnections();
    await new Promise((resolve) => (ending === undefined ? resolve(undefined) : ending.close(resolve)));
  }
  const upstream: PlainUpstream = {
    url: `http://127.0.0.1:${port}`,
    ...{ port, events, delayMs: 0, answer: () => undefined, kill, start },
  };
  await start();
  t.after(kill);
  return upstream;
}

function eventOf(url: URL, text: string, idempotencyKey: string | string[] | undefined): PlainEvent {
  const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  const [, endpoint = '', ...parts] = url.pathname.split('/');
  const given = parts.filter((part) => part !== '').map(decodeURIComponent);
  const bodyKey = body['asset_key'];
  const key = given.length > 0 ? given : Array.isArray(bodyKey) ? (bodyKey as string[]) : [String(bodyKey)];
  const partition = (body['partition'] as string | undefined) ?? url.searchParams.get('partition') ?? undefined;
  return { path: `/${endpoint}/`, key, partition, idempotencyKey: idempotencyKey?.toString(), body };
}
