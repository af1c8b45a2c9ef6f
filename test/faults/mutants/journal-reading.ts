/** Mutants of what reads a journal, and of what removes its oldest files. */

import type { Mutant } from './mutant.ts';

export const journalReading: readonly Mutant[] = [
  {
    breaks: 'a FIFO or a device is read as a file',
    file: 'journal/disk.ts',
    from: 'if (fstatSync(descriptor).isFile()) return',
    to: 'if (fstatSync(descriptor).size >= 0) return',
    tests: ['journal/disk: the real disk: only regular files are opened'],
  },
  {
    breaks: 'a full disk takes no new name for a marker',
    file: 'journal/retention.ts',
    from: 'isFull(error as Error) ? stale.shift()',
    to: 'isFull(error as Error) ? undefined',
    tests: [
      'journal/journal: what retention may remove makes space for a start, also on a disk without an inode for a marker',
    ],
  },
  {
    breaks: 'a start beside a verify is not noticed',
    file: 'journal/verify.ts',
    from: ' && isDeepStrictEqual(lastStop, lastStopNow)',
    to: '',
    tests: [
      'journal/recovery: a journal that a service begins to write while it is verified is judged as that of a running service',
    ],
  },
  {
    breaks: 'verify fails for a file that retention removed',
    file: 'journal/verify.ts',
    from: 'vanished.find(({ firstSeq }) => firstSeq > now.removedLast)',
    to: 'vanished[0]',
    tests: ['program/retention: verify begins again where retention removes what it was about to read'],
  },
  {
    breaks: 'verify counts what retention removed while it read',
    file: 'journal/verify.ts',
    from: 'isLeft(segment) || index === read.length - 1',
    to: 'isLeft(segment) || index >= 0',
    tests: ['program/retention: verify begins again where retention removes what it was about to read'],
  },
  {
    breaks: 'verify stops at the first bad line of a file',
    file: 'journal/verify.ts',
    from: 'this.#bad.resync.continuesWith(bytes, form)',
    to: 'form.seq < 0',
    tests: [
      'program/upkeep: verify counts good and bad lines also after the first bad one, and shows the first places of each',
    ],
  },
  {
    breaks: 'verify lists every bad place',
    file: 'journal/verify.ts',
    from: 'if (account.badRanges.length < damageReportsMax) account',
    to: 'account',
    tests: [
      'program/upkeep: verify counts good and bad lines also after the first bad one, and shows the first places of each',
    ],
  },
  {
    breaks: 'a reader tells no missing file',
    file: 'journal/reader.ts',
    from: 'for (const { file, problem } of findings)',
    to: 'for (const { file, problem } of findings.slice(1))',
    tests: [
      'journal/reader: what is damaged is reported with its position, and lines after it whose crc continues the chain are read',
    ],
  },
  {
    breaks: 'a reader gives up after a bad line',
    file: 'journal/reader.ts',
    from: '< this.#durableSeq && this.#badLines.resync.continuesWith(bytes, form)',
    to: '=== 0',
    tests: [
      'journal/reader: what is damaged is reported with its position, and lines after it whose crc continues the chain are read',
    ],
  },
  {
    breaks: 'a reader passes over what was added before the next file was begun',
    file: 'journal/reader.ts',
    from: 'if (isClosed) continue; //',
    to: 'if (isClosed) break; //',
    tests: [
      'journal/reader: a follower waits for the folder, for lines to become whole and for files to be begun, and shows each line once',
    ],
  },
  {
    breaks: 'a reader does not see that a file was cut back',
    file: 'journal/reader.ts',
    from: '> 0 && !(await this.#endsAsBefore())',
    to: '< 0',
    tests: ['journal/reader: a follower shows again what a service took back, and begins anew with another journal'],
  },
  {
    breaks: 'a reader shows lines that a failed write takes back',
    file: 'journal/reader.ts',
    from: 'if (this.#chain.seq >= this.#durableSeq) {',
    to: 'if (this.#chain.seq < 0) {',
    tests: [
      'journal/reader: lines that the writer may take back are held back, and shown once when they are durable',
      'faults/injected',
    ],
  },
  {
    breaks: 'a reader asks the writer after it has read',
    file: 'journal/reader.ts',
    from: 'return size;',
    to: 'return undefined;',
    tests: ['journal/reader: what is added after a writer was looked for in vain is left for the next look'],
  },
  {
    breaks: 'a follower believes a writer that does not answer',
    file: 'journal/reader.ts',
    from: 'if (isFollowing) {',
    to: "if (isFollowing && said.kind !== 'unanswered') {",
    tests: ['journal/reader: lines that the writer may take back are held back, and shown once when they are durable'],
  },
  {
    breaks: 'a reader passes over a file by the time of its first line alone',
    file: 'journal/reader.ts',
    from: 'this.#firstTime(segment), last && readTime(last.line)];',
    to: 'this.#firstTime(segment)];',
    tests: [
      'journal/reader: times choose lines, also where the clock went back; a file that begins and ends outside of them is not read',
    ],
  },
  {
    breaks: 'a reader takes a bad end for damage',
    file: 'journal/reader.ts',
    from: '!hasNext && this.#badLines.formsAfter === 0',
    to: '!hasNext && this.#badLines.formsAfter < 0',
    tests: [
      'journal/reader: an end that a crash or a writer explains is noted, and so are events that are known to be gone',
    ],
  },
  {
    breaks: 'retention removes the newest file',
    file: 'journal/retention.ts',
    from: 'const next = segments[index + 1];',
    to: 'const next = segments[index + 1] ?? segments[index];',
    tests: ['program/retention: the oldest files go, as many as either limit asks for, and never the newest'],
  },
  {
    breaks: 'files are removed before the marker is durable',
    file: 'journal/retention.ts',
    from: 'await (await disk.create(marker)).close();',
    to: 'void disk.create(marker).then((made) => made.close());',
    tests: ['program/retention: a call that fails, once, is told and hurts nothing'],
  },
  {
    breaks: 'a marker that a dead run left is taken for durable',
    file: 'journal/retention.ts',
    from: 'await this.#options.disk.syncFolder().catch(',
    to: 'await Promise.resolve().catch(',
    tests: [
      'program/retention: what an earlier run was about to remove goes, whatever the limits are now, and not before its marker is durable',
    ],
  },
  {
    breaks: 'the old marker goes before the files',
    file: 'journal/retention.ts',
    from: 'for (const fields of files) {',
    to: "for (const name of names) if (goneRange(name, 'removed')) await disk.remove(name);\n    for (const fields of files) {",
    tests: [
      'program/retention: what an earlier run was about to remove goes, whatever the limits are now, and not before its marker is durable',
    ],
  },
  {
    breaks: 'an interrupted removal is not finished',
    file: 'journal/retention.ts',
    from: 'firstSeq <= before',
    to: 'firstSeq < 0',
    tests: [
      'program/retention: what an earlier run was about to remove goes, whatever the limits are now, and not before its marker is durable',
    ],
  },
  {
    breaks: 'no limit in bytes is obeyed',
    file: 'journal/retention.ts',
    from: 'left > retainBytes',
    to: 'left < 0',
    tests: ['program/retention: the oldest files go, as many as either limit asks for, and never the newest'],
  },
  {
    breaks: 'no limit in days is obeyed',
    file: 'journal/retention.ts',
    from: '> retainDays * DAY_MS',
    to: '> Number.POSITIVE_INFINITY',
    tests: ['program/retention: the oldest files go, as many as either limit asks for, and never the newest'],
  },
  {
    breaks: 'a follower believes a new writer that does not answer, since there was none before',
    file: 'journal/reader.ts',
    from: 'if (this.#durableSeq === Number.POSITIVE_INFINITY) this',
    to: 'if (this.#durableSeq < 0) this',
    tests: ['journal/reader: lines that the writer may take back are held back, and shown once when they are durable'],
  },
  {
    breaks: 'the filter takes any severity',
    file: 'journal/filter.ts',
    from: 'severity: ({ severity }, value) => severity === value,',
    to: 'severity: () => true,',
    tests: [
      'journal/reader: what is looked for is found in the lines that say it, however it is escaped, and not in metadata',
      'embed',
    ],
  },
  {
    breaks: 'the filter compares the spelling of an event time',
    file: 'journal/filter.ts',
    from: 'sortKeyOf(event_time) === value',
    to: 'event_time === value',
    tests: ['embed: an event is found by when it happened, in any zone, and by its idempotency key'],
  },
  {
    breaks: 'the filter takes any idempotency key that is in the line',
    file: 'journal/filter.ts',
    from: 'idempotencyKey: ({ idempotency_key }, value) => idempotency_key === value,',
    to: 'idempotencyKey: () => true,',
    tests: [
      'journal/reader: what is looked for is found in the lines that say it, however it is escaped, and not in metadata',
      'embed: an event is found by when it happened, in any zone, and by its idempotency key',
    ],
  },
  {
    breaks: 'a filter of startService ignores an event time that no report could have',
    file: 'embed/filter.ts',
    from: "if (read?.kind === 'time') return sortKeyOf(read.utc);",
    to: "if (read?.kind === 'time') return sortKeyOf(read.utc);\n  if (read !== undefined) return '';",
    tests: ['embed: an event is found by when it happened, in any zone, and by its idempotency key'],
  },
  {
    breaks: 'a key that only begins like the one that is looked for is taken for it',
    file: 'journal/filter.ts',
    from: 'asset_key.length === value.length && ',
    to: '',
    tests: [
      'journal/reader: what is looked for is found in the lines that say it, however it is escaped, and not in metadata',
    ],
  },
  {
    breaks: 'a line is looked for by bytes that it does not have',
    file: 'journal/filter.ts',
    from: 'packMembers(`"data_version":$',
    to: 'packMembers(`"dataVersion":$',
    tests: [
      'journal/reader: what is looked for is found in the lines that say it, however it is escaped, and not in metadata',
      'embed',
    ],
  },
  {
    breaks: 'another journal in the folder is held to the seq of the first',
    file: 'journal/reader.ts',
    from: 'this.#members = members;',
    to: 'this.#members = { ...members, afterSeq };',
    tests: [
      'journal/reader: a filter by seq and by key is for one journal: of another one in the folder all seqs are looked at',
    ],
  },
  {
    breaks: 'what is recorded while following ends is missed',
    file: 'journal/reader.ts',
    from: 'if (!isLastLook) {',
    to: 'if (this.#following) {',
    tests: [
      'journal/reader: what is recorded while a reader looks is not waited for, nor missed at the end of following',
    ],
  },
  {
    breaks: 'a follower that is interrupted shows what it held back',
    file: 'journal/reader.ts',
    from: 'const isFollowing = follow !== undefined;',
    to: 'const isFollowing = follow?.aborted === false;',
    tests: ['journal/reader: lines that the writer may take back are held back, and shown once when they are durable'],
  },
  {
    breaks: 'a reader waits for what was recorded while it looked',
    file: 'journal/progress.ts',
    from: 'while (seen === this.#nextSeqs.get(folder) && !signal.aborted) await',
    to: 'if (!signal.aborted) await',
    tests: ['journal/reader: a reader in the process of the journal is woken by what is recorded, and by nothing else'],
  },
  {
    breaks: 'a test gets an event whose line is damaged',
    file: 'journal/reader.ts',
    from: 'const check = checkLine(bytes, start, end, this.#chain);',
    to: "const check = { kind: 'good' as const, chain: { seq: this.#chain.seq + 1, crc: readForm(bytes, start, end)?.crc ?? 0 } };",
    tests: ['embed: a flipped bit is an error with file, line and byte; events before it are found'],
  },
  {
    breaks: 'a reader shows a folder that lost all its journal files as a journal without events',
    file: 'journal/reader.ts',
    from: 'return this.#begun ? undefined : this.#remarkMissing(contents);',
    to: 'return;',
    tests: ['journal/reader: a folder in which only a marker shows that there was a journal is damaged, as for verify'],
  },
];
