/**
 * A plain upstream, which behaves like the reference where forwarding relies on it (measured: test/README.md): it knows no journal,
 * deduplicates nothing, stores a check that is repeated with its partition but answers 500, answers a GET of any path with an HTML page,
 * and ends the connection after a 500 without announcing it. Its paths under `/hook/` are hooks, which get lines of a journal. What it
 * refuses is decided by those who use it: `plain-server.ts`, and `simulation/upstream.ts`.
 */

import type { HttpRequest, Scripted } from './http.ts';

/** A report: `{ key: ['warehouse', 'orders'], partition: '17', body: {…} }`. */
export interface PlainEvent {
  readonly path: string;
  readonly key: readonly string[];
  readonly partition: string | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What a failure is answered with, whether the report was recorded or not. */
export const FAILED: Scripted = [500, 'Internal Server Error', {}, 'ends'];

export class PlainModel {
  /** In the order in which they were recorded, each as often as it was. */
  readonly events: PlainEvent[] = [];
  readonly #checks = new Set<string>();

  /** @param refuse returns the answer to a report that is not recorded */
  answer(request: HttpRequest, refuse: (event: PlainEvent) => Scripted | undefined): Scripted {
    if (request.method === 'GET') return [200, '<!DOCTYPE html><html><body>an application</body></html>'];
    const event = reportIn(request);
    if (event === undefined) return [405, 'Method Not Allowed'];
    return refuse(event) ?? this.#record(event);
  }

  #record(event: PlainEvent): Scripted {
    this.events.push(event);
    const { path, key, partition } = event;
    if (path !== '/report_asset_check/' || partition === undefined) return [200, '{}'];
    const check = JSON.stringify([key, partition]);
    if (this.#checks.has(check)) return FAILED;
    this.#checks.add(check);
    return [200, '{}'];
  }
}

const REPORT = /(\/report_asset_(?:materialization|observation|check)\/)(.*)/;
const HOOK = /^(\/hook\/)/;

function reportIn({ method, url, body: text }: HttpRequest): PlainEvent | undefined {
  const { pathname, searchParams } = new URL(url ?? '/', 'http://localhost');
  const [, path, rest = ''] = REPORT.exec(pathname) ?? HOOK.exec(pathname) ?? [];
  if (method !== 'POST' || path === undefined) return undefined;
  const body = text === '' ? {} : JSON.parse(text);
  const parts = rest.split('/').filter(Boolean).map(decodeURIComponent);
  const bodyKey = body.asset_key;
  const key = parts.length > 0 ? parts : Array.isArray(bodyKey) ? bodyKey : [String(bodyKey)];
  return { path, key, partition: body.partition ?? searchParams.get('partition') ?? undefined, body };
}
