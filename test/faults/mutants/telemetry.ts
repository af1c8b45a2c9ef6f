/** Mutants of logs and metrics. */

import type { Mutant } from './mutant.ts';

export const telemetry: readonly Mutant[] = [
  {
    breaks: 'what somebody sent steers the terminal',
    file: 'telemetry/printable.ts',
    from: 'text.replace(UNPRINTABLE,',
    to: 'text.replace(/(?!)/g,',
    tests: ['commands/table', 'program/events'],
  },
];
