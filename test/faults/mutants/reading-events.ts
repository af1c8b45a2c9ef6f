/** Mutants of reading events over HTTP. */

import type { Mutant } from './mutant.ts';

const IN_ORDER = 'reading/streams: events come in order and once, over files, a restart and a connection that breaks';
const AT_MOST =
  'reading/streams: 32 streams are open at most, besides the connections that count, and one that ends makes space';
const RESET =
  'reading/streams: streams follow a journal that begins anew, from its first event on, and so does a client that saw the old one';
const REMOVED =
  'reading/events: what retention removed is 410 with the first seq that is there, but the beginning is not';
const POLL = 'reading/events: a long poll gets the event that comes, and an empty reply at its end or at a stop';
export const readingEvents: readonly Mutant[] = [
  {
    breaks: 'events are shown before their lines are durable',
    file: 'reading/journals.ts',
    from: 'return this.#options.progress.of(this.#disk.folder);',
    to: "const own = this.#options.progress.of(this.#disk.folder);\n    return { more: (signal) => own.more(signal), durable: async () => ({ kind: 'unsaid' }) };",
    tests: ['reading/streams: an event is shown only when its line is on stable storage'],
  },
  {
    breaks: 'a stream that begins again leaves out one event',
    file: 'reading/events-query.ts',
    from: 'afterSeq: resumed ??',
    to: 'afterSeq: (resumed === undefined ? undefined : resumed + 1) ??',
    tests: [IN_ORDER],
  },
  {
    breaks: 'a stream that begins again shows the last event twice',
    file: 'reading/events-query.ts',
    from: 'afterSeq: resumed ??',
    to: 'afterSeq: (resumed === undefined ? undefined : resumed - 1) ??',
    tests: [IN_ORDER],
  },
  {
    breaks: 'any number of streams may be open',
    file: 'reading/events-stream.ts',
    from: 'if (this.#open >= limits.streamsMax) {',
    to: 'if (limits.streamsMax < 0) {',
    tests: [AT_MOST],
  },
  {
    breaks: 'a stream that ended counts for ever',
    file: 'reading/events-stream.ts',
    from: 'this.#open -= 1;',
    to: '',
    tests: [AT_MOST],
  },
  {
    breaks: 'streams count against the cap of connections',
    file: 'http/connections.ts',
    from: 'this.size - this.#besideCap < cap',
    to: 'this.size < cap',
    tests: [AT_MOST],
  },
  {
    breaks: 'a stream without events gets no comment',
    file: 'reading/events-stream.ts',
    from: 'if (text.length === 0) text = COMMENT;',
    to: 'if (text.length === 0) continue;',
    tests: [AT_MOST],
  },
  {
    breaks: 'a stream whose client reads nothing is kept for ever',
    file: 'http/connections.ts',
    from: 'connection.streaming ? streamStallMs : limits.idleMs',
    to: 'connection.streaming ? Number.POSITIVE_INFINITY : limits.idleMs',
    tests: ['reading/streams: a client that does not read holds nothing up, and is cut off'],
  },
  {
    breaks: 'pieces are produced for a client that does not read',
    file: 'http/streams.ts',
    from: 'if (socket.writableLength > 0) await allAccepted(socket);',
    to: 'await new Promise((resolve) => setImmediate(resolve));',
    tests: ['http/streams: nothing more is produced for a client that does not read, and it is cut off'],
  },
  {
    breaks: 'a stream does not say which events retention removed',
    file: 'reading/events-stream.ts',
    within: 'textOf',
    from: 'of gone',
    to: 'of gone.slice(gone.length)',
    tests: [REMOVED],
  },
  {
    breaks: 'events that retention removed are left out of a page without a word',
    file: 'reading/events.ts',
    from: 'if (afterSeq > 0 && afterSeq + 1 < first) throw',
    to: 'if (afterSeq > first) throw',
    tests: [REMOVED],
  },
  {
    breaks: 'a page passes over events that retention removes while it is read',
    file: 'reading/events.ts',
    from: "gone.find(({ why }) => why === 'removed')",
    to: "gone.find(({ why, last }) => why === 'removed' && last < 0)",
    tests: [
      'reading/events: a page ends before events that retention removes while it is read, and the next one is 410',
    ],
  },
  {
    breaks: 'a page that was ended early says that all events were looked at',
    file: 'reading/events.ts',
    from: 'if (signal.aborted) return;',
    to: '',
    tests: ['reading/events: a page that is ended early passes over no event'],
  },
  {
    breaks: 'a reset beside a reading is logged as damage',
    file: 'reading/journals.ts',
    from: '!isWhole || replaced.aborted || ',
    to: '',
    tests: ['reading/journals: a reading whose journal is reset logs no damage, and one whose file was removed does'],
  },
  {
    breaks: 'a long poll ends without the event that came',
    file: 'reading/events.ts',
    from: 'left < question.limit || question.waitMs === 0',
    to: 'left < question.limit || question.waitMs < 10_000_000',
    tests: [POLL],
  },
  {
    breaks: 'a stop waits for the connection of a long reply until it is cut off',
    file: 'http/exchanges.ts',
    from: 'this.#endIfLast(exchange); // its head',
    to: '// its head',
    tests: ['http/streams: a stream that waits ends whole when the service stops, and its connection with it'],
  },
  {
    breaks: 'a stream does not say that another journal began',
    file: 'reading/tail.ts',
    from: "yield { kind: 'another journal' };",
    to: '',
    tests: [RESET],
  },
  {
    breaks: 'a client that saw another journal waits for its next seq',
    file: 'reading/events-stream.ts',
    from: 'const isAnother = start > range.last;',
    to: 'const isAnother = start < 0;',
    tests: [RESET],
  },
  {
    breaks: 'a filter is not applied to events that come',
    file: 'reading/tail.ts',
    from: '(isPlain || isWanted(line.event, filter))',
    to: '(isPlain || line.seq > 0)',
    tests: [RESET],
  },
  {
    breaks: 'a stream that was behind shows events again',
    file: 'reading/tail.ts',
    from: 'seq = Math.max(seq, found.lines.at(-1)?.seq ?? 0); // it',
    to: '// it',
    tests: ['reading/tail: each line is yielded once, whenever it becomes durable'],
  },
  {
    breaks: 'a stream that falls behind leaves events out',
    file: 'reading/tail.ts',
    from: 'if (tail === undefined || seq < tail.oldestSeq) {',
    to: 'if (tail === undefined) {',
    tests: ['faults/streams: each follower has each acknowledged event once and in order, over kills of the service'],
  },
  {
    breaks: 'a page reads its file from the beginning',
    file: 'journal/reader.ts',
    from: 'if (this.#reading.seek === true) await file.seek();',
    to: '',
    tests: ['journal/seek: a reader that seeks yields the same lines, and reads little of what is before them'],
  },
  {
    breaks: 'readings use all of the time while reports arrive',
    file: 'reading/turns.ts',
    from: 'else if (this.#creditMs >= 0) this.#schedule();',
    to: 'else if (this.#creditMs > -1e9) this.#schedule();',
    tests: [
      'reading/turns: while reports are recorded, readings share a tenth of the time, each as much as the others',
    ],
  },
  {
    breaks: 'an empty parameter is ignored',
    file: 'reading/query.ts',
    from: "if (text === '') throw",
    to: "if (text === '\\0') throw",
    tests: [
      'reading/events-query: what can not be meant is refused with a sentence, and the log has none of the query',
    ],
  },
  {
    breaks: 'a repeated parameter of a reading is taken',
    file: 'reading/query.ts',
    from: "readQuery(query, 'refused')",
    to: "readQuery(query, 'last')",
    tests: [
      'reading/events-query: what can not be meant is refused with a sentence, and the log has none of the query',
    ],
  },
  {
    breaks: 'a generated client may read the events of the key 5',
    file: 'reading/query.ts',
    from: "{ type: 'string', pattern: '^\\\\[', ",
    to: "{ pattern: '^\\\\[', ",
    tests: [
      'edges/client: a generated client reports all three kinds, in batches and with keys too, reads them, and its compiler refuses what is wrong',
    ],
  },
  {
    breaks: 'a reading whose client has gone waits for its turn',
    file: 'reading/turns.ts',
    from: "signal?.addEventListener('abort', leave);",
    to: '',
    tests: ['reading/turns: a reading that is aborted leaves the queue at once, and the others keep their order'],
  },
  {
    breaks: 'a long poll that has its event leaves a file open',
    file: 'reading/tail.ts',
    from: 'void this.#lines.return(undefined).catch(() => {});',
    to: '',
    tests: ['reading/limits: a long poll that has its event leaves no file open'],
  },
  {
    breaks: 'readings of clients that read nothing take any memory',
    file: 'reading/journals.ts',
    from: 'const leave = inPlace ?',
    to: 'const leave = inPlace && bytesMax < 0 ?',
    tests: [
      'reading/limits: beyond the memory of readings a further one gets 503, but those that wait for events hold none',
    ],
  },
  {
    breaks: 'many long lines are in memory at a time',
    file: 'reading/journals.ts',
    from: 'if (isInside) endLongLine ??= await longLine.take(signal);',
    to: '',
    tests: ['reading/limits: long lines are in memory one at a time, and are sent in chunks, byte for byte'],
  },
];
