/** The page for browsers, in a real browser, against the real service. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { newToken } from '../../src/deployments/tokens.ts';
import { SEQ_MAX } from '../../src/journal/line/record.ts';
import { goneName, segmentName } from '../../src/journal/segments.ts';
import { noBrowser, type Page } from '../support/chromium.ts';
import { writeDeployments } from '../support/deployments.ts';
import {
  COLUMN,
  column,
  count,
  has,
  hide,
  isLive,
  open,
  report,
  sees,
  textOf,
  useBrowser,
  violationsOf,
} from '../support/page.ts';
import { freePort, newFolder, type Running, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { eventually } from '../support/tools.ts';
import { startScripted } from '../world/http-server.ts';

const options = { skip: noBrowser };
useBrowser();

const materialization = (...asset_key: readonly string[]) => ({ type: 'materialization', asset_key });
const check = (passed: boolean, check_name = 'no_nulls') => ({
  ...{ type: 'check', asset_key: ['warehouse', 'orders'], check_name, passed },
});

test('an empty page has a command to copy, and the event that it reports appears at once', options, async (t) => {
  const service = await startService(t);
  const page = await open(service.url);
  await sees(page, has('#nothing', 'No events yet'));
  const command = await textOf(page, '#nothing pre');
  assert.match(command, new RegExp(`^curl '${service.url}/report_asset_materialization/'`));
  const { stdout } = await promisify(execFile)('sh', ['-c', `${command} --silent`]);
  assert.equal(stdout, '{}');
  await sees(page, has('.row', 'warehouse/orders'));
});

test('an event is shown live and in full, with its metadata as it was sent', options, async (t) => {
  const service = await startService(t);
  const page = await open(service.url);
  await sees(page, isLive);
  const metadata =
    '{"rows":12345678901234567890,"ratio":1.0,"big":1e400,"ok":true,"none":null,"note":"a\\u00e9\\n\\"b\\"","list":["a",2.50,{"x":[]}],"rows":-0.10}';
  const body = `{"partition":"2026-11-20","data_version":"v1","description":"nightly load","metadata":${metadata}}`;
  await record(service, 'materialization/warehouse/orders', { body });
  await sees(page, has('.row', 'materialized'));
  await page.click('.row');
  await sees(page, has('#detail', 'Metadata'));
  const shown = await page.evaluate<string[][]>(
    `[...document.querySelectorAll('#detail dt')].map((name) => [name.innerText, name.nextSibling.innerText])`,
  );
  const own = shown.filter(([name]) => name !== 'id' && name !== 'time');
  assert.deepEqual(own, [
    ...[
      ['seq', '1'],
      ['partition', '2026-11-20'],
      ['description', 'nightly load'],
      ['data_version', 'v1'],
    ],
    ['rows', '12345678901234567890'],
    ...[
      ['ratio', '1.0'],
      ['big', '1e400'],
      ['ok', 'true'],
      ['none', 'null'],
      ['note', 'aé\n"b"'],
    ],
    ['list', '[\n  "a",\n  2.50,\n  {\n    "x": []\n  }\n]'],
    ['rows', '-0.10'],
  ]);
  await page.click('#detail summary');
  const line = readFileSync(join(service.data, 'events-00000000000000000001.jsonl'), 'utf8').trimEnd();
  assert.ok(line.includes(`"metadata":${metadata}`));
  await sees(page, has('#detail details pre', line));
});

test('a long value is folded, and a value that takes long to lay out is shown in parts', options, async (t) => {
  const service = await startService(t);
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index + 1}`);
  const metadata = {
    ...{ both: 'a\u05d0'.repeat(60_000), marks: `e${'\u0301'.repeat(100_000)}`, face: '\u{1f600}'.repeat(1_001) },
    ...{ lines: lines.join('\n'), list: lines },
  };
  await report(service, [{ ...materialization('a'), description: metadata.both, metadata }]);
  const started = performance.now();
  const page = await open(`${service.url}/#events?open=1`);
  await sees(page, has('#detail', 'Metadata'));
  const shownOf = (name: string) =>
    `[...document.querySelectorAll('#detail dt')].find((one) => one.innerText === '${name}').nextSibling`;
  const shown = (name: string) => page.evaluate<string>(`${shownOf(name)}.innerText`);
  for (const name of ['description', 'both', 'marks', 'face']) assert.ok((await shown(name)).length < 3_000, name);
  assert.doesNotMatch(await shown('face'), /\\u/);
  assert.match(await shown('lines'), /line 20\n+Show more$/);
  await page.click('#detail summary');
  await sees(page, has('#detail details pre', '"seq":1'));
  for (const name of ['both', 'marks', 'lines', 'list'])
    await page.evaluate(`${shownOf(name)}.querySelector('button').click()`);
  assert.match(await shown('lines'), /line 30$/);
  assert.match(await shown('list'), /"line 30"\n+\]$/);
  assert.ok((await shown('both')).length > 20_000);
  t.diagnostic(`shown in ${Math.round(performance.now() - started)} ms`);
});

test('the severity of a check is shown', options, async (t) => {
  const service = await startService(t);
  await report(service, [check(false), { ...check(false), severity: 'WARN' }, check(true)]);
  const page = await open(service.url);
  await sees(page, `${COLUMN}('what').join() === 'passed,failed (warn),failed (error)'`);
  for (const [seq, severity] of ['ERROR', 'WARN', 'ERROR'].entries()) {
    await page.goto(`${service.url}/#events?open=${seq + 1}`);
    await sees(page, `/severity\\s+${severity}/.test(document.querySelector('#detail').innerText)`);
  }
});

test('filters and a search narrow the events, and a link keeps them', options, async (t) => {
  const service = await startService(t);
  await report(service, [
    { ...materialization('warehouse', 'orders'), partition: 'p1', description: 'first load' },
    check(true),
    check(false),
    { ...materialization('warehouse', 'customers'), partition: 'p2' },
    { type: 'observation', asset_key: ['sensors', 'roof'], metadata: { note: 'Wind.*' } },
  ]);
  const page = await open(service.url);
  const seqs = (...expected: readonly string[]) =>
    sees(page, `${COLUMN}('seq').join() === ${JSON.stringify(expected.join())}`);
  await seqs('5', '4', '3', '2', '1');
  for (const [text, ...found] of [
    ['warehouse/ord', '3', '2', '1'],
    ['ware', '4', '3', '2', '1'],
    ['warehouse/orders/', '3', '2', '1'],
    ['warehouse/ord/'],
    ['warehouse/orders', '3', '2', '1'],
  ]) {
    await page.fill('[name=key_prefix]', text ?? '');
    await seqs(...found);
  }
  await page.click('[name=failed]');
  await seqs('3');
  await page.reload();
  await seqs('3');
  assert.equal(await page.evaluate(`location.hash`), '#events?key_prefix=warehouse%2Forders&failed=1');
  await page.goto(`${service.url}#events`);
  await page.selectOption('[name=type]', 'observation');
  await seqs('5');
  await page.goto(`${service.url}#events?partition=p2`);
  await seqs('4');
  await page.goto(`${service.url}#events`);
  for (const [text, ...found] of [
    ['HOUSE/ORD', '3', '2', '1'],
    ['wind.*', '5'],
    ['first load', '1'],
  ]) {
    await page.fill('[name=text]', text ?? '');
    await seqs(...found);
  }
  await page.fill('[name=text]', 'nowhere');
  await sees(page, has('#nothing', 'No event matches'));
  await report(service, [materialization('nowhere')]);
  await seqs('6');
  await page.goto(`${service.url}#events?key_prefix=else`);
  await sees(page, has('#nothing', 'No event matches'));
  await page.click('#nothing button');
  await seqs('6', '5', '4', '3', '2', '1');
});

test('a link leads to one event, also to one outside the list', options, async (t) => {
  const service = await startService(t);
  await report(service, [materialization('old'), materialization('new')]);
  const page = await open(`${service.url}#events?key_prefix=new&open=1`);
  await sees(page, has('#detail h2', 'old'));
  await page.goto(`${service.url}#events?open=3`);
  await sees(page, has('#detail h2', 'There is no such item'));
  await page.goto(`${service.url}#events?open=2`);
  await sees(page, has('#detail h2', 'new'));
  await page.click('#detail .close');
  assert.equal(await page.evaluate(`location.hash`), '#events');
});

test('assets show their last materialization and failed checks, and refusals show their reason', options, async (t) => {
  const service = await startService(t);
  await report(service, [
    { ...materialization('warehouse', 'orders'), partition: 'p1' },
    check(true, 'fresh'),
    check(false),
    materialization('sensors', 'roof'),
    { type: 'observation', asset_key: ['sensors', 'wall'], partition: 'p2', data_version: 'fw-1.10' },
    { ...check(true), asset_key: ['sensors', 'walls'] },
  ]);
  const refused = await fetch(`${service.url}/report_asset_check/a?passed=1`, { method: 'POST' });
  assert.equal(refused.status, 400);
  const page = await open(`${service.url}#assets`);
  await sees(page, `${count('.row')} === 4`);
  assert.deepEqual(await column(page, 'key'), ['warehouse/orders', 'sensors/roof', 'sensors/wall', 'sensors/walls']);
  assert.deepEqual(await column(page, 'what'), ['1 of 2 failed', 'no checks', 'no checks', '1 passed']);
  const times = (await column(page, 'time')).map((time) => time.replace(/[\d:-]+ [\d:]+/, 'TIME'));
  assert.deepEqual(times, ['TIME', 'TIME', 'observed TIME', 'checked TIME']);
  assert.deepEqual(await column(page, 'partition'), ['p1', '', 'p2', '']);
  await page.fill('[name=key_prefix]', 'sensors/wa');
  await sees(page, `${COLUMN}('key').join() === 'sensors/wall,sensors/walls'`);
  await page.fill('[name=text]', 'fw-1');
  await sees(page, has('#count', '1 found in 2 assets'));
  await page.click('.row');
  await sees(page, has('#detail', 'Last observation'));
  await page.click('#detail a');
  await sees(page, `${COLUMN}('key').join() === 'sensors/wall'`);
  await page.goto(`${service.url}#assets`);
  await sees(page, `${count('.row')} === 4`);
  await page.click('[name=failed]');
  await sees(page, `${count('.row')} === 1`);
  await page.click('.row');
  await sees(page, has('#detail', 'failed (error)'));
  assert.match(await textOf(page, '#detail'), /p1[\s\S]*Checks\s+no_nulls/);
  for (let tabs = 0; tabs < 2; tabs += 1) await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(`document.activeElement.innerText`), 'Events of this asset');
  await report(service, [{ ...check(false), asset_key: ['sensors', 'roof'] }]);
  await sees(page, `${count('.row')} === 2`);
  assert.equal(await page.evaluate(`document.activeElement.innerText`), 'Events of this asset');
  await report(service, [check(true), { ...check(true), asset_key: ['sensors', 'roof'] }]);
  await sees(page, has('#nothing', 'No asset matches'));
  await page.click('nav a:nth-child(3)');
  await sees(page, has('.row', 'POST /report_asset_check/a'));
  await sees(page, has('.row', 'passed in the query is'));
  await page.click('.row');
  await sees(page, has('#detail', '127.0.0.1'));
});

test('the page shows how far behind each destination is', options, async (t) => {
  const hub = await startService(t);
  const device = await startService(t, { args: ['--forward-to', hub.url] });
  await report(device, [materialization('orders')]);
  const page = await open(`${device.url}/`);
  await sees(page, has('#forwarding', 'Forwarding: upstream has all events'));
  await hub.kill();
  await report(device, [materialization('orders'), materialization('customers')]);
  await sees(page, has('#forwarding', 'upstream waiting is 2 events behind'));
  assert.doesNotMatch(await textOf(page, '#forwarding'), /503/);
  const refusing = await startService(t, { args: ['--forward-to', hub.url, '--ack', 'upstream'] });
  await page.goto(`${refusing.url}/`);
  await sees(page, has('#forwarding', 'upstream waiting has all events'));
  await sees(page, has('#forwarding', 'reports get 503: see /readyz'));

  const { url } = await startScripted(t, () => [403, '{"error":"no"}']);
  const turnedAway = await startService(t, { args: ['--forward-to', url] });
  await report(turnedAway, [materialization('orders')]);
  await page.goto(`${turnedAway.url}/`);
  await sees(page, has('#forwarding', 'upstream stopped is 1 event behind; see assetlog forward status'));
  assert.deepEqual(await violationsOf(page), []);

  await page.goto(`${(await startService(t)).url}/`);
  await sees(page, isLive);
  assert.ok(await page.evaluate(`document.querySelector('#forwarding').hidden`));
});

test('10,000 events take few elements, older ones are loaded, and the oldest are dropped', options, async (t) => {
  const service = await startService(t);
  const items = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => ({
      ...materialization('warehouse', `table-${from + index}`),
      metadata: { rows: index },
    }));
  await report(service, items(0, 11_000));
  const page = await open(service.url);
  await sees(page, has('#count', 'the newest 1,000 of 11,000 events'));
  await report(service, items(11_000, 11_001));
  await sees(page, has('.row', 'table-11000'));
  assert.ok((await page.evaluate<number>(count('.row'))) < 40);
  for (let older = 2; older <= 10; older += 1) {
    await page.keyboard.press('End');
    await sees(page, has('#count', `the newest ${older},001 of 11,001 events`));
  }
  await page.keyboard.press('End');
  await sees(page, `[...document.querySelectorAll('.row')].some((row) => row.ariaPosInSet === '10001')`);
  const gapsMs = await page.evaluate<number[]>(`new Promise((resolve) => {
    const list = document.querySelector('#list'), gaps = [];
    let last = performance.now(), step = 0;
    const frame = (now) => {
      gaps.push(now - last);
      last = now;
      list.scrollTop = list.scrollHeight * (step / 120);
      if ((step += 1) <= 120) requestAnimationFrame(frame);
      else resolve(gaps);
    };
    requestAnimationFrame(frame);
  })`);
  t.diagnostic(`120 frames of scrolling through all: the longest took ${Math.round(Math.max(...gapsMs))} ms`);
  assert.ok((await page.evaluate<number>(count('.row'))) < 60);
  await report(service, items(11_001, 12_000)); // beyond the limit, so that the oldest are dropped
  await sees(page, has('#newer', '999 new'));
  await page.click('#newer');
  await sees(page, has('.row', 'table-11999'));
  assert.match(await textOf(page, '#count'), /the newest 10,[0-5]\d\d of 12,000 events/);
});

test(
  'a search asks the service in several steps, shows its progress, and can be stopped and continued',
  options,
  async (t) => {
    const service = await startService(t);
    const items = Array.from({ length: 25_000 }, (_, index) => ({
      ...materialization(`table-${index % 7}`),
      description: index === 4 || index === 17_000 ? 'a needle' : 'hay',
    }));
    await report(service, items);
    // The test decides how many steps a search can make.
    const page = await open(
      service.url,
      `window.steps = 0; window.taken = [];
      const real = fetch;
      window.fetch = async (url, more) => {
        if (!String(url).includes('limit=1000')) return real(url, more);
        while (window.steps <= 0 && !more.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));
        window.steps -= 1;
        if (!more.signal.aborted) window.taken.push(String(url));
        return real(url, more);
      };`,
    );
    const allow = (steps: number) => page.evaluate(`window.steps = ${steps}`);
    const taken = () => page.evaluate<number>('window.taken.length');
    await sees(page, has('#count', 'the newest 1,000 of 25,000 events'));
    await page.fill('[name=text]', 'HAY');
    await sees(page, has('#count', '1,000 found in the newest 1,000 of 25,000 events'));
    assert.equal(await taken(), 0, 'the page has enough hits');
    await page.fill('[name=text]', 'needle');
    await sees(page, has('#search', 'Stop'));
    await sees(page, has('#count', '0 found in the newest 1,000 of 25,000 events'));
    await allow(2);
    await sees(page, has('#count', '0 found in the newest 6,000 of 25,000 events'));
    await page.click('#search');
    await sees(page, has('#search', 'Continue'));
    assert.deepEqual(await violationsOf(page), []);
    await allow(100);
    await report(service, [materialization('more hay')]);
    await sees(page, has('#count', '0 found in the newest 6,001 of 25,001 events'));
    assert.equal(await taken(), 2);
    await page.click('#search');
    await sees(page, `${COLUMN}('seq').join() === '17001,5'`);
    await sees(page, has('#count', '2 found in 25,001 events'));
    assert.ok(await page.evaluate(`document.querySelector('#search').hidden`), 'all events were searched');
    assert.equal(await taken(), 4, 'each step is four times as long as the one before');
    assert.ok(await page.evaluate(`window.taken.every((url) => url.endsWith('&contains=needle'))`));
    await page.click('.row');
    await sees(page, has('#detail', 'a needle'));

    await allow(2);
    await page.fill('[name=text]', 'nothing like it');
    await sees(page, has('#count', '0 found in the newest 6,001 of 25,001 events'));
    await hide(page, true);
    await sees(page, has('#state', 'Paused'));
    const before = await taken();
    await allow(100);
    await sleep(200);
    assert.equal(await taken(), before, 'a hidden page does not search');
    await hide(page, false);
    await sees(page, has('#nothing', 'No event matches'));

    await allow(0);
    await page.fill('[name=text]', 'no such');
    await sees(page, has('#search', 'Stop'));
    await page.fill('[name=text]', 'needle');
    await sees(page, `location.hash === '#events?text=needle'`);
    await allow(100);
    await sees(page, `${COLUMN}('seq').join() === '17001,5'`);
    assert.ok(
      !(await page.evaluate<boolean>(`window.taken.some((url) => url.includes('no+such'))`)),
      'it is not asked for',
    );
    await page.fill('[name=text]', '');
    await sees(page, has('#count', 'the newest 1,001 of 25,001 events'));
  },
);

test('a search misses no event when retention removes others at the same time', options, async (t) => {
  const service = await startService(t);
  const items = Array.from({ length: 3_000 }, (_, index) => ({
    ...materialization('table'),
    description: index === 1_799 ? 'a needle' : 'hay',
  }));
  await report(service, items);
  // Events 1 to 1,499 are removed while the events after 1,000 are read, so that the reply ends before the needle.
  const page = await open(
    service.url,
    `const real = fetch;
      window.fetch = async (url, more) => {
        const text = String(url);
        if (!text.includes('after_seq=1000&')) return real(text.replace('after_seq=0&limit=1000', 'after_seq=1499&limit=1000'), more);
        if (text.includes('limit=1000')) return new Response('');
        return new Response('{"error":"the events up to seq 1499 were removed"}', { status: 410 });
      };`,
  );
  await sees(page, has('#count', 'the newest 1,000 of 3,000 events'));
  await page.fill('[name=text]', 'needle');
  await sees(page, `${COLUMN}('seq').join() === '1800'`);
});

test('the address of a web page in metadata is a link, and any other text is not', options, async (t) => {
  const service = await startService(t);
  const hostile = [
    'javascript:alert(1)',
    ' javascript:alert(1)//https://a.example',
    'data:text/html,<script>alert(1)</script>',
    'file:///etc/passwd',
    'vbscript:x',
    'https://bank.example@evil.example/',
    'see https://a.example',
    'https://a.example/ and more',
    'https:\\\\a.example',
    '//a.example',
    'https://',
  ];
  const good = [
    'https://a.example/run?id=7#logs',
    'HTTP://b.example',
    'https://a.example/\u202egpj"><img src=x onerror=alert(1)>'.replaceAll(' ', '%20'),
  ];
  await report(service, [{ ...materialization('a'), metadata: { good, one: good[0], hostile, ...hostile } }]);
  const page = await open(`${service.url}/#events?open=1`);
  await sees(page, has('#detail', 'Metadata'));
  const links = await page.evaluate<string[][]>(
    `[...document.querySelectorAll('#detail a')].map(({ href, rel, target, innerText }) => [href, rel, target, innerText])`,
  );
  const more = ['noopener noreferrer', '_blank'];
  const [first, second, third = ''] = good;
  assert.deepEqual(links, [
    [first, ...more, `"${first}"`],
    ['http://b.example/', ...more, `"${second}"`],
    [new URL(third).href, ...more, JSON.stringify(third).replace('\u202e', '\\u202e')],
    [first, ...more, first],
  ]);
  assert.equal(await page.evaluate(count('main :is(img, script)')), 0);
});

test('each time is shown with its age, which grows', options, async (t) => {
  const service = await startService(t);
  await report(service, [materialization('a')]);
  const page = await open(`${service.url}/#events?open=1`);
  await sees(page, `/UTC, \\d+ s ago$/m.test(document.querySelector('#detail').innerText)`);
  const before = await textOf(page, '#detail time');
  await sees(page, `document.querySelector('#detail time').innerText !== ${JSON.stringify(before)}`);
});

test(
  'in test mode the page shows the faults and how often each was met, and resets the service',
  options,
  async (t) => {
    const service = await startService(t, { args: ['--test'] });
    const page = await open(service.url);
    await sees(page, has('#tests', 'Test mode: no faults'));
    const faults =
      '[{"match":{"type":"check","check_name":"<b>\u202e"},"then":{"status":503}},{"then":{"status":500}}]';
    const set = await fetch(`${service.url}/test/faults`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: `{"faults":${faults}}`,
    });
    assert.equal(set.status, 200);
    assert.equal((await fetch(`${service.url}/report_asset_observation/a`, { method: 'POST' })).status, 500);
    await sees(page, has('#tests', '{"status":503} for {"type":"check","check_name":"<b>\\u202e"} (met by 0 of 0)'));
    await sees(page, has('#tests', '{"status":500} for any report (met by 1 of 1)'));
    assert.deepEqual(await violationsOf(page), []);
    await fetch(`${service.url}/report_asset_observation/a`, { method: 'POST' });
    await page.click('#reset');
    await sees(page, has('#tests', 'no faults'));
    await report(service, [materialization('after')]);
    await sees(page, `${COLUMN}('key').join() === 'after'`);
    await page.goto(`${(await startService(t)).url}/`);
    await sees(page, isLive);
    assert.ok(
      await page.evaluate(`document.querySelector('#tests').hidden && document.querySelector('#sources').hidden`),
    );
  },
);

test('a hub lists its devices, the most silent one first', options, async (t) => {
  const hub = await startService(t);
  const names = ['<b>roof</b>', 'M\u00fcnchen'];
  const devices = [];
  for (const name of names) {
    const device = await startService(t, { args: ['--forward-to', hub.url, '--name', name] });
    await report(device, [materialization('orders')]);
    devices.push(device);
  }
  const page = await open(hub.url);
  await sees(page, `${count('.row')} === 2`);
  await page.reload();
  await sees(page, `!document.querySelector('#sources').hidden`);
  await sees(page, `${COLUMN}('device').sort().join() === '<b>roof</b>,M\u00fcnchen'`);
  await page.fill('[name=source]', 'M\u00fcnchen');
  await page.keyboard.press('Enter');
  await sees(page, `${COLUMN}('device').join() === 'M\u00fcnchen'`);
  await page.reload();
  await sees(page, `${COLUMN}('device').join() === 'M\u00fcnchen'`);
  await devices[1]?.kill('SIGKILL');
  await page.click('#sources');
  await report(devices[0] as Running, [materialization('orders')]);
  await sees(page, `${COLUMN}('key').join() === 'M\u00fcnchen,<b>roof</b>' && ${COLUMN}('seq').join() === '1,2'`);
  await page.click('.row');
  await sees(page, `/last seen\\s+2.* UTC, \\d+ \\w+ ago/.test(document.querySelector('#detail').innerText)`);
  assert.equal(await page.evaluate(count('main b:not(.badge)')), 0);
  await page.click('#detail a');
  await sees(page, `${COLUMN}('device').join() === 'M\u00fcnchen'`);
  assert.deepEqual(await violationsOf(page), []);
});

test('numbers of up to 16 digits are shown in full, aligned with their titles', options, async (t) => {
  const from = async (seq: number, ...args: readonly string[]) => {
    const data = newFolder(t);
    writeFileSync(join(data, segmentName(seq)), '');
    writeFileSync(join(data, goneName({ first: 1, last: seq - 1 }, 'removed')), '');
    return startService(t, { data, args });
  };
  /** The cells of a column that are cut, and those that are not below its title. */
  const wrongIn = (kind: string) => `[...document.querySelectorAll('.row > .${kind}')].filter((cell) =>
    cell.scrollWidth > cell.clientWidth || cell.getBoundingClientRect().left !==
    document.querySelector('#columns .${kind}').getBoundingClientRect().left).map((cell) => cell.innerText)`;
  const hub = await startService(t);
  for (const [index, seq] of [999_990, 1_200_000, SEQ_MAX - 8].entries()) {
    const service = await from(seq, '--forward-to', hub.url, '--name', `device-${index}`);
    await report(service, [materialization('a'), materialization('b')]);
    const page = await open(service.url);
    await sees(page, `${COLUMN}('seq').join() === '${seq + 1},${seq}'`);
    assert.deepEqual(await page.evaluate(wrongIn('seq')), [], `${seq}`);
    if (seq < 1_000_000) assert.equal(await page.evaluate(`document.querySelector('.row > .seq').clientWidth`), 60);
  }
  const page = await open(`${hub.url}#sources`);
  await sees(page, `${COLUMN}('seq').includes('9,007,199,254,740,984')`);
  await sees(page, `${COLUMN}('what').includes('9,007,199,254,740,982')`);
  for (const kind of ['seq', 'what', 'partition']) assert.deepEqual(await page.evaluate(wrongIn(kind)), [], kind);
  await page.goto(`${hub.url}#events`);
  await sees(page, `${COLUMN}('seq').length === 6`);
  assert.equal(await page.evaluate(`document.querySelector('.row > .seq').clientWidth`), 60, 'as wide as its numbers');
  await report(
    hub,
    Array.from({ length: 12 }, (_, index) => check(index > 0, `check ${index}`)),
  );
  await page.goto(`${hub.url}#assets`);
  await sees(page, `${COLUMN}('what').includes('1 of 12 failed')`);
  assert.deepEqual(await page.evaluate(wrongIn('what')), []);
});

test('names from clients are text, and do not reorder the text around them', options, async (t) => {
  const service = await startService(t);
  const tag = '<img src=x onerror=alert(1)><script>alert(2)</script>';
  const override = 'safe\u202egnp.exe';
  const long = 'x'.repeat(4_000);
  await report(service, [
    {
      ...materialization(tag, override),
      partition: tag,
      description: tag,
      metadata: { [tag]: tag, [override]: [tag] },
    },
    { ...check(false, tag), asset_key: [long] },
  ]);
  const page = await open(service.url);
  await sees(page, `${count('.row')} === 2`);
  assert.deepEqual(await column(page, 'partition'), ['', tag]);
  const key = JSON.stringify([tag, override]).replace('\u202e', '\\u202e');
  for (const [hash, shown] of [
    ['events?open=1', key],
    ['events?open=2', long],
    [`assets?open=${encodeURIComponent(JSON.stringify([tag, override]))}`, key],
    [`assets?open=${encodeURIComponent(JSON.stringify([long]))}`, tag],
    ['refusals', 'No request was refused'],
  ] as const) {
    await page.goto(`${service.url}#${hash}`);
    await sees(page, has('main', shown));
    assert.equal(await page.evaluate(count('main :is(img, script)')), 0, hash);
    assert.equal(await page.evaluate(`document.documentElement.scrollWidth`), 1_280, hash);
  }
});

test('different keys look different, and a search for a key as shown finds it', options, async (t) => {
  const service = await startService(t);
  const keys = [
    ['a', 'b'],
    ['a/b'],
    ['a', 'b '],
    ['a ', 'b'],
    ['a', ' b'],
    ['a', 'b\u202e'],
    ['a', 'b  c'],
    ['a', 'b c'],
  ];
  const accents = [['caf\u00e9'], ['cafe\u0301'], ['["x"]'], ['\u1100\u1161'], ['\uac00'], ['a', '\u{e0061}']];
  const all = [...keys, ...accents];
  await report(
    service,
    all.map((key) => materialization(...key)),
  );
  const page = await open(service.url);
  await sees(page, `${count('.row')} === ${all.length}`);
  const shown = (await column(page, 'key')).reverse();
  assert.deepEqual([shown[0], shown[1], shown[2], shown[9]], ['a/b', '["a/b"]', '["a","b "]', '["cafe\\u0301"]']);
  assert.equal(new Set(shown.map((text) => text.normalize().trim())).size, all.length, shown.join(', '));
  for (const name of ['key_prefix', 'text']) {
    for (const text of shown) {
      await page.fill(`[name=${name}]`, text);
      await sees(page, `${COLUMN}('key').includes(${JSON.stringify(text)}) && ${count('.row')} < ${all.length}`);
    }
    await page.fill(`[name=${name}]`, '');
    await sees(page, `${count('.row')} === ${all.length}`);
  }
  await report(service, [materialization('only/here')]);
  await page.fill('[name=key_prefix]', 'only/here');
  await sees(page, has('#nothing', 'Key begins with ["only/here"]'));
  await page.click('#nothing button:last-child');
  await sees(page, `${COLUMN}('key').join() === '["only/here"]'`);
});

test('the page works with the keyboard alone', options, async (t) => {
  const service = await startService(t);
  await report(service, [
    ...Array.from({ length: 100 }, (_, index) => materialization(`asset-${index + 1}`)),
    ...[check(false)],
  ]);
  const page = await open(service.url);
  const loaded = async () => {
    await page.reload();
    await sees(page, has('#count', '101 events')); // the rows can be drawn in several frames
  };
  const active = () => page.evaluate<string>(`document.querySelector('.row.active .seq')?.innerText ?? ''`);
  const press = async (...keys: readonly string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  for (const [key, first] of [
    ['ArrowDown', '101'],
    ['j', '101'],
    ['End', '1'],
    ['Home', '101'],
  ] as const) {
    await loaded();
    await press(key);
    assert.equal(await active(), first, `${key} after loading`);
  }
  await loaded();
  await press('Enter');
  await sees(page, has('#detail h2', 'orders'));
  await press('Escape', 'Home', 'j', 'k', 'j');
  assert.equal(await active(), '100');
  await press('ArrowDown', 'ArrowDown');
  assert.equal(await active(), '98');
  await press('End');
  assert.equal(await active(), '1');
  const named = `document.getElementById(document.querySelector('#list').getAttribute('aria-activedescendant'))?.innerText`;
  assert.match(await page.evaluate<string>(named), /asset-1\b/);
  await press('Enter');
  await sees(page, has('#detail h2', 'asset-1'));
  assert.equal(await page.evaluate(`document.activeElement.id`), 'detail');
  await press('k');
  await sees(page, has('#detail h2', 'asset-2'));
  await press('Escape');
  assert.deepEqual([await page.evaluate(`document.activeElement.id`), await active()], ['list', '2']);
  await press('/');
  // A key event without input: input would filter the rows after a moment.
  await page.evaluate(
    `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }))`,
  );
  assert.equal(await active(), '2', 'typing moves no row');
  await page.keyboard.type('no_nulls');
  await sees(page, `${count('.row')} === 1`);
  await press('Escape', '2');
  await sees(page, has('nav [aria-current]', 'Assets'));
  await press('?');
  await sees(page, `document.querySelector('#keys').open`);
  await press('Escape', '3');
  await sees(page, has('nav [aria-current]', 'Refusals'));
  for (let tabs = 0; tabs < 20; tabs += 1) {
    await press('Tab');
    const outline = `getComputedStyle(document.activeElement).outlineStyle`;
    if (await page.evaluate(`document.activeElement !== document.body`))
      assert.notEqual(await page.evaluate(outline), 'none', 'the focus is visible');
  }
});

test('axe-core finds no violation in light and dark, at full width and at 360 px', options, async (t) => {
  const service = await startService(t);
  const page = await open(service.url);
  await sees(page, has('#nothing', 'No events yet'));
  const examine = async (what: string) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await violationsOf(page), [], `${what}, ${colorScheme}`);
    }
    assert.ok(await page.evaluate(`document.documentElement.scrollWidth <= innerWidth`), `${what} fits`);
  };
  await examine('nothing');
  await report(service, [
    { ...materialization('warehouse', 'orders'), partition: 'p', metadata: { a: 1, b: { c: [true, 'd'] } } },
    ...[check(true), check(false), { ...check(false, 'fresh'), severity: 'WARN' }],
    { type: 'observation', asset_key: ['x'.repeat(300)], description: 'y'.repeat(300) },
  ]);
  await fetch(`${service.url}/report_asset_check/a?passed=1`, { method: 'POST' });
  for (const size of [
    { width: 1280, height: 720 },
    { width: 360, height: 640 },
  ]) {
    await page.setViewportSize(size);
    for (const hash of ['events', 'events?open=1', 'events?type=check&failed=1', 'assets', 'refusals']) {
      await page.goto(`${service.url}#${hash}`);
      await sees(page, hash.includes('open') ? has('#detail', 'Metadata') : `${count('.row')} > 0`);
      await examine(`${hash} at ${size.width} px`);
    }
    await page.goto(`${service.url}#assets?open=${encodeURIComponent('["warehouse","orders"]')}`);
    await sees(page, has('#detail', 'Last materialization'));
    await examine(`an asset at ${size.width} px`);
    await page.keyboard.press('?');
    await examine(`the keys at ${size.width} px`);
    await page.keyboard.press('Escape');
  }
});

test('in hosted mode the page shows a deployment to a client with its token', options, async (t) => {
  const file = join(newFolder(t), 'deployments.json');
  const [reader, reporter] = [newToken(), newToken()];
  const tokens = [
    { name: 'reader', sha256: reader.digest, may: ['read', 'report'] },
    { name: 'reporter', sha256: reporter.digest },
  ];
  writeFileSync(file, JSON.stringify({ deployments: [{ name: 'prod', tokens }] }));
  const service = await startService(t, { args: ['--deployments', file, '--path-prefix', '/a'] });
  const url = `${service.url}/prod`;
  await report({ url }, [materialization('secret')], { 'Service-Cloud-Api-Token': reader.token });
  const signIn = async (page: Page, deployment: string, token: string) => {
    await sees(page, `!document.querySelector('#access').hidden`);
    await page.fill('[name=deployment]', deployment);
    await page.fill('[name=token]', token);
    await page.keyboard.press('Enter');
  };
  const page = await open(`${service.url}/`);
  await sees(page, has('#state', 'Token needed'));
  let asked = 0;
  page.on('request', (request) => {
    if (/\/prod\/[a-z]/.test(request.url())) asked += 1;
  });
  await signIn(page, 'prod', 'wrong');
  await sees(page, has('#state', 'Token not accepted'));
  await sees(page, has('#turned-away', 'Not accepted: check the deployment and the token'));
  assert.equal(asked, 1, 'each request counts against the limit of its address');
  await signIn(page, 'prod', reporter.token);
  await sees(page, has('#state', 'May not read'));
  await signIn(page, 'prod', reader.token);
  await sees(page, has('.row', 'secret'));
  assert.ok(await page.evaluate(`document.querySelector('#access').hidden`));
  await page.reload();
  await sees(page, has('.row', 'secret'));
  await page.click('#leave');
  await sees(page, has('#state', 'Token needed'));
  assert.equal(await page.evaluate(count('.row')), 0);
  await page.reload();
  await sees(page, has('#state', 'Token needed'));

  const named = await open(`${url}/`);
  await sees(named, `document.querySelector('[name=deployment]').value === 'prod'`);
  assert.equal(await named.evaluate('document.activeElement.name'), 'token');
  await signIn(named, 'prod', reader.token);
  await sees(named, has('.row', 'secret'));
  await named.goto(`${url}/#events?key_prefix=none`);
  await sees(named, has('#nothing', 'No event matches'));
});

test('in hosted mode the first command names the deployment and the header of the token', options, async (t) => {
  const { args, tokenOf } = writeDeployments(t, ['prod']);
  const service = await startService(t, { args: [...args, '--token-header', "X-Someone's"] });
  const page = await open(`${service.url}/prod/`);
  await sees(page, `!document.querySelector('#access').hidden`);
  await page.fill('[name=token]', tokenOf('prod'));
  await page.keyboard.press('Enter');
  await sees(
    page,
    has('#nothing pre', `curl '${service.url}/prod/report_asset_materialization/' \\\n  -H 'X-Someone'\\''s: TOKEN'`),
  );
});

test(
  'the page resumes after a restart, and starts from the first event when the journal is another one',
  options,
  async (t) => {
    const args = ['--port', String(await freePort(t))];
    const data = newFolder(t);
    const first = await startService(t, { args, data });
    await report(first, [materialization('before')]);
    const page = await open(first.url);
    await sees(page, has('.row', 'before'));
    await first.kill();
    await sees(page, has('#state', 'Next try in'));
    const second = await startService(t, { args, data });
    await report(second, [materialization('after')]);
    await sees(page, isLive);
    await sees(page, `${count('.row')} === 2`);
    await second.kill();
    rmSync(data, { recursive: true });
    const third = await startService(t, { args, data: newFolder(t) });
    await report(third, [materialization('another'), materialization('journal'), materialization('begins')]);
    await sees(page, `${COLUMN}('key').join() === 'begins,journal,another'`);
    await third.kill();
    await startService(t, { args: [...args, '--no-read'], data: third.data });
    await sees(page, has('#notice', '--read'));
  },
);

test('a hidden page closes its stream, and resumes when it is shown again', options, async (t) => {
  const service = await startService(t);
  await report(service, [materialization('before')]);
  const page = await open(service.url);
  await sees(page, has('.row', 'before'));
  const openStreams = async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return /^assetlog_streams (\d+)$/m.exec(text)?.[1] ?? assert.fail(text);
  };
  await eventually('the stream is open', async () => (await openStreams()) === '1');
  await hide(page, true);
  await sees(page, has('#state', 'Paused'));
  await eventually('the stream is closed', async () => (await openStreams()) === '0');
  await report(service, [materialization('meanwhile')]);
  await hide(page, false);
  await sees(page, has('.row', 'meanwhile'));
  assert.equal(await page.evaluate(count('.row')), 2);
  await eventually('the stream is open again', async () => (await openStreams()) === '1');
});
