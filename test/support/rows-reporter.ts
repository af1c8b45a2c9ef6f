/** A reporter for `node --test` in another Node: one line of JSON for each test. `rows.ts` reads them. */

import { inspect } from 'node:util';
import type { RunnerEvent } from './reporter.ts';

/** One test of another Node. */
export interface Row {
  /** Below `test/`, such as `program/day/author.test.ts`. */
  readonly file: string;
  readonly name: string;
  readonly problem?: string;
}

/** A skipped test is a problem: the tests of `program/day` run on any system. */
function rowOf({ type, data: { name, file = name, skip, details } }: RunnerEvent): Row {
  const row = { file: file.replaceAll('\\', '/').replace(/^.*\/test\/(.*)\.js$/, '$1.ts'), name };
  if (type === 'test:fail') return { ...row, problem: inspect(details?.error?.cause ?? details?.error) };
  return skip === undefined || skip === false ? row : { ...row, problem: `it was skipped: ${skip}` };
}

export default async function* report(events: AsyncIterable<RunnerEvent>): AsyncGenerator<string> {
  for await (const event of events)
    if (/^test:(pass|fail)$/.test(event.type) && event.data.nesting === 0) yield `${JSON.stringify(rowOf(event))}\n`;
}
