/** A hub takes each event of another journal once and in order, whatever becomes of the requests. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SourceState } from '../../../src/journal/look/source-state.ts';
import { seqsAt } from '../../support/forwarded.ts';
import { askHub, observation, put, SentJournal, SOURCE, sourceOf } from '../../support/forwarding.ts';
import { eventsIn } from '../../support/program.ts';
import { makeLines } from '../../support/segments.ts';
import { serve } from '../../support/service.ts';
import { upTo } from '../../support/tools.ts';

test('a hub replies with its position, records new events, and keeps their id, source, seq and first time', async (t) => {
  const hub = await serve(t);
  const sent = new SentJournal(9, SOURCE, (seq) => ({
    type: 'AssetCheckEvaluation',
    assetKey: ['a', `b${seq}`],
    checkName: 'c',
    passed: true,
    severity: 'WARN',
    metadata: '{"n":1.0,"u":"\\u2028"}',
    idempotencyKey: 'k/1',
    eventTime: '2026-11-20T15:19:45.25Z',
  }));
  assert.deepEqual((await askHub(hub.url)).body, { seq: 0, id: null, gzip: true, origins: true });
  const first = await sent.put(hub.url, 1, 4);
  assert.deepEqual([first.status, first.body], [200, { seq: 4, id: sent.id(4) }]);
  const second = await sent.put(hub.url, 5, 9);
  assert.deepEqual(second.body, { seq: 9, id: sent.id(9) });
  assert.deepEqual((await askHub(hub.url)).body, { ...second.body, gzip: true, origins: true });
  for (const [index, event] of eventsIn(hub.data).entries()) {
    const { seq, id, time, crc, ...before } = JSON.parse(sent.lines[index]!.toString());
    const { seq: ownSeq, id: ownId, time: ownTime, crc: ownCrc, ...after } = event;
    assert.equal(ownSeq, index + 1);
    assert.notEqual(ownId, undefined);
    assert.deepEqual(after, { ...before, from: [SOURCE, seq], recorded: time });
    assert.equal(ownId, id);
  }
});

test('an event that comes through another hub keeps its id and its first time', async (t) => {
  const hub = await serve(t);
  const { bytes } = makeLines(1, { seq: 5, crc: 7 }, (seq) => ({
    ...observation('a'),
    origin: { id: sourceOf(9), source: sourceOf(8), seq, recorded: '2020-01-01T00:00:00.000Z' },
  }));
  const { id } = JSON.parse(bytes.toString());
  const headers = { 'Assetlog-Crc': '00000007', 'Assetlog-Lost': '1-4' };
  assert.deepEqual((await put(hub.url, SOURCE, 5, bytes, { headers })).body, { seq: 5, id });
  const [event] = eventsIn(hub.data);
  assert.deepEqual(
    [event?.['id'], event?.['origin'], event?.['from'], event?.['recorded']],
    [id, [sourceOf(8), 5], [SOURCE, 5], '2020-01-01T00:00:00.000Z'],
  );
});

test('a copy of a journal gets a 409 fork, also if it sends no event that the hub has', async (t) => {
  const hub = await serve(t);
  const one = new SentJournal(5);
  const other = new SentJournal(8);
  await one.put(hub.url, 1, 5);
  const fork = await other.put(hub.url, 4, 8);
  assert.equal(fork.status, 409);
  const { error, request_id, ...members } = fork.body;
  assert.match(String(error), /event 5 of this journal is here with the id/);
  assert.deepEqual(members, { reason: 'fork', seq: 5, id: one.id(5) });
  const after = (id: string) => ({ headers: { 'Assetlog-After': id } });
  assert.equal((await other.put(hub.url, 6, 8, after(other.id(5)))).body['reason'], 'fork', 'without a line of both');
  assert.equal((await other.put(hub.url, 6, 8, after('5'))).status, 400);
  const another = new SentJournal(1, sourceOf(3));
  assert.equal((await another.put(hub.url, 1, 1, after(one.id(5)))).status, 200, 'nothing is before the first event');
  assert.deepEqual(seqsAt(hub.data), upTo(5));
});

test('a gap gets a 409 with the position of the hub, unless Assetlog-Lost covers it up to the first line', async (t) => {
  const hub = await serve(t);
  const sent = new SentJournal(20);
  await sent.put(hub.url, 1, 3);
  const gap = await sent.put(hub.url, 7, 9);
  const { error, request_id, ...members } = gap.body;
  assert.deepEqual([gap.status, members], [409, { reason: 'gap', seq: 3, id: sent.id(3) }]);
  assert.match(String(error), /send from 4, or say which are lost with Assetlog-Lost: 4-6/);
  for (const lost of ['5-6', '4-5', '4-7', '1-2']) {
    assert.equal((await sent.put(hub.url, 7, 9, { headers: { 'Assetlog-Lost': lost } })).status, 409, lost);
  }
  for (const lost of ['4', '6-', 'x', '0-6', '04-6', '4-6-7', '', '4 - 6']) {
    assert.equal((await sent.put(hub.url, 7, 9, { headers: { 'Assetlog-Lost': lost } })).status, 400, lost);
  }
  assert.equal((await sent.put(hub.url, 7, 9, { headers: { 'Assetlog-Lost': '4-6' } })).status, 200);
  assert.equal((await sent.put(hub.url, 15, 15, { headers: { 'Assetlog-Lost': '2-14' } })).status, 200);
  assert.deepEqual(seqsAt(hub.data), [1, 2, 3, 7, 8, 9, 15]);
  assert.equal((await sent.put(hub.url, 8, 16)).status, 200);
  assert.deepEqual(
    seqsAt(hub.data),
    [1, 2, 3, 7, 8, 9, 15, 10, 11, 12, 13, 14, 16],
    'a late request brings what was lost',
  );
});

test('missing events count as lost only from the seq in Assetlog-Begins on, and those before it as elsewhere', async (t) => {
  const hub = await serve(t);
  const headers = (lost: string, begins: string) => ({ headers: { 'Assetlog-Lost': lost, 'Assetlog-Begins': begins } });
  const cases = [
    ['1-7', '8', 0],
    ['1-7', '6', 2],
    ['1-7', '1', 7],
    ['1-7', '9', 0],
    ['1-7', '9007199254740991', 0],
  ] as const;
  const lostOf = async (source: string) => {
    const { sources } = (await (await fetch(`${hub.url}/sources`)).json()) as { sources: SourceState[] };
    return sources.find(({ id }) => id === source)?.lost_events;
  };
  for (const [number, [lost, begins, expected]] of cases.entries()) {
    const source = sourceOf(100 + number);
    const sent = new SentJournal(12, source);
    for (const wrong of ['0', '08', '-1', '', '9007199254740992', 'x'])
      assert.equal((await sent.put(hub.url, 8, 8, headers(lost, wrong))).status, 400, wrong);
    assert.equal((await sent.put(hub.url, 8, 8, headers(lost, begins))).status, 200);
    assert.equal(await lostOf(source), expected, begins);
    assert.equal((await sent.put(hub.url, 11, 12, headers('9-10', begins))).status, 200);
    assert.equal(await lostOf(source), expected + (Number(begins) > 11 ? 0 : 2), begins);
  }
});
