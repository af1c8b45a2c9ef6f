/**
 * Reports a second of a service whose forwarder is at work, beside the same service that does not forward:
 * `node --import tsx test/bench/forward-reports.ts [--rounds 7] [--seconds 4] [--connections 64] [--to hub|plain] [--delay-ms 200]
 * [--scratch FOLDER] [--node PATH]`, after `npm run bundle`.
 *
 * Both run all the time, and get the load in turn: first one, then the other, and in the next round the other way round. The
 * destination holds its replies while the service without a forwarder is loaded, so that only one of them works at a time.
 */

import { parseArgs } from 'node:util';
import { countText, medianOf, millisecondsText, ratioText, spreadOf, spreadText, table } from './figures.ts';
import { load, reportOf, type Told, writeScript } from './load.ts';
import { Scratch } from './scratch.ts';
import { startSlowDestination } from './slow-hub.ts';
import { ROOT, startAssetlog } from './subjects.ts';

const BODY_BYTES = 300;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '4' },
    connections: { type: 'string', default: '64' },
    to: { type: 'string', default: 'hub' },
    'delay-ms': { type: 'string', default: '200' },
    scratch: { type: 'string', default: ROOT },
    node: { type: 'string', default: process.execPath },
  },
});

interface Figure {
  readonly rate: number;
  readonly p99Ms: number;
  /** Processor time of each report in all threads, in microseconds. */
  readonly costUs: number;
}

async function main(): Promise<void> {
  const scratch = new Scratch(values.scratch);
  const destination = await startSlowDestination(values.to === 'hub' ? 'hub' : 'plain', Number(values['delay-ms']));
  try {
    const start = (args: readonly string[]) =>
      startAssetlog({ scratch, node: values.node, data: scratch.newFolder('data'), args });
    const services = { forwards: await start(['--forward-to', destination.url]), alone: await start([]) };
    const script = writeScript(scratch, reportOf(BODY_BYTES));
    const measure = async (name: keyof typeof services): Promise<Figure> => {
      const service = services[name];
      destination.isHeld = name === 'alone';
      const run = (seconds: number): Promise<Told> =>
        load(scratch, service.url, script, Number(values.connections), seconds);
      await run(1);
      const usedSeconds = service.processorSeconds();
      const { requests, seconds, p99Ms, errors } = await run(Number(values.seconds));
      if (errors > 0) throw new Error(`${errors} reports failed`);
      const costUs = ((service.processorSeconds() - usedSeconds) * 1e6) / requests;
      return { rate: requests / seconds, p99Ms, costUs };
    };
    const pairs: Record<keyof typeof services, Figure>[] = [];
    let sent = 0;
    for (let round = 0; round < Number(values.rounds); round += 1) {
      const before = destination.events();
      if (round % 2 === 0) pairs.push({ forwards: await measure('forwards'), alone: await measure('alone') });
      else {
        const alone = await measure('alone');
        pairs.push({ alone, forwards: await measure('forwards') });
      }
      sent += destination.events() - before;
    }
    const row = (name: keyof typeof services) => [
      name === 'alone' ? 'without a forwarder' : `with one at work (${values.to}, ${values['delay-ms']} ms a reply)`,
      countText(medianOf(pairs.map((pair) => pair[name].rate))),
      millisecondsText(medianOf(pairs.map((pair) => pair[name].p99Ms))),
      medianOf(pairs.map((pair) => pair[name].costUs)).toFixed(1),
    ];
    console.log(table(['service', 'reports/s', '99th percentile', 'µs of processor'], [row('alone'), row('forwards')]));
    const ratios = pairs.map(({ forwards, alone }) => forwards.rate / alone.rate);
    console.log(`\nratio ${ratioText(medianOf(ratios))}, quartiles ${spreadText(spreadOf(ratios))}`);
    console.log(`${countText(sent)} events were sent meanwhile`);
    for (const service of Object.values(services)) await service.stop();
  } finally {
    destination.close();
    scratch.end();
  }
}

await main();
