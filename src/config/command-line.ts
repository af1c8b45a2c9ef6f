/** Reads a command line: the texts of its options, and the words that are operands. */

import { didYouMean } from '../event/nearest.ts';

export interface CommandLine {
  /** The texts of each given option, by its flag: all texts of a repeated option, otherwise one. */
  readonly given: Map<string, readonly string[]>;
  readonly operands: readonly string[];
  readonly asksForHelp: boolean;
  /** Every problem, as a sentence that says what to do. */
  readonly problems: string[];
}

/** How an option is written. */
export interface OptionForm {
  /** Placeholder of the value in the help; empty for a switch. */
  readonly argument: string;
  /** The switch may be followed by `true` or `false`, with `=` or as the next word. */
  readonly trueOrFalse?: true;
  /** The option may be given more than once; in the environment its values are separated by commas. */
  readonly repeated?: true;
  /** No problem shows the value, because it is a URL that might have a password or a token in its path. */
  readonly secret?: true;
}

/** Consecutive words without an option between them. */
interface Run {
  /** The option before the words; undefined at the start. */
  readonly flag?: string;
  readonly isSwitch?: boolean;
  readonly words: string[];
}

/**
 * Operands must be consecutive, so that the second word of a value without quotes is not read as an operand. Only the first
 * operand, which can be the name of an action, may be separate.
 * @param args `--flag value` and `--flag=value`, and operands if the command has any; after `--` only operands
 * @param options by flag: `--data`
 * @param operandsMax the greatest number of operands of the command
 */
export function readCommandLine(
  args: readonly string[],
  options: ReadonlyMap<string, OptionForm>,
  operandsMax: number,
): CommandLine {
  const isEnd = (word: string) => word === '--' && operandsMax > 0;
  const isOption = (word: string) => options.has(splitWord(word).flag) || word === '--help' || isEnd(word);
  const given = new Map<string, string[]>();
  const problems: string[] = [];
  const runs: Run[] = [{ words: [] }];
  let asksForHelp = false;
  const rest = [...args];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const { flag, inline } = splitWord(word);
    const option = options.get(flag);
    if (isEnd(word)) runs.at(-1)?.words.push(...rest.splice(0));
    else if (!word.startsWith('-') || (word === '-' && operandsMax > 0)) runs.at(-1)?.words.push(word);
    else if (word === '--help' || word === '-h') asksForHelp = true;
    else if (option === undefined) {
      problems.push(`unknown option ${flag}${didYouMean(flag, [...options.keys()])}`);
      if (inline === undefined) dropValue(rest);
    } else {
      runs.push({ flag, isSwitch: option.argument === '', words: [] });
      try {
        const text = readText(flag, option, inline, rest, isOption);
        given.set(flag, addText(flag, option, given.get(flag) ?? [], text));
      } catch (error) {
        problems.push((error as Error).message);
      }
    }
  }
  const operands = operandsIn(runs, operandsMax, problems);
  return { given, operands, asksForHelp, problems };
}

/** The value of an unknown option is not a second problem. */
function dropValue(rest: string[]): void {
  if (rest[0]?.startsWith('-') === false) rest.shift();
}

/**
 * @returns the texts of an option and one more. @throws Error if the option already has a text that the new one
 * contradicts
 */
function addText(flag: string, option: OptionForm, before: readonly string[], text: string): string[] {
  const [first] = before;
  if (first !== undefined && !isRepeatable(option, first, text)) {
    throw new Error(
      `${flag} is given twice, as ${shownOption(option, first)} and as ${shownOption(option, text)}; give it once`,
    );
  }
  return option.repeated ? [...before, text] : [text];
}

/**
 * A switch that is given twice means the same as once; of two values the last one would win, and the first one would be
 * lost.
 */
function isRepeatable({ repeated, argument }: OptionForm, before: string, text: string): boolean {
  return repeated === true || (argument === '' && before === text);
}

/** @returns a value as a problem shows it: quoted, and without a password */
export function shownOption({ argument, secret }: OptionForm, text: string): string {
  return JSON.stringify(secret ? '***' : argument === 'URL' ? text.replace(LOGIN, ':***@') : text);
}

/**
 * @param rest the words after the option; the value is removed from them
 * @returns the text of the option, which is `true` for a switch alone
 * @throws Error for a switch with a value, and for an option without one
 */
function readText(
  flag: string,
  { argument, trueOrFalse }: OptionForm,
  inline: string | undefined,
  rest: string[],
  isOption: (word: string) => boolean,
): string {
  const [next = ''] = rest;
  if (argument === '') {
    if (inline === undefined) return trueOrFalse && BOOLEAN_WORD.test(next) ? (rest.shift() ?? '') : 'true';
    if (trueOrFalse) return inline;
    throw new Error(`${flag} takes no value; leave out ${JSON.stringify(`=${inline}`)}`);
  }
  // A variable that is empty and not in quotes leaves no word, so the next option would be the value.
  if (inline === undefined && isOption(next)) {
    const { flag: other } = splitWord(next); // without its value, which can be a secret
    throw new Error(`${flag} needs a value before ${other}; if ${other} is the value, write ${flag}=${other}`);
  }
  const text = inline ?? rest.shift() ?? '';
  if (text === '') throw new Error(`${flag} needs a value: ${flag} ${argument}`);
  return text;
}

/** @returns the parts of `--flag=value`; `inline` is undefined without `=` */
function splitWord(word: string): { readonly flag: string; readonly inline: string | undefined } {
  const end = word.indexOf('=');
  return end === -1 ? { flag: word, inline: undefined } : { flag: word.slice(0, end), inline: word.slice(end + 1) };
}

/** A user and a password, in a text that should be a URL. */
const LOGIN = /:.*@/s;
/** A word that might be meant as true or false. The option accepts two of these words, and refuses the others. */
const BOOLEAN_WORD = /^(?:true|false|yes|no|on|off|0|1)$/i;

/** @param problems gets a sentence for each run of words that are not operands, and for each operand beyond `max` */
function operandsIn(runs: readonly Run[], max: number, problems: string[]): readonly string[] {
  const used = runs.filter(({ words }) => words.length > 0);
  const isFirstApart = max > 1 && used[0]?.words.length === 1;
  const runsMax = isFirstApart ? 2 : Math.min(max, 1);
  for (const { flag, isSwitch, words } of used.slice(runsMax)) {
    const text = JSON.stringify(words.join(' '));
    if (flag === undefined) problems.push(`unexpected argument ${text}; ${NAME_IT}`);
    else problems.push(`unexpected argument ${text} after ${flag}; ${isSwitch ? TOGETHER : QUOTE_IT}`);
  }
  const operands = used.slice(0, runsMax).flatMap(({ words }) => words);
  for (const word of operands.slice(max)) problems.push(`unexpected argument ${JSON.stringify(word)}; ${NAME_IT}`);
  return operands;
}

const NAME_IT = 'options are written --name value';
const QUOTE_IT = 'a value of several words needs quotes';
const TOGETHER = 'it takes no value, and arguments that are not options must stand together';
