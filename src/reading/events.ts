/** `GET /events`: the recorded events of a journal, in the order of their seqs. */

import { type Handler, Refusal, type Reply, shown, WITHHELD } from '../http/message.ts';
import { readBody, readQuery } from '../http/request.ts';
import { bytesOf, readJournal } from '../journal/reader.ts';
import type { ReadableJournal, ReadingParts } from './journals.ts';

/** @returns the handler of `GET /events`; it throws Refusal 400 for a wrong query */
export function readEvents({ journals, limits }: ReadingParts): Handler {
  return ({ body, query, deployment }) => {
    readBody(body, limits);
    const parameters = readQuery(query);
    const afterSeq = integerIn(parameters, 'after_seq', 0, 0, Number.MAX_SAFE_INTEGER);
    const limit = integerIn(parameters, 'limit', 100, 1, 1_000);
    return {
      kind: 'later',
      reply: async (ending): Promise<Reply> => {
        const journal = await journals.whenReadable(deployment, ending);
        const pieces = () => lines(journal, afterSeq, limit, limits);
        return { kind: 'stream', status: 200, contentType: 'application/x-ndjson', pieces };
      },
    };
  };
}

async function* lines(
  { disk, progress }: ReadableJournal,
  afterSeq: number,
  limit: number,
  limits: ReadingParts['limits'],
): AsyncGenerator<Buffer> {
  const once = AbortSignal.abort(); // reads once, and takes a missing folder for an empty journal
  const reading = { filter: { afterSeq }, follow: once, progress: progress(), limits };
  let left = limit;
  for await (const page of readJournal(disk, reading, () => {})) {
    const chosen = page.slice(0, left);
    left -= chosen.length;
    yield bytesOf(chosen);
    if (left === 0) return;
  }
}

function integerIn(
  parameters: ReadonlyMap<string, string>,
  name: string,
  standard: number,
  min: number,
  max: number,
): number {
  const text = parameters.get(name);
  if (text === undefined) return standard;
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  const problem = (sent: string) => `${name} is ${sent}; send a number from ${min} to ${max}`;
  throw new Refusal(400, problem(shown(text)), { logged: problem(WITHHELD) });
}
