/** assetlog with everything but the sync: shows what parsing, encoding and writing cost. Arguments as for `serve`. */

import { write } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../../src/config/config.ts';
import { limits } from '../../src/config/limits.ts';
import { type Disk, type LogFile, openDisk } from '../../src/journal/disk.ts';
import { startService } from '../../src/service.ts';
import { createNotices } from '../../src/telemetry/log.ts';

const read = readConfig(process.argv.slice(2), {});
if (read.kind === 'invalid') throw new Error(read.problems.join('\n'));

const service = await startService(
  read.config,
  createNotices('warn', false, (line) => process.stderr.write(line)),
  {
    limits,
    openDisk: (folder): Disk => {
      const disk = openDisk(folder);
      const unsynced = async (name: string, log: LogFile): Promise<LogFile> => {
        const file = await open(join(folder, name), 'r+');
        return {
          ...log,
          append: (bytes, end) =>
            new Promise((resolve, reject) => {
              write(file.fd, bytes, 0, bytes.length, end, (error, written) =>
                error ? reject(error) : resolve(written),
              );
            }),
          close: () => Promise.all([file.close(), log.close()]).then(() => {}),
        };
      };
      return {
        ...disk,
        createLog: async (name) => unsynced(name, await disk.createLog(name)),
        openLog: async (name) => unsynced(name, await disk.openLog(name)),
      };
    },
  },
);
console.log(`listening on ${service.url}`);
process.on('SIGTERM', () => void service.stop());
