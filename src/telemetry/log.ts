/** What the operator is told on standard error: one line a notice, never a token, never metadata. */

import { type LogLevel, logLevels } from '../config/config.ts';
import { printable } from './printable.ts';

export type Fields = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

export interface Notices {
  /** Whether a debug notice would be seen at all: the hot path asks before it makes one. */
  readonly debugging: boolean;
  error(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  /** The same, with fields that every notice has. */
  with(fields: Fields): Notices;
}

/**
 * @param level the least serious one that is still written
 * @param terminal for a person: short and aligned; else one JSON object a line
 * @param write takes one line with its newline
 */
export function createNotices(level: LogLevel, terminal: boolean, write: (line: string) => void): Notices {
  const rank = logLevels.indexOf(level);
  const format = terminal ? forPerson : forMachine;
  const always = (common: Fields): Notices => {
    const at =
      (own: LogLevel) =>
      (message: string, fields: Fields = {}) => {
        if (logLevels.indexOf(own) > rank) return;
        write(escapeUnprintable(format(own, message, { ...common, ...fields }, new Date())));
      };
    return {
      debugging: level === 'debug',
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
 * Keeps what hostile clients can repeat from filling the log.
 * @param max how many distinct names are remembered; further ones are never new
 * @returns whether a name is new
 */
export function oncePerName(max: number): (name: string) => boolean {
  const seen = new Set<string>();
  return (name) => {
    if (seen.size >= max || seen.has(name)) return false;
    seen.add(name);
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

/** A line stays a line: its closing newline is the only one. */
function escapeUnprintable(line: string): string {
  return `${printable(line.slice(0, -1))}\n`;
}
