/** `config/files.ts` for a simulation: small files that an operator wrote, by their paths. Nothing is read from a real disk. */

import type { OtherWriters } from '../../../src/config/files.ts';

const texts = new Map<string, string>();

/** Puts a file where the services find it. */
export function putFile(path: string, text: string): void {
  texts.set(path, text);
}

export async function readText(path: string): Promise<string> {
  const text = texts.get(path);
  if (text === undefined)
    throw Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), { code: 'ENOENT' });
  return text;
}

export async function readToken(path: string): Promise<{ token: string; exposed: boolean }> {
  return { token: (await readText(path)).trim(), exposed: false };
}

export async function fileVersion(path: string): Promise<string> {
  return texts.get(path) ?? '';
}

export async function otherWriters(): Promise<OtherWriters | undefined> {
  return undefined;
}
