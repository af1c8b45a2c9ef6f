/**
 * The same requests go to assetlog and to dagster-webserver, the other implementation of the specification, and the
 * replies and the records of both are compared. Each intended difference has a row, and a row whose difference is gone
 * fails, so that the README's table stays true.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, startService } from '../support/program.ts';
import {
  referenceExecutable as executable,
  type Member,
  type Members,
  type Recorded,
  readEvents,
  type Side,
  withoutReference as skip,
  startReference,
} from '../support/reference.ts';
import { ask, post, Wire, type WireReply } from '../support/wire.ts';
import { agreeing, differences, type Expectation, JSON_TYPE, type Row, refused } from './reference-rows.ts';

/** A row with its complete expectation. */
interface Case extends Row, Expectation {
  readonly difference: string | undefined;
}

const AFTER_MS = 100;

/** The difference that only a second request on the same connection shows. */
const AFTER_500 = 'after a 500';

const cases: readonly Case[] = [
  ...agreeing.map((row) => ({ ...row, statuses: [200, 200] as const, difference: undefined })),
  ...refused.map((row) => ({ ...row, statuses: [400, 400] as const, difference: undefined })),
  ...differences.flatMap(({ what, rows, ...rule }) => rows.map((row) => ({ ...rule, ...row, difference: what }))),
];

test('assetlog records the same as Dagster, except for the listed differences', { skip }, async (t) => {
  assert.ok(executable !== undefined);
  const [reference, service] = await Promise.all([startReference(t, executable), startService(t)]);
  const outcomes: Record<Side, WireReply[]>[] = [];
  for (const [index, each] of cases.entries()) {
    const outcome: Record<Side, WireReply[]> = { reference: [], assetlog: [] };
    for (const target of each.next === undefined ? [each.target] : [each.target, each.next]) {
      const bytes = bytesOf({ ...each, target }, markerOf(index));
      outcome.reference.push(await ask(reference.port, bytes));
      outcome.assetlog.push(await ask(service.port, bytes));
    }
    outcomes.push(outcome);
  }
  const events = await readEvents(executable, reference.home, service.data);

  for (const [index, each] of cases.entries()) {
    await t.test(nameOf(each), () => {
      const marker = markerOf(index);
      const { reference, assetlog } = outcomes[index]!;
      compare(each, marker, {
        reference: { replies: reference, events: eventsOf(events, 'reference', marker) },
        assetlog: { replies: assetlog, events: eventsOf(events, 'assetlog', marker) },
      });
    });
  }

  await t.test('each event belongs to one of the requests', () => {
    const markers = new Set(cases.map((_, index) => markerOf(index)));
    const strange = events.filter(({ marker }) => !markers.has(marker));
    assert.deepEqual(strange, []);
  });

  await t.test(`${AFTER_500}: Dagster closes the connection unannounced, assetlog keeps it`, async () => {
    assert.deepEqual(await reportAfterBrokenJson(reference.port), { announced: false, next: 'no reply' });
    assert.deepEqual(await reportAfterBrokenJson(service.port), { announced: false, next: 200 });
  });
});

test('test/README.md lists every difference', { skip }, () => {
  const page = readFileSync(join(root, 'test/README.md'), 'utf8');
  const named = [...differences.map(({ what }) => what), AFTER_500];
  const missing = named.filter((what) => !page.includes(what));
  assert.deepEqual(missing, []);
});

interface Outcome {
  readonly replies: readonly WireReply[];
  readonly events: readonly Members[];
}

function nameOf({ title, target, difference, statuses: [reference, assetlog] }: Case): string {
  if (difference === undefined) return `${title} (${target.slice(0, 60)})`;
  return `${difference}: ${title}: ${reference} from the reference, ${assetlog} from assetlog`;
}

function eventsOf(events: readonly Recorded[], side: Side, marker: string): Members[] {
  return events.filter((event) => event.side === side && event.marker === marker).map(({ members }) => members);
}

function compare(each: Case, marker: string, { reference, assetlog }: Readonly<Record<Side, Outcome>>): void {
  const { difference, statuses, members = [], referenceEvents, assetlogEvents, records = '{}' } = each;
  const [referenceStatus, status] = statuses;
  const last = reference.replies.length - 1;
  const expected = (final: number) => reference.replies.map((_, index) => (index === last ? final : 200));
  assert.deepEqual(assetlog.replies.map(statusOf), expected(status), 'statuses of assetlog');
  assert.deepEqual(reference.replies.map(statusOf), expected(referenceStatus), 'statuses of the reference');

  // assetlog's replies have one form on every path. The reference has to have it only in rows without a difference.
  assert.deepEqual(
    assetlog.replies.filter((reply) => !hasItsForm(reply)).map(({ body }) => body),
    [],
  );
  const accepted = (final: number) => expected(final).filter((each) => each === 200).length;
  assert.equal(assetlog.events.length, assetlogEvents ?? accepted(status), 'events of assetlog');
  assert.equal(reference.events.length, referenceEvents ?? accepted(referenceStatus), 'events of the reference');

  if (difference === undefined) {
    assert.deepEqual(assetlog.events, reference.events);
    assert.ok(reference.replies.every(hasItsForm), 'form of the replies');
    return;
  }
  const bothRecorded = reference.events.length > 0 && assetlog.events.length > 0;
  assert.deepEqual(bothRecorded ? differing(reference.events[0]!, assetlog.events[0]!) : [], members);
  for (const [member, value] of Object.entries(JSON.parse(records.replaceAll('ROW', marker)))) {
    assert.deepEqual(JSON.parse(reference.events[0]?.[member as Member] ?? ''), value, `${member} of the reference`);
  }
  const differs =
    referenceStatus !== status ||
    reference.events.length !== assetlog.events.length ||
    members.length > 0 ||
    !reference.replies.every(hasItsForm);
  assert.ok(differs, `both do the same now, so this difference is gone: ${difference}`);
}

function differing(one: Members, other: Members): Member[] {
  return (Object.keys(one) as Member[]).filter((member) => one[member] !== other[member]);
}

function statusOf({ status }: WireReply): number {
  return status;
}

/** `{}` for an accepted report, otherwise an object with an error (specification, section 7); a batch has its count. */
function hasItsForm({ status, headers, body }: WireReply): boolean {
  if (headers.get('content-type') !== 'application/json') return false;
  return status === 200 ? /^\{("recorded":\d+)?\}$/.test(body) : typeof JSON.parse(body).error === 'string';
}

function markerOf(index: number): string {
  return `row${String(index).padStart(3, '0')}`;
}

function bytesOf(
  { method = 'POST', target, body, headers, hosts = ['localhost'], chunked }: Row,
  marker: string,
): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body.replaceAll('ROW', marker)) : body;
  const lines = [`${method} ${target} HTTP/1.1`, ...hosts.map((host) => `Host: ${host}`)];
  lines.push(...(headers ?? (bytes === undefined ? [] : [JSON_TYPE])));
  lines.push(chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes?.length ?? 0}`);
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`.replaceAll('ROW', marker), 'latin1');
  if (bytes === undefined) return head;
  if (!chunked) return Buffer.concat([head, bytes]);
  const middle = Math.floor(bytes.length / 2);
  const chunk = (part: Buffer) => [Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')];
  const end = Buffer.from('0\r\n\r\n');
  return Buffer.concat([head, ...chunk(bytes.subarray(0, middle)), ...chunk(bytes.subarray(middle)), end]);
}

/** Sends broken JSON and then a good report on the same connection. */
async function reportAfterBrokenJson(port: number): Promise<{ announced: boolean; next: number | 'no reply' }> {
  const wire = await Wire.open(port);
  try {
    wire.send(post('/report_asset_materialization/after', '{'));
    const first = await wire.reply();
    // A client with keep-alive sends its next report later, when it could have noticed the close.
    await sleep(AFTER_MS);
    wire.send(post('/report_asset_materialization/after'));
    const second = await wire.reply();
    return { announced: first?.headers.get('connection') === 'close', next: second?.status ?? 'no reply' };
  } finally {
    wire.close();
  }
}
