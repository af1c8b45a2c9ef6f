/** Reads mutants from the text files of this folder, and applies them to the source. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../support/program.ts';

/** One promise, broken by a text patch. */
export interface Mutant {
  /** The mistake of the copy, such as `acknowledges before the sync`. */
  readonly breaks: string;
  /** Relative to `src/`. */
  readonly file: string;
  /** A declaration of the file, such as `append` or `Journal.#append`: only its text is searched for `from`. Empty: the whole file. */
  readonly within: string;
  /** The id of the test that has to fail, such as `order-1`, which its title has in brackets. */
  readonly test: string;
  /** A text that occurs exactly once in the file or declaration. */
  readonly from: string;
  readonly to: string;
}

/**
 * Reads mutants. Each is a paragraph: the promise; the file, a declaration if that makes the patch shorter, and the id of the
 * test; then the old lines and the new lines. `#` starts a comment.
 *
 *     acknowledges before the sync
 *     journal/append.ts append [journal-1]
 *     -await appendWhole(segment, bytes);
 *     +appendWhole(segment, bytes).catch(() => {});
 *
 * @throws Error with the first paragraph of another form
 */
export function readMutants(text: string): Mutant[] {
  const paragraphs = text.replace(/^#.*\n/gm, '').split(/\n{2,}/);
  return paragraphs.filter((paragraph) => paragraph.trim() !== '').map(readMutant);
}

function readMutant(paragraph: string): Mutant {
  const [breaks = '', place = '', ...patch] = paragraph.trim().split('\n');
  const [, file = '', within = '', test] = /^(\S+)(?: (\S+))? \[([a-z-]+-\d+)\]$/.exec(place) ?? [];
  const linesWith = (sign: string) => patch.filter((line) => line.startsWith(sign)).map((line) => line.slice(1));
  const [from, to] = [linesWith('-'), linesWith('+')];
  if (test === undefined || from.length === 0 || from.length + to.length !== patch.length) {
    throw new Error(`not a mutant, see readMutants:\n${paragraph}`);
  }
  return { breaks, file, within, test, from: from.join('\n'), to: to.join('\n') };
}

/** @returns every mutant; each text file has the name of folders in `src/` */
export function allMutants(): Mutant[] {
  const folder = join(root, 'test/faults/mutants');
  const names = readdirSync(folder).filter((name) => name.endsWith('.txt'));
  return names.flatMap((name) => readMutants(readFileSync(join(folder, name), 'utf8')));
}

/** @returns the test files with the id of a test in a title, by id: `order-1` is in `['faults/order']` */
export function filesByTest(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const paths = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' });
  for (const path of paths.filter((one) => one.endsWith('.test.ts'))) {
    const text = readFileSync(join(root, 'test', path), 'utf8');
    for (const [, id = ''] of text.matchAll(/ \[([a-z-]+-\d+)\]['"`]/g)) {
      found.set(id, [...(found.get(id) ?? []), path.replace('.test.ts', '')]);
    }
  }
  return found;
}

/** @throws Error with the reason if the patch no longer applies */
export function mutate(text: string, { breaks, file, within, from, to }: Mutant): string {
  const stale = (reason: string) => new Error(`mutant '${breaks}': in src/${file}, ${reason}; bring it up to date`);
  let [start, end] = [0, text.length];
  for (const name of within === '' ? [] : within.split('.')) {
    const found = declarations(text.slice(start, end), name);
    if (found.length !== 1) throw stale(`${name} is declared ${found.length} times, not once`);
    [start, end] = [start + found[0]!.start, start + found[0]!.end];
  }
  const searched = text.slice(start, end);
  const times = searched.split(from).length - 1;
  const where = within === '' ? '' : ` in ${within}`;
  if (times !== 1) throw stale(`${JSON.stringify(from)} occurs ${times} times${where}, not once`);
  const at = start + searched.indexOf(from);
  return text.slice(0, at) + to + text.slice(at + from.length);
}

interface Span {
  readonly start: number;
  readonly end: number;
}

const KEYWORDS =
  '(?:(?:export|default|declare|async|static|readonly|override|private|function\\*?|class|interface|type|const|let|get|set) )*';

/** Relies on the formatter: a declaration ends on its closing line, which has the indentation of its first line. */
function declarations(text: string, name: string): Span[] {
  const lines = text.split('\n');
  const escaped = name.replace(/[$]/g, '\\$&');
  const head = new RegExp(`^( *)${KEYWORDS}\\*?${escaped}(?:[(<]|\\??:| [=:{]| extends | implements )`);
  const found: Span[] = [];
  let start = 0;
  for (const [number, line] of lines.entries()) {
    const [, indent] = head.exec(line) ?? [];
    // A call looks like the start of a method, but ends on the same line.
    if (indent !== undefined && !/^ *[\w#$]+\(.*[;,]$/.test(line))
      found.push({ start, end: start + lengthOf(lines.slice(number), indent) });
    start += line.length + 1;
  }
  return found;
}

/** @returns the length in characters of the declaration that starts with the first line */
function lengthOf(lines: readonly string[], indent: string): number {
  const opens = /[({[]$|=>$|=$/;
  if (!opens.test(lines[0] ?? '')) return (lines[0] ?? '').length;
  const closing = lines.findIndex((line, number) => {
    if (number === 0 || !line.startsWith(indent) || line[indent.length] === ' ') return false;
    return /[)}\]]/.test(line[indent.length] ?? '') && !opens.test(line);
  });
  return lines.slice(0, closing === -1 ? lines.length : closing + 1).join('\n').length;
}
