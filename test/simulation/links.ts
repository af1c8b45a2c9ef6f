/** What goes wrong with requests on their way: as the plan says, and with a few on each link by chance. */

import type { HttpReply } from '../../src/client/connection.ts';
import { type Chance, Strikes } from '../world/chance.ts';
import { GATEWAY, type MessageFault } from '../world/network.ts';
import { type FaultKind, type LinkFault, type PlannedFault, requestKinds } from './faults.ts';
import type { Machine } from './machine.ts';
import type { Targets } from './strikes.ts';
import type { Upstream } from './upstream.ts';

/** What a link to a plain upstream leads to; undefined for another link. */
type Plain = Pick<Upstream, 'wants'> | undefined;

/** Between two strikes at the requests on one link: three of a hundred. */
const REQUESTS = 33;
/** Numbers of strikes at all links are below. */
const NUMBERS_MAX = 10_000_000;
const KINDS = [...requestKinds, 'forged reply'] as const;
/** Statuses of a refusal; some of them are what a server that is no hub answers to an ask. */
const REFUSALS = [400, 403, 404, 413, 415, 422];
const NO_HUB = [200, 400, 404, 405];

interface Forged {
  readonly isDelivered: boolean;
  readonly reply: HttpReply;
}

/**
 * Each link has a stream of chance, and numbers, of its own, so that leaving one strike out changes little of the others.
 * @param begins asked about each strike by its number, from 1
 * @returns what happens to the next request on a link
 */
export function strikeRequests(
  begins: (number: number, kind: FaultKind) => boolean,
  targets: () => Targets,
): (link: string) => MessageFault | undefined {
  const made = new Map<string, Strikes>();
  return (link) => {
    const ofLink = () => targets().world.chance(`requests ${link}`);
    const strikes = made.get(link) ?? new Strikes(link, ofLink(), () => REQUESTS, NUMBERS_MAX);
    made.set(link, strikes);
    const struck = strikes.next();
    if (struck === undefined) return undefined;
    const { number, chance } = struck;
    const kind = chance.oneOf(KINDS);
    if (!begins(number, kind)) return undefined;
    if (kind === 'reply cut') return { kind };
    const { upstreams, engines, forwards, machines } = targets();
    const [from, host] = link.split(' to ') as [string, string];
    const answer = { kind, ...replyOf(kind, upstreams.get(host), chance) };
    const isAtHub = forwards.includes(link) && !upstreams.has(host) && !engines.has(host);
    return isAtHub && NO_HUB.includes(answer.reply.status)
      ? { ...answer, mayCome: () => knowsHub(machines.get(from)!, host) }
      : answer;
  };
}

function replyOf(kind: (typeof KINDS)[number], plain: Plain, chance: Chance): Forged {
  switch (kind) {
    case 'gateway error':
      return { isDelivered: chance.happens(0.5), reply: page(chance.oneOf([502, 504])) };
    case 'refusal':
      return { isDelivered: false, reply: inJson(chance.oneOf(REFUSALS)) };
    case 'too many requests':
      return { isDelivered: false, reply: inJson(429, { 'retry-after': `${chance.integer(1, 3)}` }) };
    default:
      return forged(plain, chance);
  }
}

function page(status: number): HttpReply {
  return { status, headers: { 'content-type': 'text/html' }, body: '<html>' };
}

function inJson(status: number, headers: HttpReply['headers'] = {}): HttpReply {
  const body = JSON.stringify({ error: `${GATEWAY} answers ${status}` });
  return { status, headers: { 'content-type': 'application/json', ...headers }, body };
}

/** As the plan says. */
export function disturbLink(
  kind: LinkFault,
  { target, lengthMs }: PlannedFault,
  chance: Chance,
  { world, network, upstreams, machines, forwards }: Targets,
): void {
  const [from, host] = target.split(' to ') as [string, string];
  const link = network.link(from, host);
  if (kind === 'link down') {
    link.isDown = true;
    const up = () => {
      link.isDown = false;
    };
    world.plan(lengthMs, 'link up', up, null);
    return;
  }
  const first = forged(upstreams.get(host), chance);
  // After two pages in a row a device takes a hub that it does not know, or not any more, for a plain upstream.
  const mayCome = () => !forwards.includes(target) || knowsHub(machines.get(from)!, host);
  const isRun = kind === 'forged reply' && first.reply.status === 200 && mayCome();
  // After three tries in doubt the next event is sent, which may be in doubt as well.
  const isMany = isRun || (upstreams.has(host) && chance.happens(0.5));
  for (let left = chance.integer(isMany ? 3 : 1, isMany ? 8 : 4); left > 0; left -= 1) {
    // Some come while the request before them is handled.
    const ms = chance.exponentialMs(chance.oneOf([2, 100, 5_000, 60_000]));
    if (kind === 'delayed') link.faults.push({ kind, ms });
    else if (kind === 'request lost' || kind === 'reply lost') link.faults.push({ kind });
    else if (kind === 'doubled') link.faults.push({ kind, afterMs: ms });
    else if (isRun) link.faults.push({ kind, ...first, mayCome });
    else {
      const { reply, isDelivered } = forged(upstreams.get(host), chance);
      const last = link.faults.at(-1);
      const isPageAgain = reply.status === 200 && last?.kind === kind && last.reply.status === 200;
      link.faults.push({ kind, isDelivered, reply: isPageAgain ? { ...reply, status: 502 } : reply });
    }
  }
}

/** Whether the cursors of a hub say so durably: nothing makes a plain upstream of it. */
function knowsHub({ journals }: Machine, host: string): boolean {
  const cursors = journals.flatMap(({ disk }) =>
    disk.durableNames().flatMap((name) => (name.endsWith('.cursor') ? [disk.durableBytes(name)!.toString()] : [])),
  );
  const isOf = (cursor: string) => cursor.includes(`"to":"http://${host}`) || cursor.includes('"to":""');
  return cursors.some((cursor) => isOf(cursor) && cursor.includes('"kind":"hub"'));
}

/**
 * What a proxy answers. A 503 says that nothing was recorded, so that it is not forged after a request was delivered. A plain
 * upstream cannot be asked, so that what says no to its sender, a 401 or a page, is not forged there after a delivery either. To the
 * sender of a hook a page says yes.
 */
function forged(plain: Plain, chance: Chance): Forged {
  const isDelivered = chance.happens(0.5);
  const maybe = [502, 504];
  const no = isDelivered && plain !== undefined ? [] : [401, 200, 200];
  const status = chance.oneOf(isDelivered ? [...maybe, ...no] : [...maybe, ...no, 503]);
  return { isDelivered, reply: page(status === 200 && plain?.wants !== undefined ? 502 : status) };
}
