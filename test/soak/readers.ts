/** The readers of a scene: pages, long polls, streams, asset states, metrics, and commands beside the service. */

import { newFolder } from '../support/program.ts';
import { StreamClient } from '../support/reading.ts';
import { runWithin } from '../support/tools.ts';
import { errorOf } from '../support/wire.ts';
import { type Place, program, type World } from './world.ts';

const WAIT_S = 5;
const ANSWER_MS = 30_000;
const COMMAND_MS = 60_000;
const COMMANDS_EVERY_MS = 15_000;
const STREAM_CHECK_MS = 1_000;

const documents = { assets: 1_000, 'assets?failing=true': 3_000, refusals: 3_000, sources: 3_000 } as const;

export function readAll(world: World, place: Place): void {
  readPages(world, place);
  readNext(world, place);
  readStream(world, place);
  readDocuments(world, place);
}

/** Reads documents with plain requests: everything except pages of events. */
export function readDocuments(world: World, place: Place): void {
  for (const [path, everyMs] of Object.entries(documents)) {
    world.read(place, `/${path}`, everyMs, async (end) => insteadOf(await get(place, path, end)));
  }
  for (const path of ['metrics', 'readyz']) {
    const { running } = place.subject;
    world.read(place, `/${path}`, 2_000, async (end) => insteadOf(await fetch(`${running.url}/${path}`, within(end))));
  }
}

/** Reads the whole journal in pages, and starts again. */
function readPages(world: World, place: Place): void {
  let after = 0;
  world.read(place, 'pages', 500, async (end) => {
    const reply = await get(place, `events?limit=100&after_seq=${after}`, end);
    if (!reply.ok) {
      after = 0; // after a 410 the first event is next
      return reply.status === 410 ? undefined : insteadOf(reply);
    }
    const { next_after_seq: next, events } = (await reply.json()) as { next_after_seq: number; events: unknown[] };
    after = events.length === 0 ? 0 : next;
    return undefined;
  });
}

/** Waits for new events with long polls. */
function readNext(world: World, place: Place): void {
  let after: number | undefined;
  world.read(place, 'long polls', 100, async (end) => {
    const query = after === undefined ? 'last=1' : `after_seq=${after}&wait=${WAIT_S}&limit=1000`;
    const reply = await get(place, `events?${query}`, end);
    if (!reply.ok) {
      after = undefined;
      return reply.status === 410 ? undefined : insteadOf(reply);
    }
    after = ((await reply.json()) as { next_after_seq: number }).next_after_seq;
    return undefined;
  });
}

/** Reads a stream, which is opened again if it ends. A second with events counts as an answer. */
function readStream(world: World, place: Place): void {
  let stream: StreamClient | undefined;
  world.scope.after(() => stream?.close());
  world.read(place, 'streams', STREAM_CHECK_MS, async () => {
    if (stream === undefined || stream.isEnded || stream.status !== 200)
      stream = await StreamClient.open(`${place.url}/events`, { ...place.headers });
    return stream.events.splice(0).length > 0 ? undefined : `${stream.status} and no event`;
  });
}

/** Runs commands on the folder of a service, one after the other. */
export function runCommands(world: World, place: Place): void {
  const commands = {
    events: ['events', '--last', '20', '--data', place.folder],
    'events --url': ['events', '--last', '20', '--url', place.url],
    assets: ['assets', '--data', place.folder],
    verify: ['verify', place.folder],
    backup: ['backup', place.folder, '--to', newFolder(world.scope)],
  };
  let last: Promise<unknown> = Promise.resolve();
  for (const [what, args] of Object.entries(commands)) {
    world.read(place, `assetlog ${what}`, COMMANDS_EVERY_MS, async () => {
      const ran = last.catch(() => {}).then(() => runWithin(COMMAND_MS, args, { program }));
      last = ran;
      const { code, stderr } = await ran;
      return code === 0 ? undefined : `exit ${code}: ${stderr}`;
    });
  }
}

function get(place: Place, path: string, end: AbortSignal): Promise<Response> {
  return fetch(`${place.url}/${path}`, { headers: { Accept: 'application/json', ...place.headers }, ...within(end) });
}

/** @returns the status and error of a reply; undefined for a 200 */
async function insteadOf(reply: Response): Promise<string | undefined> {
  const text = await reply.text();
  return reply.ok ? undefined : `${reply.status} ${errorOf({ body: text })}`;
}

function within(end: AbortSignal) {
  return { signal: AbortSignal.any([end, AbortSignal.timeout(ANSWER_MS)]) };
}
