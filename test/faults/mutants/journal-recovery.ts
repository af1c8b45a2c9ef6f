/** Mutants of what a start and a repair do with a journal. */

import type { Mutant } from './mutant.ts';

export const journalRecovery: readonly Mutant[] = [
  {
    breaks: 'no folder sync behind the copy of a start',
    file: 'journal/recovery.ts',
    from: 'name);\n  await disk.syncFolder();',
    to: 'name);',
    tests: [
      'journal/recovery: after any stop but a clean one the last file is rewritten, and only then',
      'faults/order',
    ],
  },
  {
    breaks: 'a start copies without a look at the free space',
    file: 'journal/recovery.ts',
    from: 'if (usableBytes < neededBytes) throw',
    to: 'if (usableBytes < 0) throw',
    tests: ['journal/journal: a start looks at the free space before it copies, and opens as soon as there is enough'],
  },
  {
    breaks: 'without the lock a start replaces the file',
    file: 'journal/recovery.ts',
    from: 'checkHeld();',
    to: '',
    tests: [
      'journal/recovery: a start that lost its lock while it read does not replace the file, to which another process may append',
    ],
  },
  {
    breaks: 'a journal that lost all its files begins again',
    file: 'journal/recovery.ts',
    from: 'missing !== undefined',
    to: 'false',
    tests: [
      'journal/recovery: a folder without a journal file, but with what accounts for events of one, misses files',
    ],
  },
  {
    breaks: 'gap between files not noticed',
    file: 'journal/recovery.ts',
    from: 'firstSeq && firstSeq <= due)',
    to: 'firstSeq)',
    tests: [
      'journal/recovery: every kind of finding has its examples, and a start decides about each as the table says',
    ],
  },
  {
    breaks: 'a bad line inside is cut like a torn end',
    file: 'journal/recovery.ts',
    from: "inside': {\n    afterCrash: 'refuse'",
    to: "inside': {\n    afterCrash: 'truncate'",
    tests: [
      'program/service: a start that fails says why, with the exit code of its reason, and leaves folder and port to others',
      'journal/recovery',
    ],
  },
  {
    breaks: 'a bad end is cut after a clean stop',
    file: 'journal/recovery.ts',
    from: "return isLeftOver ? 'afterCrash' : 'afterStop';",
    to: "return 'afterCrash';",
    tests: [
      'journal/recovery: every kind of finding has its examples, and a start decides about each as the table says',
      'journal/journal',
      'program/program',
    ],
  },
  {
    breaks: 'a bad end is cut however long it is',
    file: 'journal/recovery.ts',
    from: 'isEnd && flaw.bytes > tornBytesMax;',
    to: 'false;',
    tests: [
      'journal/recovery: every kind of finding has its examples, and a start decides about each as the table says',
    ],
  },
  {
    breaks: 'a converted file is cut as an interrupted write',
    file: 'journal/scan.ts',
    from: 'this.#misplaced !== undefined',
    to: 'false',
    tests: [
      'journal/recovery: every kind of finding has its examples, and a start decides about each as the table says',
    ],
  },
  {
    breaks: 'a last line that skips a seq is cut as an interrupted write',
    file: 'journal/scan.ts',
    from: 'bad.seq !== expected',
    to: 'false',
    tests: [
      'journal/recovery: after a crash a last line that is bad but reached its newline is cut, whichever byte but its seq is bad',
    ],
  },
  {
    breaks: 'a converted line is lost by a repair',
    file: 'journal/salvage.ts',
    from: 'bytes[end - 1] === CARRIAGE_RETURN ? 1 : 0;',
    to: '0 as number;',
    tests: ['journal/repair: lines that end in CR LF are good, and are written back with LF'],
  },
  {
    breaks: 'what is cut off is not kept',
    file: 'journal/recovery.ts',
    from: 'await copyFile(disk, name, aside, start);',
    to: '',
    tests: [
      'journal/recovery: every kind of finding has its examples, and a start decides about each as the table says',
    ],
  },
  {
    breaks: 'the last file is trusted after an unclean stop',
    file: 'journal/recovery.ts',
    from: 'if (!stoppedCleanly) {',
    to: 'if (torn !== undefined) {',
    tests: [
      'journal/recovery: after any stop but a clean one the last file is rewritten, and only then',
      'journal/power',
    ],
  },
  {
    breaks: 'repair unlinks before it syncs',
    file: 'journal/repair.ts',
    from: 'await copyFile(disk, name,',
    to: 'await disk.rename(name,',
    tests: ['journal/repair: a flipped bit anywhere costs the line that it is in, or nothing'],
  },
  {
    breaks: 'repair keeps nothing of a damaged file',
    file: 'journal/repair.ts',
    from: 'await copyFile(disk, name,',
    to: 'await (async (..._: unknown[]) => {})(disk, name,',
    tests: [
      'journal/repair: whatever is done to a file, every line that is still there stays, and the journal can be gone on with',
    ],
  },
  {
    breaks: 'repair replaces a file before what it gives up is in place',
    file: 'journal/repair.ts',
    from: 'runs.toReversed()',
    to: 'runs',
    tests: [
      'journal/repair: whatever call of a repair fails or is the last before the power goes, the next repair loses nothing',
    ],
  },
  {
    breaks: 'repair gives the seq of a bad last line to somebody else',
    file: 'journal/repair.ts',
    from: 'index === segments.length - 1 ? found.badAfter : ',
    to: '',
    tests: ['journal/repair: nobody gets the seq of a line that was there and is bad'],
  },
  {
    breaks: 'a second repair in the same second has no folder',
    file: 'journal/repair.ts',
    from: 'names.includes(free)',
    to: 'names.length < 0',
    tests: ['journal/repair: repairs in the same second have folders of their own'],
  },
  {
    breaks: 'repair lists every removed place',
    file: 'journal/repair.ts',
    from: 'if (removed.length < listMax) removed',
    to: 'removed',
    tests: ['journal/repair: long lists are cut, and what is in them is counted'],
  },
  {
    breaks: 'repair takes a refuted line for a good one',
    file: 'journal/salvage.ts',
    from: 'if (!counted || refuted) continue;',
    to: 'if (!counted) continue;',
    tests: ['journal/repair: a flipped bit anywhere costs the line that it is in, or nothing'],
  },
  {
    breaks: 'repair does without the lines that a damaged newline joined',
    file: 'journal/salvage.ts',
    from: 'pieces.add(pieceOf(bytes, form, at + form.start, before, 0));',
    to: '',
    tests: ['journal/repair: a flipped bit anywhere costs the line that it is in, or nothing'],
  },
  {
    breaks: 'repair does without the lines that a damaged newline joined, if they have members after the metadata',
    file: 'journal/record.ts',
    from: 'const LINE_ENDING = /,"crc"',
    to: 'const LINE_ENDING = /(?<=[}]),"crc"',
    tests: ['journal/repair: a flipped bit anywhere costs the line that it is in, or nothing'],
  },
  {
    breaks: 'repair does without a line that a window of its search cuts',
    file: 'journal/salvage.ts',
    from: 'Math.min(to, at + 2 * lineBytesMax)',
    to: 'Math.min(to, at + lineBytesMax)',
    tests: ['journal/repair: lines are found in junk of any length, wherever a window of the search cuts it'],
  },
  {
    breaks: 'repair holds a damaged stretch in memory',
    file: 'journal/salvage.ts',
    from: 'Math.min(to, at + 2 * lineBytesMax)',
    to: 'to',
    tests: ['journal/repair: repair takes little memory, whatever the size of a file and of a damaged stretch'],
  },
  {
    breaks: 'repair leaves out lines that end in CR LF',
    file: 'journal/salvage.ts',
    from: 'bytes[end - 1] === CARRIAGE_RETURN ? 1 : 0',
    to: '0 as number',
    tests: ['journal/repair: lines that end in CR LF are good, and are written back with LF'],
  },
  {
    breaks: 'repair leaves out a line of whose crc only a digit is damaged',
    file: 'journal/salvage.ts',
    from: 'pieces.mark(earlier, Flag.good); //',
    to: '//',
    tests: ['journal/repair: a line whose crc only is damaged is proved by the line behind it'],
  },
  {
    breaks: 'repair looks for the line before a line only right before it',
    file: 'journal/salvage.ts',
    from: 'pieces.endingWith(seq - 1, crc)',
    to: '[]',
    tests: [
      'journal/repair: whatever is done to a file, every line that is still there stays, and the journal can be gone on with',
    ],
  },
  {
    breaks: 'a reader believes a line whatever its crc',
    file: 'journal/resync.ts',
    from: 'this.#seeds.some((seed) => crcOf(bytes, form, seed) === form.crc)',
    to: 'this.#seeds.length > 0',
    tests: [
      'journal/reader: what is damaged is reported with its position, and lines after it whose crc continues the chain are read',
    ],
  },
  {
    breaks: 'a last file that was cut at a line end after a clean stop is taken',
    file: 'journal/recovery.ts',
    from: 'if (chain.seq < end.chain.seq) {',
    to: 'if (chain.seq < 0) {',
    tests: [
      'journal/recovery: after a clean stop a journal that was cut at a line end, or lost its last file, is refused',
    ],
  },
  {
    breaks: 'other last lines than at the clean stop are taken',
    file: 'journal/recovery.ts',
    from: 'if (name !== end.file || ',
    to: 'if (name !== end.file || chain.seq > 0 || ',
    tests: [
      'journal/recovery: after a clean stop a journal that was cut at a line end, or lost its last file, is refused',
    ],
  },
  {
    breaks: 'a journal that was deleted after a clean stop begins again at 1',
    file: 'journal/recovery.ts',
    from: 'if (end !== undefined && end.chain.seq > due) {',
    to: 'if (end !== undefined && end.chain.seq < 0) {',
    tests: [
      'journal/recovery: after a clean stop a journal that was cut at a line end, or lost its last file, is refused',
    ],
  },
  {
    breaks: 'a marker that is left over from an earlier stop is believed',
    file: 'journal/recovery.ts',
    from: 'scan.chain.seq > lastStop.end.chain.seq;',
    to: 'scan.chain.seq < 0;',
    tests: [
      'journal/recovery: a marker that is torn, changed or left over is no clean stop, and never damage; an empty one is as before',
    ],
  },
  {
    breaks: 'a damaged marker is believed',
    file: 'journal/clean-stop.ts',
    from: 'return encode(end) === text ? end : undefined;',
    to: 'return end;',
    tests: [
      'journal/recovery: a marker that is torn, changed or left over is no clean stop, and never damage; an empty one is as before',
    ],
  },
  {
    breaks: 'a stop on a full disk makes the next start wait for space',
    file: 'journal/clean-stop.ts',
    from: 'if (isFull(error as NodeJS.ErrnoException)) return;',
    to: '',
    tests: [
      'journal/recovery: a stop on a full disk leaves an empty marker, so that the next start needs no space; another error leaves none',
    ],
  },
  {
    breaks: 'repair gives the seq of an event that was there at the last clean stop to another one',
    file: 'journal/repair.ts',
    from: 'last <= stopSeq ? Math.max(due, stopSeq) : due + badAfter',
    to: 'due + badAfter',
    tests: ['journal/repair: what is missing since the last clean stop is accounted for, and no event gets its seq'],
  },
  {
    breaks: 'a repair that is begun again stops before it has made the next file',
    file: 'journal/repair.ts',
    from: ' || last < stopSeq;',
    to: ';',
    tests: [
      'journal/repair: whatever call of a repair fails or is the last before the power goes, the next repair loses nothing',
    ],
  },
  {
    breaks: 'a repair leaves the marker of a stop that is no longer true',
    file: 'journal/repair.ts',
    from: 'if (forgetsStop) await forgetCleanStop(disk);',
    to: '',
    tests: ['journal/repair: what is missing since the last clean stop is accounted for, and no event gets its seq'],
  },
  {
    breaks: 'repair gives the seq of a line without form to another event',
    file: 'journal/salvage.ts',
    from: 'return isLineLeft ? count + 1 : count;',
    to: 'return count;',
    tests: ['journal/repair: a bad last line counts as an event that was there, also if nothing of its form is left'],
  },
  {
    breaks: 'repair counts only lines that begin as lines do',
    file: 'journal/salvage.ts',
    from: 'if (!isBlank(bytes.subarray(start, end))) count += 1;',
    to: 'if (readForm(bytes, start, end) !== undefined) count += 1;',
    tests: ['journal/repair: a bad last line counts as an event that was there, also if nothing of its form is left'],
  },
  {
    breaks: 'repair counts line ends as events',
    file: 'journal/salvage.ts',
    from: 'return line.every((byte) => byte === CARRIAGE_RETURN);',
    to: 'return line.length === 0;',
    tests: ['journal/repair: a bad last line counts as an event that was there, also if nothing of its form is left'],
  },
];
