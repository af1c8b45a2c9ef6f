/** The files with the secrets of a destination, and with the authorities that it is trusted by. */

import { fileVersion, readText, readToken } from '../../config/files.ts';
import type { Limits } from '../../config/limits.ts';
import type { Destination } from '../destination.ts';

export interface Secrets {
  readonly token: string | undefined;
  /** Of the destination's `user`. */
  readonly password: string | undefined;
  /** Certificates (PEM), which are trusted instead of the ones that Node knows. */
  readonly ca: string | undefined;
}

export type CredentialFiles = Pick<Destination, 'tokenFile' | 'passwordFile' | 'caFile'>;

/** Reads the files again when that is due. */
export class Credentials {
  readonly #files: CredentialFiles;
  readonly #limits: Pick<Limits, 'keptMs' | 'tokenBytesMax' | 'caBytesMax'>;
  #secrets: Secrets | undefined;
  #readMs = Number.NEGATIVE_INFINITY;
  /** Of the files that were read last; undefined before that. */
  #version: string | undefined;

  constructor(files: CredentialFiles, limits: Pick<Limits, 'keptMs' | 'tokenBytesMax' | 'caBytesMax'>) {
    this.#files = files;
    this.#limits = limits;
  }

  /** Whether one of the files is another one than when it was read; false before the first `read`. */
  async haveChanged(): Promise<boolean> {
    return this.#version !== undefined && this.#version !== (await this.#currentVersion());
  }

  /** The next `read` reads the files. */
  forget(): void {
    this.#readMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Reads the files if the last time is over `keptMs` ago.
   * @returns the same object as long as nothing was read
   * @throws Error whose message names the file and has nothing of what is in it
   */
  async read(): Promise<Secrets> {
    const { keptMs, tokenBytesMax, caBytesMax } = this.#limits;
    if (this.#secrets !== undefined && performance.now() - this.#readMs <= keptMs) return this.#secrets;
    const { tokenFile, passwordFile, caFile } = this.#files;
    // Before they are read: a change meanwhile is then another version.
    this.#version = await this.#currentVersion();
    const secretIn = async (path: string | undefined, what: 'token' | 'password') =>
      path === undefined ? undefined : (await readToken(path, tokenBytesMax, what)).token;
    const token = await secretIn(tokenFile, 'token');
    const password = await secretIn(passwordFile, 'password');
    const ca = caFile === undefined ? undefined : await readText(caFile, caBytesMax);
    // Node trusts no certificate at all then, and its error would not name the file.
    if (ca?.includes('-----BEGIN CERTIFICATE-----') === false) throw new Error(`${caFile} has no certificate (PEM)`);
    this.#readMs = performance.now();
    this.#secrets = { token, password, ca };
    return this.#secrets;
  }

  async #currentVersion(): Promise<string> {
    const { tokenFile, passwordFile, caFile } = this.#files;
    const named = [tokenFile, passwordFile, caFile].filter((path) => path !== undefined);
    return (await Promise.all(named.map(fileVersion))).join(' ');
  }
}
