/** Mutants of the service for tests. */

import type { Mutant } from './mutant.ts';

const EACH =
  'program/test-mode: what the client sees and what the journal has are as the fault says, for each effect and recorded or not';
const RESET = 'program/test-mode: a reset begins the journal anew, without faults and without what was known of keys';
const MEANWHILE =
  'program/test-mode: reports that arrive during resets are all answered 200, and those after the last reset are recorded';
const FOLDER =
  'program/test-mode: --test keeps the folder of --data, and refuses one whose journal it did not make, and --deployments';
const OWN_FOLDER =
  'program/test-mode: a service for tests names its mode, and has a folder of its own that goes with it';
const STRICT =
  'program/test-mode: --strict refuses a report with an unknown parameter, and without it the parameter is ignored';
const DELAYED =
  'program/test-mode: a delayed report is recorded before its reply, which a reset or the end of its client sends at once';
const WRONG = 'test-mode/fault: an unknown member, a wrong value and a contradiction are refused with their path';
const TURNS = 'test-mode/faults: the first fault that matches wins, and a used-up one passes the turn on';
const SEEDS = 'test-mode/faults: the same seed and the same reports are the same run, and another seed is another one';

export const testMode: readonly Mutant[] = [
  {
    breaks: 'a service for tests keeps its old events after a reset',
    file: 'journal/empty.ts',
    from: 'await disk.remove(name);',
    to: '',
    tests: [RESET],
  },
  {
    breaks: 'a service for tests that is interrupted while it empties its journal leaves a damaged one',
    file: 'journal/empty.ts',
    from: 'own.reverse()',
    to: 'own',
    tests: [
      'journal/empty: whenever emptying a journal fails, what is left can be started, and is the beginning of it',
    ],
  },
  {
    breaks: 'a service for tests keeps its faults after a reset',
    file: 'test-mode/test-mode.ts',
    within: 'TestMode.reset',
    from: 'this.faults.clear();',
    to: '',
    tests: [RESET],
  },
  {
    breaks: 'a service for tests keeps refusals after a reset',
    file: 'service.ts',
    from: 'refusals.clear();',
    to: '',
    tests: [RESET],
  },
  {
    breaks: 'a service for tests does not tell streams that the journal begins anew',
    file: 'service.ts',
    from: 'await journals.of(undefined).beginAnew(() => recording.beginAnew());',
    to: 'await recording.beginAnew();',
    tests: ['program/test-mode: a stream of events gets a reset, and continues with the first event after it'],
  },
  {
    breaks: 'a service for tests stops while its journal begins anew',
    file: 'service/local-journal.ts',
    from: 'await this.#begun.catch(() => {});',
    to: '',
    tests: [
      'service/local-journal: a close waits until the journal has begun anew, which it does not do after a close',
    ],
  },
  {
    breaks: 'a service for tests keeps the state of assets after a reset',
    file: 'service.ts',
    from: 'assets.beginAnew();',
    to: '',
    tests: ['program/test-mode: what is read after a reset is only what was recorded after it'],
  },
  {
    breaks: 'a service for tests keeps replies back after a reset',
    file: 'test-mode/test-mode.ts',
    from: 'this.#delays.end();',
    to: '',
    tests: [DELAYED],
  },
  {
    breaks: 'a service for tests refuses the reports that arrive during a reset',
    file: 'service/local-journal.ts',
    from: 'append: (...report) => this.current.append(...report),',
    to: 'append: current.append.bind(current),',
    tests: [MEANWHILE],
  },
  {
    breaks: 'a service for tests empties a journal that it did not make',
    file: 'service/local.ts',
    within: 'checkForTests',
    from: 'segments.length > 0',
    to: 'segments.length < 0',
    tests: [FOLDER],
  },
  {
    breaks: 'a service for tests takes the folder of another service if none is given',
    file: 'commands/serve.ts',
    from: '{ ...given, data: makeOwnFolder() }',
    to: '{ ...given, data: options.data.initial }',
    tests: [OWN_FOLDER],
  },
  {
    breaks: 'a service for tests does not say that it is one',
    file: 'test-mode/test-mode.ts',
    from: ", mode: 'test' }",
    to: ' }',
    tests: [OWN_FOLDER],
  },
  {
    breaks: 'a service for tests records what a fault says is not recorded',
    file: 'test-mode/test-mode.ts',
    from: 'if (met?.effect.recorded === false) return answer(OK);',
    to: '',
    tests: [EACH],
  },
  {
    breaks: 'a service for tests does not record what a fault says is recorded',
    file: 'test-mode/test-mode.ts',
    from: 'if (met?.effect.recorded === false)',
    to: 'if (met !== undefined)',
    tests: [EACH],
  },
  {
    breaks: 'a service for tests counts a reply that it did not send',
    file: 'http/exchanges.ts',
    from: "if (reply.kind !== 'cut' || reply.sent === 'all') metrics",
    to: 'metrics',
    tests: [EACH],
  },
  {
    breaks: 'a service for tests sends the whole reply instead of a half',
    file: 'http/replies.ts',
    from: 'return half ?',
    to: 'return !half ?',
    tests: [EACH],
  },
  {
    breaks: 'a service for tests closes a connection where a fault resets it',
    file: 'http/exchanges.ts',
    from: 'socket.resetAndDestroy();',
    to: 'socket.destroy();',
    tests: [EACH],
  },
  {
    breaks: 'a service for tests reads the body of a request that a fault drops',
    file: 'test-mode/faults.ts',
    within: 'isDecidedByHead',
    from: "if (effect.drop !== 'request'",
    to: "if (effect.drop === 'request'",
    tests: [
      'test-mode/faults: only a fault that asks for nothing but the type drops a request before its body is read',
    ],
  },
  {
    breaks: 'a service for tests lets faults meet readings',
    file: 'test-mode/test-mode.ts',
    from: ' || !types.has(decision.route)) return',
    to: ') return',
    tests: ['program/test-mode: no reading meets a fault, nor does a report that is wrong'],
  },
  {
    breaks: 'a service for tests continues with a used-up fault',
    file: 'test-mode/faults.ts',
    within: 'Faults.#takes',
    from: ' || one.met >= times',
    to: '',
    tests: [TURNS],
  },
  {
    breaks: 'a service for tests lets a later fault win',
    file: 'test-mode/faults.ts',
    from: '} else if (met !== undefined) {',
    to: '} else if (index < 0) {',
    tests: [TURNS],
  },
  {
    breaks: 'a service for tests ignores the seed of its faults',
    file: 'test-mode/faults.ts',
    from: 'mulberry32(this.#seed + ',
    to: 'mulberry32(randomInt(SEED_MAX) + ',
    tests: [SEEDS],
  },
  {
    breaks: 'a service for tests begins each run with the same seed',
    file: 'test-mode/faults.ts',
    from: 'mulberry32(this.#seed + ',
    to: 'mulberry32(',
    tests: [SEEDS],
  },
  {
    breaks: 'a service for tests answers the first report of a check as the reference answers the second',
    file: 'test-mode/faults.ts',
    from: "!this.#checks.has(checkOf(events[0]) ?? '')",
    to: 'checkOf(events[0]) === undefined',
    tests: ['test-mode/faults: as the reference: only a check with a partition that was recorded before'],
  },
  {
    breaks: 'a service for tests keeps the connection that the reference closes',
    file: 'test-mode/test-mode.ts',
    from: "return { kind: 'cut', status: 500, reply: REFERENCE, sent: 'all' };",
    to: 'return REFERENCE;',
    tests: [
      'program/test-mode: as the reference: the second report of a check with a partition is 500, recorded, and its connection is closed',
    ],
  },
  {
    breaks: 'a service for tests remembers checks without end',
    file: 'test-mode/faults.ts',
    from: 'this.#checks.delete(oldest);',
    to: '',
    tests: ['test-mode/faults: as the reference: only a check with a partition that was recorded before'],
  },
  {
    breaks: 'a service for tests holds back any number of replies',
    file: 'test-mode/delays.ts',
    from: 'this.#waiting.size >= this.#max',
    to: 'this.#waiting.size < 0',
    tests: ['test-mode/delays: replies beyond the cap are not held back, and all that wait can be sent'],
  },
  {
    breaks: 'a service for tests loses its faults to wrong ones',
    file: 'test-mode/faults.ts',
    from: 'const { seed = randomInt(SEED_MAX), faults } = readFaults(value, this.#limits);\n    this.clear();',
    to: 'this.clear();\n    const { seed = randomInt(SEED_MAX), faults } = readFaults(value, this.#limits);',
    tests: ['test-mode/faults: wrong faults leave the old ones, and one more can be added'],
  },
  {
    breaks: 'a service for tests ignores what is misspelt in a fault',
    file: 'test-mode/fault.ts',
    from: 'throw new FaultsError(`${at} is unknown',
    to: 'continue; throw new FaultsError(`${at} is unknown',
    tests: [WRONG],
  },
  {
    breaks: 'a service for tests shows the first report that did not match instead of the nearest',
    file: 'test-mode/faults.ts',
    within: 'remember',
    from: 'count > Object.keys(one.nearest?.differs ?? differs).length',
    to: 'one.nearest !== undefined',
    tests: [
      'test-mode/faults: what did not match is shown with the members that differ, the nearest and of several the latest',
    ],
  },
  {
    breaks: 'a service for tests ignores unknown parameters',
    file: 'service.ts',
    from: 'config.strict || config.test',
    to: 'config.strict',
    tests: [STRICT],
  },
  {
    breaks: '--strict is not looked at',
    file: 'service.ts',
    from: 'config.strict || config.test',
    to: 'config.test',
    tests: [STRICT],
  },
  {
    breaks: 'a service that was started with --exit-with-stdin outlives the program that started it',
    file: 'commands/serve.ts',
    from: "process.stdin.on('end', onClosed)",
    to: 'process.stdin',
    tests: ['program/test-mode: --exit-with-stdin stops a service when its standard input is closed'],
  },
];
