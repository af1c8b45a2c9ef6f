/** Mutants of logs and metrics. */

import type { Mutant } from './mutant.ts';

export const telemetry: readonly Mutant[] = [
  {
    breaks: 'what somebody sent steers the terminal',
    file: 'telemetry/printable.ts',
    from: 'text.replace(UNPRINTABLE,',
    to: 'text.replace(/(?!)/g,',
    tests: ['commands/table: what is not to be seen is shown as the escape that JSON has for it', 'program/events'],
  },
  {
    breaks: 'a flood of refusals floods the log',
    file: 'telemetry/activity.ts',
    from: 'if (this.#lines <= this.#max) return true;',
    to: 'if (this.#lines >= 0) return true;',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'refusals beyond the rate are not counted',
    file: 'telemetry/activity.ts',
    from: 'this.#beyond += 1;',
    to: '',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'the count of refusals waits for the next refusal',
    file: 'telemetry/activity.ts',
    from: 'this.#timer ??= setTimeout(() => this.close(), this.#endsMs - now).unref();',
    to: '',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'the query of a refused request is logged',
    file: 'telemetry/refusals.ts',
    from: ".replace(/[?#].*$/s, '')",
    to: '',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'a path of any length is logged',
    file: 'telemetry/activity.ts',
    from: 'path.length > charactersMax',
    to: 'path.length < 0',
    tests: ['telemetry/activity'],
  },
  {
    breaks: 'a path can send escape sequences to the terminal',
    file: 'telemetry/activity.ts',
    from: 'printable(text)',
    to: 'text',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'recorded events are shown with --quiet as well',
    file: 'telemetry/activity.ts',
    from: ' && !quiet',
    to: '',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'recorded events are logged where no terminal is',
    file: 'telemetry/activity.ts',
    from: 'terminal !== undefined && !quiet',
    to: '!quiet',
    tests: ['telemetry/activity'],
  },
  {
    breaks: 'colours are written although NO_COLOR is set',
    file: 'telemetry/activity.ts',
    from: "!env['NO_COLOR'] && ",
    to: '',
    tests: ['telemetry/activity', 'program/refusals'],
  },
  {
    breaks: 'a flood of refusals hides that a foreign page was refused',
    file: 'telemetry/activity.ts',
    from: 'const warns = status === 403 && this.#isNew(request.problem);',
    to: 'const warns = status === 403 && this.#refusals.take() && this.#isNew(request.problem);',
    tests: ['telemetry/activity: a 403 is one line, the first of each kind a warning that no flood of others hides'],
  },
  {
    breaks: 'a token of a deployment in a path is shown',
    file: 'telemetry/masked.ts',
    from: '!isEncoded && !isToken(text)',
    to: 'text',
    tests: [
      'telemetry/masked: a token in a path is masked, in one part or in several, percent-encoded or not',
      'program/refusals: a token in a path is neither logged nor shown, in whatever form it was sent',
    ],
  },
];
