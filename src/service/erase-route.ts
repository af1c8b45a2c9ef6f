/** `POST /erase`: erases events of a deployment, for a token that may. A service without tokens has the command only. */

import type { Limits } from '../config/limits.ts';
import type { JsonLimits } from '../event/json-bytes.ts';
import { type Handler, Refusal, type Reply, unavailable } from '../http/message.ts';
import type { Route } from '../http/router.ts';
import { NotSelectedError } from '../journal/erase/select.ts';
import { DamagedError } from '../journal/open/recovery.ts';
import { describeErase, type EraseQuestion, erasedReader } from '../reading/events-query.ts';
import type { Eraser } from './eraser.ts';

export function eraseRoute(eraser: Eraser, limits: Limits & JsonLimits): Route<Handler> {
  const read = erasedReader(limits);
  return {
    needs: 'erase',
    methods: ['POST'],
    path: '/erase',
    followedBy: 'nothing',
    bodyTypes: ['application/json'],
    handler: (request) => {
      const question = read(request);
      return { kind: 'later', reply: (ending, journal) => replyTo(question, eraser, journal!.deployment, ending) };
    },
    describe: () => describeErase(limits),
  };
}

/** @throws Refusal 400, or the error of a system call */
async function replyTo(
  { filter, all }: EraseQuestion,
  eraser: Eraser,
  deployment: string | undefined,
  ending: AbortSignal,
): Promise<Reply> {
  try {
    const { events, unfinished } = await eraser.erase(deployment, [filter(Date.now())], all, ending);
    if (unfinished !== undefined) return unavailable(UNFINISHED);
    return { kind: 'body', status: 200, body: JSON.stringify({ erased: events }) };
  } catch (error) {
    if (error instanceof NotSelectedError && !error.isDamaged) throw new Refusal(400, error.message);
    if (error instanceof NotSelectedError || error instanceof DamagedError) return unavailable(DAMAGED);
    throw error;
  }
}

const UNFINISHED = 'files may still have texts of the events; a restart of the service erases the rest';
const DAMAGED = 'the journal is damaged, and nothing was erased; run assetlog verify on the machine of the service';
