/** Sends reports as a well-behaved client. */

import assert from 'node:assert/strict';

interface At {
  readonly url: string;
}

interface Sent {
  /** Sent as JSON; a text is sent as it is. */
  readonly body?: object | string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reported {
  readonly status: number;
  readonly body: string;
}

/** Sends one report. @param what rest of the path, and query: `check/warehouse/orders?check_name=fresh&passed=true` */
export async function reportOne({ url }: At, what: string, { body, headers = {} }: Sent = {}): Promise<Reported> {
  const sent = body === undefined ? { headers } : withBody(body, headers);
  const reply = await fetch(`${url}/report_asset_${what}`, { method: 'POST', ...sent });
  return { status: reply.status, body: await reply.text() };
}

function withBody(body: object | string, headers: Readonly<Record<string, string>>) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { headers: { 'Content-Type': 'application/json', ...headers }, body: text };
}

/** Like `reportOne`. @throws AssertionError if the report was not recorded */
export async function record(service: At, what: string, sent?: Sent): Promise<void> {
  const { status, body } = await reportOne(service, what, sent);
  assert.equal(status, 200, body);
}

/** Sends these items as the lines of a batch. */
export function reportLines(service: At, items: readonly unknown[], headers = {}): Promise<Reported> {
  const body = items.map((item) => `${JSON.stringify(item)}\n`).join('');
  return reportOne(service, 'batch/', { body, headers: { 'Content-Type': 'application/x-ndjson', ...headers } });
}

/** Reports observations of these assets one after the other. @returns the statuses */
export async function report(service: At, names: readonly string[], headers = {}): Promise<number[]> {
  const statuses: number[] = [];
  for (const name of names) statuses.push((await reportOne(service, `observation/${name}`, { headers })).status);
  return statuses;
}

/** Names: `a0`, `a1`, … */
export const named = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

export const ok = (count: number) => Array<number>(count).fill(200);
