/** The reference as a plain upstream: each event as it is sent, and as the reference then stores it. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import type { Destination, Sent } from '../../src/forward/destinations/destination.ts';
import { traitsOf } from '../../src/forward/destinations/kinds.ts';
import type { Line } from '../../src/journal/look/reading.ts';
import type { PlainEvent } from '../support/plain-event.ts';
import { newFolder } from '../support/program.ts';
import {
  type Members,
  type Reference,
  readEvents,
  referenceExecutable,
  withoutReference as skip,
  startReference,
} from '../support/reference.ts';
import { linesOf } from '../support/sent-lines.ts';

const executable = String(referenceExecutable);
const NEVER = new AbortController().signal;

const check: PlainEvent = {
  type: 'AssetCheckEvaluation',
  assetKey: ['orders'],
  checkName: 'no_nulls',
  passed: false,
  severity: 'WARN',
};

/** Each key has a marker such as `row001`, by which the test finds the event. */
const events: readonly PlainEvent[] = [
  { type: 'AssetMaterialization', assetKey: ['row001'] },
  { type: 'AssetMaterialization', assetKey: ['row002', 'a/b', 'c d', 'e%2Ff', 'é'], partition: '2026-11-20' },
  { type: 'AssetMaterialization', assetKey: ['row003/x.y-z'], description: 'é "q" \\ \n\u2028', dataVersion: 'v1' },
  {
    type: 'AssetMaterialization',
    assetKey: ['row004'],
    metadata:
      '{"rows":12345678901234567890,"float":1.5,"one":1.0,"text":"\\u00e9\\/","yes":true,"none":null,"list":[1,{"a":2}]}',
  },
  { type: 'AssetMaterialization', assetKey: ['row005'], metadata: '{}', eventTime: '2026-11-19T01:02:03.25Z' },
  { type: 'AssetObservation', assetKey: ['row006', 'a/b'], metadata: '{"a":"b"}', dataVersion: '3', partition: 'p/q' },
  { ...check, assetKey: ['row007', 'a/b'] },
  { ...check, assetKey: ['row008'], passed: true, severity: 'ERROR', metadata: '{"rows":10}', partition: '2026-11-20' },
  { type: 'AssetMaterialization', assetKey: [`row009${'x'.repeat(400)}`], idempotencyKey: 'k' },
];

function open(t: TestContext, { port }: Reference, stamp = false): Destination {
  const options = { source: 'x', tokenHeader: 'X-Token', stamp, limits };
  const destination = traitsOf.api.open({ ...options, to: `http://127.0.0.1:${port}` });
  t.after(() => destination.close());
  return destination;
}

function send(destination: Destination, line: Line): Promise<Sent> {
  return destination.send({ lines: [line], lost: undefined }, NEVER);
}

/** @returns the data of a GraphQL reply of the reference. @throws AssertionError if the reply has errors */
async function query({ port }: Reference, text: string): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ query: text });
  const reply = await fetch(`http://127.0.0.1:${port}/graphql`, { method: 'POST', headers, body });
  const { data, errors } = (await reply.json()) as { data: Record<string, unknown>; errors?: unknown };
  assert.equal(errors, undefined);
  return data;
}

test('Dagster is not taken for a hub, and gets each type of event with the values of the journal', {
  skip,
}, async (t) => {
  const reference = await startReference(t, executable);
  const hub = traitsOf.hub.open({
    ...{ to: `http://127.0.0.1:${reference.port}`, source: '01a1fb95-0000-7000-8000-000000000001' },
    ...{ tokenHeader: 'X-Token', stamp: false, limits },
  });
  assert.deepEqual(await hub.ask(NEVER), { kind: 'no hub' });
  hub.close();
  const lines = linesOf(events);
  const destination = open(t, reference);
  for (const line of lines) {
    const { seq, id } = line.event;
    assert.deepEqual(await send(destination, line), { kind: 'recorded', seq, id });
  }
  const journal = newFolder(t);
  writeFileSync(join(journal, 'events-00000000000000000001.jsonl'), lines[0]!.bytes);
  const both = await readEvents(executable, reference.home, journal);
  const of = (side: string) =>
    new Map(both.filter((one) => one.side === side).map(({ marker, members }) => [marker, withoutTime(members)]));
  assert.equal(of('assetlog').size, events.length);
  assert.deepEqual(of('reference'), of('assetlog'));
  assert.equal(both.length, 2 * events.length, 'each once');
});

/** The reference ignores `event_time`. */
function withoutTime({ event_time: _, ...members }: Members): Partial<Members> {
  return members;
}

test('Dagster stores a stamp as metadata', { skip }, async (t) => {
  const reference = await startReference(t, executable);
  const [line] = linesOf([{ ...events[4]!, metadata: '{"big":12345678901234567890}' }]) as [Line];
  assert.equal((await send(open(t, reference, true), line)).kind, 'recorded');
  const { assetOrError } = await query(
    reference,
    `{ assetOrError(assetKey: { path: ["row005"] }) { ... on Asset { assetMaterializations(limit: 9) { metadataEntries {
      label ... on TextMetadataEntry { text } ... on IntMetadataEntry { intRepr } } } } } }`,
  );
  assert.deepEqual(assetOrError, {
    assetMaterializations: [
      {
        metadataEntries: [
          { label: 'big', intRepr: '12345678901234567890' },
          { label: 'assetlog/id', text: line.event.id },
          { label: 'assetlog/recorded', text: line.event.time },
          { label: 'assetlog/event_time', text: '2026-11-19T01:02:03.25Z' },
        ],
      },
    ],
  });
});
