/** The pages of the handbook, for tests of what they say and of the commands and settings that they show. */

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from './program.ts';

const FOLDER = 'bin/handbook';

/** The front page of the handbook. */
export const HANDBOOK = 'bin/README.md';

export type PageName =
  | 'install'
  | 'getting-started'
  | 'report'
  | 'report-clients'
  | 'http'
  | 'test'
  | 'test-javascript'
  | 'test-recipes'
  | 'read'
  | 'read-http'
  | 'sql'
  | 'forward'
  | 'forward-mend'
  | 'replicate'
  | 'clickhouse'
  | 'fleet'
  | 'alarms'
  | 'operate'
  | 'upgrade'
  | 'size'
  | 'erase'
  | 'repair'
  | 'watch'
  | 'secure'
  | 'questions'
  | 'options'
  | 'messages';

export function pathOf(name: PageName): string {
  return `${FOLDER}/${name}.md`;
}

/** Paths below the root, sorted: the program for npm, the pages, and the files that they link. */
export const filesOfBin: readonly string[] = readdirSync(join(root, 'bin'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(root, join(entry.parentPath, entry.name)))
  .sort();

/** The path of each page in `bin/handbook`. */
export const pagePaths: readonly string[] = filesOfBin.filter(
  (path) => path.startsWith(`${FOLDER}/`) && path.endsWith('.md'),
);

/** @returns the text of a page */
export function page(name: PageName): string {
  return readFileSync(join(root, pathOf(name)), 'utf8');
}

/** The alert rules, which Prometheus reads. */
export const alertRules = readFileSync(join(root, FOLDER, 'alerts.yaml'), 'utf8');

/** The unit of the service, then the other units of systemd and their drop-ins in the order of their page. */
export const systemdUnits: readonly string[] = [
  readFileSync(join(root, FOLDER, 'assetlog.service'), 'utf8'),
  ...[...page('install').matchAll(/^```ini\n(.*?)^```$/gms)].map(([, unit = '']) => unit),
];

/** @returns the text of a file beside the pages. @throws Error if the page does not link it */
export function linkedFrom(name: string, by: PageName): string {
  if (!page(by).includes(`](${name})`)) throw new Error(`${pathOf(by)} does not link ${name}`);
  return readFileSync(join(root, FOLDER, name), 'utf8');
}
