/** Temporary folders for journals. Each is removed when its service stops, or at the latest when the process exits. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Folders of services that have not stopped. They share one `exit` listener, since Node warns about more than ten. */
const ownFolders = new Set<string>();

/** Creates a folder in the system's folder for temporary files. @returns its path */
export function makeOwnFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'assetlog-'));
  if (ownFolders.size === 0) process.on('exit', removeOwnFolders);
  ownFolders.add(folder);
  return folder;
}

/** Writes a file into a folder of `makeOwnFolder` that only this user can read. */
export function writeOwnFile(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 });
}

/** Removes a folder of `makeOwnFolder` and its content. Does nothing if the folder is missing. */
export function removeOwnFolder(folder: string): void {
  remove(folder);
  ownFolders.delete(folder);
  if (ownFolders.size === 0) process.off('exit', removeOwnFolders);
}

function removeOwnFolders(): void {
  for (const folder of ownFolders) remove(folder);
}

/** Tries several times: on Windows a removed file keeps its name until each process has closed it. */
function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
