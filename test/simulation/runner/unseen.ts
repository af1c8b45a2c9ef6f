/** Promises whose break no life can notice, and why: `--mutants` does not try them. */

/** By reason; a promise as in `test/faults/mutants`, after the path of its file. */
const byReason: Readonly<Record<string, readonly string[]>> = {
  'no other program changes a folder, and no second service wants it': [
    'journal/append.ts: an unlinked file is not noticed',
    'journal/journal.ts: a full file is not checked before the next one is created',
    'journal/journal.ts: the lock is not checked between a sync and its replies',
    'journal/journal.ts: without the lock a clean stop is marked',
    'journal/journal.ts: without the lock the next file is created',
    'journal/keys/sidecar.ts: a sidecar of keys is not bound to its journal',
    'journal/keys/sidecar.ts: the sidecar of a damaged file is written',
    'journal/open/recovery.ts: a stale marker of an earlier stop is believed',
    'journal/open/recovery.ts: other last lines than at the clean stop are accepted',
    'journal/open/recovery.ts: without the lock a start replaces the file',
  ],
  'the comparison after it refuses as well': [
    'journal/open/recovery.ts: a last file that was cut at a line end after a clean stop is accepted',
  ],
  'the length of the file is compared after it, and the service ends': [
    'journal/append.ts: a short write is treated as complete',
    'journal/append.ts: no cut-back after a short write',
  ],
  'the limit that asked for the files asks again': ['journal/retention.ts: an interrupted removal is not completed'],
  'the rest of a stop takes longer': ['journal/journal.ts: a close does not wait for a removal'],
  'each request was answered when a journal is closed': [
    'journal/journal.ts: a stop does not wait for lookups',
    'journal/journal.ts: a close drops accepted reports',
  ],
  'no two keys have one hash': [
    'journal/keys/lookup.ts: a report with a known hash counts as repeated without a comparison of its key',
  ],
  'no read of a disk takes 10 s': [
    'journal/keys/lookup.ts: a report with an idempotency key is recorded if the disk does not answer whether it was recorded before',
  ],
  'no crash damages the file, which has only what is durable in its journal, and copies are made in one moment': [
    'forward/hub/snapshot.ts: the checksum of a snapshot is not checked',
    'forward/hub/sources.ts: a snapshot is believed that is ahead of its journal',
  ],
  'the next start reads the lines again': ['journal/journal.ts: a clean stop is marked without the hook'],
  'it is cut off before the next letter is written': [
    'forward/ledger/letters.ts: a torn dead letter stays before the next one',
  ],
  'the letter is there twice, which nothing forbids': [
    'forward/ledger/letters.ts: the rest of a failed append stays before the next letter',
  ],
  '"one that the destination has although its answer was lost may stay in it"': [
    'forward/ledger/letters.ts: an event that was taken after all is still named as lost',
  ],
  'after a known token the table is asked what it has': [
    'forward/pipe/asked.ts: after a crash a request has other lines than the one before it',
  ],
  'nobody tells a hub to forget a source': [
    'forward/hub/sources.ts: a source is forgotten until the hub reads its lines again',
  ],
  'no destination begins now': [
    'forward/pipe/outbox.ts: a new destination has no cursor on the disk before it is asked',
    'forward/pipe/outbox.ts: a stop before the first event is known makes the cursor of a destination up',
  ],
  'damage is repaired before it is read': [
    'forward/pipe/backlog.ts: a damaged line is given up, though a backup may have it',
    'journal/keys/lookup.ts: a damaged line is compared with a report',
  ],
  'nobody asks for the state of a destination while its service is down': [
    'forward/pipe/sender.ts: the state file is older than the cursor',
  ],
  'alerts are not looked at': [
    'forward/pipe/plain.ts: one event that was in doubt and then taken raises the alert for ever',
  ],
  'no callback throws': ['journal/journal.ts: a callback that throws turns a durable batch into a failed disk'],
  'no disk says that its free space gets less': ['journal/retention.ts: no space is kept free'],
  'it costs reading or memory, or is a bound that short lines, few keys and few sources do not reach': [
    'forward/hub/receiver.ts: a hub keeps the last body of each source in memory, of which it needs the id',
    'forward/hub/receiver.ts: a hub takes any number of sources',
    'forward/hub/receiver.ts: a source that asks for the first time is remembered, so that their number has no bound',
    'forward/hub/receiver.ts: any number of requests of one source wait',
    'forward/hub/sources.ts: all lines of a journal that is no hub are read again',
    'forward/pipe/asked.ts: a sender reads ahead without an end while its destination is stuck',
    'forward/pipe/asked.ts: an engine that is at another seq each time is asked again and again without a pause',
    'forward/pipe/asked.ts: an engine that was restored gets all that it lacks up to the end of the last request at once, of any size',
    'forward/pipe/backlog.ts: all of a journal is read ahead',
    'journal/journal.ts: the reports that wait while a journal is opened have no bound',
    'journal/keys/keys.ts: a start reads all files that have no sidecar, however large',
    'journal/keys/lookup.ts: the lines of all reports with known idempotency keys are read at once',
    'journal/keys/memory.ts: more idempotency keys are remembered than may be',
    'journal/keys/memory.ts: the idempotency keys of a busy deployment make another one forget its keys',
    'journal/keys/memory.ts: which idempotency keys a restart knows depends on the order in which journals are opened',
    'journal/open/recovery.ts: a bad end of any length is cut',
    'journal/queue-entry.ts: a write has more bytes than a start accepts as one',
    'journal/queue-entry.ts: no bound for the queues of all deployments together',
    'journal/queue-entry.ts: only the first of the events that are appended together counts against the queue',
    'journal/queue-entry.ts: the queue has no bound',
  ],
  'no two services forward to each other': [
    'forward/hub/receiver.ts: a hub has no id that its sources hear before it forwards',
    'forward/hub/receiver.ts: a line that was recorded here before is recorded again',
    'forward/hub/receiver.ts: a loop is accepted',
    'forward/hub/receiver.ts: after a restart a hub names nothing until a source asks it',
    'forward/hub/receiver.ts: lines that came through this journal are taken if the journal that sends them has them from another one',
    'forward/hub/sources.ts: a hub sends on what a source has sent before it is durable what that came through',
    'forward/hub/sources.ts: a snapshot that is written beside a request forgets what that says its lines came through',
    'forward/hub/sources.ts: what lines came through is forgotten with a snapshot that is ahead of its journal',
    'forward/hub/sources.ts: what the lines of a source came through is forgotten with the source',
    'forward/hub/through.ts: what the last lines of a source came through takes the place of what those before them did',
    'forward/pipe/link.ts: after a restart it is not known which hub has the events',
    'forward/source.ts: what a hub says of the way of events can be lost with the power after they are sent',
  ],
  'nobody sends such a name or such a line': [
    'forward/hub/hub.ts: the sources of one deployment are those of another',
    'forward/hub/received.ts: a key over the limit is recorded, if its line looks like one of a journal',
    'forward/hub/received.ts: an event time is recorded that is none, if its line looks like one of a journal',
    'forward/hub/received.ts: the name of a source is as long, and has the characters, that it sends',
    'forward/hub/received.ts: metadata is recorded that is no JSON, if its line looks like one of a journal',
    'forward/hub/sightings.ts: a device that calls itself as another one is identified is taken for that one',
  ],
  'all tokens may report and forward': ['forward/hub/hub.ts: a token that may only report may forward'],
  'no service has a hook': [
    'forward/pipe/outbox.ts: a hook gets every event',
    'forward/pipe/outbox.ts: each page of events that a hook does not want costs a sync',
    'forward/pipe/outbox.ts: unwanted events that were between two that were sent stay in doubt',
    'forward/pipe/outbox.ts: many refusals in a row stop a hook',
    'forward/pipe/plain.ts: a failed check that a hook does not take for a while is passed without another try',
    'forward/pipe/plain.ts: a lost cursor of a hook begins anew',
    'forward/pipe/plain.ts: an event that a hook answers with failures stops it for good',
    'forward/pipe/plain.ts: an event that passed any number of hooks is posted',
    'forward/pipe/plain.ts: an outage counts as an answer that gives an event up',
    'forward/pipe/plain.ts: the time of an event that was given up counts for the next one',
  ],
  'no hub and no engine refuses an event, no engine removes one, and no destination changes its kind': [
    'forward/pipe/sender.ts: a cursor of a hub is taken for that of an engine with the same name',
    'forward/pipe/asked.ts: an event that a hub refuses is not in the dead letters',
    'forward/pipe/sender.ts: a plain upstream acknowledges what it was sent',
    'forward/pipe/asked.ts: an engine that has removed all events of a journal gets all again',
    'forward/pipe/asked.ts: an event that an engine refused is sent again whenever the engine was asked',
  ],
  'the events of a request are all forwarded, and their keys are not looked up, or none is': [
    'journal/keys/idempotency.ts: an id goes to another event if some of its report were recorded before',
  ],
};

/** The reason, by the path of the file and the promise. */
export const unseen: ReadonlyMap<string, string> = new Map(
  Object.entries(byReason).flatMap(([reason, promises]) => promises.map((promise) => [promise, reason] as const)),
);
