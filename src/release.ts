/**
 * Makes in `dist/release` what users get: the program, the package, a context for an image, the changes, an SPDX document and
 * checksums. A commit gives the same bytes in each clone, with the same Node and npm. Not part of the program.
 */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { version } from './config/config.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'dist/release');

function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { cwd: root, encoding: 'utf8' }).trim();
}

/** @throws Error if the work tree is not its last commit */
function checkWorkTree(): void {
  const changed = run('git', 'status', '--porcelain');
  if (changed !== '') throw new Error(`a release is made of a commit; commit or remove what is not in it:\n${changed}`);
}

/** @returns the time of the release, which is that of the commit unless `SOURCE_DATE_EPOCH` is given */
function timeOfRelease(): string {
  const seconds = process.env['SOURCE_DATE_EPOCH'] ?? run('git', 'log', '-1', '--format=%ct');
  if (!/^\d{1,11}$/.test(seconds)) throw new Error(`SOURCE_DATE_EPOCH is ${seconds}; give seconds since 1970`);
  return new Date(Number(seconds) * 1000).toISOString().replace('.000Z', 'Z');
}

/** @throws Error if the handbook has no such part */
function fromHandbook(what: string, pattern: RegExp): string {
  const [, text] = pattern.exec(readFileSync(join(root, 'bin/README.md'), 'utf8')) ?? [];
  if (text === undefined) throw new Error(`bin/README.md has no ${what}`);
  return text;
}

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

function sum(algorithm: 'sha1' | 'sha256', data: string | Buffer): string {
  return createHash(algorithm).update(data).digest('hex');
}

/** Gives files modes that do not depend on the umask of the clone. */
function fixModes(path: string): void {
  const stats = statSync(path);
  chmodSync(path, (stats.mode & 0o100) !== 0 ? 0o755 : 0o644);
  if (stats.isDirectory()) for (const name of readdirSync(path)) fixModes(join(path, name));
}

/** Makes the package of copies: npm keeps the modes of what it packs. */
function pack(): void {
  const copy = mkdtempSync(join(tmpdir(), 'assetlog-release-'));
  try {
    const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    for (const path of ['LICENSE', 'README.md', 'package.json', ...files])
      cpSync(join(root, path), join(copy, path), { recursive: true });
    fixModes(copy);
    run('npm', 'pack', '--ignore-scripts', '--silent', '--pack-destination', folder, copy);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

interface Content {
  readonly name: string;
  readonly sha1: string;
  readonly sha256: string;
}

/** @returns the files of the release so far, sorted */
function contents(): Content[] {
  return readdirSync(folder)
    .sort()
    .map((name) => {
      const data = readFileSync(join(folder, name));
      return { name, sha1: sum('sha1', data), sha256: sum('sha256', data) };
    });
}

/** @returns an SPDX 2.3 document about the files of a release, which contain no package of others */
function spdxOf(files: readonly Content[], created: string): object {
  const [document, application] = ['SPDXRef-DOCUMENT', 'SPDXRef-Package-assetlog'];
  const name = `assetlog-${version}`;
  const idOf = (file: Content) => `SPDXRef-File-${file.name}`;
  const [copyrightText = 'NOASSERTION'] = /^Copyright .*$/m.exec(readFileSync(join(root, 'LICENSE'), 'utf8')) ?? [];
  const relate = (from: string, relationshipType: string, to: string) => ({
    spdxElementId: from,
    relationshipType,
    relatedSpdxElement: to,
  });
  const sums = files.map(({ sha1 }) => sha1).sort();
  return {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: document,
    name,
    documentNamespace: `https://spdx.org/spdxdocs/${name}-${sum('sha256', JSON.stringify([created, files]))}`,
    creationInfo: {
      created,
      creators: [`Tool: node-${process.versions.node}`, `Tool: npm-${run('npm', '--version')}`],
    },
    packages: [
      {
        SPDXID: application,
        name: 'assetlog',
        versionInfo: version,
        supplier: 'NOASSERTION',
        downloadLocation: 'NOASSERTION',
        filesAnalyzed: true,
        packageVerificationCode: { packageVerificationCodeValue: sum('sha1', sums.join('')) },
        licenseConcluded: 'MIT',
        licenseDeclared: 'MIT',
        licenseInfoFromFiles: ['NOASSERTION'],
        copyrightText,
        primaryPackagePurpose: 'APPLICATION',
      },
    ],
    files: files.map((file) => ({
      SPDXID: idOf(file),
      fileName: `./${file.name}`,
      checksums: [
        { algorithm: 'SHA1', checksumValue: file.sha1 },
        { algorithm: 'SHA256', checksumValue: file.sha256 },
      ],
      licenseConcluded: 'MIT',
      licenseInfoInFiles: ['NOASSERTION'],
      copyrightText: 'NOASSERTION',
    })),
    relationships: [
      relate(document, 'DESCRIBES', application),
      ...files.map((file) => relate(application, 'CONTAINS', idOf(file))),
      relate(application, 'DEPENDS_ON', 'NONE'),
    ],
  };
}

function release(): void {
  checkWorkTree();
  const created = timeOfRelease();
  run(process.execPath, '--import', 'tsx', 'src/build.ts');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  copyFileSync(join(root, 'dist/server.js'), join(folder, 'server.js'));
  write('Dockerfile', fromHandbook('Dockerfile', /^```dockerfile\n(.*?)^```$/ms));
  const changes = fromHandbook(`changes of ${version}`, RegExp(`^(\\*\\*${version}\\*\\*$.*)`, 'ms'));
  write('CHANGES.md', `# Changes\n\n${changes}`);
  pack();
  write(`assetlog-${version}.spdx.json`, `${JSON.stringify(spdxOf(contents(), created), undefined, 2)}\n`);
  const sums = contents().map(({ name, sha256 }) => `${sha256}  ${name}\n`);
  write('SHA256SUMS', sums.join(''));
  fixModes(folder);
  console.log(`dist/release\n${sums.join('')}`);
}

try {
  release();
} catch (error) {
  console.error(`assetlog release: ${(error as Error).message}`);
  process.exitCode = 1;
}
