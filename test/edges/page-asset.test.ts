/** An open asset on the page, in a real browser: what is drawn of its events, by points, labels and sentences. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, type Page } from '../support/chromium.ts';
import { count, has, hide, open, report, sees, textOf, useBrowser, violationsOf } from '../support/page.ts';
import { type Running, startService } from '../support/program.ts';
import { record } from '../support/report.ts';
import { eventually } from '../support/tools.ts';

const options = { skip: noBrowser };
useBrowser();

const ORDERS = ['warehouse', 'orders'];
const made = (metadata: object = {}, more: object = {}, asset_key: readonly string[] = ORDERS) => ({
  ...{ type: 'materialization', asset_key, metadata },
  ...more,
});
const check = (passed: boolean, more: object = {}) => ({
  ...{ type: 'check', asset_key: ORDERS, check_name: 'no_nulls', passed },
  ...more,
});
const addressOf = (service: Pick<Running, 'url'>, key: readonly string[] = ORDERS) =>
  `${service.url}/#assets?open=${encodeURIComponent(JSON.stringify(key))}`;
/** The figure whose sentence begins with a text. */
const figure = (start: string) =>
  `[...document.querySelectorAll('#detail figure')].find((one) => one.querySelector('svg').ariaLabel?.startsWith(${JSON.stringify(start)}))`;
const svg = (start: string) => `${figure(start)}?.querySelector('svg')`;
const sentence = (page: Page, start: string) => page.evaluate<string>(`${svg(start)}?.ariaLabel ?? ''`);
const shapes = (page: Page, start: string, selector: string) =>
  page.evaluate<number>(`${figure(start)}.querySelectorAll('svg ${selector}').length`);
/** The texts of the scale and the ends of a plot. */
const labels = (page: Page, start: string) =>
  page.evaluate<string[]>(`[...${figure(start)}.querySelectorAll('text')].map((one) => one.textContent)`);
const isComplete = (events: string) => `document.querySelector('#detail [role=status]')?.textContent === '${events}'`;
const said = (page: Page) => page.evaluate<string>(`document.querySelector('.said:not([hidden])')?.innerText ?? ''`);
/** Points at a mark of a plot. @returns where it is */
async function pointAt(page: Page, start: string, selector: string, index: number): Promise<[number, number]> {
  const [x = 0, y = 0] = await page.evaluate<number[]>(`(() => {
    const svg = ${svg(start)};
    svg.scrollIntoView({ block: 'center' });
    const { left, top, width, height } = svg.querySelectorAll('${selector}')[${index}].getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  })()`);
  await page.mouse.move(x, y);
  return [x, y];
}

test(
  'each number is a line with its scale, its extent and its exact digits, and a click leads to the event',
  options,
  async (t) => {
    const service = await startService(t);
    const values = ['9007199254740993', '9007199254740992', '"none"', '12e15', '1.0e16'];
    for (const [index, rows] of values.entries()) {
      const body = `{"partition":"p${index}","event_time":"2026-11-0${index + 1}T12:00:00Z","metadata":{"rows":${rows},"took":{"type":"float","raw_value":1.50},"<img src=x>\\u202e":${index},"flag":true}}`;
      await record(service, 'materialization/warehouse/orders', { body });
    }
    const page = await open(addressOf(service));
    await sees(page, isComplete('5 events'));
    assert.match(
      await sentence(page, 'rows'),
      /^rows: 5 values from 2026-11-01 12:00:00 to 2026-11-05 12:00:00 UTC, lowest 9007199254740992, highest 12e15, last 1.0e16; 1 not a number$/,
    );
    assert.deepEqual([await shapes(page, 'rows', '.point'), await shapes(page, 'rows', '.other')], [4, 1]);
    assert.deepEqual(await labels(page, 'rows'), ['9E15', '1E16', '1.1E16', '1.2E16', '11-01 12:00', '11-05 12:00']);
    const path = await page.evaluate<string>(`${figure('rows')}.querySelector('path').getAttribute('d')`);
    assert.deepEqual(path.replaceAll(/[^ML]/g, ''), 'MLML', 'a gap where it is no number');
    assert.match(
      await page.evaluate<string>(`${figure('rows')}.innerText`),
      /^rows 1.0e16, lowest 9007199254740992, highest 12e15/,
    );
    assert.match(await sentence(page, 'took'), /lowest 1.50, highest 1.50, last 1.50$/);
    assert.deepEqual((await labels(page, 'took'))[0], '1.5', 'all are the same');
    assert.match(await sentence(page, '<img src=x>\\u202e'), /highest 4, last 4$/);
    assert.equal(await page.evaluate(count('#detail img')), 0);
    assert.equal(await page.evaluate(count('#detail figure')), 4, 'and the days; no flag');

    await pointAt(page, 'rows', '.point', 0);
    assert.match(await said(page), /^9007199254740993 · 2026-11-01 12:00:00 UTC · partition p0$/);
    const [x, y] = await pointAt(page, 'rows', '.other', 0);
    assert.match(await said(page), /^not a number · /);
    await page.mouse.click(x, y);
    await sees(page, has('#detail h3', 'Metadata'));
    assert.equal(await page.evaluate('location.hash'), '#events?open=3');
  },
);

test('the keyboard reads a plot point by point, and opens the event', options, async (t) => {
  const service = await startService(t);
  await report(service, [made({ rows: 1 }), made({ rows: 20 }, { partition: 'p' }), made({ rows: 3 })]);
  const page = await open(addressOf(service));
  await sees(page, isComplete('3 events'));
  await page.evaluate(`${svg('rows')}.focus()`);
  const value = () => page.evaluate<string>(`document.activeElement.ariaValueText.split(' · ')[0]`);
  assert.equal(await value(), '3', 'the last one without a key');
  for (const [key, expected] of [
    ['ArrowLeft', '3'],
    ['ArrowLeft', '20'],
    ['Home', '1'],
    ['ArrowLeft', '1'],
    ['End', '3'],
    ['ArrowLeft', '20'],
  ] as const) {
    await page.keyboard.press(key);
    assert.equal(await value(), expected, key);
  }
  assert.match(await said(page), /^20 · .* · partition p$/);
  assert.equal(await page.evaluate(`document.activeElement.ariaValueNow`), '2');
  await page.keyboard.press('Enter');
  await sees(page, `location.hash === '#events?open=2'`);
});

test('a check is a strip of its last 60 results, all on demand, with since when it holds', options, async (t) => {
  const service = await startService(t);
  const results = Array.from({ length: 70 }, (_, index) => check(index < 68, { metadata: { nulls: index } }));
  await report(service, [
    ...results,
    check(false, { severity: 'WARN', partition: 'p', metadata: { nulls: 3, note: 'x' } }),
    check(true, { check_name: '<b>fresh</b>' }),
  ]);
  const page = await open(addressOf(service));
  await sees(page, isComplete('72 events'));
  assert.match(
    await sentence(page, 'no_nulls'),
    /^no_nulls: 60 results (?:at|from) .* UTC: 57 passed, 1 warning, 2 failed; the last 3 results failed, since \S+ \S+ UTC$/,
  );
  const kinds = async () => [
    await shapes(page, 'no_nulls', 'path.passed'),
    await shapes(page, 'no_nulls', 'path.warning'),
    await shapes(page, 'no_nulls', 'path.failed'),
  ];
  assert.deepEqual(await kinds(), [57, 1, 2]);
  const forms = await page.evaluate<string[]>(
    `[...new Set([...${figure('no_nulls')}.querySelectorAll('path')].map((one) => one.getAttribute('d')))]`,
  );
  assert.equal(forms.length, 3, 'each outcome has its own shape');
  assert.match(await page.evaluate<string>(`${figure('no_nulls')}.innerText`), /failed \(error\).*2 in a row since/);
  await page.evaluate(`${figure('no_nulls')}.querySelector('button').click()`);
  await sees(page, `${svg('no_nulls')}.ariaLabel.startsWith('no_nulls: 71 results')`);
  assert.deepEqual(await kinds(), [68, 1, 2]);
  const [x, y] = await pointAt(page, 'no_nulls', 'path.warning', 0);
  assert.match(await said(page), /^warning · \S+ \S+ UTC · partition p · nulls 3$/);
  await page.mouse.click(x, y);
  await sees(page, `location.hash === '#events?open=71'`);
  await page.goto(addressOf(service));
  await sees(page, isComplete('72 events'));
  assert.match(await sentence(page, '<b>fresh</b>'), /1 result at .* UTC: 1 passed; the last result passed, since/);
});

test(
  'materializations are counted by day, so that a hole is seen, beside the age of what is watched',
  options,
  async (t) => {
    const service = await startService(t, { args: ['--watch-asset', 'warehouse', '--watch-asset', 'other'] });
    const dayBefore = (days: number) => new Date(Date.now() - 86_400_000 * days).toISOString();
    await report(
      service,
      [6, 5, 5, 2, 0].map((days) => made({}, { event_time: dayBefore(days) })),
    );
    const page = await open(addressOf(service));
    await sees(page, isComplete('5 events'));
    assert.match(
      await sentence(page, 'Materializations'),
      /^Materializations by day: 5 from \S+ to \S+; none on \S+ and 30 more days$/,
    );
    assert.deepEqual(
      [await shapes(page, 'Materializations', '.day'), await shapes(page, 'Materializations', '.hole')],
      [4, 31],
    );
    await pointAt(page, 'Materializations', 'rect', 29);
    assert.equal(await said(page), `${dayBefore(5).slice(0, 10)}: 2 materializations`);
    await pointAt(page, 'Materializations', 'rect', 31);
    assert.equal(await said(page), `${dayBefore(3).slice(0, 10)}: 0 materializations`);
    await sees(
      page,
      `/--watch-asset warehouse\\s+stalest asset: \\d+ \\w+ ago/.test(document.querySelector('#detail').innerText)`,
    );
    assert.doesNotMatch(await textOf(page, '#detail'), /--watch-asset other/);
    assert.match(await textOf(page, '#detail'), /last event\s+\S+ \S+ UTC, \d+ \w+ ago/);
  },
);

test(
  'what arrives is drawn at once and moves nothing, and a partition filter applies to all plots',
  options,
  async (t) => {
    const service = await startService(t);
    await report(service, [
      ...Array.from({ length: 12 }, (_, index) => made({ [`m${index}`]: 1, rows: index }, { partition: 'old' })),
      check(true, { partition: 'old' }),
    ]);
    const page = await open(addressOf(service));
    await sees(page, isComplete('13 events'));
    await page.evaluate(`${svg('rows')}.focus(); document.activeElement.scrollIntoView({ block: 'center' })`);
    await page.keyboard.press('Home');
    const place = () =>
      page.evaluate<number[]>(
        `[document.querySelector('#detail').scrollTop, document.activeElement.getBoundingClientRect().top]`,
      );
    const before = await place();
    assert.ok((before[0] ?? 0) > 0);
    await report(service, [made({ rows: 99, fresh: 1 }, { partition: 'new' })]);
    await sees(page, isComplete('14 events'));
    await sees(page, `${svg('rows')}.ariaLabel.includes('last 99')`);
    assert.match(await sentence(page, 'Materializations'), /^Materializations by day: 13 /);
    assert.match(await said(page), /^0 · /, 'the point that was read');
    await sees(page, has('#detail', '13 events')); // the state, which is asked for every few seconds
    assert.deepEqual(await place(), before);
    assert.equal(await page.evaluate(`document.activeElement === ${svg('rows')}`), true);

    await page.selectOption('[name=of-partition]', ' new');
    await sees(page, `${svg('rows')}.ariaLabel.startsWith('rows: 1 value at ')`);
    assert.match(await sentence(page, 'Materializations'), /^Materializations by day: 1 /);
    assert.match(await textOf(page, '#detail'), /no_nulls\s+no results/);
    await report(service, [check(false, { partition: 'new' }), made({ rows: 7 }, { partition: 'old' })]);
    await sees(page, `${figure('no_nulls')}.innerText.includes('the last result failed, since')`);
    assert.match(await sentence(page, 'no_nulls'), /^no_nulls: 1 result at /);
    assert.match(await sentence(page, 'rows'), /^rows: 1 value at /);
  },
);

test(
  'of many numbers the 20 most reported are shown, the others by name, and of many points the last 200',
  options,
  async (t) => {
    const service = await startService(t);
    const names = Array.from({ length: 1_000 }, (_, index) => `m${String(index).padStart(3, '0')}`);
    await report(service, [
      made(Object.fromEntries(names.map((name, index) => [name, index]))),
      ...Array.from({ length: 250 }, (_, index) => made({ m999: index, m998: 'text' })),
    ]);
    const page = await open(addressOf(service));
    await sees(page, isComplete('251 events'));
    const shown = () =>
      page.evaluate<string[]>(`[...document.querySelectorAll('#detail figure b')].map((one) => one.innerText)`);
    assert.deepEqual(
      await shown(),
      ['m999', ...names.slice(0, 19)],
      'and m998 was never a number in its last 200 values',
    );
    assert.match(await sentence(page, 'm999'), /^m999: 200 values .* lowest 50, highest 249, last 249$/);
    assert.equal(await shapes(page, 'm999', '.point'), 200);
    assert.equal(
      await page.evaluate(`document.querySelector('[name=more-numbers]').options[0].text`),
      'Show another of 979 numbers',
    );
    await page.selectOption('[name=more-numbers]', 'm500');
    await sees(page, `${svg('m500')}?.ariaLabel.endsWith('last 500') === true`);
    assert.equal((await shown()).length, 21);
  },
);

test(
  'a rare asset shows what was found while older events are looked for, and nothing is read before it is opened or after',
  options,
  async (t) => {
    const service = await startService(t);
    const rare = (rows: number) => made({ rows }, {}, ['rare']);
    await report(service, [rare(1), ...Array.from({ length: 17_000 }, () => made({}, {}, ['busy'])), rare(2)]);
    // The test decides when older ranges are read.
    const page = await open(
      `${service.url}/#assets`,
      `window.asked = []; window.held = true;
      const real = fetch;
      window.fetch = async (url, more) => {
        const text = String(url);
        if (text.includes('events?')) window.asked.push(text);
        while (window.held && text.includes('until_seq=1002')) await new Promise((resolve) => setTimeout(resolve, 5));
        return real(url, more);
      };`,
    );
    await sees(page, `${count('.row')} === 2`);
    assert.deepEqual(await page.evaluate('window.asked'), []);
    await page.evaluate(`[...document.querySelectorAll('.row')].find((row) => row.innerText.includes('rare')).click()`);
    await sees(page, isComplete('Looking for older events; 1 event so far'));
    assert.match(await sentence(page, 'rows'), /^rows: 1 value /);
    assert.match(await sentence(page, 'Materializations'), /35 days before|34 days before that not read/);
    await page.evaluate('window.held = false');
    await sees(page, isComplete('2 events'));
    assert.match(await sentence(page, 'rows'), /^rows: 2 values /);
    const openStreams = async () =>
      /^assetlog_streams (\d+)$/m.exec(await (await fetch(`${service.url}/metrics`)).text())?.[1];
    assert.equal(await openStreams(), '1');
    await hide(page, true);
    await eventually('the stream is closed', async () => (await openStreams()) === '0');
    await report(service, [rare(3)]);
    await hide(page, false);
    await sees(page, `${svg('rows')}.ariaLabel.startsWith('rows: 3 values')`);
    await page.click('#detail .close');
    await eventually('the stream of a closed pane is closed', async () => (await openStreams()) === '0');
  },
);

test(
  'axe-core finds nothing in an asset, light and dark, wide, at 360 px and at 200 %, and all of it is printed',
  options,
  async (t) => {
    const service = await startService(t);
    await report(service, [
      ...Array.from({ length: 5 }, (_, index) => made({ rows: index, big: 10 ** index }, { partition: `p${index}` })),
      ...[check(true), check(false, { severity: 'WARN' }), check(false)],
    ]);
    const page = await open(addressOf(service));
    await sees(page, isComplete('8 events'));
    for (const size of [
      { width: 1280, height: 720 },
      { width: 360, height: 640 },
      { width: 640, height: 360 }, // 1280 x 720 at 200 %
    ]) {
      await page.setViewportSize(size);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await page.evaluate(`${svg('rows')}.focus()`);
        await page.keyboard.press('Home');
        assert.deepEqual(await violationsOf(page), [], `${size.width} px, ${colorScheme}`);
      }
      const cut = await page.evaluate<string[]>(`[...document.querySelectorAll('#detail text')]
      .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.textContent)`);
      assert.deepEqual(cut, []);
      assert.ok(await page.evaluate(`document.documentElement.scrollWidth <= innerWidth`), `${size.width} px fits`);
    }
    const colours = async (colorScheme: 'light' | 'dark') => {
      await page.emulateMedia({ colorScheme });
      return page.evaluate<string[]>(
        `['.point', '.passed', '.warning', '.failed'].map((kind) => getComputedStyle(document.querySelector('svg ' + kind)).fill)`,
      );
    };
    const [light, dark] = [await colours('light'), await colours('dark')];
    assert.equal(new Set([...light, ...dark]).size, 8);
    await page.emulateMedia({ media: 'print', colorScheme: 'light' });
    assert.ok(
      await page.evaluate(`document.querySelector('#list').getClientRects().length === 0`),
      'the list is not printed',
    );
    const heights = await page.evaluate<number[]>(
      `(({ scrollHeight, clientHeight }) => [scrollHeight, clientHeight])(document.querySelector('#detail'))`,
    );
    assert.equal(heights[0], heights[1], 'nothing of the asset is cut');
    assert.ok((await page.evaluate<number>('document.documentElement.scrollHeight')) >= (heights[0] ?? 0));
  },
);
