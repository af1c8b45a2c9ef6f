/** A PostgreSQL server as a process. */

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder, type Scope } from './program.ts';
import { HANG_MS, missing } from './tools.ts';

const postgres = ['/usr/lib/postgresql', '/usr/local/pgsql', '/usr']
  .flatMap((at) => [join(at, 'bin'), ...(existsSync(at) ? readdirSync(at).map((name) => join(at, name, 'bin')) : [])])
  .find((bin) => existsSync(join(bin, 'initdb')));
/** initdb refuses to run as root. */
const asNobody = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : [];

/** Why tests with PostgreSQL are skipped; false if it is there. */
export const withoutPostgres =
  (postgres === undefined && 'initdb (PostgreSQL) is missing') ||
  missing('psql is not installed', 'psql', ['--version']) ||
  (asNobody.length > 0 && missing('setpriv (util-linux) is missing', 'setpriv', [...asNobody.slice(1), 'true']));

/** Starts a server with the user `assetlog` and the database `postgres`; it ends with the test. @returns the folder of its socket */
export function startPostgres(t: Scope): string {
  let stop = () => {};
  t.after(() => stop()); // before the folder is removed
  const folder = newFolder(t);
  if (asNobody.length > 0) execFileSync('chown', ['65534:65534', folder]);
  const as = (name: string, ...args: string[]) => {
    const [command = '', ...rest] = [...asNobody, join(postgres ?? '', name), ...args];
    // The server keeps inherited files open, so a pipe would never end.
    execFileSync(command, rest, { cwd: folder, stdio: 'ignore', timeout: HANG_MS });
  };
  const data = join(folder, 'data');
  as('initdb', '-D', data, '-A', 'trust', '-U', 'assetlog', '-E', 'UTF8', '--locale=C', '--no-sync');
  as('pg_ctl', '-D', data, '-w', '-l', join(folder, 'log'), '-o', `-c listen_addresses= -k ${folder}`, 'start');
  stop = () => as('pg_ctl', '-D', data, '-m', 'immediate', '-w', 'stop');
  return folder;
}
