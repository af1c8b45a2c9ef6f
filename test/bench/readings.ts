/**
 * The cost of 16 clients of one reading at a time for a report: `node --import tsx test/bench/readings.ts [--clients 16] [--seconds 3]
 * [--rounds 3] [--sources 10000] [--tokens 30000] [--only sources,metrics] [--program PATH] [--scratch FOLDER]`, after
 * `npm run bundle`. The service is a hosted hub with `--sources` devices, whose names are 32 emoji, and `--tokens` tokens. In each
 * round one client reports, one report after the other, alone, beside the readers of each kind, and beside as many clients that
 * read nothing. Only for `/test/faults` the service is in test mode.
 */

import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sha256 } from '../../src/deployments/tokens.ts';
import { sealedFile } from '../../src/journal/sealed.ts';
import { sourceOf } from '../support/forwarding.ts';
import { mebibytesText, medianOf, millisecondsText, ratioText, table } from './figures.ts';
import { writeJournal } from './large-journal.ts';
import { reportOneByOne } from './one-by-one.ts';
import { inScratch, type Scratch } from './scratch.ts';
import { ASSETLOG, ROOT, type Server, startAssetlog } from './subjects.ts';

const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '16' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    sources: { type: 'string', default: '10000' },
    tokens: { type: 'string', default: '30000' },
    only: { type: 'string', default: '' },
    program: { type: 'string', default: ASSETLOG },
    scratch: { type: 'string', default: ROOT },
    /** In the process of the readers: the URL to read. */
    read: { type: 'string', default: '' },
    deaf: { type: 'boolean', default: false },
  },
});

const EVENTS = 20_000;
const TOKEN = 'asl_of_the_hub';
const CHECK = JSON.stringify({ check_name: 'fits', passed: true });
const HEADERS = { 'Service-Cloud-Api-Token': TOKEN, 'Content-Type': 'application/json' };
const KINDS = {
  events: '/hub/events?limit=1000',
  assets: '/hub/assets',
  sources: '/hub/sources',
  refusals: '/hub/refusals',
  forward: `/hub/forward/${sourceOf(1)}`,
  metrics: '/metrics',
  openapi: '/openapi.json',
  readyz: '/readyz',
  page: '/hub/',
  faults: '/test/faults',
};

/** Reads a URL repeatedly, or requests it and reads nothing. */
function read(url: string): void {
  const agent = new Agent({ keepAlive: true });
  setInterval(() => {}, 60_000); // sockets that are not read do not keep the process alive
  for (let client = 0; client < Number(values.clients); client += 1) {
    if (values.deaf) {
      const { port, pathname, search } = new URL(url);
      const head = `GET ${pathname}${search} HTTP/1.1\r\nHost: localhost\r\nService-Cloud-Api-Token: ${TOKEN}\r\n\r\n`;
      const ask = () =>
        connect({ port: Number(port), onread: { buffer: Buffer.alloc(1), callback: () => false } })
          .on('error', () => {})
          .on('close', () => setTimeout(ask, 100))
          .write(head);
      ask();
      continue;
    }
    const ask = () =>
      request(url, { agent, headers: { ...HEADERS, Accept: 'text/html,application/json' } }, (reply) =>
        reply.resume().on('end', ask),
      )
        .on('error', () => setTimeout(ask, 100))
        .end();
    ask();
  }
}

/** @returns the folder of a hub after a stop */
function writeHub(data: string): readonly string[] {
  const folder = join(data, 'hub');
  mkdirSync(folder, { recursive: true });
  writeJournal(folder, EVENTS, EVENTS);
  const ids = Array.from({ length: Number(values.sources) }, (_, at) => sourceOf(at));
  const name = '🛰'.repeat(32);
  const marks = ids.map((id) => [id, 1, id]);
  const seen = ids.map((id, at) => [id, { name, seenMs: Date.now() - 1e8 + at, lost: 0, lastSeq: 1 }]);
  writeFileSync(
    join(folder, 'forward-sources.json'),
    sealedFile(`{"seq":${EVENTS},"sources":${JSON.stringify(marks)}`),
  );
  writeFileSync(join(folder, 'forward-seen.json'), sealedFile(`{"sources":${JSON.stringify(seen)}`));
  const entry = (text: string) => ({ name: 'ci', sha256: sha256(text).toString('hex'), notAfter: '2999-01-01' });
  const others = Array.from({ length: Math.ceil(Number(values.tokens) / 3) }, (_, at) => ({
    name: `d${at}`,
    tokens: [0, 1, 2].map((token) => entry(`${at} ${token}`)),
  }));
  const hub = { name: 'hub', tokens: [{ ...entry(TOKEN), may: ['report', 'read', 'forward'] }] };
  const file = join(data, '..', 'deployments.json');
  writeFileSync(file, JSON.stringify({ deployments: [hub, ...others] }), { mode: 0o600 });
  return ['--deployments', file];
}

async function beside(
  scratch: Scratch,
  service: Server,
  deployment: string,
  path: string,
  deaf: boolean,
): Promise<number[]> {
  const program = [
    process.execPath,
    '--import',
    'tsx',
    import.meta.filename,
    '--read',
    `${service.url}${path}`,
    '--clients',
    values.clients,
  ];
  const readers = scratch.spawn([...program, ...(deaf ? ['--deaf'] : [])], {
    stdio: ['ignore', 'ignore', 'inherit'],
    cwd: ROOT,
  });
  const ended = once(readers, 'exit');
  await sleep(2_000); // until the readings are under way
  const times = await reportOneByOne(`${service.url}${deployment}`, Number(values.seconds), HEADERS);
  readers.kill('SIGKILL');
  await ended;
  return times;
}

async function main(scratch: Scratch): Promise<void> {
  const data = join(scratch.newFolder('hub'), 'data');
  const args = writeHub(data);
  const place = { scratch, node: process.execPath, program: values.program };
  const hub = await startAssetlog({ ...place, data, args });
  const tests = await startAssetlog({ ...place, data: scratch.newFolder('tests'), args: ['--test'] });
  const post = (key: string) =>
    fetch(`${hub.url}/hub/report_asset_check/${key}`, { method: 'POST', headers: HEADERS, body: CHECK });
  while ((await post('a')).status !== 200) await sleep(500); // until the journal is open
  for (let at = 0; at < 200; at += 1) await post(`x/${'y'.repeat(5_000)}`); // refused: the key is too long
  const only = values.only === '' ? Object.keys(KINDS) : values.only.split(',');
  const rows: string[][] = [];
  for (const kind of only) {
    const [service, deployment] = kind === 'faults' ? [tests, ''] : [hub, '/hub'];
    for (const deaf of [false, true]) {
      const pairs: { alone: number; loaded: number; worst: number; count: number }[] = [];
      for (let round = 0; round < Number(values.rounds); round += 1) {
        const alone = medianOf(await reportOneByOne(`${service.url}${deployment}`, Number(values.seconds), HEADERS));
        const times = await beside(scratch, service, deployment, KINDS[kind as keyof typeof KINDS], deaf);
        pairs.push({ alone, loaded: medianOf(times), worst: Math.max(...times), count: times.length });
      }
      const of = (figure: (pair: (typeof pairs)[number]) => number) => medianOf(pairs.map(figure));
      rows.push([
        `${kind}${deaf ? ', nothing read' : ''}`,
        millisecondsText(of(({ alone }) => alone)),
        millisecondsText(of(({ loaded }) => loaded)),
        ratioText(of(({ alone, loaded }) => loaded / alone)),
        millisecondsText(of(({ worst }) => worst)),
        mebibytesText(service.memoryBytes()),
      ]);
      console.error(rows.at(-1)?.join(' | '));
    }
  }
  console.log(table(['reading', 'a report alone', 'beside', 'ratio', 'the longest', 'resident'], rows));
  await hub.stop();
  await tests.stop();
}

if (values.read === '') await inScratch(values.scratch, main);
else read(values.read);
