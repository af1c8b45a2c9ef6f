/** The entry point of the program, which is built into `dist/server.js`. */

import { endWith } from './commands/cli/end.ts';
import { main } from './commands/main.ts';
import { exitCodes } from './config/exit-codes.ts';
import { limits } from './config/limits.ts';

// If a promise never settles, the event loop runs empty and Node exits with 0. Only a finished command must exit with
// 0.
process.exitCode = exitCodes.unexpected;
process.once('beforeExit', () => {
  process.stderr.write('assetlog: ended before its work was done; this is a defect of assetlog, please report it\n');
});
main(process.argv.slice(2), process.env).then((code) =>
  endWith(code, limits.lastCallMs, (problem) => process.stderr.write(`assetlog: ${problem}\n`)),
);
