/** Deployments that a test gives by name: their tokens are made here, and the service gets a temporary deployments file. */

import { dirname, join } from 'node:path';
import { readDeployments } from '../deployments/file.ts';
import { newToken } from '../deployments/tokens.ts';
import { makeOwnFolder, removeOwnFolder, writeOwnFile } from './own-folder.ts';

/** A deployments file and the tokens whose digests are in it: `{ path: '/tmp/…/deployments.json', tokens: { prod: 'asl_…' } }`. */
export interface OwnDeployments {
  readonly path: string;
  /** The token of each deployment, by its name. */
  readonly tokens: Readonly<Record<string, string>>;
}

/**
 * Makes a token for each deployment and a file with them, in a temporary folder of its own: see `removeOwnDeployments`.
 * @param given names, or objects with a name: `['prod', { name: 'staging' }]`
 * @throws TypeError that says which entry is wrong: `deployments[0].name must be up to 63 letters, …`
 */
export function makeOwnDeployments(given: readonly unknown[]): OwnDeployments {
  const tokens: Record<string, string> = {};
  const deployments = given.map((entry, index) => {
    const { name, ...more } = typeof entry === 'object' && entry !== null ? (entry as Entry) : { name: entry };
    const [unknown] = Object.keys(more);
    if (unknown !== undefined) throw new TypeError(`deployments[${index}] has no ${unknown}; it may have name`);
    const { token, digest } = newToken();
    tokens[String(name)] = token;
    return { name, tokens: [{ name: 'test', sha256: digest }] };
  });
  const text = JSON.stringify({ deployments });
  const read = readDeployments(text);
  if (read.kind === 'invalid')
    throw new TypeError(read.problems.map((problem) => problem.replace(LINE, '')).join('; '));
  const path = join(makeOwnFolder(), 'deployments.json');
  writeOwnFile(path, text);
  return { path, tokens };
}

/** Removes a file of `makeOwnDeployments` and its folder, such as `/tmp/assetlog-x3Fq9a/deployments.json`. */
export function removeOwnDeployments({ path }: OwnDeployments): void {
  removeOwnFolder(dirname(path));
}

type Entry = { readonly name?: unknown };
/** The text has one line, and the caller has not seen it. */
const LINE = /^line 1: /;
