/** The entry that becomes `dist/server.js`. */

import { main } from './cli.ts';

main(process.argv.slice(2), process.env).then((code) => process.exit(code));
