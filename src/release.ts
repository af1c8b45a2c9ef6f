/**
 * Creates in `dist/release` what users get: the program, the package, a context for an image, the changes and checksums. With
 * the same versions of Node and npm, a commit results in the same bytes in each clone. This is not part of the program.
 */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { version } from './config/names.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'dist/release');
/** The picture of the front page. */
const PICTURE = 'test/page.png';
/** A link to a file beside the page. */
const LINK = /\[([^\][]*)\]\(([^)#:]+)(?:#[^)]*)?\)/g;

function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { cwd: root, encoding: 'utf8' }).trim();
}

/** @throws Error if the work tree is not its last commit */
function checkWorkTree(): void {
  const changed = run('git', 'status', '--porcelain');
  if (changed !== '') throw new Error(`a release is made of a commit; commit or remove what is not in it:\n${changed}`);
}

/** @throws Error if the page does not contain the part */
function fromPage(path: string, what: string, pattern: RegExp): string {
  const [, text] = pattern.exec(readFileSync(join(root, path), 'utf8')) ?? [];
  if (text === undefined) throw new Error(`${path} has no ${what}`);
  return text;
}

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

/** Gives files modes that do not depend on the umask of the clone. */
function fixModes(path: string): void {
  const stats = statSync(path);
  chmodSync(path, (stats.mode & 0o100) !== 0 ? 0o755 : 0o644);
  if (stats.isDirectory()) for (const name of readdirSync(path)) fixModes(join(path, name));
}

/**
 * Creates the package from copies: npm keeps the modes of the files that it packs, and warns of scripts that it does
 * not run.
 */
function pack(): void {
  const copy = mkdtempSync(join(tmpdir(), 'assetlog-release-'));
  try {
    const { scripts, c8, devDependencies, overrides, ...own } = JSON.parse(
      readFileSync(join(root, 'package.json'), 'utf8'),
    );
    const manifest = { ...own, files: [...own.files, PICTURE] };
    for (const path of ['LICENSE', 'README.md', ...manifest.files])
      cpSync(join(root, path), join(copy, path), { recursive: true });
    writeFileSync(join(copy, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
    for (const page of ['README.md', ...pagesIn(copy)]) dropLinks(copy, page);
    fixModes(copy);
    run('npm', 'pack', '--ignore-scripts', '--silent', '--pack-destination', folder, copy);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** The pages of the handbook below a folder, and the changes. */
function pagesIn(copy: string): string[] {
  const names = readdirSync(join(copy, 'bin'), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith('.md')).map((name) => `bin/${name}`);
}

/** A section of the changes from its heading, `## 0.3.0 (2026-11-27)`, to the next one. */
function sectionOf(version: string): RegExp {
  return RegExp(`^(## ${version.replaceAll('.', '\\.')} .*?\n)(?:\n## |(?![^]))`, 'ms');
}

/**
 * Removes links, but not their texts, to files that are not in the package, such as the pages of the source and of the
 * tests.
 */
function dropLinks(copy: string, page: string): void {
  const path = join(copy, page);
  const text = readFileSync(path, 'utf8').replace(LINK, (link, shown, file) =>
    existsSync(join(dirname(path), file)) ? link : shown,
  );
  writeFileSync(path, text);
}

/** @returns a line for each file of the release so far, in the form of `sha256sum`, sorted by name */
function sums(): string {
  const lines = readdirSync(folder)
    .sort()
    .map((name) => {
      const hash = createHash('sha256').update(readFileSync(join(folder, name)));
      return `${hash.digest('hex')}  ${name}\n`;
    });
  return lines.join('');
}

function release(): void {
  checkWorkTree();
  run(process.execPath, '--import', 'tsx', 'src/build.ts');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  copyFileSync(join(root, 'dist/server.js'), join(folder, 'server.js'));
  write('Dockerfile', fromPage('bin/handbook/install.md', 'Dockerfile', /^```dockerfile\n(.*?)^```$/ms));
  const changes = fromPage('bin/CHANGELOG.md', `section ${version}`, sectionOf(version));
  write('CHANGES.md', `# Changes\n\n${changes.replace(LINK, '$1')}`);
  pack();
  const lines = sums();
  write('SHA256SUMS', lines);
  fixModes(folder);
  console.log(`dist/release\n${lines}`);
}

try {
  release();
} catch (error) {
  console.error(`assetlog release: ${(error as Error).message}`);
  process.exitCode = 1;
}
