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
];
