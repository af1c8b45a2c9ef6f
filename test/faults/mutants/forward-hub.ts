/** The promises of a hub, each broken on purpose. */

import type { Mutant } from './mutant.ts';

export const forwardHub: readonly Mutant[] = [
  {
    breaks: 'an overlap is recorded again',
    file: 'forward/hub/watermark.ts',
    from: 'Math.max(0, Math.min(seq - firstSeq + 1, events.length))',
    to: 'seq - firstSeq + 1 >= events.length ? events.length : 0',
    tests: ['forward/hub: what the hub has is not recorded again: a copy, an overlap, an older part'],
  },
  {
    breaks: 'a copy of what the hub has is recorded again',
    file: 'forward/hub/watermark.ts',
    from: 'Math.max(0, Math.min(seq - firstSeq + 1, events.length))',
    to: 'seq - firstSeq + 1 >= events.length ? 0 : Math.max(0, seq - firstSeq + 1)',
    tests: ['forward/hub: what the hub has is not recorded again: a copy, an overlap, an older part'],
  },
  {
    breaks: 'ids are not compared, so that a fork is not seen',
    file: 'forward/hub/watermark.ts',
    from: 'line.origin.id !== mark.id',
    to: 'line.origin.id === undefined',
    tests: ['forward/hub: a clone of a journal is a fork, and of two that race each seq is recorded once'],
  },
  {
    breaks: 'a gap is accepted without Assetlog-Lost',
    file: 'forward/hub/watermark.ts',
    from: 'const isKnownToBeLost = lost !== undefined &&',
    to: 'const isKnownToBeLost = lost === undefined ||',
    tests: [
      'forward/hub: a gap is sent back with what the hub has, unless the sender says that just these events are lost',
    ],
  },
  {
    breaks: 'a gap is accepted if only its end is said to be lost',
    file: 'forward/hub/watermark.ts',
    from: 'lost.first <= seq + 1 && lost.last === firstSeq - 1',
    to: 'lost.last === firstSeq - 1',
    tests: [
      'forward/hub: a gap is sent back with what the hub has, unless the sender says that just these events are lost',
    ],
  },
  {
    breaks: 'a gap is accepted if only its beginning is said to be lost',
    file: 'forward/hub/watermark.ts',
    from: 'lost.first <= seq + 1 && lost.last === firstSeq - 1',
    to: 'lost.first <= seq + 1',
    tests: [
      'forward/hub: a gap is sent back with what the hub has, unless the sender says that just these events are lost',
    ],
  },
  {
    breaks: 'the chain of checksums is not checked',
    file: 'forward/hub/received.ts',
    from: "if (typeof check === 'string') throw wrongLine(count, seq, check);\n    last = check;",
    to: "last = typeof check === 'string' ? 0 : check;",
    tests: [
      'forward/received: the chain of checksums is checked from the first byte to the last, and may begin anew between files',
    ],
  },
  {
    breaks: 'the crc before the first line is not checked',
    file: 'forward/hub/received.ts',
    from: 'let last = crc;',
    to: 'let last: number | undefined;',
    tests: [
      'forward/received: the chain of checksums is checked from the first byte to the last, and may begin anew between files',
    ],
  },
  {
    breaks: 'a line that is too long for the readers of a journal is taken',
    file: 'forward/hub/received.ts',
    from: 'limits.lineBytesMax - ADDED_BYTES_MAX',
    to: '2 * limits.lineBytesMax',
    tests: ['forward/received: a body may be larger than that of a report, so that each line of a journal fits'],
  },
  {
    breaks: 'a line that is three times as long when it is written is taken',
    file: 'forward/hub/received.ts',
    from: 'if (!isAscii && SEPARATOR.test(text)) {',
    to: 'if (text.length === 0 && SEPARATOR.test(text)) {',
    tests: ['forward/received: a line with the right crc is taken only if its event is one that could be reported'],
  },
  {
    breaks: 'any text is taken as an id',
    file: 'forward/hub/received.ts',
    from: 'if (QUOTED_UUID.test(json)) return',
    to: 'if (json.length > 2) return',
    tests: ['forward/received: a line with the right crc is taken only if its event is one that could be reported'],
  },
  {
    breaks: 'a hub keeps the last body of each source in memory, of which it needs the id',
    file: 'forward/hub/receiver.ts',
    from: 'id: apart(last.id) }',
    to: 'id: last.id }',
    tests: ['faults/forward-memory: of 200 sources a hub remembers how far they are, and not their 200 MiB'],
  },
  {
    breaks: 'an error is at a column of the members, not of the line',
    file: 'forward/hub/received.ts',
    from: 'limits, head.length - 1)',
    to: 'limits)',
    tests: [
      'forward/received: a mistake in a line has the column that it has in the line, in whatever order its members are',
    ],
  },
  {
    breaks: 'a watermark moves before its lines are durable',
    file: 'forward/hub/receiver.ts',
    from: 'if (known === undefined) this.#newcomers += 1;',
    to: 'marks.set(source, mark);',
    tests: ['forward/sources: the lines of a write that failed are not counted'],
  },
  {
    breaks: 'requests of one source are handled at the same time',
    file: 'forward/hub/receiver.ts',
    from: 'const reply = turns.last.then(async () => {',
    to: 'const reply = Promise.resolve().then(async () => {',
    tests: [
      'forward/hub: a request that comes twice at the same time is recorded once, and one that overtakes another is sent back',
    ],
  },
  {
    breaks: 'a loop is accepted',
    file: 'forward/hub/receiver.ts',
    from: 'if (via.has(source)) {',
    to: 'if (via.has(source) && known?.seq === -1) {',
    tests: [
      'forward/receiver: a journal that the events would come back to is refused, and each reply says where they go',
    ],
  },
  {
    breaks: 'a line that was recorded here before is recorded again',
    file: 'forward/hub/receiver.ts',
    from: 'through !== undefined && via.has(through)',
    to: 'through !== undefined && through === source',
    tests: [
      'forward/receiver: a line that was recorded here before, or that the journals which get the events have sent on, is refused with its batch',
    ],
  },
  {
    breaks: 'a hub takes events of a journal without asking where its own events go',
    file: 'forward/hub/receiver.ts',
    from: '!(await this.#options.freshVia([]))',
    to: 'unread.firstSeq === -1',
    tests: [
      'forward/receiver: before a hub takes the first event of a journal since its start, its destinations say again where the events go',
    ],
  },
  {
    breaks: 'a hub takes any number of sources',
    file: 'forward/hub/receiver.ts',
    from: 'marks.size + this.#newcomers >= limits.forwardSourcesMax',
    to: 'marks.size === limits.forwardSourcesMax + 1_000',
    tests: ['forward/receiver: a further source than the limit allows is refused, also if several come at once'],
  },
  {
    breaks: 'a hub parses all bodies at once, so that reports wait for all of them',
    file: 'forward/hub/budget.ts',
    from: '<= this.#bytesMax',
    to: '<= 1_000 * this.#bytesMax',
    tests: [
      'faults/forward-senders: a report passes the forwarded events that wait for a slow disk, and no more of them are received than can wait',
    ],
  },
  {
    breaks: 'small requests of many sources are recorded one after the other, each with a sync',
    file: 'forward/hub/budget.ts',
    from: '<= this.#bytesMax',
    to: '< 0',
    tests: ['forward/receiver: small requests of many sources share the syncs of the journal'],
  },
  {
    breaks: 'a request that waits begins before those that have the memory are done',
    file: 'forward/hub/budget.ts',
    from: 'next !== undefined && this.#allows(next.bytes)',
    to: 'next !== undefined',
    tests: [
      'forward/budget: as many requests are at work as have the bytes, and at least one, in the order in which they came',
    ],
  },
  {
    breaks: 'forwarded events that can not be held are received before they are refused',
    file: 'http/app.ts',
    from: '?? refusal?.(bytes)',
    to: '',
    tests: [
      'faults/forward-senders: a report passes the forwarded events that wait for a slow disk, and no more of them are received than can wait',
    ],
  },
  {
    breaks: 'the bodies of forwarded events fill the memory for those of reports',
    file: 'forward/hub/hub.ts',
    from: 'forwardUploadBytesMax: uploadBytesMax',
    to: 'uploadBytesMax',
    tests: ['faults/forward-senders: the bodies of forwarded events leave memory for those of reports'],
  },
  {
    breaks: 'any number of requests of one source wait',
    file: 'forward/hub/receiver.ts',
    from: 'if (turns.count > limits.forwardWaitingMax) {',
    to: 'if (turns.count > limits.forwardWaitingMax + 1_000) {',
    tests: ['forward/receiver: of one source only some requests wait, and each of them gets its reply'],
  },
  {
    breaks: 'a long rebuild keeps requests waiting',
    file: 'forward/hub/receiver.ts',
    from: 'await Promise.race([loading, late.passed]);',
    to: 'await loading;',
    tests: ['forward/receiver: while the watermarks are being read a request gets 503, and later the truth'],
  },
  {
    breaks: 'the watermarks are read while lines of a forwarded request are on their way to the disk',
    file: 'forward/hub/sources.ts',
    from: 'await Promise.all(this.#recording);',
    to: '',
    tests: ['forward/receiver: a journal that is opened again is read again, after what was on its way to the disk'],
  },
  {
    breaks: 'what is known of a journal is kept when another one takes its place',
    file: 'forward/hub/hub.ts',
    from: 'sources.forget();',
    to: '',
    tests: ['forward/hub-service: a reset of a service for tests makes it forget what it has of other journals'],
  },
  {
    breaks: 'events of other journals are not counted',
    file: 'http/app.ts',
    within: 'recordableOf',
    from: "if (result.kind === 'recorded') count(types, lines, result);",
    to: '',
    tests: ['forward/hub-service: events of other journals are counted as reports are'],
  },
  {
    breaks: 'files are removed before the snapshot has their watermarks',
    file: 'forward/hub/sources.ts',
    within: 'removing',
    from: 'await this.#write({ seq, sources });',
    to: 'void this.#write({ seq, sources }).catch(() => {});',
    tests: [
      'forward/sources: a file that holds a watermark stays until the snapshot has it, also if the service was started for that',
    ],
  },
  {
    breaks: 'after a repair a hub says that it has what it lost',
    file: 'forward/hub/sources.ts',
    from: 'const isAfterLoss = lostSeq > (read.get(source) ?? seq);',
    to: 'const isAfterLoss = false;',
    tests: [
      'forward/sources: what a hub lost of a batch is sent again after a repair, whichever lines they are, and what it kept is not',
    ],
  },
  {
    breaks: 'what a hub kept after a repair is recorded again',
    file: 'forward/hub/watermark.ts',
    within: 'decide',
    from: 'later.filter(({ origin }) => !ahead.some((part) => isIn(part, origin.seq)))',
    to: 'later',
    tests: [
      'forward/sources: what a hub lost of a batch is sent again after a repair, whichever lines they are, and what it kept is not',
    ],
  },
  {
    breaks: 'a journal without a snapshot counts as one without forwarded events when files go',
    file: 'forward/hub/sources.ts',
    within: 'removing',
    from: 'await this.#read(await readSnapshot(disk, limits), until)',
    to: '((found) => typeof found === "object" ? this.#read(found, until) : { sources: new Map() })(await readSnapshot(disk, limits))',
    tests: [
      'forward/sources: a plain copy of a hub, without its file of watermarks, knows what it has before files of it go',
    ],
  },
  {
    breaks: 'all lines of a journal that is no hub are read again',
    file: 'forward/hub/sources.ts',
    within: 'closed',
    from: '?? (await this.#unchanged())',
    to: '',
    tests: [
      'forward/sources: of a journal that no other forwards to, no line is read when files go, and after a crash those of its last file',
    ],
  },
  {
    breaks: 'a snapshot says of more than it covers',
    file: 'forward/hub/sources.ts',
    within: 'closed',
    from: 'seq: lastSeq,',
    to: 'seq: lastSeq + 3,',
    tests: ['forward/sources: a power cut at any call of the disk loses no watermark, and doubles no event'],
  },
  {
    breaks: 'a snapshot is believed that is ahead of its journal',
    file: 'forward/hub/sources.ts',
    from: ' && found.seq <= Math.max(lastSeq, this.#writtenSeq)',
    to: '',
    tests: ['forward/sources: a hub that lost its last events asks for them again, and says nothing it does not have'],
  },
  {
    breaks: 'the checksum of a snapshot is not checked',
    file: 'forward/hub/snapshot.ts',
    from: 'if (end === -1 || text.slice(end) !== ending(text.slice(0, end))) return',
    to: 'if (end === -1) return',
    tests: [
      'forward/sources: a snapshot that is torn, stale, of another journal, or missing is made again from the lines',
    ],
  },
  {
    breaks: 'a snapshot is replaced by an older one',
    file: 'forward/hub/sources.ts',
    from: 'if (snapshot.seq < this.#writtenSeq) return;',
    to: '',
    tests: ['forward/sources: a snapshot is on stable storage when files may go, by itself'],
  },
  {
    breaks: 'the folder is not synced after a snapshot was renamed',
    file: 'journal/disk.ts',
    within: 'replaceDurably',
    from: 'await disk.syncFolder();',
    to: '',
    tests: ['forward/sources: a snapshot is on stable storage when files may go, by itself'],
  },
];
