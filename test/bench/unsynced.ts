/** assetlog with everything but the sync: shows what parsing, encoding and writing cost. Arguments as for `serve`. */

import { readConfig } from '../../src/config.ts';
import { type Disk, openDisk } from '../../src/disk.ts';
import { createNotices } from '../../src/notice.ts';
import { startService } from '../../src/service.ts';

const read = readConfig(process.argv.slice(2), {});
if ('problems' in read) throw new Error(read.problems.join('\n'));

const service = await startService(
  read.config,
  createNotices('warn', false, (line) => process.stderr.write(line)),
  {
    openDisk: (folder): Disk => {
      const disk = openDisk(folder);
      const unsynced = async (file: Awaited<ReturnType<Disk['open']>>) => ({ ...file, sync: async () => {} });
      return {
        ...disk,
        create: async (name) => unsynced(await disk.create(name)),
        open: async (name) => unsynced(await disk.open(name)),
      };
    },
  },
);
console.log(`listening on ${service.url}`);
process.on('SIGTERM', () => void service.stop());
