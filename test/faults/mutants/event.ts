/** Mutants of what a report is. */

import type { Mutant } from './mutant.ts';

export const event: readonly Mutant[] = [
  {
    breaks: 'one level more of JSON',
    file: 'event/json.ts',
    from: 'if (this.#depth > this.#depthMax)',
    to: 'if (this.#depth > this.#depthMax + 1)',
    tests: ['program/hostile: hostile inputs'],
  },
  {
    breaks: 'one member more in a body',
    file: 'event/json.ts',
    from: 'if (count === this.#countMax)',
    to: 'if (count === this.#countMax + 1)',
    tests: ['program/hostile: hostile inputs'],
  },
  {
    breaks: 'two rows of the table of parameters have changed places',
    file: 'event/parameters.ts',
    from: 'parameters: rows.filter(',
    to: "parameters: [...rows].sort((a, b) => Number(a.name === 'passed') - Number(b.name === 'passed')).filter(",
    tests: ['event/parameters: each endpoint checks its parameters in the order of its table in the specification'],
  },
  {
    breaks: 'an endpoint takes the parameters of another one',
    file: 'event/parameters.ts',
    from: 'takenBy.includes(report.name)',
    to: 'takenBy.length > 0',
    tests: ['event/parameters: each endpoint checks its parameters in the order of its table in the specification'],
  },
];
