/** Folders for journals that last as long as their service: they are removed with it, or else with the process. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Those of services that are not stopped yet; one listener for all, since a process warns of more than ten. */
const ownFolders = new Set<string>();

export function makeOwnFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'assetlog-'));
  if (ownFolders.size === 0) process.on('exit', removeOwnFolders);
  ownFolders.add(folder);
  return folder;
}

export function removeOwnFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  ownFolders.delete(folder);
  if (ownFolders.size === 0) process.off('exit', removeOwnFolders);
}

function removeOwnFolders(): void {
  for (const folder of ownFolders) rmSync(folder, { recursive: true, force: true });
}
