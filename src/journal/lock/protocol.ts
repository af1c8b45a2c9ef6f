/**
 * What is said over the lock of a folder: its holder answers each client that connects with one line and closes the connection.
 *
 *     starting 4711          the process is about to lock the folder
 *     held 4711              it holds the lock
 *     held 4711 12           its journal is durable up to the line before seq 12
 */

import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import { atAddress, closePlace, listSockets, nameOfFolder, openPlace, type Place } from './address.ts';

export type AskLimits = Pick<Limits, 'lockAnswerMs' | 'lockAnswerBytesMax'>;

/** Prefix of the socket files of locks. */
export const LOCK = '.lock-';
/** State of a lock that this user may not connect to. Its process might be alive, perhaps in another namespace. */
export const DENIED = 'denied';

/** The server of a process that holds a lock, or is about to. */
export class LockServer {
  #state: 'starting' | 'held' = 'starting';
  #nextSeq: () => number | undefined = () => undefined;
  readonly #server: Server;

  constructor() {
    this.#server = createServer((client) => {
      client.on('error', () => client.destroy()); // a client that disconnected needs no answer
      const answer = `${this.#state} ${process.pid} ${this.#nextSeq() ?? ''}`.trimEnd();
      // Destroyed as soon as the kernel has the answer: otherwise a stalled client would delay `close`, and many stalled clients
      // would use up the file descriptors.
      client.end(answer, () => client.destroy());
    });
    this.#server.on('error', () => {}); // no file descriptor is left to accept a client: it is disconnected, and asks again
  }

  /** @param name see `atAddress` @throws the error of a system call */
  listen(place: Place, name: string): Promise<void> {
    const listening = (path: string) =>
      new Promise<void>((resolve, reject) => {
        this.#server.once('error', reject);
        this.#server.listen(path, () => {
          this.#server.off('error', reject);
          resolve();
        });
      });
    return atAddress(place, name, listening);
  }

  /** The lock is held from now on. It does not keep the process running. */
  hold(): void {
    this.#state = 'held';
    this.#server.unref();
  }

  /** @param nextSeq called for each client */
  shareDurable(nextSeq: () => number | undefined): void {
    this.#nextSeq = nextSeq;
  }

  /** Resolves when the address is free. */
  async close(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/**
 * The answer of the process that writes a journal: the seq of the first line that is not durable yet · `unsaid` if there is no
 * such process, it has not opened the journal, or is of an older version · `unanswered` if it is suspended or overloaded.
 */
export type Durable =
  | { readonly kind: 'before'; readonly seq: number }
  | { readonly kind: 'unsaid' }
  | { readonly kind: 'unanswered' };

/**
 * Asks the holder of a folder's lock how far the journal is durable, with a timeout of `limits.lockAnswerMs`. Changes nothing in
 * the folder. The answer for a missing folder is `unsaid`.
 * @throws the error of a system call
 */
export async function askHolder(folder: string, limits: AskLimits): Promise<Durable> {
  const answers = await askAll(folder, limits);
  const held = answers.find((answer) => answer?.startsWith('held '));
  if (held === undefined) return { kind: answers.some((answer) => UNANSWERED.has(answer)) ? 'unanswered' : 'unsaid' };
  const seq = Number(held.split(' ')[2]);
  return Number.isSafeInteger(seq) && seq > 0 ? { kind: 'before', seq } : { kind: 'unsaid' };
}

/** A process that holds the lock of a folder; `pid` is undefined if the process does not answer. */
export interface Holder {
  readonly pid: number | undefined;
}

/**
 * Finds the live process that holds or is about to hold the lock of the folder. Changes nothing in the folder. A missing folder
 * has no holder.
 * @throws the error of a system call
 */
export async function holderOf(folder: string, limits: AskLimits): Promise<Holder | undefined> {
  const answers = (await askAll(folder, limits)).filter((answer) => answer !== undefined);
  const pid = answers.map((answer) => Number(answer.split(' ')[1])).find((pid) => pid > 0);
  return answers.length === 0 ? undefined : { pid };
}

/** @returns the answer of each lock in the folder; undefined if its process has ended or cannot be asked */
async function askAll(folder: string, limits: AskLimits): Promise<(string | undefined)[]> {
  let place: Place;
  try {
    place = openPlace(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  try {
    const ofFolder = nameOfFolder(place);
    const names = [
      ...(place.system.isWindows ? [] : listSockets(folder, LOCK)),
      ...(ofFolder === undefined ? [] : [ofFolder]),
    ];
    return await Promise.all(names.map((name) => ask(place, name, limits).catch(() => undefined))); // the lock of another user might refuse
  } finally {
    closePlace(place);
  }
}

/**
 * @param name see `atAddress`
 * @returns the answer of the process, such as `held 4711 12`; `held` after the timeout; undefined if the process has ended
 */
export async function ask(place: Place, name: string, limits: AskLimits): Promise<string | undefined> {
  const late = new AbortController();
  // A timeout for the whole answer: an idle timeout would restart with each byte.
  const timer = setTimeout(() => late.abort(), limits.lockAnswerMs);
  try {
    const socket = await atAddress(place, name, (path) => connectTo(path, late.signal));
    return await readAnswer(socket, limits.lockAnswerBytesMax);
  } catch (error) {
    if (late.signal.aborted) return 'held';
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return undefined;
    // A closing process resets the connection; a full backlog refuses with EAGAIN. The caller asks again.
    if (code === 'ECONNRESET' || code === 'EAGAIN') return 'unclear';
    if (code === 'EACCES' || code === 'EPERM') return DENIED;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Results of `ask` for a holder that does not answer. */
const UNANSWERED: ReadonlySet<string | undefined> = new Set(['held', 'unclear']);

function connectTo(path: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, signal });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** @returns the answer, or `held` if it is longer than `bytesMax` */
function readAnswer(socket: Socket, bytesMax: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const settle = (state: string) => {
      socket.destroy();
      resolve(state);
    };
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (answer.length > bytesMax) settle('held');
    });
    socket.on('end', () => settle(answer));
    socket.on('error', reject);
  });
}
