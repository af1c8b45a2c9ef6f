/** Mutants of options and limits. */

import type { Mutant } from './mutant.ts';

export const config: readonly Mutant[] = [
  {
    breaks: 'little memory is used as if it were much',
    file: 'config/limits.ts',
    from: 'AMPLE_MEMORY_BYTES) ',
    to: '0) ',
    tests: ['config/config', 'faults/memory'],
  },
  {
    breaks: 'a cap is so low that a large report can never be taken',
    file: 'config/limits.ts',
    from: 'limits.lineBytesMax + limits.queueEventBytes);',
    to: '1);',
    tests: ['config/config'],
  },
  {
    breaks: 'the memory limit of the cgroup is ignored',
    file: 'config/memory.ts',
    from: 'Math.min(constrainedBytes || Number.POSITIVE_INFINITY, heapBytes / HEAP_SHARE)',
    to: 'heapBytes / HEAP_SHARE',
    tests: ['config/memory'],
  },
  {
    breaks: 'X-Forwarded-For is believed from every client',
    file: 'config/client-address.ts',
    from: ' && trusted.check(address, familyOf(address))',
    to: '',
    tests: ['config/client-address'],
  },
  {
    breaks: 'the first address of X-Forwarded-For is believed',
    file: 'config/client-address.ts',
    from: 'undefined && isTrusted(client);',
    to: 'undefined;',
    tests: ['config/client-address'],
  },
  {
    breaks: 'what is no address is skipped, not the end',
    file: 'config/client-address.ts',
    from: 'return client; // the proxy does not know',
    to: 'continue; // the proxy does not know',
    tests: ['config/client-address'],
  },
  {
    breaks: 'of several lines of X-Forwarded-For only the last counts',
    file: 'config/client-address.ts',
    from: "entries.push(...headers[at + 1]!.split(','));",
    to: "entries.splice(0, entries.length, ...headers[at + 1]!.split(','));",
    tests: ['config/client-address'],
  },
  {
    breaks: 'a trusted proxy that is named as mapped IPv6 is not known',
    file: 'config/client-address.ts',
    from: '/^::ffff:([0-9.]+)$/.exec(address)?.[1] ?? ',
    to: '',
    tests: ['config/client-address'],
  },
  {
    breaks: 'every address may be a trusted proxy',
    file: 'config/client-address.ts',
    from: 'if (bits <= skipped) throw',
    to: 'if (bits < 0) throw',
    tests: ['config/client-address'],
  },
  {
    breaks: 'a deployments file that another group may write is not told',
    file: 'config/files.ts',
    from: 'gid !== ROOT && gid !== ownGroup',
    to: 'gid < 0',
    tests: ['program/hosted'],
  },
  {
    breaks: 'a data folder that everybody may write is not told',
    file: 'config/files.ts',
    from: '(mode & WRITTEN_BY_OTHERS) !== 0',
    to: '(mode & WRITTEN_BY_OTHERS) === mode',
    tests: ['program/hosted'],
  },
];
