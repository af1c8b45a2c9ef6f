/** The destination ClickHouse against a stub of the HTTP interface: what is sent, and what becomes of each answer. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Limits, limits as standard } from '../../../src/config/limits.ts';
import { openClickhouse } from '../../../src/forward/destinations/clickhouse/clickhouse.ts';
import type { AskableDestination, Opening, Sent, Shipment } from '../../../src/forward/destinations/destination.ts';
import type { Line } from '../../../src/journal/look/reading.ts';
import { sampledCalls } from '../../support/long.ts';
import type { PlainEvent } from '../../support/plain-event.ts';
import { freePort, newFolder } from '../../support/program.ts';
import { linesOf } from '../../support/sent-lines.ts';
import { done, exception, positionIn, Table } from '../../world/clickhouse.ts';
import type { Scripted } from '../../world/http.ts';
import { type Got, startScripted } from '../../world/http-server.ts';

const SOURCE = '01a1fb95-0000-7000-8000-000000000001';
const NEVER = new AbortController().signal;
const HTML = '<!DOCTYPE html><title>proxy</title>';
const limits: Limits = { ...standard, forwardRequestMs: 5_000 };
const plain = (partition: string): PlainEvent => ({ type: 'AssetObservation', assetKey: ['orders'], partition });
const plainLines = (count: number, firstSeq = 1, time?: string) =>
  linesOf(
    Array.from({ length: count }, (_, at) => plain(`${firstSeq + at}`)),
    firstSeq,
    0,
    time,
  );
const batch = (lines: readonly Line[]) => ({ lines, lost: undefined });

/** @param host with its port, or several of them */
function open(t: TestContext, host: string, options: Partial<Opening> = {}) {
  const to = `clickhouse+http://${host}/assets.events`;
  const own = { to, tokenHeader: 'Authorization', stamp: false, source: SOURCE, limits };
  const destination = openClickhouse({ ...own, ...options });
  t.after(() => destination.close());
  return destination;
}

test('an insert has source and deployment before each line, its settings, and a token of source and ids', async (t) => {
  const folder = newFolder(t);
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, 'se cret\n', { mode: 0o600 });
  const { url, got } = await startScripted(t, ({ url }) =>
    /SELECT/.test(`${url}`) ? done(`[9, "${SOURCE}", "24.8.1"]`) : done(),
  );
  const destination = open(t, new URL(url).host, { deployment: 'prod', user: 'writer', passwordFile });
  const lines = linesOf([{ ...plain('1'), metadata: '{"n":1.50,"m":1e400}' }, plain('2')], 7);
  const id = lines[1]!.event.id;
  assert.deepEqual(await destination.send(batch(lines), NEVER), { kind: 'recorded', seq: 8, id });
  const [insert] = got as [Got];
  const { query, ...settings } = Object.fromEntries(new URL(insert.url ?? '', url).searchParams);
  assert.equal(query, 'INSERT INTO `assets`.`events` FORMAT JSONEachRow');
  assert.deepEqual(settings, {
    async_insert: '0',
    insert_deduplicate: '1',
    insert_quorum: 'auto',
    date_time_input_format: 'best_effort',
    input_format_skip_unknown_fields: '1',
    input_format_json_read_objects_as_strings: '1',
    wait_end_of_query: '1',
    insert_deduplication_token: `${SOURCE}:${lines[0]!.event.id}:${id}`,
  });
  const begin = `{"source":"${SOURCE}","deployment":"prod",`;
  assert.equal(insert.body, lines.map(({ text }) => `${begin}${text.slice(1)}\n`).join(''));
  assert.deepEqual([insert.headers['x-clickhouse-user'], insert.headers['x-clickhouse-key']], ['writer', 'se cret']);
  assert.doesNotMatch(got.map(({ url }) => url).join(), /se.?cret|writer/);
  assert.equal(await destination.haveFilesChanged(NEVER), false);
  writeFileSync(passwordFile, 'another one\n');
  assert.equal(await destination.haveFilesChanged(NEVER), true);
});

test('the answer to an ask is read as the position of the table, and any other answer is not understood', async (t) => {
  let body = '';
  const { url, got } = await startScripted(t, () => done(body));
  const destination = open(t, new URL(url).host);
  const asked = async (text: string) => {
    body = text;
    const { kind, ...more } = await destination.ask(NEVER);
    return kind === 'at' ? Object.values(more) : [kind, 'why' in more && more.why];
  };
  assert.deepEqual(await asked('[0, "00000000-0000-0000-0000-000000000000", "24.8.14.39"]\n'), [0, null]);
  assert.deepEqual(await asked(`[7, "${SOURCE}", "26.9.2.1"]\n`), [7, SOURCE]);
  assert.deepEqual(await asked(`["7","${SOURCE}","25.1.1.1"]\n`), [7, SOURCE]);
  for (const old of ['24.7.9.1', '21.3.4.5', '9.9.9'])
    assert.deepEqual(await asked(`[0, "", "${old}"]`), ['stopped', 'not set up']);
  const others = [
    '',
    '[]',
    '{}',
    HTML,
    '[7, "x", "26.9.2.1"]',
    `[-1, "${SOURCE}", "26.9.2.1"]`,
    `[1e3, "${SOURCE}", "26.9.2.1"]`,
  ];
  for (const other of [...others, `[9007199254740993, "${SOURCE}", "26.9.2.1"]`, `[7, "${SOURCE}"]`]) {
    assert.deepEqual(await asked(other), ['stopped', 'not understood'], other);
  }
  const query = new URL(got[0]!.url ?? '', url).searchParams.get('query');
  const columns = 'max(seq), argMax(id, seq), version()';
  assert.equal(
    query,
    `SELECT ${columns} FROM \`assets\`.\`events\` WHERE source = '${SOURCE}' FORMAT JSONCompactEachRow`,
  );
});

test('the outcome of an insert follows from the code of its exception', async (t) => {
  let answer: Scripted = done();
  const { url } = await startScripted(t, ({ url }) =>
    /SELECT/.test(`${url}`) ? done(`[9, "${SOURCE}", "24.8.1"]`) : answer,
  );
  const destination = open(t, new URL(url).host);
  const send = async (scripted: Scripted): Promise<Sent> => {
    answer = scripted;
    return destination.send(batch(plainLines(1)), NEVER);
  };
  const sent = async (scripted: Scripted) => {
    const found = await send(scripted);
    return 'why' in found ? found.why : found.kind;
  };
  const reasonOf = async (scripted: Scripted) => JSON.stringify(await send(scripted));
  for (const code of [6, 26, 27, 41, 53, 117, 376, 407, 467])
    assert.equal(await sent(exception(code, 400)), 'refused', `${code}`);
  for (const code of [497, 516, 194]) assert.equal(await sent(exception(code, 403)), 'turned away', `${code}`);
  for (const code of [16, 36, 47, 60, 81, 115, 164, 452])
    assert.equal(await sent(exception(code, 404)), 'not set up', `${code}`);
  for (const code of [33, 159, 202, 241, 252, 285, 286, 319, 999])
    assert.equal(await sent(exception(code)), 'again', `${code}`);
  for (const code of [41, 60, 241]) assert.equal(await sent(exception(code, 200)), 'again', `${code} inside a 200`);
  const [, text] = exception(241);
  assert.equal(await sent([200, text, { 'X-ClickHouse-Summary': '{}' }]), 'again', 'an exception in the body alone');
  assert.equal(await sent([500, text]), 'again', 'without its header');
  // What is not of a server.
  assert.equal(await sent([200, '']), 'not understood');
  assert.equal(await sent([200, HTML]), 'not understood');
  for (const status of [301, 400, 401, 403, 404, 413])
    assert.equal(await sent([status, HTML]), 'turned away', `${status}`);
  assert.match(await reasonOf([401, HTML]), /check user and password/);
  assert.match(await reasonOf([403, HTML]), /check the URL, and what this login may do/);
  for (const status of [408, 429, 500, 502, 503, 504]) assert.equal(await sent([status, HTML]), 'again', `${status}`);
  assert.equal(await sent(done()), 'recorded');
});

test('a reason shows neither the password nor the row', async (t) => {
  const passwordFile = join(newFolder(t), 'password');
  writeFileSync(passwordFile, 'grossesGeheimnis\n', { mode: 0o600 });
  const { url } = await startScripted(t, (_, count) =>
    count === 1
      ? exception(516, 403, 'writer: the password grossesGeheimnis is wrong. (AUTHENTICATION_FAILED)')
      : exception(
          27,
          400,
          count === 2
            ? `before: '"secret"}': (while reading the value of key seq): (at row 1) (CANNOT_PARSE_INPUT)`
            : `(while reading the value of key ${'k'.repeat(100_000)}) (${'A'.repeat(100_000)})`,
        ),
  );
  const destination = open(t, new URL(url).host, { user: 'writer', passwordFile });
  const first = await destination.send(batch(plainLines(1)), NEVER);
  assert.ok(
    first.kind === 'stopped' && first.why === 'turned away' && !first.reason.includes('grossesGeheimnis'),
    JSON.stringify(first),
  );
  const second = await destination.send(batch(plainLines(1)), NEVER);
  const reason = 'answers 400: CANNOT_PARSE_INPUT (code 27) at seq';
  assert.deepEqual(second, { kind: 'refused', status: 400, reason });
  assert.ok(JSON.stringify(await destination.send(batch(plainLines(1)), NEVER)).length < 400);
});

/** What becomes of one request. `late`: its reply is lost, and it is carried out when the request after the next one has come. */
type Fault = 'request lost' | 'reply lost' | 'late';

/** @param faultOf called with the number of each request, from 1 @returns the host of a server that has the table */
async function serve(t: TestContext, table: Table, faultOf: (count: number) => Fault | undefined): Promise<string> {
  const late: { readonly got: Got; readonly at: number }[] = [];
  const { url } = await startScripted(t, (got, count) => {
    while (late[0] !== undefined && late[0].at <= count) table.answer(late.shift()!.got);
    const fault = faultOf(count);
    if (fault === 'late') late.push({ got, at: count + 2 });
    const answer = fault === 'late' || fault === 'request lost' ? undefined : table.answer(got);
    return fault === undefined ? answer : undefined;
  });
  return new URL(url).host;
}

/**
 * Sends lines as the sender does: it asks after each failure, and has the end of each request in its cursor, so that it sends these
 * lines and no others until they are dealt with.
 * @param start returns a destination, also after a crash
 * @returns the partitions of the lines that were refused
 */
async function deliver(
  lines: readonly Line[],
  start: () => AskableDestination,
  crashes: boolean,
  atFirst = 5,
): Promise<string[]> {
  const refused: string[] = [];
  let destination = start();
  let sending = 0;
  // More lines have come with each request.
  for (let seq = 0, arrived = atFirst; seq < lines.length; ) {
    const asked = await destination.ask(NEVER);
    if (asked.kind !== 'at') continue;
    for (seq = Math.max(seq, asked.seq); seq < lines.length; arrived = Math.min(lines.length, arrived + 3)) {
      sending = sending > seq ? sending : arrived;
      const sent = await destination.send(batch(lines.slice(seq, sending)), NEVER);
      if (sent.kind === 'recorded') seq = sent.seq;
      else if (sent.kind === 'refused') refused.push(lines[seq++]!.event.partition ?? '');
      else break;
    }
    if (!crashes) continue;
    destination.close();
    destination = start();
  }
  destination.close();
  return refused;
}

test('if a request or reply is lost, or a request is late, each line is stored once, and only bad ones are refused [clickhouse-2]', async (t) => {
  const [november, december] = [plainLines(9), plainLines(8, 10, '2026-12-01T00:00:00.000Z')];
  const lines = [...november, ...december];
  const bad = ['3', '7', '8', '10'];
  const own = { limits: { ...limits, insertLinesMax: 8 } };
  let requests = 1;
  const { first, step } = sampledCalls();
  for (const fault of ['request lost', 'reply lost', 'late'] as const) {
    for (let at = first; at === first || at <= requests; at += step) {
      const crashes = at % 2 === 0;
      const table = new Table();
      table.isBad = ({ partition }) => bad.includes(partition);
      let count = 0;
      const host = await serve(t, table, (number) => {
        count = number;
        return number === at || number === at + 7 ? fault : undefined;
      });
      const refused = await deliver(lines, () => open(t, host, own), crashes);
      const all = lines.map(({ event }) => event.partition ?? '').filter((partition) => !bad.includes(partition));
      assert.deepEqual([table.stored, refused], [all, bad], `${fault} ${at} ${crashes}`);
      requests = Math.max(requests, count);
    }
  }
  assert.ok(requests > 25, `${requests}`);
});

test('a bad line is found although every third answer is lost', async (t) => {
  const table = new Table();
  table.isBad = ({ partition }) => partition === '40';
  let requests = 0;
  const host = await serve(t, table, (count) => {
    requests = count;
    assert.ok(count < 200, 'it ends');
    return count % 3 === 0 ? 'reply lost' : undefined;
  });
  const lines = plainLines(64);
  assert.deepEqual(await deliver(lines, () => open(t, host), false, 64), ['40']);
  assert.equal(new Set(table.stored).size, 63);
  assert.equal(table.stored.length, 63);
  assert.ok(requests < 60, `${requests}`);
});

test('a search for a bad line that a crash interrupts repeats the same insert before it stores another one', async (t) => {
  let bad = 0;
  let inserts: string[] = [];
  const { url } = await startScripted(t, (got) => {
    if (/SELECT/.test(`${got.url}`)) return done(`[999, "${SOURCE}", "26.9.2.1"]`);
    const seqs = got.body
      .split('\n')
      .slice(0, -1)
      .map((row) => JSON.parse(row).seq as number);
    inserts.push(`${seqs[0]}-${seqs.at(-1)}`);
    return seqs.includes(bad) ? exception(41, 400) : done();
  });
  const send = async (lines: readonly Line[]) => {
    inserts = [];
    const destination = open(t, new URL(url).host);
    await destination.send(batch(lines), NEVER);
    destination.close();
    return inserts;
  };
  const isStored = (insert: string) => {
    const [first = 0, last = 0] = insert.split('-').map(Number);
    return bad < first || last < bad;
  };
  for (const lines of [plainLines(7), plainLines(22)]) {
    for (bad = 1; bad <= lines.length; bad += 1) {
      let position = 0;
      for (const insert of await send(lines)) {
        const again = await send(lines.slice(position));
        assert.ok(again.includes(insert), `${insert} is not in ${again}`);
        assert.deepEqual(again.slice(0, again.indexOf(insert)).filter(isStored), []);
        if (isStored(insert)) position = Number(insert.split('-')[1]);
      }
    }
  }
});

test('a repeated insert is verified although a lagging server first needs earlier events again [clickhouse-9]', async (t) => {
  const table = new Table();
  const [first, second] = plainLines(2).map((line) => batch([line])) as [Shipment, Shipment];
  // The second insert kills the server, and the ask after it gets what a server says that lags.
  const { url } = await startScripted(t, (got, count) => {
    if (count === 3) table.tokens.add(`2026-11 ${SOURCE}:${second.lines[0]!.event.id}:${second.lines[0]!.event.id}`);
    if (count === 3) return undefined;
    return count === 4 ? positionIn([], SOURCE) : table.answer(got);
  });
  const destination = open(t, new URL(url).host);
  const kinds: string[] = [];
  const send = async (one: Shipment) => kinds.push((await destination.send(one, NEVER)).kind);
  await send(first); // with a look whether it is there, since a process before this one could have sent it
  await send(second);
  kinds.push((await destination.ask(NEVER)).kind);
  for (const one of [first, second]) await send(one);
  assert.deepEqual(kinds, ['recorded', 'again', 'at', 'recorded', 'again']);
  await destination.ask(NEVER);
  await send(second);
  assert.deepEqual(table.stored, ['1', '2']);
});

test('an insert has at most 10,000 lines, and fewer if a proxy refuses larger requests', async (t) => {
  let table = new Table();
  let rowsMax = 20_000;
  const { url } = await startScripted(t, (got) =>
    got.body.split('\n').length > rowsMax ? [413, HTML] : table.answer(got),
  );
  const destination = open(t, new URL(url).host);
  const lines = plainLines(10_001);
  const { id } = lines[9_999]!.event;
  assert.deepEqual(await destination.send(batch(lines), NEVER), { kind: 'recorded', seq: 10_000, id });
  assert.deepEqual([table.stored.length, table.tokens.size], [10_000, 1]);
  rowsMax = 4;
  table = new Table();
  const some = plainLines(11);
  assert.deepEqual(await deliver(some, () => open(t, new URL(url).host), false), []);
  assert.deepEqual(
    table.stored,
    some.map(({ event }) => event.partition),
  );
});

test('an ask tries all hosts in turn, and after a failed insert the next one goes to another host', async (t) => {
  const table = new Table();
  const closed = await freePort(t);
  const isDown = [true, false];
  const start = (index: number) => startScripted(t, (got) => (isDown[index] ? exception(210, 500) : table.answer(got)));
  const [first, second] = [await start(0), await start(1)];
  const destination = open(t, `127.0.0.1:${closed},${new URL(first.url).host},${new URL(second.url).host}`);
  assert.equal((await destination.ask(NEVER)).kind, 'at', 'a retry and a test ask once');
  assert.deepEqual([first.got.length, second.got.length], [1, 1]);
  assert.equal((await destination.ask(NEVER)).kind, 'at');
  isDown[0] = false;
  assert.equal((await destination.send(batch(plainLines(3)), NEVER)).kind, 'recorded');
  assert.deepEqual([first.got.length, second.got.length], [1, 4]);
  isDown[1] = true;
  const kinds = [];
  for (let round = 0; round < 3; round += 1) kinds.push((await destination.send(batch(plainLines(3, 4)), NEVER)).kind);
  assert.deepEqual(kinds, ['again', 'again', 'recorded']);
  assert.equal(first.got.length, 3, 'the insert that had failed, and a look whether it is there');
  isDown[0] = true;
  assert.equal((await destination.ask(NEVER)).kind, 'again');
  assert.deepEqual([first.got.length, second.got.length], [4, 6], 'each was asked once');
});
