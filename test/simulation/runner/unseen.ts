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
    'the checksum of a snapshot is not checked',
    'a snapshot is believed that is ahead of its journal',
  ],
  'the next start reads the lines again': ['a clean stop is marked without the hook'],
  'it is cut off before the next letter is written': ['a torn dead letter stays before the next one'],
  'the letter is there twice, which nothing forbids': ['the rest of a failed append stays before the next letter'],
  '"one that the destination has although its answer was lost may stay in it"': [
    'an event that was taken after all is still named as lost',
  ],
  'after a known token the table is asked what it has': [
    'after a crash a request has other lines than the one before it',
  ],
  'nobody tells a hub to forget a source': ['a source is forgotten until the hub reads its lines again'],
  'no destination begins now': [
    'a new destination has no cursor on the disk before it is asked',
    'a stop before the first event is known makes the cursor of a destination up',
  ],
  'damage is repaired before it is read': [
    'a damaged line is given up, though a backup may have it',
    'a damaged line is compared with a report',
  ],
  'nobody asks for the state of a destination while its service is down': ['the state file is older than the cursor'],
  'alerts are not looked at': ['one event that was in doubt and then taken raises the alert for ever'],
  'it costs reading or memory, or is a bound that short lines, few keys and few sources do not reach': [
    'a hub keeps the last body of each source in memory, of which it needs the id',
    'a hub takes any number of sources',
    'a source that asks for the first time is remembered, so that their number has no bound',
    'any number of requests of one source wait',
    'all lines of a journal that is no hub are read again',
    'a sender reads ahead without an end while its destination is stuck',
    'an engine that is at another seq each time is asked again and again without a pause',
    'an engine that was restored gets all that it lacks up to the end of the last request at once, of any size',
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
    'a hub has no id that its sources hear before it forwards',
    'a line that was recorded here before is recorded again',
    'a loop is accepted',
    'after a restart a hub names nothing until a source asks it',
    'lines that came through this journal are taken if the journal that sends them has them from another one',
    'a hub sends on what a source has sent before it is durable what that came through',
    'a snapshot that is written beside a request forgets what that says its lines came through',
    'what lines came through is forgotten with a snapshot that is ahead of its journal',
    'what the lines of a source came through is forgotten with the source',
    'what the last lines of a source came through takes the place of what those before them did',
    'after a restart it is not known which hub has the events',
    'what a hub says of the way of events can be lost with the power after they are sent',
  ],
  'nobody sends such a name or such a line': [
    'the sources of one deployment are those of another',
    'a key over the limit is recorded, if its line looks like one of a journal',
    'an event time is recorded that is none, if its line looks like one of a journal',
    'the name of a source is as long, and has the characters, that it sends',
    'metadata is recorded that is no JSON, if its line looks like one of a journal',
  ],
  'all tokens may report and forward': ['a token that may only report may forward'],
  'no service has a hook': [
    'a hook gets every event',
    'each page of events that a hook does not want costs a sync',
    'unwanted events that were between two that were sent stay in doubt',
    'many refusals in a row stop a hook',
    'a failed check that a hook does not take for a while is passed without another try',
    'a lost cursor of a hook begins anew',
    'an event that a hook answers with failures stops it for good',
    'an event that passed any number of hooks is posted',
    'an outage counts as an answer that gives an event up',
    'the time of an event that was given up counts for the next one',
  ],
  'no hub and no engine refuses an event, no engine removes one, and no destination changes its kind': [
    'a cursor of a hub is taken for that of an engine with the same name',
    'an event that a hub refuses is not in the dead letters',
    'a plain upstream acknowledges what it was sent',
    'an engine that has removed all events of a journal gets all again',
    'an event that an engine refused is sent again whenever the engine was asked',
  ],
  'the events of a request are all forwarded, and their keys are not looked up, or none is': [
    'an id goes to another event if some of its report were recorded before',
  ],
};

/** The reason, by the promise. */
export const unseen: ReadonlyMap<string, string> = new Map(
  Object.entries(byReason).flatMap(([reason, promises]) => promises.map((promise) => [promise, reason] as const)),
);
