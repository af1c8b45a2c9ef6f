/**
 * The protocol of the lock of a folder. The holder of the lock sends its state to each client that connects, in one line:
 *
 *     starting 4711          the process is about to lock the folder
 *     held 4711 -⏎           it holds the lock
 *     held 4711 12⏎          its journal is durable up to the line before seq 12
 *
 * The line feed means that the holder accepts a request: a line of JSON, which the client has sent without waiting. The holder
 * carries it out, answers with another line, and closes the connection. Holders of 0.3.0 and before end their state without a line
 * feed. Their clients read until the end, so the holder closes a connection if no request arrives.
 */

import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Limits } from '../../config/limits.ts';
import { atAddress, closePlace, listSockets, nameOfFolder, openPlace, type Place } from './address.ts';

/** Prefix of the socket files of locks. */
export const LOCK = '.lock-';
/** State of a lock that this user may not connect to. Its process might be alive, perhaps in another namespace. */
export const DENIED = 'denied';

/** What the holder of a lock reports to other processes, and does for them. */
export interface Door {
  /** @returns the seq of the first line that is not durable yet; undefined while the journal is not open */
  readonly nextSeq: () => number | undefined;
  /**
   * Carries out a request while the journal is open. Never rejects.
   * @param request a line of JSON
   * @param gone aborts when the client has disconnected, or the lock is being released
   * @returns the answer, in one line
   */
  readonly answer: (request: string, gone: AbortSignal) => Promise<string>;
}

/** The answer to a request that is not carried out. */
export function refusal(error: string): string {
  return JSON.stringify({ error });
}

/** The server of a process that holds a lock, or is about to. */
export class LockServer {
  #isHeld = false;
  #door: Door | undefined;
  readonly #limits: Limits;
  readonly #server: Server;
  /** Connections whose request might still arrive, or is being carried out. */
  readonly #askers = new Set<Socket>();
  readonly #answers = new Set<Promise<void>>();

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#server = createServer((client) => this.#greet(client));
    this.#server.on('error', () => {}); // no file descriptor is left to accept a client: it is disconnected, and will ask again
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

  /** Marks the lock as held. The lock does not keep the process running. */
  hold(): void {
    this.#isHeld = true;
    this.#server.unref();
  }

  open(door: Door): void {
    this.#door = door;
  }

  /** Ends the requests that are being carried out. Resolves when no request is being carried out. */
  async endRequests(): Promise<void> {
    this.#door = undefined;
    for (const client of this.#askers) client.destroy();
    await Promise.all(this.#answers);
  }

  /** Resolves when the address is free. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const client of this.#askers) client.destroy(); // also a client that connected after `endRequests`
    await closed;
  }

  #greet(client: Socket): void {
    client.on('error', () => client.destroy()); // a client that disconnected needs no answer
    if (!this.#isHeld || this.#askers.size >= this.#limits.doorAskersMax) {
      // The socket is destroyed as soon as the kernel has the answer: otherwise a stalled client would delay `close`, and many
      // stalled clients would use up the file descriptors.
      client.end(this.#isHeld ? this.#state() : `starting ${process.pid}`, () => client.destroy());
      return;
    }
    this.#askers.add(client);
    client.once('close', () => this.#askers.delete(client));
    client.unref();
    client.write(this.#state());
    const answer = this.#serve(client).finally(() => this.#answers.delete(answer));
    this.#answers.add(answer);
  }

  #state(): string {
    return `held ${process.pid} ${this.#door?.nextSeq() ?? '-'}\n`;
  }

  /** Never rejects. */
  async #serve(client: Socket): Promise<void> {
    const request = await readRequest(client, this.#limits);
    if (request === undefined) {
      client.destroy();
      return;
    }
    const gone = new AbortController();
    client.once('close', () => gone.abort());
    if (client.destroyed) return;
    const door = this.#door;
    const isOpen = door?.nextSeq() !== undefined;
    const answer = isOpen ? await door!.answer(request, gone.signal) : refusal('its journal is not open');
    client.end(`${answer}\n`, () => client.destroy());
  }
}

/**
 * @returns the first line; undefined if it has not started within `doorWaitMs`, or not ended within `doorRequestMs` or the limit of
 * bytes
 */
function readRequest(client: Socket, limits: Limits): Promise<string | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let timer = setTimeout(() => settle(undefined), limits.doorWaitMs);
    const settle = (request: string | undefined) => {
      clearTimeout(timer);
      client.off('data', take);
      client.resume(); // otherwise its end would not be noticed
      resolve(request);
    };
    const take = (chunk: Buffer) => {
      if (bytes === 0) {
        clearTimeout(timer);
        timer = setTimeout(() => settle(undefined), limits.doorRequestMs);
      }
      chunks.push(chunk);
      bytes += chunk.length;
      const isWhole = chunk.includes(LINE_FEED);
      if (isWhole || bytes > limits.doorRequestBytesMax)
        settle(isWhole && bytes <= limits.doorRequestBytesMax ? Buffer.concat(chunks).toString() : undefined);
    };
    client.on('data', take);
    client.once('close', () => settle(undefined));
  });
}

const LINE_FEED = 0x0a;

/**
 * The answer of the process that writes a journal: the seq of the first line that is not durable yet · `unsaid` if there is no
 * such process, or if it has not opened the journal or runs an older version · `unanswered` if it is suspended or overloaded.
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
export async function askHolder(folder: string, limits: Limits): Promise<Durable> {
  const answers = (await askAll(folder, limits)).map(({ state }) => state);
  const held = answers.find((answer) => answer?.startsWith('held '));
  if (held === undefined) return { kind: answers.some((answer) => UNANSWERED.has(answer)) ? 'unanswered' : 'unsaid' };
  const seq = Number(held.split(' ')[2]);
  return Number.isSafeInteger(seq) && seq > 0 ? { kind: 'before', seq } : { kind: 'unsaid' };
}

/** What a process reports about its lock, and its answer to a request. */
export interface HolderSaid {
  /** Such as `held 4711 12⏎`; `held` after the timeout; undefined if the process has ended or cannot be asked. */
  readonly state: string | undefined;
  /** Undefined if the connection ended without an answer. */
  readonly answer?: string;
}

/** @returns the state of each lock in the folder. @throws the error of a system call */
export async function askAll(folder: string, limits: Limits, request = ''): Promise<HolderSaid[]> {
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
    const unlessRefused = () => ({ state: undefined }); // the lock of another user might refuse
    return await Promise.all(names.map((name) => talk(place, name, limits, request).catch(unlessRefused)));
  } finally {
    closePlace(place);
  }
}

/** @param name see `atAddress` @returns the state of the lock: see `HolderSaid` @throws the error of a system call */
export async function ask(place: Place, name: string, limits: Limits): Promise<string | undefined> {
  return (await talk(place, name, limits, '')).state;
}

/**
 * @param request a line that is sent at once; empty for the state alone. The answer has no time limit, since the socket lives as long as the
 * process
 */
async function talk(place: Place, name: string, limits: Limits, request: string): Promise<HolderSaid> {
  const late = new AbortController();
  // A timeout for the whole state: an idle timeout would restart with each byte.
  const timer = setTimeout(() => late.abort(), limits.lockAnswerMs);
  try {
    const socket = await atAddress(place, name, (path) => connectTo(path, late.signal));
    if (request !== '') socket.write(request);
    return await readSaid(socket, limits, request !== '', () => clearTimeout(timer));
  } catch (error) {
    return { state: stateOf(error as NodeJS.ErrnoException, late.signal) };
  } finally {
    clearTimeout(timer);
  }
}

/** @returns the state that the error of a connection implies. @throws the error, if it implies none */
function stateOf(error: NodeJS.ErrnoException, late: AbortSignal): string | undefined {
  if (late.aborted) return 'held';
  const { code } = error;
  if (code === 'ECONNREFUSED' || code === 'ENOENT') return undefined;
  // A closing process resets the connection; a full backlog refuses with EAGAIN. The caller asks again.
  if (code === 'ECONNRESET' || code === 'EAGAIN') return 'unclear';
  if (code === 'EACCES' || code === 'EPERM') return DENIED;
  throw error;
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

/**
 * @param onState called when the state has arrived @returns the state, or `held` if it is too long, and the answer if one is wanted
 */
function readSaid(socket: Socket, limits: Limits, wantsAnswer: boolean, onState: () => void): Promise<HolderSaid> {
  return new Promise((resolve, reject) => {
    const heard = new Heard();
    const settle = (said: HolderSaid) => {
      socket.destroy();
      resolve(said);
    };
    socket.on('data', (chunk: Buffer) => {
      heard.take(chunk);
      const { state, answer } = heard;
      if (state.length > limits.lockAnswerBytesMax) return settle({ state: 'held' });
      if (!heard.hasState) return;
      onState();
      if (!wantsAnswer || heard.answerBytes > limits.doorAnswerBytesMax) settle({ state });
      else if (answer !== undefined) settle({ state, answer });
    });
    socket.on('end', () => settle({ state: heard.state }));
    socket.on('error', (error) => (heard.hasState ? settle({ state: heard.state }) : reject(error)));
  });
}

/** The bytes of a connection to the holder of a lock: its state up to the first line feed, then its answer. */
class Heard {
  state = '';
  answerBytes = 0;
  readonly #answer: Buffer[] = [];

  get hasState(): boolean {
    return this.state.endsWith('\n');
  }

  /** Undefined until it ends with a line feed. */
  get answer(): string | undefined {
    return this.#answer.at(-1)?.at(-1) === LINE_FEED ? Buffer.concat(this.#answer).toString() : undefined;
  }

  take(chunk: Buffer): void {
    let rest = chunk;
    if (!this.hasState) {
      const end = chunk.indexOf(LINE_FEED) + 1 || chunk.length;
      this.state += chunk.toString('latin1', 0, end);
      rest = chunk.subarray(end);
    }
    if (rest.length === 0) return;
    this.#answer.push(rest);
    this.answerBytes += rest.length;
  }
}
