/**
 * What an idempotency key costs a report: `node --import tsx test/bench/keys.ts [--rounds 7] [--seconds 2] [--connections 64]
 * [--scratch FOLDER] [--node PATH]`.
 *
 * Two services get the same load in turn, and begin each round alternately. Each report has a header with a text of its own:
 * `Idempotency-Key` for one service, and one with a name of the same length that is ignored for the other.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { countText, medianOf, ratioText, table } from './figures.ts';
import { DONE, load, PATH, reportOf, type Script } from './load.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { countLines, ROOT, type Server, startAssetlog } from './subjects.ts';

const REPORT_BYTES = 300;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '64' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

/** One of the two services, and what was measured of it. */
interface Side {
  readonly name: string;
  readonly header: string;
  readonly data: string;
  readonly server: Server;
  /** Reports a second, by round. */
  readonly rates: number[];
  /** Processor time of a report in microseconds, by round. */
  readonly costsUs: number[];
  reports: number;
}

async function startSide(scratch: Scratch, name: string, header: string): Promise<Side> {
  const data = scratch.newFolder('data');
  const server = await startAssetlog({ scratch, node: values.node, data });
  return { name, header, data, server, rates: [], costsUs: [], reports: 0 };
}

/** @returns a script whose requests all have another value of the header */
function scriptOf(scratch: Scratch, header: string): Script {
  const body = reportOf(REPORT_BYTES);
  const file = join(scratch.newFolder('script'), 'post.lua');
  const head = [`POST ${PATH} HTTP/1.1`, 'Host: localhost', 'Content-Type: application/json'];
  const start = `${head.join('\\r\\n')}\\r\\n${header}: run-${Date.now()}/`;
  const end = `\\r\\nContent-Length: ${body.length}\\r\\n\\r\\n`;
  const request = `local count = 0
request = function()
  count = count + 1
  return "${start}" .. count .. "${end}" .. '${body}'
end`;
  writeFileSync(file, `${request}\n${DONE}\n`);
  return { file, body };
}

async function measure(scratch: Scratch, side: Side, seconds: number): Promise<void> {
  const script = scriptOf(scratch, side.header);
  const before = side.server.processorSeconds();
  const result = await load(scratch, side.server.url, script, Number(values.connections), seconds);
  const usedSeconds = side.server.processorSeconds() - before;
  if (result.errors > 0) throw new Error(`${side.name}: ${result.errors} errors`);
  side.rates.push(result.requests / result.seconds);
  side.costsUs.push((usedSeconds * 1e6) / result.requests);
  side.reports += result.requests;
}

async function main(scratch: Scratch): Promise<void> {
  const plain = await startSide(scratch, 'without a key', 'Unimportant-Key');
  const keyed = await startSide(scratch, 'with a key', 'Idempotency-Key');
  for (const side of [plain, keyed]) {
    await measure(scratch, side, 1); // V8 compiles
    side.rates.length = 0;
    side.costsUs.length = 0;
  }
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const side of round % 2 === 0 ? [plain, keyed] : [keyed, plain]) {
      await measure(scratch, side, Number(values.seconds));
    }
  }
  const rows = [plain, keyed].map(({ name, rates, costsUs }) => {
    const ratio = medianOf(costsUs.map((cost, round) => cost / plain.costsUs[round]!));
    return [name, countText(medianOf(rates)), medianOf(costsUs).toFixed(1), ratioText(ratio)];
  });
  console.log(table(['', 'reports/s', 'processor time of a report, µs', '÷ without a key'], rows));
  for (const { name, server, data, reports } of [plain, keyed]) {
    await server.stop();
    if (countLines(data) < reports) throw new Error(`${name}: the journal lacks lines`);
  }
}

await inScratch(values.scratch, main);
