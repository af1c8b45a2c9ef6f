/** The log of the service on standard error: one line for each entry, never a token, never metadata. */

import { type LogLevel, logLevels } from '../config/config.ts';
import { withoutTokens } from './masked.ts';
import { printable } from './printable.ts';

/** Further members of a log entry. One that is undefined is left out. */
export type Fields = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/**
 * The log, with a method for each level. `message` is a constant text; values are in `fields`. No method throws.
 * `info('refused', { status: 400 })` writes
 * `{"time":"2026-11-20T15:19:45.266Z","level":"info","message":"refused","status":400}`.
 */
export interface Notices {
  /** Whether the level is debug: the hot path checks it before it builds a debug entry. */
  readonly debugging: boolean;
  /** Whether the level is info or debug. */
  readonly informing: boolean;
  error(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  /** Creates a child logger that adds the fields to every entry. */
  with(fields: Fields): Notices;
}

/**
 * Creates the log of a process. An entry on a terminal: `15:19:45 info  refused  status=400`.
 * @param level the least severe level that is written
 * @param terminal true for a short, aligned format for people; false for one JSON object per line
 * @param write receives one line with its newline
 */
export function createNotices(level: LogLevel, terminal: boolean, write: (line: string) => void): Notices {
  const rank = logLevels.indexOf(level);
  const format = terminal ? forPerson : forMachine;
  const always = (common: Fields): Notices => {
    const at =
      (own: LogLevel) =>
      (message: string, fields: Fields = {}) => {
        if (logLevels.indexOf(own) > rank) return;
        write(safe(format(own, message, { ...common, ...fields }, new Date())));
      };
    return {
      debugging: level === 'debug',
      informing: rank >= logLevels.indexOf('info'),
      error: at('error'),
      warn: at('warn'),
      info: at('info'),
      debug: at('debug'),
      with: (more) => always({ ...common, ...more }),
    };
  };
  return always({});
}

/**
 * Limits log entries to one for each name, so that a client can not fill the log by repeating a request.
 * @param max how many distinct names are remembered; further names do not count as new
 * @returns a function that says whether a name is new
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
 * @returns a function that says whether an entry may be written now; it remembers each reason, so these are constants
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

function forMachine(level: LogLevel, message: string, fields: Fields, now: Date): string {
  return `${JSON.stringify({ time: now.toISOString(), level, message, ...fields })}\n`;
}

function forPerson(level: LogLevel, message: string, fields: Fields, now: Date): string {
  const pairs = Object.entries(fields).filter(([, value]) => value !== undefined);
  const shown = pairs.map(([name, value]) => `  ${name}=${JSON.stringify(value)}`).join('');
  return `${now.toISOString().slice(11, 19)} ${level.padEnd(5)} ${message}${shown}\n`;
}

/** Masks tokens, and escapes control characters, so that the newline at the end of the line is the only one. */
function safe(line: string): string {
  return `${printable(withoutTokens(line.slice(0, -1)))}\n`;
}
