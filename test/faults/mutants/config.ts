/** Mutants of options and limits. */

import type { Mutant } from './mutant.ts';

export const config: readonly Mutant[] = [
  {
    breaks: 'little memory is used as if it were much',
    file: 'config/limits.ts',
    from: 'AMPLE_MEMORY_BYTES) ',
    to: '0) ',
    tests: [
      'config/config: little memory lowers the caps of bodies and queues, and a report of any size can still be taken',
      'faults/memory',
    ],
  },
  {
    breaks: 'a cap is so low that a large report can never be taken',
    file: 'config/limits.ts',
    from: 'limits.lineBytesMax + limits.queueEventBytes);',
    to: '1);',
    tests: [
      'config/config: little memory lowers the caps of bodies and queues, and a report of any size can still be taken',
    ],
  },
  {
    breaks: 'the memory limit of the cgroup is ignored',
    file: 'config/memory.ts',
    from: 'Math.min(constrainedBytes || Number.POSITIVE_INFINITY, heapBytes / HEAP_SHARE)',
    to: 'heapBytes / HEAP_SHARE',
    tests: ['config/memory: the cgroup and the heap of V8 both limit the memory, and there may be no cgroup'],
  },
  {
    breaks: 'X-Forwarded-For is believed from every client',
    file: 'config/client-address.ts',
    from: ' && trusted.check(address, familyOf(address))',
    to: '',
    tests: ['config/client-address: without a trusted proxy the client is whoever connected, whatever the header says'],
  },
  {
    breaks: 'the first address of X-Forwarded-For is believed',
    file: 'config/client-address.ts',
    from: 'undefined && isTrusted(client);',
    to: 'undefined;',
    tests: ['config/client-address: behind trusted proxies it is the last address that is not one of them'],
  },
  {
    breaks: 'what is no address is skipped, not the end',
    file: 'config/client-address.ts',
    from: 'return client; // the proxy does not know',
    to: 'continue; // the proxy does not know',
    tests: [
      'config/client-address: at what is no address the search ends with the proxy that wrote it; nothing left of it counts',
    ],
  },
  {
    breaks: 'of several lines of X-Forwarded-For only the last counts',
    file: 'config/client-address.ts',
    from: "entries.push(...headers[at + 1]!.split(','));",
    to: "entries.splice(0, entries.length, ...headers[at + 1]!.split(','));",
    tests: ['config/client-address: behind trusted proxies it is the last address that is not one of them'],
  },
  {
    breaks: 'a trusted proxy that is named as mapped IPv6 is not known',
    file: 'config/client-address.ts',
    from: '/^::ffff:([0-9.]+)$/.exec(address)?.[1] ?? ',
    to: '',
    tests: ['config/client-address: the port that some proxies add is left out'],
  },
  {
    breaks: 'every address may be a trusted proxy',
    file: 'config/client-address.ts',
    from: 'if (bits <= skipped) throw',
    to: 'if (bits < 0) throw',
    tests: ['config/client-address: --trusted-proxy takes addresses and networks, and says what is wrong with others'],
  },
  {
    breaks: 'a deployments file that another group may write is not told',
    file: 'config/files.ts',
    from: 'gid !== ROOT && gid !== ownGroup',
    to: 'gid < 0',
    tests: ['program/hosted: a start warns of a data folder or a deployments file that others may write to'],
  },
  {
    breaks: 'a data folder that everybody may write is not told',
    file: 'config/files.ts',
    from: '(mode & WRITTEN_BY_OTHERS) !== 0',
    to: '(mode & WRITTEN_BY_OTHERS) === mode',
    tests: ['program/hosted: a start warns of a data folder or a deployments file that others may write to'],
  },
  {
    breaks: 'a small limit of what is kept has files as large as any',
    file: 'config/config.ts',
    from: 'segmentBytes ?? Math.min(limits.segmentBytes, shareOf(retainBytes), shareOf(keepFree))',
    to: 'segmentBytes ?? limits.segmentBytes',
    tests: [
      'config/config: without a size of its own a file is closed at a quarter of what may be kept, at most 64 MiB',
      'faults/full-disk',
    ],
  },
  {
    breaks: 'a file may be larger than all that is kept',
    file: 'config/config.ts',
    from: 'if (segmentBytes > retainBytes) {',
    to: 'if (segmentBytes < 0) {',
    tests: ['config/config: sizes that contradict each other are refused together, with what to do'],
  },
  {
    breaks: 'space is kept free only below what turns the service not ready',
    file: 'config/config.ts',
    from: 'if (minFreeBytes >= keepFree) {',
    to: 'if (minFreeBytes < 0) {',
    tests: ['config/config: sizes that contradict each other are refused together, with what to do'],
  },
  {
    breaks: 'the service starts with sizes that contradict each other',
    file: 'commands/serve.ts',
    from: '[...contradictionsIn(config), ',
    to: '[',
    tests: ['program/retention'],
  },
  {
    breaks: 'decimal units of sizes are read as binary ones',
    file: 'config/options.ts',
    from: '{ kB: 1e3, MB: 1e6,',
    to: '{ kB: 1e3, MB: 2 ** 20,',
    tests: ['config/config: sizes are bytes or whole numbers with an exact unit'],
  },
  {
    breaks: 'the letter case of a unit does not matter',
    file: 'config/options.ts',
    from: '([kMGT]B|[KMGT]iB)?$/',
    to: '([kMGT]B|[KMGT]iB)?$/i',
    tests: ['config/config: sizes are bytes or whole numbers with an exact unit'],
  },
  {
    breaks: 'a size beyond what a number holds is taken',
    file: 'config/options.ts',
    from: 'if (bytes < min || bytes > max)',
    to: 'if (bytes < min)',
    tests: ['config/config: sizes are bytes or whole numbers with an exact unit'],
  },
];
