/** Deployments that a test gives by name: their tokens are generated here, and the service gets a temporary deployments file. */

import { dirname, join } from 'node:path';
import { isObject } from '../config/json-file.ts';
import { readDeployments } from '../deployments/file.ts';
import { newToken } from '../deployments/tokens.ts';
import { rights } from '../http/router.ts';
import { makeOwnFolder, removeOwnFolder, writeOwnFile } from '../test-mode/own-folder.ts';

/** A deployments file and the tokens whose digests are in it. */
export interface OwnDeployments {
  readonly path: string;
  /** The token of each deployment, by its name. */
  readonly tokens: Readonly<Record<string, string>>;
}

/**
 * Creates a token for each deployment and a file with the tokens, in a separate temporary folder: see
 * `removeOwnDeployments`.
 * @param given names, or objects with a name and the rights of its token: `['prod', { name: 'staging', may: ['report'] }]`
 * @throws TypeError that names the wrong entry: `deployments[0].name must be up to 63 letters, …`
 */
export function makeOwnDeployments(given: readonly unknown[]): OwnDeployments {
  const tokens: Record<string, string> = {};
  const deployments = given.map((entry, index) => {
    const { name, may = rights, ...more } = isObject(entry) ? (entry as Entry) : { name: entry };
    const [unknown] = Object.keys(more);
    if (unknown !== undefined) throw new TypeError(`deployments[${index}] has no ${unknown}; it may have name and may`);
    const { token, digest } = newToken();
    tokens[String(name)] = token;
    return { name, tokens: [{ name: 'test', sha256: digest, may }] };
  });
  const text = JSON.stringify({ deployments });
  const read = readDeployments(text);
  if (read.kind === 'invalid') throw new TypeError(read.problems.map((problem) => withoutLine(problem)).join('; '));
  const path = join(makeOwnFolder(), 'deployments.json');
  writeOwnFile(path, text);
  return { path, tokens };
}

/** Removes a file of `makeOwnDeployments` and its folder. */
export function removeOwnDeployments({ path }: OwnDeployments): void {
  removeOwnFolder(dirname(path));
}

type Entry = { readonly name?: unknown; readonly may?: unknown };

/** The caller has seen neither the lines of the file nor its tokens. */
function withoutLine(problem: string): string {
  return problem.replace(/^line 1: /, '').replace('.tokens[0].', '.');
}
