/** The order of the house: who may know whom. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from './program.ts';

/** Lowest first; a file imports only files of a lower rank. */
const ranks: readonly (readonly string[])[] = [
  ['client-address.ts', 'crc.ts', 'json.ts', 'key.ts', 'memory.ts', 'mount.ts', 'options.ts', 'owner.ts', 'table.ts'],
  ['command.ts', 'config.ts', 'event.ts'],
  [
    'client.ts',
    'end.ts',
    'pieces.ts',
    'resync.ts',
    'help.ts',
    'message.ts',
    'metrics.ts',
    'notice.ts',
    'parameters.ts',
    'submission.ts',
  ],
  ['delivery.ts', 'deployments.ts', 'disk.ts', 'lock.ts', 'request.ts', 'router.ts'],
  ['access.ts', 'bulk.ts', 'handlers.ts', 'scan.ts', 'space.ts'],
  ['app.ts', 'contract.ts', 'recovery.ts', 'salvage.ts', 'retention.ts'],
  ['journal.ts', 'reader.ts', 'verify.ts'],
  ['hosted.ts', 'listener.ts', 'look.ts', 'repair.ts'],
  ['service.ts'],
  [
    'assets.ts',
    'completion.ts',
    'embed.ts',
    'events.ts',
    'healthcheck.ts',
    'report.ts',
    'serve.ts',
    'token.ts',
    'upkeep.ts',
  ],
  ['cli.ts'],
  ['server.ts'],
];

const sources = new Map(
  readdirSync(join(root, 'src')).map((name) => [name, readFileSync(join(root, 'src', name), 'utf8')]),
);

function importsOf(name: string, pattern: RegExp): string[] {
  return [...(sources.get(name) ?? '').matchAll(pattern)].map(([, imported]) => imported ?? '');
}

test('every file has a rank, and imports only files of a lower one', () => {
  assert.deepEqual(ranks.flat().sort(), [...sources.keys()].sort());
  for (const [rank, names] of ranks.entries()) {
    for (const name of names) {
      const lower = new Set(ranks.slice(0, rank).flat());
      for (const imported of importsOf(name, /from '\.\/([^']+)'/g)) {
        assert.ok(lower.has(imported), `${name} imports ${imported}, which is not of a lower rank`);
      }
    }
  }
});

test('nothing but Node is needed at run time', () => {
  for (const name of sources.keys()) {
    for (const imported of importsOf(name, /from '([^.'][^']*)'/g)) assert.match(imported, /^node:/, name);
  }
  assert.equal(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).dependencies, undefined);
});

test('the file system, sockets and the clock stay in their rooms', () => {
  const rooms: Record<string, readonly string[]> = {
    'node:child_process': [], // nobody inherits a socket or a variable
    'node:fs': ['disk.ts', 'embed.ts', 'lock.ts', 'owner.ts'],
    'node:fs/promises': ['disk.ts', 'lock.ts', 'owner.ts'],
    'node:http': ['client.ts', 'listener.ts'],
    'node:net': ['access.ts', 'client-address.ts', 'listener.ts', 'lock.ts'],
  };
  for (const [module, allowed] of Object.entries(rooms)) {
    const users = [...sources.keys()].filter((name) => importsOf(name, /from '(node:[^']+)'/g).includes(module));
    assert.deepEqual(users.sort(), allowed, module);
  }
  for (const name of ['handlers.ts', 'router.ts', 'json.ts', 'request.ts', 'access.ts', 'client-address.ts']) {
    assert.doesNotMatch(
      sources.get(name) ?? '',
      /Date|performance|process\.|console\.|Math\.random/,
      `${name} is not pure`,
    );
  }
});

test('importing a file has no effect, but for the entry', () => {
  for (const [name, text] of sources) {
    if (name === 'server.ts') continue;
    const statements = text.split('\n').filter((line) => /^[a-zA-Z]/.test(line));
    for (const line of statements) {
      assert.match(
        line,
        /^(import|export|const|function\*?|async function\*?|class|interface|type) /,
        `${name}: ${line}`,
      );
    }
  }
});
