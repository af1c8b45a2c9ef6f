/** The scenes: their services, reports, readings and faults. `soak.ts` judges all of them by the same rules. */

import { copyFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startCuttingProxy } from '../support/cutting-proxy.ts';
import { writeDeployments } from '../support/deployments.ts';
import { forwardFile } from '../support/forwarded.ts';
import { freePort, newFolder } from '../support/program.ts';
import { startPlainUpstream } from '../world/plain-server.ts';
import { readAll, readDocuments, runCommands } from './readers.ts';
import type { Request, World } from './world.ts';

export interface Scene {
  readonly name: string;
  readonly about: string;
  lay(world: World): Promise<void>;
}

const ASSETS = 100;
/** The approximate size of a line without its filling. */
const LINE_BYTES = 250;
const GIB = 1024 ** 3;
const SMALL_SEGMENTS = ['--segment-bytes', '64KiB'];

/** An item of one of the three kinds, for one of `ASSETS` assets, so that asset states do not grow over time. */
function itemOf(name: string, n: number, fillingBytes = 60) {
  const common = { asset_key: ['soak', `a${n % ASSETS}`], metadata: { n: name, filling: 'x'.repeat(fillingBytes) } };
  if (n % 3 === 0) return { type: 'materialization', ...common, data_version: `v${n}` };
  if (n % 3 === 1) return { type: 'observation', ...common };
  return { type: 'check', ...common, check_name: 'fresh', passed: n % 5 !== 0 };
}

const single =
  (sender = 'one', fillingBytes?: number) =>
  (n: number): Request => {
    const { type, ...body } = itemOf(`${sender}.${n}`, n, fillingBytes);
    return { what: `${type}/`, body, expects: [200], names: [`${sender}.${n}`] };
  };

const batch =
  (sender: string, items: number) =>
  (n: number): Request => {
    const names = Array.from({ length: items }, (_, at) => `${sender}.${n}.${at}`);
    const body = names.map((name, at) => `${JSON.stringify(itemOf(name, n * items + at))}\n`).join('');
    return { what: 'batch/', body, headers: { 'Content-Type': 'application/x-ndjson' }, expects: [200], names };
  };

/** Reports with keys. Some are sent again, and a few with another event. */
function keyed(n: number): Request {
  const earlier = n % 5 === 4 && n > 200 ? n - 199 : n; // n - 199 is not a repetition itself, so its key was sent
  const isOther = earlier !== n && n % 25 === 4;
  const headers = { 'Idempotency-Key': `key-${earlier}` };
  const request = single(isOther ? 'other' : 'keyed')(earlier);
  return { ...request, headers, expects: [isOther ? 422 : 200], names: isOther ? [] : request.names };
}

/** The destination gets less than a third of the reports. */
const slow = { perSecond: 80, answerMs: 40, lineBytes: 600 };
/** Retention removes the first file with unsent events for the slow destination after a third of the scene. */
const retainedFor = (seconds: number) =>
  `${Math.round(((slow.perSecond - 1_000 / slow.answerMs) * slow.lineBytes * seconds) / 3)}`;

/** Each window of measurement has the same number of occurrences. */
const oncePerWindow = ({ seconds }: World) => (seconds * 1_000) / 6;

export const scenes: readonly Scene[] = [
  {
    name: 'slow',
    about:
      'a destination that accepts a third of the events, and retention that removes the others before they are sent',
    lay: async (world) => {
      const upstream = await startPlainUpstream(world.scope);
      upstream.delayMs = slow.answerMs;
      const limits = ['--retain-bytes', retainedFor(world.seconds), '--when-behind', 'remove'];
      const device = world.place(await world.serve('device', ['--forward-to', upstream.url, ...limits]));
      world.report(device, slow.perSecond, single('one', slow.lineBytes - LINE_BYTES));
      readDocuments(world, device); // readers of events would hide the cost of the sender
    },
  },
  {
    name: 'refusing',
    about: 'a destination that refuses every third event, and a hook that refuses every second one',
    lay: async (world) => {
      const upstream = await startPlainUpstream(world.scope);
      let asked = 0;
      upstream.answer = () => (++asked % 3 === 0 ? [400, '{"error":"no"}'] : undefined);
      const hook = await startPlainUpstream(world.scope);
      hook.answer = () => [++asked % 2 === 0 ? 422 : 200, '{}'];
      const hooked = ['--on-failed-check', `${hook.url}/report_asset_check/`];
      const device = world.place(await world.serve('device', ['--forward-to', upstream.url, ...hooked]));
      world.report(device, 100, single());
      readAll(world, device);
    },
  },
  {
    name: 'lost-replies',
    about: 'a hub and a plain destination behind links that are cut in the middle of replies',
    lay: async (world) => {
      const hub = await world.serve('hub', []);
      const upstream = await startPlainUpstream(world.scope);
      const cut = () => ({
        requestBytes: Number.POSITIVE_INFINITY,
        replyBytes: 500 + Math.floor(Math.random() * 30_000),
      });
      const links = await Promise.all([hub, upstream].map((to) => startCuttingProxy(world.scope, portOf(to), cut)));
      const file = join(newFolder(world.scope), 'forward.json');
      const [toHub = '', toPlain = ''] = links.map(({ url }) => url);
      forwardFile(file, { name: 'upstream', to: toHub }, { name: 'plain', to: toPlain });
      const device = world.place(await world.serve('device', ['--forward', file]));
      world.feeds(device, world.place(hub));
      world.report(device, 80, single());
      readAll(world, device);
    },
  },
  {
    name: 'away',
    about: 'a destination that goes away and comes back',
    lay: async (world) => {
      const upstream = await startPlainUpstream(world.scope);
      const device = world.place(await world.serve('device', ['--forward-to', upstream.url]));
      world.every(oncePerWindow(world) / 2, async () => {
        await upstream.kill();
        await world.pause(oncePerWindow(world) / 2);
        await upstream.start();
      });
      world.report(device, 100, single());
      readAll(world, device);
    },
  },
  {
    name: 'hub-restarts',
    about: 'a hub that is stopped and killed by turns, and starts again at once',
    lay: async (world) => {
      const port = `${await freePort(world.scope)}`;
      const hub = await world.serve('hub', ['--port', port], { isRestarted: true });
      const device = world.place(await world.serve('device', ['--forward-to', hub.running.url]));
      world.feeds(device, world.place(hub));
      let restarts = 0;
      world.every(oncePerWindow(world) / 2, () => world.restart(hub, ++restarts % 2 === 0 ? 'SIGKILL' : 'SIGTERM'));
      world.report(device, 100, single());
      readAll(world, device);
    },
  },
  {
    name: 'retention',
    about:
      'retention that removes files all the time, of a journal beyond its bytes and on a disk with too little free space',
    lay: async (world) => {
      const { bavail, bsize } = statfsSync(newFolder(world.scope));
      const beyondFree = `${bavail * bsize + 100 * GIB}`;
      for (const limits of [
        ['--retain-bytes', '1500000'],
        ['--keep-free', beyondFree],
      ]) {
        const place = world.place(await world.serve(limits[0]!.slice(2), limits));
        world.report(place, 60, single('one', 1_500)); // large, so that files are removed during readings
        readAll(world, place);
      }
    },
  },
  {
    name: 'deployments',
    about: 'forty deployments whose file is read again and again, beside clients with wrong tokens',
    lay: async (world) => {
      const names = Array.from({ length: 40 }, (_, at) => `site-${at}`);
      const { file, args, tokenOf } = writeDeployments(world.scope, names);
      const service = await world.serve('hosted', args);
      const places = names.map((name) => world.place(service, name, tokenOf(name)));
      for (const place of places) world.report(place, 2.5, single());
      readAll(world, places[0]!);
      world.every(2_000, async () => {
        copyFileSync(file, `${file}.new`);
        renameSync(`${file}.new`, file);
        process.kill(service.running.pid, 'SIGHUP');
      });
      const stranger = world.place(service, names[0], 'asl_wrong');
      world.report(stranger, 10, (n) => ({ ...single('stranger')(n), expects: [401, 429], names: [] }));
    },
  },
  {
    name: 'keys',
    about: 'more idempotency keys than are remembered, with repeated reports and with keys of other events',
    lay: async (world) => {
      const args = ['--idempotency-keys', '2000', ...SMALL_SEGMENTS];
      const service = world.place(await world.serve('service', args));
      world.report(service, 120, keyed);
      readAll(world, service);
    },
  },
  {
    name: 'readers',
    about: 'several readers of each kind, commands beside the service, and requests that are refused',
    lay: async (world) => {
      const service = world.place(await world.serve('service', ['--log-level', 'debug']));
      world.report(service, 90, single());
      world.report(service, 20, () => ({ what: 'check/a', body: '{"passed": tru', expects: [400], names: [] }));
      for (let each = 0; each < 4; each += 1) readAll(world, service);
      runCommands(world, service);
    },
  },
  {
    name: 'hub',
    about:
      'a hosted hub that accepts the events of three devices, the last with --ack, and its own reports, in batches and single',
    lay: async (world) => {
      const names = ['north', 'south', 'west'];
      const { args, tokenOf } = writeDeployments(world.scope, names);
      const hub = await world.serve('hub', args);
      const senders = [
        (place) => world.report(place, 30, single('a')),
        (place) => world.report(place, 3, batch('b', 10)),
        (place) => {
          world.report(place, 10, single('c'));
          world.report(place, 1, batch('d', 10));
        },
      ] satisfies ((place: ReturnType<World['place']>) => void)[];
      for (const [at, name] of names.entries()) {
        const tokenFile = join(newFolder(world.scope), 'token');
        writeFileSync(tokenFile, tokenOf(name), { mode: 0o600 });
        const to = ['--forward-to', `${hub.running.url}/${name}`, '--forward-token-file', tokenFile];
        const waits = name === 'west' ? ['--ack', 'upstream'] : [];
        const device = world.place(await world.serve(name, ['--name', name, ...to, ...waits]));
        const own = world.place(hub, name, tokenOf(name));
        world.feeds(device, own);
        senders[at]!(device);
        world.report(own, 5, single('own'));
        readAll(world, at === 0 ? own : device);
      }
    },
  },
];

function portOf(to: { readonly port: number } | { readonly running: { readonly port: number } }): number {
  return 'running' in to ? to.running.port : to.port;
}
