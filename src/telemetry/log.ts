/** The log of the service on standard error: one line for each entry, which never contains a token or metadata. */

import type { Writable } from 'node:stream';
import type { Limits } from '../config/limits.ts';
import { type LogLevel, logLevels } from '../config/options-of-service.ts';
import { maskTokens } from './masked.ts';
import { printable, shortened } from './printable.ts';

/** Further members of a log entry. An undefined member is left out. */
export type Fields = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/**
 * The log, with a method for each level. `message` is a constant text; values are in `fields`. No method throws.
 * `info('refused', { status: 400 })` writes
 * `{"time":"2026-11-20T15:19:45.266Z","level":"info","message":"refused","status":400}`.
 */
export interface Notices {
  /** Whether the level is debug: the hot path checks it before it builds a debug entry. */
  readonly isDebug: boolean;
  /** Whether the level is info or debug. */
  readonly isInfo: boolean;
  error(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  /** Creates a child logger that adds the fields to every entry. */
  with(fields: Fields): Notices;
  /**
   * The same log for entries that clients can cause: at most `refusalLinesMax` of each level in `activityMs`; the rest is
   * counted.
   */
  readonly rated: Pick<Notices, 'error' | 'warn'>;
}

export type LogLimits = Pick<Limits, 'activityMs' | 'refusalLinesMax' | 'logTextCharactersMax' | 'logWaitingBytesMax'>;

/**
 * Creates the log of a process on a stream. If nothing reads the stream, about `limits.logWaitingBytesMax` bytes wait in memory;
 * further lines are dropped and counted.
 * @returns the log, and the function that writes one line with its newline
 */
export function openLog(
  level: LogLevel,
  terminal: boolean,
  stream: Pick<Writable, 'write' | 'writableLength' | 'once'>,
  limits: LogLimits,
): { readonly notices: Notices; readonly write: (line: string) => void } {
  let dropped = 0;
  const write = (line: string) => {
    if (stream.writableLength <= limits.logWaitingBytesMax) {
      stream.write(line);
      return;
    }
    if (dropped === 0) stream.once('drain', report);
    dropped += 1;
  };
  const notices = createNotices(level, terminal, write, limits);
  const report = () => {
    notices.error('log lines were dropped, since nothing read the log', { count: dropped });
    dropped = 0;
  };
  return { notices, write };
}

/**
 * Creates the log of a process. An entry on a terminal: `15:19:45 info  refused  status=400`.
 * @param level the least severe level that is written
 * @param terminal true for a short, aligned format for people; false for one JSON object per line
 * @param write receives one line with its newline
 * @param limits if undefined, the log is not limited: as for a log that is not written to a stream
 */
export function createNotices(
  level: LogLevel,
  terminal: boolean,
  write: (line: string) => void,
  limits: Omit<LogLimits, 'logWaitingBytesMax'> = UNBOUNDED,
): Notices {
  const rank = logLevels.indexOf(level);
  const format = terminal ? formatAsText : formatAsJson;
  const rateOf = (own: 'error' | 'warn') => {
    const { refusalLinesMax, activityMs } = limits;
    const report = (count: number) => createChild({})[own]('further lines about requests were left out', { count });
    return new LineRate(refusalLinesMax, activityMs, report);
  };
  const [errorRate, warningRate] = [rateOf('error'), rateOf('warn')];
  const createChild = (common: Fields): Notices => {
    const logAt =
      (own: LogLevel) =>
      (message: string, fields: Fields = {}) => {
        if (logLevels.indexOf(own) > rank) return;
        const safe = Object.entries({ ...common, ...fields }).map(([name, value]) => [
          name,
          cut(value, limits.logTextCharactersMax),
        ]);
        write(`${printable(format(own, message, Object.fromEntries(safe), new Date()))}\n`);
      };
    const [error, warn] = [logAt('error'), logAt('warn')];
    return {
      isDebug: level === 'debug',
      isInfo: rank >= logLevels.indexOf('info'),
      error,
      warn,
      info: logAt('info'),
      debug: logAt('debug'),
      with: (more) => createChild({ ...common, ...more }),
      rated: {
        error: (message, fields) => errorRate.allow() && error(message, fields),
        warn: (message, fields) => warningRate.allow() && warn(message, fields),
      },
    };
  };
  return createChild({});
}

/**
 * Limits log entries to one for each name, so that a client cannot fill the log by repeating a request.
 * @param max the most names to remember; further names do not count as new
 * @returns a function that returns whether a name is new
 */
export function oncePerName(max: number): (name: string) => boolean {
  const seen = new Set<string>();
  return (name) => {
    if (seen.size >= max || seen.has(name)) return false;
    seen.add(name);
    return true;
  };
}

/**
 * Limits log entries to one for each reason in `ms` milliseconds.
 * @returns a function that returns whether an entry can be written now; it remembers each reason, so reasons are constants
 */
export function atMostEvery(ms: number): (reason: string) => boolean {
  const loggedAtMs = new Map<string, number>();
  return (reason) => {
    const now = performance.now();
    if (now - (loggedAtMs.get(reason) ?? Number.NEGATIVE_INFINITY) < ms) return false;
    loggedAtMs.set(reason, now);
    return true;
  };
}

function formatAsJson(level: LogLevel, message: string, fields: Fields, now: Date): string {
  return JSON.stringify({ time: now.toISOString(), level, message, ...fields });
}

function formatAsText(level: LogLevel, message: string, fields: Fields, now: Date): string {
  const pairs = Object.entries(fields).filter(([, value]) => value !== undefined);
  const shown = pairs.map(([name, value]) => `  ${name}=${JSON.stringify(value)}`).join('');
  return `${now.toISOString().slice(11, 19)} ${level.padEnd(5)} ${message}${shown}`;
}

const UNBOUNDED = {
  activityMs: 0,
  refusalLinesMax: Number.POSITIVE_INFINITY,
  logTextCharactersMax: Number.POSITIVE_INFINITY,
};

/** @returns a value without tokens, and with at most `charactersMax` characters; a list ends with `…` after its first elements */
function cut(value: Fields[string], charactersMax: number): Fields[string] {
  if (typeof value === 'string') return shortened(maskTokens(value), charactersMax);
  if (typeof value !== 'object') return value;
  let left = charactersMax;
  const shown = value.map(maskTokens).filter((one) => {
    left -= one.length;
    return left >= 0;
  });
  return shown.length < value.length ? [...shown, '…'] : shown;
}

/** Rate limit for log lines; reports the number of suppressed lines. */
export class LineRate {
  readonly #max: number;
  readonly #intervalMs: number;
  readonly #report: (count: number) => void;
  #endsMs = 0;
  #lines = 0;
  #suppressed = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(max: number, intervalMs: number, report: (count: number) => void) {
    this.#max = max;
    this.#intervalMs = intervalMs;
    this.#report = report;
  }

  /** @returns whether one more line can be written now */
  allow(): boolean {
    const now = performance.now();
    if (now >= this.#endsMs) {
      this.close();
      this.#endsMs = now + this.#intervalMs;
      this.#lines = 0;
    }
    this.#lines += 1;
    if (this.#lines <= this.#max) return true;
    this.#suppressed += 1;
    this.#timer ??= setTimeout(() => this.close(), this.#endsMs - now).unref();
    return false;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#endsMs = 0; // the timer might have fired up to a millisecond early
    if (this.#suppressed > 0) this.#report(this.#suppressed);
    this.#suppressed = 0;
  }
}
