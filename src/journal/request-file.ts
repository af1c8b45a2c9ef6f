/**
 * A file beside the journal in which a command asks the service to do what only the service may do: it has the journal open. The
 * service takes the request up, and removes the file when it is done.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config/limits.ts';
import { type Disk, unlessAbsent } from './disk.ts';
import { readSmall } from './file-io.ts';
import { type AskLimits, holderOf } from './lock/protocol.ts';

export class RequestFile {
  readonly #name: string;
  readonly #bytesMax: number;

  /** @param bytesMax of a request */
  constructor(name: string, bytesMax: number) {
    this.#name = name;
    this.#bytesMax = bytesMax;
  }

  /**
   * For a command: writes the request, and waits until it is handled, at most `forgetWaitMs`, since an earlier version ignores it.
   * @throws the error of a system call
   */
  async ask(disk: Disk, text: string, limits: AskLimits & Pick<Limits, 'forgetWaitMs' | 'followMs'>): Promise<void> {
    await disk.replace(this.#name, Buffer.from(text));
    await holderOf(disk.folder, limits); // the service looks for requests soon after it was asked
    const untilMs = performance.now() + limits.forgetWaitMs;
    while (performance.now() < untilMs && (await this.#read(disk)) !== undefined) await sleep(limits.followMs);
    await this.#remove(disk);
  }

  /**
   * For the service, one call at a time.
   * @returns what became of the request; undefined if there is none
   * @throws the error of `act`, after which the request is removed as well, or of a system call
   */
  async take<Result>(disk: Disk, act: (text: string) => Promise<Result>): Promise<Result | undefined> {
    const text = await this.#read(disk);
    return text === undefined ? undefined : act(text).finally(() => this.#remove(disk));
  }

  async #read(disk: Disk): Promise<string | undefined> {
    return (await readSmall(disk, this.#name, this.#bytesMax))?.toString();
  }

  #remove(disk: Disk): Promise<void> {
    return disk.remove(this.#name).catch(unlessAbsent(undefined));
  }
}
