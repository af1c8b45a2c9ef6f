/** The files with the secrets of a destination, and with the certificate authorities that it is trusted by. */

import { PROXY_WANTED, readProxyUrl } from '../../client/base-url.ts';
import { LateFileError } from '../../config/file-queue.ts';
import { fileVersion, readText, readToken } from '../../config/files.ts';
import type { Limits } from '../../config/limits.ts';
import type { DestinationSettings } from '../settings.ts';

export interface Secrets {
  readonly token: string | undefined;
  /** The password of the destination's `user`. */
  readonly password: string | undefined;
  /** The headers that the operator added; empty if there are none. */
  readonly headers: Readonly<Record<string, string>>;
  /** URL of the proxy, with its user and password. */
  readonly proxy: string | undefined;
  /** Certificates (PEM), which are trusted instead of those that Node knows. */
  readonly ca: string | undefined;
}

export type CredentialFiles = Pick<DestinationSettings, 'tokenFile' | 'passwordFile' | 'headers' | 'proxy' | 'caFile'>;

/** Reads the files again when necessary. */
export class Credentials {
  readonly #files: CredentialFiles;
  readonly #limits: Limits;
  #secrets: Secrets | undefined;
  #readMs = Number.NEGATIVE_INFINITY;
  /** The version of the files that were last read; undefined before the first read. */
  #version: string | undefined;

  constructor(files: CredentialFiles, limits: Limits) {
    this.#files = files;
    this.#limits = limits;
  }

  /** Whether one of the files has changed since it was read; false before the first `read`, and if a file is late. */
  async haveChanged(signal: AbortSignal): Promise<boolean> {
    if (this.#version === undefined) return false;
    const current = await this.#currentVersion(signal).catch(() => this.#version);
    return current !== this.#version;
  }

  /** Makes the next `read` read the files. */
  forget(): void {
    this.#readMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Reads the files if they were last read more than `keptMs` ago. While a file of another destination is late, the previous
   * content stays in effect.
   * @param signal ends the wait for the files
   * @returns the same object until the files are read again
   * @throws Error whose message names the file and contains nothing from it
   */
  async read(signal: AbortSignal): Promise<Secrets> {
    if (this.#secrets !== undefined && performance.now() - this.#readMs <= this.#limits.keptMs) return this.#secrets;
    return this.#read(signal).catch((error) => {
      const isOther = error instanceof LateFileError && !this.#paths.includes(error.late);
      if (isOther && this.#secrets !== undefined) return this.#secrets;
      throw error;
    });
  }

  async #read(signal: AbortSignal): Promise<Secrets> {
    const { caBytesMax, fileReadMs } = this.#limits;
    const { tokenFile, passwordFile, headers = {}, proxy: place, caFile } = this.#files;
    // Determined before the files are read, so that a concurrent change gives another version.
    this.#version = await this.#currentVersion(signal);
    const secretIn = async (path: string | undefined, what: 'token' | 'password' | 'value') =>
      path === undefined ? undefined : (await readToken(path, this.#limits, what, signal)).token;
    const token = await secretIn(tokenFile, 'token');
    const password = await secretIn(passwordFile, 'password');
    const all: [string, string][] = [];
    for (const [name, value] of Object.entries(headers)) {
      all.push([name, typeof value === 'string' ? value : (await secretIn(value.file, 'value'))!]);
    }
    const proxy = typeof place === 'object' ? await secretIn(place.file, 'value') : place;
    if (proxy !== undefined && readProxyUrl(proxy) === undefined) {
      throw new Error(`the proxy in ${(place as { file: string }).file} ${PROXY_WANTED}`);
    }
    const ca = caFile === undefined ? undefined : await readText(caFile, caBytesMax, fileReadMs, signal);
    // Node would then trust no certificate at all, and its error would not name the file.
    if (ca?.includes('-----BEGIN CERTIFICATE-----') === false) throw new Error(`${caFile} has no certificate (PEM)`);
    this.#readMs = performance.now();
    this.#secrets = { token, password, headers: Object.fromEntries(all), proxy, ca };
    return this.#secrets;
  }

  get #paths(): string[] {
    const { tokenFile, passwordFile, headers = {}, proxy, caFile } = this.#files;
    const valueFiles = [...Object.values(headers), proxy].map((one) =>
      typeof one === 'object' ? one.file : undefined,
    );
    return [tokenFile, passwordFile, ...valueFiles, caFile].filter((path) => path !== undefined);
  }

  async #currentVersion(signal: AbortSignal): Promise<string> {
    const versions = this.#paths.map((path) => fileVersion(path, this.#limits.fileReadMs, signal));
    return (await Promise.all(versions)).join(' ');
  }
}
