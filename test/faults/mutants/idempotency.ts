/** Mutants of idempotency keys: what is remembered, for how long, and after which crash. */

import type { Mutant } from './mutant.ts';

export const idempotency: readonly Mutant[] = [
  {
    breaks: 'a sidecar of keys is renamed before its fsync',
    file: 'journal/idempotency-sidecar.ts',
    from: 'await writeFile(disk, unfinished, encode(file, keys, keyCount));\n  await disk.rename(unfinished, name);',
    to: 'const written = writeFile(disk, unfinished, encode(file, keys, keyCount));\n  await disk.rename(unfinished, name).catch(() => {});\n  await written;\n  await disk.rename(unfinished, name).catch(() => {});',
    tests: [
      'journal/idempotency-sidecar: the power goes at any call of a write: the sidecar is whole or not there, and the next one can be written',
    ],
  },
  {
    breaks: 'a sidecar of keys is not synced as an entry of its folder',
    file: 'journal/idempotency-sidecar.ts',
    within: 'writeSidecar',
    from: '\n  await disk.syncFolder();',
    to: '',
    tests: [
      'journal/idempotency-sidecar: the power goes at any call of a write: the sidecar is whole or not there, and the next one can be written',
    ],
  },
  {
    breaks: 'a sidecar of keys is not bound to its journal',
    file: 'journal/idempotency-sidecar.ts',
    from: ' && last.crc === file.chain.crc',
    to: '',
    tests: [
      'journal/idempotency-sidecar: a sidecar is not used for a file with other lines, another length or another name',
    ],
  },
  {
    breaks: 'a damaged sidecar of keys is used',
    file: 'journal/idempotency-sidecar.ts',
    from: 'if (bytes.readUInt32LE(tail + 8) !== crc32(bytes.subarray(0, tail + 8))) return undefined;',
    to: '',
    tests: [
      'journal/idempotency-sidecar: a damaged sidecar is not used: no byte may differ, be missing or be too much',
    ],
  },
  {
    breaks: 'a sidecar that lacks keys says that it has all',
    file: 'journal/idempotency-sidecar.ts',
    from: 'Number(count === keyCount)',
    to: '1',
    tests: [
      'journal/idempotency-sidecar: a sidecar has the keys of its file, in their order, and says whether they are all',
    ],
  },
  {
    breaks: 'a key that leaves the table hides those after it',
    file: 'journal/idempotency-table.ts',
    within: 'KeyTable.#clearSlot',
    from: 'if (((slot - home) & mask) < ((slot - empty) & mask)) continue;',
    to: 'if (home !== empty) continue;',
    tests: [
      'journal/idempotency-table: a table finds what a list of its keys finds, whatever was added and removed, with hashes that collide',
    ],
  },
  {
    breaks: 'more idempotency keys are remembered than may be',
    file: 'journal/idempotency-memory.ts',
    within: 'KeyMemory.add',
    from: 'if (this.held === this.#keysMax) this.#forgetOldest();',
    to: '',
    tests: [
      'journal/idempotency-memory: the oldest key of all journals is forgotten first, and what is recorded later is forgotten later',
    ],
  },
  {
    breaks: 'the oldest key of one journal is forgotten, not that of the service',
    file: 'journal/idempotency-memory.ts',
    from: 'table.oldestSeconds < found.oldestSeconds',
    to: 'table.oldestSeconds > found.oldestSeconds',
    tests: [
      'journal/idempotency-memory: the oldest key of all journals is forgotten first, and what is recorded later is forgotten later',
    ],
  },
];
