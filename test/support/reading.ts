/** Services whose journals are read over HTTP, and a client for a stream of events. */

import { strict as assert } from 'node:assert';
import { type IncomingMessage, request } from 'node:http';
import type { Scope } from './program.ts';
import { ok, report } from './report.ts';
import { type Served, type Serving, serve } from './service.ts';
import { eventually } from './tools.ts';

export interface ReadService extends Served {
  /** Reports observations one after the other, each acknowledged. */
  report(...keys: readonly string[]): Promise<void>;
  get(target: string, headers?: Record<string, string>): Promise<Response>;
}

/** Starts a service in this process, which ends with the test. */
export async function serveReads(t: Scope, { parts = {}, ...serving }: Serving = {}): Promise<ReadService> {
  const service = await serve(t, { ...serving, parts: { background: true, ...parts } });
  return {
    ...service,
    report: async (...keys) => assert.deepEqual(await report(service, keys), ok(keys.length)),
    get: (target, headers = {}) => fetch(`${service.url}${target}`, { headers }),
  };
}

/** An event of a stream: `{ id: '7', event: 'AssetObservation', data: '{"seq":7,…}' }`. */
export interface StreamEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

/** Reads one stream like an EventSource. */
export class StreamClient {
  readonly status: number;
  readonly events: StreamEvent[] = [];
  /** The seqs of the events of the journal. */
  readonly seqs: number[] = [];
  /** The last `id`, sent when the client connects again. */
  lastId: string | undefined;
  retryMs = 0;
  comments = 0;
  isEnded = false;
  readonly reply: IncomingMessage;
  #text = '';

  private constructor(reply: IncomingMessage) {
    this.reply = reply;
    this.status = reply.statusCode ?? 0;
    reply.setEncoding('utf8');
    reply.on('data', (text: string) => this.#take(text));
    reply.on('error', () => {});
    reply.on('close', () => {
      this.isEnded = true;
    });
  }

  static async open(url: string, headers: Record<string, string> = {}): Promise<StreamClient> {
    const all = { accept: 'text/event-stream', ...headers };
    const reply = await new Promise<IncomingMessage>((resolve, reject) => {
      request(url, { headers: all, agent: false }, resolve).on('error', reject).end();
    });
    return new StreamClient(reply);
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    await eventually(`${what}; so far ${JSON.stringify(this.events.slice(-3))}`, isSo);
  }

  close(): void {
    this.reply.destroy();
  }

  #take(more: string): void {
    this.#text += more;
    const blocks = this.#text.split('\n\n');
    this.#text = blocks.pop() ?? '';
    for (const block of blocks) this.#block(block);
  }

  #block(block: string): void {
    let [event, id, data]: [string, string | undefined, string | undefined] = ['message', undefined, undefined];
    for (const line of block.split('\n')) {
      const [, field = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
      if (line.startsWith(':')) this.comments += 1;
      else if (field === 'retry') this.retryMs = Number(value);
      else if (field === 'event') event = value;
      else if (field === 'id') this.lastId = id = value;
      else if (field === 'data') data = data === undefined ? value : `${data}\n${value}`;
    }
    if (data === undefined) return;
    this.events.push({ id, event, data });
    if (event.startsWith('Asset')) this.seqs.push(JSON.parse(data).seq);
  }
}
