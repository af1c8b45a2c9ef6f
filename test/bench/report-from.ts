/**
 * Lines a second of `assetlog report --from` over one connection, beside the program of before batches with a service of its own:
 * `node --import tsx test/bench/report-from.ts [--lines 1000000] [--older-lines 100000] [--scratch FOLDER] [--node PATH]`.
 *
 * One line in 10,000 is wrong. The older program reports the first lines of the same file, one half before this one runs and one
 * half after it. Both have to say the same of the same lines, and to record the others in the order of the file.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createReadStream, createWriteStream, readdirSync, rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { buildBefore, withoutHistory } from '../support/older-program.ts';
import { countText, ratioText, table } from './figures.ts';
import { Scratch } from './scratch.ts';
import { ASSETLOG, processorSecondsOf, ROOT } from './subjects.ts';

const WRONG_EVERY = 10_000;
const SAMPLE_MS = 50;
const FILE_NAME = /^events-\d{20}\.jsonl$/;

const { values } = parseArgs({
  options: {
    lines: { type: 'string', default: '1000000' },
    'older-lines': { type: 'string', default: '100000' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

function lineOf(number: number): string {
  return `${JSON.stringify({
    type: 'materialization',
    asset_key: number % WRONG_EVERY === 0 ? [] : ['warehouse', `orders_${number}`],
    partition: '2026-11-20',
    description: 'nightly load',
    data_version: 'v1',
    metadata: { rows: number, took_s: 1.5, path: 's3://bucket/warehouse/orders' },
  })}\n`;
}

/** The lines `first` to `last`, some thousand at a time. */
function* textOf(first: number, last: number): Generator<string> {
  for (let from = first; from <= last; from += 4_000) {
    const count = Math.min(4_000, last - from + 1);
    yield Array.from({ length: count }, (_, index) => lineOf(from + index)).join('');
  }
}

interface Run {
  readonly linesPerSecond: number;
  /** Of all processors, in the program that reports and in the service together. */
  readonly processorUs: number;
  /** What it said of lines that were not recorded. */
  readonly messages: string;
}

/** Reports the lines of a file to a service with an empty journal, both from one program. */
async function reportWith(program: string, file: string, first: number, last: number, scratch: Scratch): Promise<Run> {
  const data = scratch.newFolder('data');
  const serve = ['--port', '0', '--data', data, '--log-level', 'error'];
  const service = scratch.spawn([values.node, program, ...serve], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [ready] = (await once(service.stdout!, 'data')) as [Buffer];
  const url = /http:\S+/.exec(ready.toString())?.[0] ?? '';
  const start = performance.now();
  const args = ['report', '--url', url, '--from', file];
  const client = scratch.spawn([values.node, program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [said, messages] = ['', ''];
  client.stdout?.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  client.stderr?.setEncoding('utf8').on('data', (text) => {
    messages += text;
  });
  let used = Number.NaN;
  const sampling = setInterval(() => {
    const sum = processorSecondsOf(service) + processorSecondsOf(client);
    if (!Number.isNaN(sum)) used = sum;
  }, SAMPLE_MS);
  await once(client, 'close');
  clearInterval(sampling);
  const seconds = (performance.now() - start) / 1000;
  service.kill('SIGTERM');
  await once(service, 'exit');
  const count = last - first + 1;
  const wrong = Math.floor(last / WRONG_EVERY) - Math.floor((first - 1) / WRONG_EVERY);
  assert.equal(said, `${count - wrong} recorded, ${wrong} refused\n`, messages);
  await checkOrder(data, first, last);
  rmSync(data, { recursive: true });
  return { linesPerSecond: count / seconds, processorUs: (used * 1e6) / count, messages };
}

/** Each good line is there once, in the order of the file. */
async function checkOrder(data: string, first: number, last: number): Promise<void> {
  let number = first;
  const names = readdirSync(data).filter((name) => FILE_NAME.test(name));
  for (const name of names.sort()) {
    for await (const line of createInterface({ input: createReadStream(join(data, name)) })) {
      if (number % WRONG_EVERY === 0) number += 1;
      const found = /"orders_(\d+)"/.exec(line)?.[1];
      assert.equal(Number(found), number, `line ${number} of the file is not in its place`);
      number += 1;
    }
  }
  assert.equal(number - 1 + Number(last % WRONG_EVERY === 0), last, 'lines are missing at the end');
}

/** Messages with the numbers of the lines as in the whole file. */
function renumbered(messages: string, before: number): string {
  return messages.replace(/line (\d+):/g, (_, number: string) => `line ${Number(number) + before}:`);
}

async function main(): Promise<void> {
  assert.ok(withoutHistory === false, String(withoutHistory));
  const scratch = new Scratch(values.scratch);
  const ends: (() => void)[] = [];
  try {
    const older = await buildBefore({ after: (end: () => void) => ends.push(end) });
    const lines = Number(values.lines);
    const half = Math.ceil(Number(values['older-lines']) / 2);
    const write = async (name: string, first: number, last: number) => {
      const file = join(scratch.folder, name);
      await pipeline(Readable.from(textOf(first, last)), createWriteStream(file));
      return file;
    };
    const firstHalf = await reportWith(older, await write('first.jsonl', 1, half), 1, half, scratch);
    const now = await reportWith(ASSETLOG, await write('all.jsonl', 1, lines), 1, lines, scratch);
    const file = await write('second.jsonl', half + 1, 2 * half);
    const secondHalf = await reportWith(older, file, half + 1, 2 * half, scratch);

    const said = firstHalf.messages + renumbered(secondHalf.messages, half);
    assert.ok(now.messages.startsWith(said), `${said} is not how this begins: ${now.messages.slice(0, said.length)}`);
    const halves = [firstHalf, secondHalf];
    const meanOf = (figures: readonly number[]) => figures.reduce((sum, figure) => sum + figure, 0) / figures.length;
    const olderRate = 1 / meanOf(halves.map(({ linesPerSecond }) => 1 / linesPerSecond));
    const olderUs = meanOf(halves.map(({ processorUs }) => processorUs));
    const rates = halves.map(({ linesPerSecond }) => countText(linesPerSecond)).join(' and ');
    const rows = [
      ['before batches', countText(2 * half), `${countText(olderRate)} (${rates})`, '', `${olderUs.toFixed(0)} µs`, ''],
      [
        'now',
        countText(lines),
        countText(now.linesPerSecond),
        ratioText(now.linesPerSecond / olderRate),
        `${now.processorUs.toFixed(0)} µs`,
        ratioText(olderUs / now.processorUs),
      ],
    ];
    console.log(`load average ${loadavg()[0]?.toFixed(1)} at the end\n`);
    console.log(table(['`report --from`', 'lines', 'lines/s', '÷ before', 'processor a line', 'before ÷'], rows));
  } finally {
    for (const end of ends) end();
    scratch.end();
  }
}

await main();
