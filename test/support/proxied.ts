/** Reports through a proxy of the handbook: one by one, or from clients that report without a pause. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type RequestOptions, request } from 'node:https';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { page } from './handbook.ts';
import { Load } from './load.ts';
import { type Front, PUBLIC_NAME, recommended, replaced, startNginx } from './nginx.ts';
import type { Running, Scope } from './program.ts';

const MIB = 1024 * 1024;
export const ENDPOINT = '/report_asset_materialization/';

/** Starts nginx in front of two ingesters on these ports, with the handbook's configuration for `--ack`. */
export function startBalancer(t: Scope, port: number, otherPort: number): Promise<Front> {
  const [next, server] = [/`(proxy_next_upstream [^`]*;)`/, /`(server 10[^`]*;)`/].map((rule) => {
    return rule.exec(page('replicate').replaceAll(/\s+/g, ' '))?.[1] ?? assert.fail(`${rule}`);
  }) as [string, string];
  const servers = [3000, otherPort].map((one) => server.replace('10.0.0.1:3000', `127.0.0.1:${one}`)).join('\n');
  const site = replaced(recommended, 'server 127.0.0.1:3000;', servers);
  return startNginx(t, port, replaced(site, 'proxy_next_upstream off;', next));
}

export interface Asked {
  readonly agent?: Agent;
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly chunked?: boolean;
}

/** @param localAddress the address to connect from; any by default */
export function agentFor(t: Scope, { certificate }: Front, maxSockets: number, localAddress?: string): Agent {
  const from = localAddress === undefined ? {} : { localAddress };
  const agent = new Agent({ keepAlive: true, maxSockets, ca: certificate, servername: PUBLIC_NAME, ...from });
  t.after(() => agent.destroy());
  return agent;
}

export interface Reply {
  /** 0 if the connection ended without a reply. */
  readonly status: number;
  readonly type: string | undefined;
  readonly body: string;
  readonly connection: unknown;
}

export async function ask(
  { port, socketPath }: Front,
  { agent, method = 'POST', path, headers, body, chunked }: Asked,
): Promise<Reply> {
  const at = socketPath === undefined ? { host: '127.0.0.1', port } : { socketPath };
  const options: RequestOptions = { ...at, method, path, ...(agent && { agent }) };
  const sent = request(options);
  sent.setHeader('Host', `${PUBLIC_NAME}:${port}`);
  for (const [name, value] of Object.entries(headers ?? {})) sent.setHeader(name, value);
  if (body !== undefined) sent.setHeader('Content-Type', 'application/json');
  if (chunked && body !== undefined) await new Promise((resolve) => sent.write(body.slice(0, 1), resolve));
  sent.end(chunked ? body?.slice(1) : body);
  try {
    const [reply] = await once(sent, 'response');
    let text = '';
    for await (const piece of reply.setEncoding('utf8')) text += piece;
    return { status: reply.statusCode, type: reply.headers['content-type'], body: text, connection: sent.socket };
  } catch (error) {
    return { status: 0, type: undefined, body: String(error), connection: undefined };
  }
}

/** Clients that report without a pause and never send a key again, whatever the reply. */
export function startLoad(proxy: Front, agent: Agent, clients: number): Load {
  return new Load(clients, async (client, load) => {
    for (let count = 0; load.isRunning; count += 1) {
      const key = `${client}.${count}`;
      const { status } = await ask(proxy, { agent, path: ENDPOINT + key });
      load.add(key, status);
      if (status !== 200) await sleep(5);
    }
  });
}

const TOO_LARGE = /^{"error":"the body is larger than 1048576 bytes/;
const OK = /^{}$/;

const recorded = (asked: Asked, ...key: readonly string[]) => ({ asked, status: 200, says: OK, keys: [key] });
const answered = (status: number, says: RegExp, asked: Asked) => ({ asked, status, says, keys: [] });
const foreign = (header: string, value: string) =>
  answered(403, RegExp(`^{"error":"${header} \\\\"${value}\\\\" is not this service`), {
    path: `${ENDPOINT}a`,
    headers: { [header]: value },
  });

/** Requests that a proxy passes on. The service sends the replies: a proxy's own errors are not JSON. */
const passages = {
  'a body of 1 MiB is recorded': recorded({ path: `${ENDPOINT}large`, body: bodyOf(MIB) }, 'large'),
  'a body of 1 MiB in chunks is recorded': recorded(
    { path: `${ENDPOINT}chunked`, body: bodyOf(MIB), chunked: true },
    'chunked',
  ),
  'a body of 1 MiB and a byte gets 413': answered(413, TOO_LARGE, { path: `${ENDPOINT}a`, body: bodyOf(MIB + 1) }),
  'a body of 4 MiB gets 413': answered(413, TOO_LARGE, { path: `${ENDPOINT}a`, body: bodyOf(4 * MIB) }),
  'an escaped slash in a key arrives as it was sent': recorded({ path: `${ENDPOINT}a%2Fb/c%20d` }, 'a/b', 'c d'),
  'dots in a key arrive as they were sent': recorded({ path: `${ENDPOINT}a/../b/./c` }, 'a', '..', 'b', '.', 'c'),
  'an empty part of a key gets 400': answered(400, /^{"error":/, { path: `${ENDPOINT}a//b` }),
  'a query of 12 KiB is recorded': recorded({ path: `${ENDPOINT}q?description=${'x'.repeat(12 * 1024)}` }, 'q'),
  'a foreign Host gets 403': foreign('Host', 'evil.example'),
  'a page of another site gets 403': foreign('Origin', 'https://evil.example'),
  'a page of the same name on another port gets 403': foreign('Origin', `https://${PUBLIC_NAME}`),
  '/livez is answered by the service': answered(200, /^{"status":"ok"}$/, { method: 'GET', path: '/livez' }),
  'an unknown path gets 404': answered(404, /^{"error":"nothing is at this path/, { path: '/nowhere' }),
};

/** Sends each of these requests, and compares its reply and what is recorded. */
export async function assertPassages(t: TestContext, proxy: Front, service: Running): Promise<void> {
  const agent = agentFor(t, proxy, 1);
  for (const [name, { asked, status, says, keys }] of Object.entries(passages)) {
    await t.test(name, async () => {
      const before = service.events().length;
      const reply = await ask(proxy, { agent, ...asked });
      assert.deepEqual([reply.status, reply.type], [status, 'application/json'], reply.body);
      assert.match(reply.body, says);
      const found = service.events().slice(before);
      assert.deepEqual(
        found.map((event) => event['asset_key']),
        keys,
      );
    });
  }
}

export function bodyOf(bytes: number): string {
  const [before, after] = ['{"metadata":{"filling":"', '"}}'];
  return before + 'x'.repeat(bytes - before.length - after.length) + after;
}
