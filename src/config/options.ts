/** Options of commands: parses flags and environment variables into typed values, or returns every problem as a sentence. */

import { resolve } from 'node:path';
import { durationMs } from '../event/moment.ts';
import { type CommandLine, type OptionForm, readCommandLine, shownOption } from './command-line.ts';

export interface Option<Value> extends OptionForm {
  /** The switch has an environment variable, whose value is `true` or `false`. */
  readonly variable?: true;
  /** One line of the help. */
  readonly help: string;
  readonly initial: Value;
  /** Text of the default in the help, if `initial` does not show it. */
  readonly standard?: string;
  /** All values that are allowed, for shell completion. */
  readonly choices?: readonly string[];
  /** The option applies to one call of a command, so no environment variable sets it. */
  readonly flagOnly?: true;
  /**
   * A flag accepts any text, since a report or a search can contain it. Other values must not contain control characters or be enclosed
   * in quotes.
   */
  readonly anyText?: true;
  /**
   * Reads a text of the option.
   * @param before the value of the earlier texts
   * @throws Error whose message completes "--flag "value" …"
   */
  readonly parse: (text: string, before: Value) => Value;
}

/** Options by the name of their value. */
export type Options<Values> = { readonly [Name in keyof Values]: Option<Values[Name]> };

/** The values of a table of options. */
export type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Option<infer Value> ? Value : never;
};

/** A row of a table of options, whose type `ValuesOf` finds. */
export function option<Value>(row: Option<Value>): Option<Value> {
  return row;
}

/** The arguments that a command accepts in addition to options. */
export interface Operands {
  /** The operands in the form of the help. */
  readonly text: string;
  readonly max: number;
  /** The allowed values of the first operand, for shell completion. */
  readonly choices?: readonly string[];
  /** The operands are paths of files or of folders, for shell completion. */
  readonly paths?: 'files' | 'folders';
  /** The option that the first operand sets, unless the operand is one of `actions`. Its value is a path. */
  readonly option?: string;
  readonly actions?: readonly string[];
}

/** @returns the flag of an option, without its dashes: `path-prefix` for `pathPrefix` */
export function flagOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** @returns the environment variable of an option: `ASSETLOG_PATH_PREFIX` for `pathPrefix` */
export function variableOf(name: string): string {
  return `ASSETLOG_${flagOf(name).replaceAll('-', '_').toUpperCase()}`;
}

/** Whether an environment variable may set the option. */
export function hasVariable({
  argument,
  variable,
  flagOnly,
}: Pick<Option<unknown>, 'argument' | 'variable' | 'flagOnly'>): boolean {
  return (argument !== '' || variable === true) && flagOnly !== true;
}

/** Arguments, a configuration or a file with mistakes. */
export interface Invalid {
  readonly kind: 'invalid';
  /** Every problem, as a sentence that says what to do. */
  readonly problems: readonly string[];
}

export interface ValidOptions<Values> {
  readonly kind: 'valid';
  readonly values: Values;
  readonly operands: readonly string[];
}

/**
 * Reads options. A flag takes precedence over the environment, and the environment over the default.
 * @param args `--flag value` and `--flag=value`, and operands if the command has any; after `--` only operands
 * @param env an empty variable counts as absent
 */
export function readOptions<Values extends object>(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  options: Options<Values>,
  operands: Operands = NO_OPERANDS,
): ValidOptions<Values> | Invalid {
  const names = Object.keys(options) as (keyof Values & string)[];
  const { given, operands: words, problems } = read(args, options, operands);
  if (operands.option !== undefined && words[0] !== undefined && !operands.actions?.includes(words[0])) {
    const flag = `--${flagOf(operands.option)}`;
    const [flagged = words[0]] = given.get(flag) ?? [];
    if (resolve(flagged) !== resolve(words[0])) {
      problems.push(
        `${JSON.stringify(words[0])} and ${flag} ${JSON.stringify(flagged)} are not the same; give one of them`,
      );
    }
    given.set(flag, [words[0]]);
  }
  const values: Partial<Values> = {};

  function set<Name extends keyof Values & string>(name: Name, texts: readonly string[], source: string): void {
    const option: Option<Values[Name]> = options[name];
    let value = option.initial;
    for (const text of texts) {
      try {
        if (source === variableOf(name) || !option.anyText) checkPlain(text);
        value = option.parse(text, value);
      } catch (error) {
        problems.push(`${source} ${shownOption(option, text)} ${(error as Error).message}`);
      }
    }
    values[name] = value;
  }

  for (const name of names) {
    const option = options[name];
    const variable = hasVariable(option) ? env[variableOf(name)] : undefined;
    const flag = `--${flagOf(name)}`;
    const flags = given.get(flag);
    if (flags !== undefined) set(name, flags, flag);
    else if (variable) {
      const isList = option.repeated && !QUOTED.test(variable); // quotes are around the whole list
      set(name, isList ? variable.split(',') : [variable], variableOf(name));
    } else values[name] = option.initial;
  }
  if (problems.length > 0) return { kind: 'invalid', problems };
  return { kind: 'valid', values: values as Values, operands: words };
}

/** Whether the arguments request the help of the command, and have no mistake. */
export function asksForHelp<Values>(
  args: readonly string[],
  options: Options<Values>,
  operands: Operands = NO_OPERANDS,
): boolean {
  const { asksForHelp, problems } = read(args, options, operands);
  return asksForHelp && problems.length === 0;
}

function read<Values>(args: readonly string[], options: Options<Values>, { max }: Operands): CommandLine {
  const forms = Object.entries<OptionForm>(options as Readonly<Record<string, OptionForm>>);
  return readCommandLine(args, new Map(forms.map(([name, form]) => [`--${flagOf(name)}`, form])), max);
}

const NO_OPERANDS: Operands = { max: 0, text: '' };

/**
 * Docker, direnv and files with CR LF leave quotes and line ends in a value, which would be another folder, name or partition.
 * @throws Error for a control character, and for quotes around the text
 */
function checkPlain(text: string): void {
  const [control] = /\p{Cc}/u.exec(text) ?? [];
  if (control === '\r') throw new Error('has a carriage return; save its file with LF, not CR LF, at the end of lines');
  if (control !== undefined) {
    const code = control.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
    throw new Error(`has the control character U+${code}; leave it out`);
  }
  if (QUOTED.test(text)) throw new Error('has quotes around it, which would be a part of the value; leave them out');
}

const QUOTED = /^\s*(?:(["']).*\1|[“‘].*[”’])\s*$/s;

/** An option without a value: `true` if it is given, otherwise `false`. */
export function switchOption(help: string): Option<boolean> {
  return { argument: '', help, initial: false, parse: () => true };
}

/** An option of one call of a command. @param parse see `Option` */
export function flagOption<Value>(
  argument: string,
  help: string,
  parse: (text: string) => Value,
): Option<Value | undefined> {
  return { argument, help, initial: undefined, flagOnly: true, parse };
}

/** A switch of one call that can also be given as false; undefined if it is not given. */
export function booleanOption(help: string): Option<boolean | undefined> {
  return { ...flagOption('', help, trueOrFalse), trueOrFalse: true };
}

/** @returns the option, whose flag accepts any text */
export function withAnyText<Value>(option: Option<Value>): Option<Value> {
  return { ...option, anyText: true };
}

/** An option of one call whose value is a text. */
export function text(argument: string, help: string): Option<string | undefined> {
  return flagOption(argument, help, (given) => given);
}

/** Used as `parse`. @throws Error with `problem` as its message if the text does not match the pattern */
export function matching(text: string, pattern: RegExp, problem: string): string {
  if (!pattern.test(text)) throw new Error(problem);
  return text;
}

/** Used as `parse`. @throws Error with `problem` as its message if the text is not one of the choices */
export function oneOf<Choice extends string>(choices: readonly Choice[], text: string, problem: string): Choice {
  const choice = choices.find((known) => known === text);
  if (choice === undefined) throw new Error(problem);
  return choice;
}

/**
 * Used as `parse` of a switch that has a variable or can be given as false. @throws Error for any text other than `true` and `false`
 */
export function trueOrFalse(text: string): boolean {
  return matching(text, /^(true|false)$/, 'is not true or false') === 'true';
}

/** Used as `parse`. @throws Error if the text is not a whole number from `min` to `max`, both included */
export function integer(text: string, min: number, max: number): number {
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw new Error(`is not a whole number from ${min} to ${max}`);
  return value;
}

/**
 * Used as `parse`: a size in bytes, such as `1000000`, `300MB` (300 * 1000^2) or `64MiB` (64 * 1024^2). Units must be spelled
 * exactly, since `300mb` could mean megabits, and `5G` either of two units.
 * @returns bytes
 * @throws Error if the text is not a size, or not from `min` to `max` bytes, both included
 */
export function size(text: string, min: number, max: number): number {
  const [, count, unit = 'B'] = /^([0-9]{1,15})([kMGT]B|[KMGT]iB)?$/.exec(text) ?? [];
  const bytes = Number(count) * (UNITS_BYTES[unit] ?? 1);
  if (Number.isNaN(bytes)) {
    throw new Error(
      'is not a size; write bytes, or a whole number with kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 300MB',
    );
  }
  if (bytes < min || bytes > max) throw new Error(`is not from ${min} to ${max} bytes`);
  return bytes;
}

const UNITS_BYTES: Readonly<Record<string, number>> = {
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/**
 * Used as `parse`: a duration of at most a week with one of the units ms, s, m, h and d, or 0.
 * @returns milliseconds
 * @throws Error for any other text, such as `60`
 */
export function duration(text: string): number {
  // A number without a unit could mean seconds or milliseconds, but 0 means the same in both.
  const ms = /^0{1,9}$/.test(text) ? 0 : durationMs(text);
  if (ms !== undefined && ms <= WEEK_MS) return ms;
  throw new Error('is not a duration of at most a week, such as 500ms, 60s, 5m, 2h or 1d');
}

const WEEK_MS = 604_800_000;
