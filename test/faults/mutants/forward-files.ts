/** Mutants of the files that forwarding keeps beside a journal: the id, the cursors, the dead letters. */

import type { Mutant } from './mutant.ts';

const CURSOR_POWER =
  'forward/cursor: a power cut at any call: the cursor is the last durable one or the one that was being saved';
const LETTERS_POWER = 'forward/dead-letters: a power cut at any call: each letter whose append resolved is there';

const REAL_SERVICE =
  'program/forward: a real service is shown as it is, sends a dead letter again when asked, and is shown as dead when it is';

export const forwardFiles: readonly Mutant[] = [
  {
    breaks: 'a cursor is saved over its only valid slot',
    file: 'forward/cursor.ts',
    from: '(number % 2) * SLOT_BYTES',
    to: '0',
    tests: [CURSOR_POWER, 'forward/cursor'],
  },
  {
    breaks: 'the first save of a cursor leaves the space of its other slot to a disk that may be full then',
    file: 'forward/cursor.ts',
    from: 'number === 0 ? Buffer.concat([slot, Buffer.alloc(SLOT_BYTES)]) : slot',
    to: 'slot',
    tests: ['forward/cursor: a cursor is new, then what was saved last, in a real file of two slots'],
  },
  {
    breaks: 'a cursor is not synced',
    file: 'journal/disk.ts',
    within: 'slotFile',
    from: 'await file.sync();',
    to: '',
    tests: ['faults/order: a slot is on the disk when its write resolves'],
  },
  {
    breaks: 'a cursor that was damaged passes for the cursor of a new destination',
    file: 'forward/cursor.ts',
    from: 'if (!names.includes(KNOWN_PREFIX + name))',
    to: "if (name !== '')",
    tests: ['forward/cursor: a damaged slot leaves the other; without one the cursor is lost, and can be saved again'],
  },
  {
    breaks: 'a destination that is sent to is not remembered as known',
    file: 'forward/cursor.ts',
    within: 'Cursor.save',
    from: 'await this.#know();',
    to: '',
    tests: ['forward/cursor: a missing cursor is lost if its destination was sent to, and new for another destination'],
  },
  {
    breaks: 'a destination is remembered as known before its cursor is saved',
    file: 'forward/cursor.ts',
    within: 'Cursor.save',
    from: 'const number =',
    to: 'await this.#know();\n    const number =',
    tests: [CURSOR_POWER],
  },
  {
    breaks: 'a torn slot is believed',
    file: 'forward/cursor.ts',
    from: 'if (text !== `${body},"crc":"${hex(crc32(body))}"}`) return undefined;',
    to: "if (!text.startsWith('{')) return undefined;",
    tests: [
      CURSOR_POWER,
      'forward/cursor: a damaged slot leaves the other; without one the cursor is lost, and can be saved again',
    ],
  },
  {
    breaks: 'a long URL does not fit into a cursor',
    file: 'forward/cursor.ts',
    from: '<= URL_BYTES_MAX) return url;',
    to: '>= 0) return url;',
    tests: ['forward/cursor: a URL of any length and with any characters is told from another one'],
  },
  {
    breaks: 'a dead letter is not synced',
    file: 'forward/dead-letters.ts',
    from: 'await appendWhole({',
    to: 'void appendWhole({',
    tests: [LETTERS_POWER, 'forward/dead-letters'],
  },
  {
    breaks: 'a torn dead letter stays before the next one',
    file: 'forward/dead-letters.ts',
    within: 'DeadLetters.#recover',
    from: 'await log.truncate(this.#kept.bytes);',
    to: '',
    tests: [
      'forward/dead-letters: a torn end is cut when the file is opened; a damaged line before the last is reported',
    ],
  },
  {
    breaks: 'the digits of a dead letter change',
    file: 'forward/dead-letter.ts',
    from: '${LINE_MEMBER}${line}}`',
    to: '${LINE_MEMBER}${JSON.stringify(JSON.parse(line))}}`',
    tests: ['forward/dead-letters: dead letters are lines of a real file, with the line of the journal digit by digit'],
  },
  {
    breaks: 'the rest of a failed append stays before the next letter',
    file: 'forward/dead-letters.ts',
    within: 'DeadLetters.#append',
    from: 'this.#isUnsure = true;',
    to: '',
    tests: [
      'forward/dead-letters: a failure at any call: each letter whose append resolved is there',
      'forward/dead-letters',
    ],
  },
  {
    breaks: 'a dead letter that was sent again counts as open until the next start',
    file: 'forward/dead-letters.ts',
    from: ' - Number(wasOpen)',
    to: '',
    tests: [REAL_SERVICE],
  },
  {
    breaks: 'dead letters are sent again faster than the limit of their destination',
    file: 'forward/retry.ts',
    from: 'const waitMs = turnMs();',
    to: 'const waitMs = 0 * turnMs();',
    tests: [REAL_SERVICE],
  },
  {
    breaks: 'a destination that was taken out is shown in its last state',
    file: 'forward/link.ts',
    from: 'isLast ? NO_PROCESS : process.pid',
    to: 'process.pid',
    tests: [
      'forward/forwarding: a destination is added, changed and removed by its file, and a reload forgets no cursor',
    ],
  },
  {
    breaks: 'an id that a power cut takes back is shown to a hub',
    file: 'journal/disk.ts',
    within: 'replaceDurably',
    from: 'await disk.syncFolder();',
    to: '',
    tests: ['forward/source: a power cut at any call: an id that was returned is the same after the next start'],
  },
  {
    breaks: 'an id that was found is used before its entry is durable',
    file: 'forward/source.ts',
    within: 'openSource',
    from: 'await disk.syncFolder();',
    to: '',
    tests: ['forward/source: a power cut at any call: an id that was returned is the same after the next start'],
  },
  {
    breaks: 'an id that was removed is replaced by itself',
    file: 'forward/source.ts',
    from: '.some((name) => name.startsWith(KNOWN_PREFIX))',
    to: ".includes('')",
    tests: [
      'forward/source: an id that is not readable, or that was removed beside a known destination, is not replaced by itself',
    ],
  },
  {
    breaks: 'a forwarded event gets a new id',
    file: 'journal/journal.ts',
    from: 'ids[lines.length + index] = id;',
    to: 'ids[lines.length + index] = index < 0 ? id : undefined;',
    tests: [
      'journal/forwarded: a forwarded line has the id and the time of its first recorder, also beside own lines in one batch',
    ],
  },
  {
    breaks: 'the ids of forwarded events begin at the first line of their batch',
    file: 'journal/journal.ts',
    from: 'ids[lines.length + index] = id;',
    to: 'ids[index] = id;',
    tests: [
      'journal/forwarded: a forwarded line has the id and the time of its first recorder, also beside own lines in one batch',
    ],
  },
  {
    breaks: 'an id goes to another event if some of its report were recorded before',
    file: 'journal/idempotency.ts',
    from: 'entry.ids && fresh.map((index) => entry.ids?.[index])',
    to: 'entry.ids',
    tests: [
      'journal/forwarded: the idempotency key of a forwarded event is recorded and not looked up, in the last file',
    ],
  },
  {
    breaks: 'the key of a forwarded event is looked up',
    file: 'journal/idempotency-keys.ts',
    from: 'key === undefined || origin !== undefined',
    to: 'key === undefined',
    tests: [
      'journal/forwarded: the idempotency key of a forwarded event is recorded and not looked up, in the last file',
    ],
  },
  {
    breaks: 'a start takes the keys of forwarded events for those of own ones',
    file: 'journal/record.ts',
    within: 'idempotencyKeyOf',
    from: 'const at = end - CRC_MEMBER_BYTES;',
    to: `const from = bytes.subarray(0, end).lastIndexOf(',"from":["');\n  const at = from > start ? from : end - CRC_MEMBER_BYTES;`,
    tests: [
      'journal/forwarded: the idempotency key of a forwarded event is recorded and not looked up, in the last file',
    ],
  },
  {
    breaks: 'two letters that are appended at the same time overwrite each other',
    file: 'forward/dead-letters.ts',
    within: 'DeadLetters.#inTurn',
    from: 'this.#acted.then(act)',
    to: 'act()',
    tests: ['forward/dead-letters: letters that are appended at the same time are all there, in their order'],
  },
  {
    breaks: 'retention removes events that are still to be forwarded',
    file: 'journal/retention.ts',
    within: 'Retention.#withoutHeldBack',
    from: 'files.slice(0, count)',
    to: 'files',
    tests: [
      'journal/hooks: at the limit of retention, a file that is held back stays, and reports are refused until it is not',
    ],
  },
  {
    breaks: 'a file that is held back only in part is removed',
    file: 'journal/retention.ts',
    within: 'Retention.#withoutHeldBack',
    from: 'last_seq >= held.fromSeq',
    to: 'last_seq > held.fromSeq',
    tests: [
      'journal/hooks: at the limit of retention, a file that is held back stays, and reports are refused until it is not',
    ],
  },
  {
    breaks: 'reports are recorded at the limit of retention while files are held back',
    file: 'journal/journal.ts',
    from: 'return this.#retention.refusal ?? overload(',
    to: 'return overload(',
    tests: [
      'journal/hooks: at the limit of retention, a file that is held back stays, and reports are refused until it is not',
    ],
  },
  {
    breaks: 'the service is ready at the limit of retention',
    file: 'journal/journal.ts',
    within: 'Journal.trouble',
    from: ' ?? this.#retention.refusal',
    to: '',
    tests: [
      'journal/hooks: at the limit of retention, a file that is held back stays, and reports are refused until it is not',
    ],
  },
  {
    breaks: 'a refusal at the limit of retention lasts until the next hour',
    file: 'journal/retention.ts',
    within: 'Retention.run',
    from: 'this.#options.limits.spaceCheckMs',
    to: '3_600_000',
    tests: [
      'journal/hooks: the refusal ends by itself soon after the destination has moved on, or space is free again',
    ],
  },
  {
    breaks: 'a journal that is opened records what waits, although files are held back',
    file: 'journal/journal.ts',
    within: 'Journal.open',
    from: 'await this.#retention.look();',
    to: '',
    tests: ['journal/hooks: reports that wait for a journal to be opened are refused if a file is held back then'],
  },
  {
    breaks: 'files are removed before the hook has resolved',
    file: 'journal/retention.ts',
    within: 'Retention.#prepareRemoval',
    from: 'await this.#options.hooks?.removing(',
    to: 'void this.#options.hooks?.removing(',
    tests: [
      'journal/hooks: nothing is removed before the hook has resolved, and nothing at all if it rejects, until it is called again',
    ],
  },
  {
    breaks: 'a file is removed although no dead letter can name its events',
    file: 'journal/retention.ts',
    within: 'Retention.#prepareRemoval',
    from: 'return false;',
    to: 'return true;',
    tests: [
      'forward/removed: while no letter can be written no file is removed, and reports are refused with the reason',
    ],
  },
  {
    breaks: 'retention removes events that a destination has not confirmed before a letter names them',
    file: 'forward/link.ts',
    within: 'Link.removing',
    from: 'if (first > gone.last) return;',
    to: 'if (first > 0) return;',
    tests: [
      'forward/removed: what the cursor has not passed is named once, with a warning, and counted',
      'forward/retention: what retention removes while the destination is away is said at once, and counted at the hub later',
    ],
  },
  {
    breaks: 'an event that was taken after all is still named as lost',
    file: 'forward/dead-letters.ts',
    within: 'DeadLetters.taken',
    from: 'if (first > this.#kept.removedSeq) return;',
    to: 'if (first > 0) return;',
    tests: [
      'forward/removed: hub: an event that was on its way when it was named, and was taken, is not named any more',
      'forward/removed: hub: a power cut at any call: each event arrives or is named as lost, and none both',
    ],
  },
  {
    breaks: 'dead letters have no limit',
    file: 'forward/dead-letters.ts',
    within: 'DeadLetters.#makeSpace',
    from: 'if (!isTooMuch()) return;\n    const',
    to: 'if (bytes > 0) return;\n    const',
    tests: [
      'forward/dead-letters: at the limit no letter is lost; what is closed makes space, and what is open stays as it was',
      'forward/forwarder: a destination whose dead letters have reached their limit stops, and continues when there is space',
    ],
  },
  {
    breaks: 'an open letter is lost when closed ones make space',
    file: 'forward/compaction.ts',
    from: 'if (at === lines.get(first)) yield',
    to: 'if (at === lines.get(first) && at > 0) yield',
    tests: [
      'forward/dead-letters: at the limit no letter is lost; what is closed makes space, and what is open stays as it was',
    ],
  },
  {
    breaks: 'files are marked as removed before the hook has resolved',
    file: 'journal/retention.ts',
    within: 'Retention.#removeOld',
    from: '    if (last === removedLast) this.#refuse(refusal);',
    to: '    if (!names.includes(marker)) await this.#mark(marker, stale);\n    if (last === removedLast) this.#refuse(refusal);',
    tests: [
      'journal/hooks: a power cut at any call: what is held back stays, and the rest goes only after the hook',
      'journal/hooks: nothing is removed before the hook has resolved, and nothing at all if it rejects, until it is called again',
    ],
  },
  {
    breaks: 'a batch waits for the hook of a closed file',
    file: 'journal/journal.ts',
    within: 'Journal.#rotate',
    from: 'void this.#closedCalls.call',
    to: 'await this.#closedCalls.call',
    tests: [
      'journal/hooks: the hook learns of closed files without delaying a batch, and of a stop before it is noted',
    ],
  },
  {
    breaks: 'a clean stop is noted without the hook',
    file: 'journal/journal.ts',
    within: 'Journal.close',
    from: 'await this.#closedCalls.call(segment.chain.seq - 1);',
    to: '',
    tests: [
      'journal/hooks: the hook learns of closed files without delaying a batch, and of a stop before it is noted',
    ],
  },
  {
    breaks: 'a hook that fails hides a clean stop',
    file: 'journal/hooks.ts',
    within: 'ClosedCalls.#callAll',
    from: '} catch (error) {',
    to: '} catch (error) {\n        throw error;',
    tests: [
      'journal/hooks: the hook learns of closed files without delaying a batch, and of a stop before it is noted',
    ],
  },
  {
    breaks: 'a journal that a forwarder waits for gives up its turn',
    file: 'deployments/journals.ts',
    within: 'DeploymentJournal.isBusy',
    from: 'this.#isWoken || ',
    to: '',
    tests: [
      'program/hosted: a forwarder opens a journal without a report, in its turn, and an idle close keeps how far it is durable',
    ],
  },
  {
    breaks: 'a journal that a forwarder has woken keeps its slot',
    file: 'deployments/journals.ts',
    within: 'DeploymentJournal.#sleep',
    from: 'this.#options.slots.closeIdle();',
    to: '',
    tests: [
      'program/hosted: a forwarder opens a journal without a report, in its turn, and an idle close keeps how far it is durable',
    ],
  },
  {
    breaks: 'a journal that a forwarder needs is closed as idle',
    file: 'deployments/journals.ts',
    within: 'DeploymentJournal.wake',
    from: 'this.lastUsedMs = nowMs;',
    to: '',
    tests: ['program/hosted: a journal that is woken again and again is not closed as idle'],
  },
  {
    breaks: 'a journal that fails is opened again at each wake',
    file: 'deployments/journals.ts',
    within: 'DeploymentJournal.wake',
    from: 'nowMs < state.againMs + this.#options.limits.forwardStoppedMs',
    to: 'nowMs < state.againMs',
    tests: [
      'program/hosted: a journal that can not be opened is not tried again at each wake, but by a report and after a while',
    ],
  },
  {
    breaks: 'what retention removed is in no dead letter if the hub forgot the journal',
    file: 'forward/forwarder.ts',
    from: 'Math.min(had, (await this.#firstSeq()) - 1)',
    to: '(await this.#firstSeq()) - 1',
    tests: [
      'forward/forwarder: what retention removed after the cursor is in the dead letters also if the hub forgot the journal',
    ],
  },
  {
    breaks: 'the journal of a device does not ask what is still to be forwarded',
    file: 'service/local.ts',
    from: ', hooks: hooksOf?.(undefined)',
    to: '',
    tests: [
      'program/forward-retention: at the limit of retention, reports are refused until the destination has the oldest events, also after a crash',
    ],
  },
];
