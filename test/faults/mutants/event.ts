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
  {
    breaks: 'the zone of an event time is added instead of subtracted',
    file: 'event/event-time.ts',
    from: "sign === '-' ? offset : -offset",
    to: "sign === '-' ? -offset : offset",
    tests: ['event/event-time'],
  },
  {
    breaks: 'an event time takes a leap second',
    file: 'event/event-time.ts',
    from: "if (second === '60')",
    to: "if (second === '61')",
    tests: ['event/event-time'],
  },
  {
    breaks: 'an event time of 1900 has a February 29',
    file: 'event/event-time.ts',
    from: '(year % 100 !== 0 || year % 400 === 0)',
    to: 'year > 0',
    tests: ['event/event-time'],
  },
  {
    breaks: 'an event time leaves the years of four digits',
    file: 'event/event-time.ts',
    from: 'if (utc.year < 1 || utc.year > 9999)',
    to: 'if (utc.year < 0)',
    tests: ['event/event-time'],
  },
  {
    breaks: 'the digits of an event time are lost',
    file: 'event/event-time.ts',
    from: '${second}${fraction}`;',
    to: '${second}${fraction.slice(0, 4)}`;',
    tests: ['event/event-time'],
  },
  {
    breaks: 'event times of one second sort by the length of their fraction',
    file: 'event/event-time.ts',
    from: "while (utc[end - 1] === '0') end -= 1;",
    to: '',
    tests: ['event/event-time'],
  },
  {
    breaks: 'a tag wins over another data version in the same item',
    file: 'event/item.ts',
    from: "tag.kind !== 'null' && (own.kind !== tag.kind || stringOf(own) !== stringOf(tag))",
    to: 'parameters.set(name, tag).size === 0',
    tests: ['http/batch: a tag may repeat the parameter of its name, and must not differ from it'],
  },
  {
    breaks: 'an event time in the body is recorded as it was sent, not in UTC',
    file: 'http/handlers.ts',
    from: "if (time.kind === 'time') return time.utc;",
    to: "if (time.kind === 'time') return text;",
    tests: ['program/report'],
  },
];
