/** One life in one process: see `run.ts`. */

import { parseArgs } from 'node:util';
import { live } from './life.ts';
import { listed } from './runner/replay.ts';

const TRACE_LINES = 200;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    steps: { type: 'string' },
    only: { type: 'string' },
    clients: { type: 'string' },
    reorder: { type: 'boolean', default: false },
    from: { type: 'string', default: '0' },
    cut: { type: 'boolean', default: false },
    trace: { type: 'boolean' },
  },
});
process.on('unhandledRejection', (error) => {
  process.stderr.write(`${(error as Error).stack}\n`);
  process.exit(2);
});
const only = values.only === undefined ? undefined : new Set(listed(values.only).map(Number));
const clients = values.clients === undefined ? undefined : new Set(listed(values.clients));
const { outcome, trace } = await live(Number(values.seed), Number(values.steps), {
  only,
  clients,
  reorders: values.reorder,
  fromMs: Number(values.from),
  isCut: values.cut,
});
if (values.trace) process.stderr.write(`${trace.slice(-TRACE_LINES).join('\n')}\n`);
process.stdout.write(`${JSON.stringify(outcome)}\n`, () => process.exit(outcome.ok ? 0 : 1));
