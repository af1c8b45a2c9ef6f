/** Mutants of `assetlog forward`. */

import type { Mutant } from './mutant.ts';

const JSON_STATUS = 'program/forward: status says as JSON how far a destination is, since when and why';
const DEAD_SERVICE = 'program/forward: status of a dead service says so, and its figures are right';
const CHANGES =
  'program/forward: skip, from and identity --new change a folder without a service, and are refused with 4 beside one';
const SKIP =
  'forward/by-hand: skip gives up the events that are next, each with its line, and the destination gets those after them';
const POWER =
  'forward/by-hand: a power cut at any call of skip or from: each event that the cursor passed has its dead letter';
const RETRY_ONCE = 'forward/retry: what was refused is sent again, once, and the marker is removed';

export const forwardCommand: readonly Mutant[] = [
  {
    breaks: 'a dead letter says that an event was given up, which its hub gets all the same',
    file: 'forward/by-hand.ts',
    from: '!isHub || seq <= next',
    to: 'true',
    tests: [
      'forward/by-hand: from leaves out no event of a hub, which would get it all the same, and says that the hub decides',
    ],
  },
  {
    breaks: 'status of one destination shows them all',
    file: 'commands/forward-status.ts',
    from: '(name ?? status.name) === status.name',
    to: "name !== ''",
    tests: [
      'program/forward: status of a hosted folder shows each deployment, and of one that was never forwarded nothing',
    ],
  },
  {
    breaks: 'status does not say how far behind a destination is',
    file: 'forward/status.ts',
    from: 'Math.max(0, last_seq - seq)',
    to: '0',
    tests: [JSON_STATUS],
  },
  {
    breaks: 'status does not say how old the oldest event is that is still to be sent',
    file: 'forward/status.ts',
    from: 'first: seq + 1, last: lastSeq',
    to: 'first: lastSeq + 1, last: lastSeq',
    tests: [JSON_STATUS],
  },
  {
    breaks: 'status shows a dead service as running',
    file: 'forward/status.ts',
    within: 'stateOf',
    from: 'if (running === undefined) {',
    to: 'if (running === undefined && written === undefined) {',
    tests: [DEAD_SERVICE],
  },
  {
    breaks: 'a destination that the service no longer has is shown as in order',
    file: 'forward/status.ts',
    from: ' && (running.pid ?? written.pid) === written.pid',
    to: '',
    tests: ['program/forward: beside a service that does not have the destination, status says that'],
  },
  {
    breaks: 'after a crash status does not know where the journal ends',
    file: 'forward/status.ts',
    within: 'readLastSeq',
    from: 'last = seq;',
    to: '{}',
    tests: [DEAD_SERVICE],
  },
  {
    breaks: 'a stopped destination is exit code 0',
    file: 'commands/forward-status.ts',
    from: "isServed(status) && status.state !== 'stopped'",
    to: 'isServed(status)',
    tests: [JSON_STATUS],
  },
  {
    breaks: 'a reason steers the terminal',
    file: 'commands/forward-status.ts',
    from: 'printable(note).replace(',
    to: 'note.replace(',
    tests: [
      'program/forward: on a terminal a status is one screen of at most 80 columns, and nothing in it steers the terminal',
    ],
  },
  {
    breaks: 'an event is skipped without a dead letter',
    file: 'forward/by-hand.ts',
    within: 'skip',
    from: 'await bury(disk, name, { line: line.text }',
    to: 'void (disk, name, { line: line.text }',
    tests: [SKIP],
  },
  {
    breaks: 'the cursor passes an event before its dead letter is durable',
    file: 'forward/by-hand.ts',
    within: 'continueFrom',
    from: 'if (isFound && next < seq) await bury(',
    to: 'await save(disk, name, { ...value, seq: seq - 1 });\n  if (isFound && next < seq) await bury(',
    tests: [POWER],
  },
  {
    breaks: 'from leaves events out without a dead letter',
    file: 'forward/by-hand.ts',
    within: 'continueFrom',
    from: 'isFound && next < seq',
    to: 'isFound && next > seq',
    tests: [
      'forward/by-hand: from lets a lost cursor continue, sends events again, or leaves them out with a dead letter',
    ],
  },
  {
    breaks: 'skip, from and identity --new change what a running service uses',
    file: 'commands/forward-changes.ts',
    from: 'await lockFolder(disk.folder)',
    to: '{ release: async () => {} }',
    tests: [CHANGES],
  },
  {
    breaks: 'after identity --new a hub gets all events again',
    file: 'forward/forwarder.ts',
    from: 'const isSet = this.#value.id === null;',
    to: 'const isSet = false;',
    tests: [
      'forward/by-hand: after identity --new a hub that does not know the journal gets what it did not get before',
    ],
  },
  {
    breaks: 'a power cut in identity --new leaves a new id with the cursors of the old one',
    file: 'forward/by-hand.ts',
    within: 'newIdentity',
    from: 'if (seq !== undefined) checkEnd(last, seq - 1);',
    to: 'await replaceSource(disk);\n  if (seq !== undefined) checkEnd(last, seq - 1);',
    tests: [
      'forward/by-hand: a power cut at any call of identity --new: no hub gets under the new id what it got under the old one',
    ],
  },
  {
    breaks: 'a second retry sends an event twice',
    file: 'forward/retry.ts',
    from: "outcome: 'sent again', reason",
    to: 'outcome, reason',
    tests: [RETRY_ONCE],
  },
  {
    breaks: 'an event that was being sent again in a crash is sent once more',
    file: 'forward/retry.ts',
    from: "await note({ outcome: 'in doubt', reason }, isOpen(state));",
    to: '',
    tests: ['forward/retry: a power cut at any call: no event that may be there is sent again unless it is named'],
  },
  {
    breaks: 'a retry doubles events that are in doubt',
    file: 'forward/retry.ts',
    from: "return outcome === 'refused';",
    to: "return outcome === 'refused' || outcome === 'in doubt';",
    tests: [RETRY_ONCE],
  },
  {
    breaks: 'a retry that was asked for without a service is sent at its next start',
    file: 'commands/forward-retry.ts',
    from: 'if (status === undefined || !isServed(status)) {',
    to: 'await writeRetry(disk, name, { seqs: seq });\n    if (status === undefined || !isServed(status)) {',
    tests: ['program/forward: retry without a service sends nothing, and leaves nothing that would be sent later'],
  },
  {
    breaks: 'the name of a destination leads out of the folder',
    file: 'commands/forward.ts',
    from: 'NAME.test(chosen)',
    to: 'chosen.length > 0',
    tests: ['program/forward: what can not be done is refused with 2, and says what can'],
  },
];
