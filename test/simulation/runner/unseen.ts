/** Promises whose break no life can notice, and why: `--mutants` does not try them. */

/** By reason; promises as in `test/faults/mutants`. */
const byReason: Readonly<Record<string, readonly string[]>> = {
  'no other program changes a folder, and no second service wants it': [
    'the lock is not checked between a sync and its replies',
  ],
  'each request was answered when a journal is closed': ['a close drops accepted reports'],
  'after a known token the table is asked what it has': [
    'after a crash a request has other lines than the one before it',
  ],
  'it costs reading or memory, or is a bound that short lines, few keys and few sources do not reach': [
    'a journal that still sends is forgotten for a new one, so that its events come twice',
    'a source that asks for the first time is remembered, so that their number has no bound',
    'any number of requests of one source wait',
    'all of a journal is read ahead',
    'more than keysMax idempotency keys are remembered',
    'no bound for the queues of all deployments together',
    'the queue has no bound',
  ],
  'only some lives have a second way or a circle': [
    'a line that was recorded here before is recorded again',
    'what a device has lost is not taken from others that have it',
    'two senders with the same event do not have turns',
    'a journal with a new id is another journal',
    'what a repair of a hub has lost of its own lines never comes back',
    'the gaps of a journal have no bound',
    'the token of one device can write as another one and stop it',
    'an event that came by another way is recorded again',
  ],
  'nobody sends such a name or such a line': ['the sources of one deployment are those of another'],
  'the events of a request are all forwarded, and their keys are not looked up, or none is': [
    'an id goes to another event if some of its report were recorded before',
  ],
};

/** The reason, by the promise. */
export const unseen: ReadonlyMap<string, string> = new Map(
  Object.entries(byReason).flatMap(([reason, promises]) => promises.map((promise) => [promise, reason] as const)),
);
