/** One life in one process: see `run.ts`. */

import { parseArgs } from 'node:util';
import { live } from './life.ts';

const TRACE_LINES = 200;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    steps: { type: 'string' },
    only: { type: 'string' },
    trace: { type: 'boolean' },
  },
});
process.on('unhandledRejection', (error) => {
  process.stderr.write(`${(error as Error).stack}\n`);
  process.exit(2);
});
const only = values.only
  ?.split(',')
  .filter((text) => text !== '')
  .map(Number);
const { outcome, trace } = await live(Number(values.seed), Number(values.steps), only && new Set(only));
if (values.trace) process.stderr.write(`${trace.slice(-TRACE_LINES).join('\n')}\n`);
process.stdout.write(`${JSON.stringify(outcome)}\n`, () => process.exit(outcome.ok ? 0 : 1));
