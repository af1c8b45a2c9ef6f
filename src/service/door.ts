/** The requests of commands to a running service, over the lock of a journal: see `journal/lock/protocol.ts`. */

import type { AllAssets } from '../assets/all-assets.ts';
import { type Forget, forgetTest } from '../assets/forget.ts';
import { isObject, type JsonObject, readObject } from '../config/json-file.ts';
import type { RetryResult } from '../forward/pipe/retry.ts';
import type { DestinationStatus } from '../forward/pipe/status.ts';
import type { SeqRange } from '../forward/position.ts';
import { type Disk, describe } from '../journal/disk.ts';
import { type Door, refusal } from '../journal/lock/protocol.ts';
import { takeTicket } from '../journal/lock/tell.ts';
import { erasedReader } from '../reading/events-query.ts';
import type { Notices } from '../telemetry/log.ts';
import type { Erased, Eraser } from './eraser.ts';
import type { DataFolder } from './folder.ts';
import type { Peers } from './peers.ts';
import type { Setup } from './setup.ts';

export type DoorRequest =
  | { readonly do: 'forward status' }
  /** See `LetterChanges`. */
  | { readonly do: 'retry'; readonly name: string; readonly seqs?: SeqRange | undefined }
  | { readonly do: 'give up'; readonly name: string; readonly seqs: SeqRange }
  | { readonly do: 'forget assets'; readonly forget: Forget }
  | { readonly do: 'forget source'; readonly id: string }
  /** Each of the queries has the form of a query of `POST /erase`. */
  | { readonly do: 'erase'; readonly queries: readonly string[] }
  /** See `Hub.bind`. */
  | {
      readonly do: 'bind sources';
      readonly id?: string | undefined;
      readonly bound?: string | undefined;
      readonly token?: string | undefined;
    };

/** The member `done` of an answer. */
export interface DoorAnswers {
  readonly 'forward status': readonly DestinationStatus[];
  readonly retry: RetryResult;
  /** Number of letters. */
  readonly 'give up': number;
  /** Number of assets. */
  readonly 'forget assets': number;
  /** Whether the source was known. */
  readonly 'forget source': boolean;
  /** Number of sources. */
  readonly 'bind sources': number;
  readonly erase: Erased;
}

export interface DoorParts {
  readonly setup: Pick<Setup, 'notices' | 'limits'>;
  readonly folder: DataFolder;
  readonly assets: AllAssets;
  readonly peers: Peers;
  readonly eraser: Eraser;
}

/** @returns a function that answers the requests to the lock of a deployment's journal */
export function doorOf({ setup, folder, ...parts }: DoorParts): (deployment: string | undefined) => Door['answer'] {
  const readErased = erasedReader(setup.limits);
  return (deployment) => {
    const disk = folder.diskOf(deployment);
    const own = { ...parts, readErased, deployment, disk, notices: setup.notices.with({ folder: disk.folder }) };
    return (text, gone) => answer(text, gone, own);
  };
}

interface JournalParts extends Omit<DoorParts, 'setup' | 'folder'> {
  readonly readErased: ReturnType<typeof erasedReader>;
  readonly deployment: string | undefined;
  readonly disk: Disk;
  readonly notices: Notices;
}

/** Never rejects. */
async function answer(text: string, gone: AbortSignal, parts: JournalParts): Promise<string> {
  const { disk, notices } = parts;
  const members = readObject(text);
  try {
    if (!(await takeTicket(disk, members?.['ticket']))) return refusal('the request names no file of the folder');
    const request = members && readRequest(members);
    if (request === undefined) return refusal('the service does not know the request; restart it');
    return JSON.stringify({ done: await carryOut(request, gone, parts) });
  } catch (error) {
    const problem = describe(error as Error);
    notices.warn('a request of a command could not be carried out', { request: `${members?.['do']}`, problem });
    return refusal(problem);
  }
}

async function carryOut(
  request: DoorRequest,
  gone: AbortSignal,
  { deployment, assets, peers, eraser, readErased, notices }: JournalParts,
): Promise<DoorAnswers[keyof DoorAnswers]> {
  const pipeTo = (name: string) => {
    const pipe = peers.pipesOf(deployment).get(name);
    if (pipe === undefined) throw new Error(`the service does not forward to ${name}`);
    return pipe;
  };
  switch (request.do) {
    case 'forward status':
      return peers.statusesOf(deployment);
    case 'retry':
      return pipeTo(request.name).letterChanges.retry(request.seqs, gone);
    case 'give up':
      return pipeTo(request.name).letterChanges.giveUp(request.seqs);
    case 'forget assets': {
      const count = await assets.of(deployment).forget(forgetTest(request.forget), gone);
      if (count > 0) notices.info('assets were forgotten', { assets: count });
      return count;
    }
    case 'forget source': {
      const wasKnown = await peers.hub.forget(deployment, request.id);
      if (wasKnown) notices.info('a source was forgotten', { source: request.id });
      return wasKnown;
    }
    case 'erase': {
      const asked = request.queries.map((query) => readErased({ query, body: Buffer.alloc(0) }));
      const filters = asked.map(({ filter }) => filter(Date.now()));
      return eraser.erase(deployment, filters, asked[0]!.all, gone);
    }
    case 'bind sources': {
      const count = await peers.hub.bind(deployment, request.id, request.bound, request.token);
      if (count > 0) notices.info('sources were bound to a token', { sources: count, token: request.token ?? 'any' });
      return count;
    }
  }
}

/** @returns undefined for a text that is not a request of this version */
function readRequest({ do: what, name, seqs, forget, id, bound, token, queries }: JsonObject): DoorRequest | undefined {
  const isRange = isObject(seqs) && Number.isSafeInteger(seqs['first']) && Number.isSafeInteger(seqs['last']);
  switch (what) {
    case 'forward status':
      return { do: what };
    case 'retry':
      if (typeof name !== 'string' || !(seqs === undefined || isRange)) return undefined;
      return { do: what, name, seqs: seqs as SeqRange | undefined };
    case 'give up':
      return typeof name === 'string' && isRange ? { do: what, name, seqs: seqs as unknown as SeqRange } : undefined;
    case 'forget assets':
      return isForget(forget) ? { do: what, forget } : undefined;
    case 'forget source':
      return typeof id === 'string' ? { do: what, id } : undefined;
    case 'erase':
      return isTexts(queries) ? { do: what, queries } : undefined;
    case 'bind sources': {
      const named = { ...textIn('id', id), ...textIn('bound', bound) };
      return Object.keys(named).length === 1 ? { do: what, ...named, ...textIn('token', token) } : undefined;
    }
    default:
      return undefined;
  }
}

/** @returns the member if it is a text */
function textIn(name: string, value: unknown): Readonly<Record<string, string>> {
  return typeof value === 'string' ? { [name]: value } : {};
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string');
}

function isForget(forget: unknown): forget is Forget {
  if (!isObject(forget)) return false;
  const { key, key_prefix, before_ms } = forget;
  const isKey = (value: unknown) => Array.isArray(value) && value.every((part) => typeof part === 'string');
  return isKey(key) || (isKey(key_prefix) && Number.isFinite(before_ms));
}
