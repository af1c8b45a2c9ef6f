/** A deployments file in a new folder, with a token for each deployment. */

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken, sha256 } from '../../src/deployments/tokens.ts';
import { HOSTED } from '../../src/service/folder.ts';
import { newFolder, type Scope } from './program.ts';
import { type Served, type Serving, serve } from './service.ts';
import { ask, get, post, type WireReply } from './wire.ts';

export interface Deployments {
  readonly file: string;
  /** The options for a service that uses the file. */
  readonly args: readonly string[];
  /** A token with all rights. */
  tokenOf(name: string): string;
  /** The header line with the token: `Service-Cloud-Api-Token: asl_…`. */
  headerOf(name: string): string;
}

/** @param names names of the deployments, such as `prod` and `test` */
export function writeDeployments(t: Scope, names: readonly string[]): Deployments {
  const file = join(newFolder(t), 'deployments.json');
  const tokens = new Map(names.map((name) => [name, newToken()]));
  const deployments = [...tokens].map(([name, { digest }]) => ({
    name,
    tokens: [{ name: `ci of ${name}`, sha256: digest, may: ['report', 'read', 'forward', 'erase'] }],
  }));
  writeFileSync(file, JSON.stringify({ deployments }), { mode: 0o600 });
  const tokenOf = (name: string) => tokens.get(name)?.token ?? assert.fail(`there is no deployment ${name}`);
  return {
    file,
    args: ['--deployments', file],
    tokenOf,
    headerOf: (name) => `Service-Cloud-Api-Token: ${tokenOf(name)}`,
  };
}

/** An entry of a deployments file, with one token. */
export function entryOf(name: string, token: string, more: object = {}): object {
  return { name, tokens: [{ name: 'ci', sha256: sha256(token).toString('hex'), ...more }] };
}

export function rewrite(file: string, ...deployments: readonly object[]): void {
  writeFileSync(file, JSON.stringify({ deployments }));
}

/** The path of a report, relative to its deployment. */
export const REPORT = 'report_asset_materialization/a';

export interface Hosting extends Served, Deployments {
  get(path: string): Promise<WireReply>;
  /** Reports to a deployment. @param token the token of the deployment by default; no token if empty */
  report(name: string, token?: string, header?: string): Promise<WireReply>;
}

/** A hosted service in the process of the test, which checks its deployments file every 50 ms. */
export async function host(
  t: Scope,
  names: readonly string[] = ['prod', 'test'],
  { args = [], limits = {}, ...serving }: Serving = {},
): Promise<Hosting> {
  const deployments = writeDeployments(t, names);
  const service = await serve(t, {
    args: [...deployments.args, ...args],
    limits: { deploymentsCheckMs: 50, reopenMs: 200, failuresMax: 1_000, openWaitMs: 60_000, ...limits },
    ...serving,
  });
  return {
    ...service,
    ...deployments,
    get: (path) => ask(service.port, get(path)),
    report: (name, token = deployments.tokenOf(name), header = 'Service-Cloud-Api-Token') =>
      ask(service.port, post(`/${name}/${REPORT}`, undefined, token === '' ? [] : [`${header}: ${token}`])),
  };
}

/** @returns the folders of a hosted service: one for each deployment, and others that a test created */
export function foldersIn(data: string): string[] {
  return readdirSync(data).filter((name) => !name.startsWith('.lock') && name !== HOSTED);
}
