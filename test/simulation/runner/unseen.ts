/** Promises whose break no life can notice, and why: `--mutants` does not try them. */

/** By reason; promises as in `test/faults/mutants`. */
const byReason: Readonly<Record<string, readonly string[]>> = {
  'no other program changes a folder, and no second service wants it': [
    'an unlinked file is not noticed',
    'the lock is not checked between a sync and its replies',
    'without the lock the next file is created',
    'a sidecar of keys is not bound to its journal',
    'a stale marker of an earlier stop is believed',
    'without the lock a start replaces the file',
  ],
  'the length of the file is compared after it, and the service ends': [
    'a short write is treated as complete',
    'no cut-back after a short write',
  ],
  'each request was answered when a journal is closed': ['a close drops accepted reports'],
  'no two keys have one hash': ['a report with a known hash counts as repeated though its key is not compared'],
  'no read of a disk takes 10 s': ['a report with an idempotency key is recorded though the disk does not answer'],
  'no crash damages the file, which has only what is durable in its journal, and copies are made in one moment': [
    'a snapshot is believed that is ahead of its journal',
  ],
  'it is cut off before the next letter is written': ['a torn dead letter stays before the next one'],
  'after a known token the table is asked what it has': [
    'after a crash a request has other lines than the one before it',
  ],
  'damage is repaired before it is read': [
    'a damaged line is given up, though a backup may have it',
    'a damaged line is compared with a report',
  ],
  'it costs reading or memory, or is a bound that short lines, few keys and few sources do not reach': [
    'a hub keeps the last body of each source in memory, of which it needs the id',
    'a hub takes any number of sources',
    'a journal that still sends is forgotten for a new one, so that its events come twice',
    'how far a hub is by lines that it left out is never in its file',
    'a source that asks for the first time is remembered, so that their number has no bound',
    'any number of requests of one source wait',
    'all of a journal is read ahead',
    'the reports that wait while a journal is opened have no bound',
    'a start reads all files that have no sidecar, however large',
    'the lines for all known idempotency keys are read at the same time',
    'more than keysMax idempotency keys are remembered',
    'a busy deployment makes another one forget its idempotency keys',
    'a bad end of any length is cut',
    'a write has more bytes than a start accepts as one',
    'no bound for the queues of all deployments together',
    'the queue has no bound',
  ],
  'no two services forward to each other': [
    'a line that was recorded here before is recorded again',
    'what a device has lost is not taken from others that have it',
    'a later event that comes first hides those before it',
    'two senders with the same event do not have turns',
    'a journal with a new id is another journal',
    'what a repair of a hub has lost of its own lines never comes back',
    'the gaps of a journal have no bound',
    'the token of one device can write as another one and stop it',
    'an event that came by another way is recorded again',
  ],
  'nobody sends such a name or such a line': ['the sources of one deployment are those of another'],
  'all tokens may report and forward': ['a token that may only report may forward'],
  'a request with the event left before the outage, and for how long a hook has failed only its sender knows': [
    'an outage counts as an answer that gives an event up',
  ],
  'no engine removes an event, and no destination changes its kind': [
    'an engine that has removed all events of a journal gets all again',
  ],
  'the events of a request are all forwarded, and their keys are not looked up, or none is': [
    'an id goes to another event if some of its report were recorded before',
  ],
};

/** The reason, by the promise. */
export const unseen: ReadonlyMap<string, string> = new Map(
  Object.entries(byReason).flatMap(([reason, promises]) => promises.map((promise) => [promise, reason] as const)),
);
