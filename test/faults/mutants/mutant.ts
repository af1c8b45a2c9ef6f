/** A mutant, and the place in the source that it changes. */

/** One promise, broken by a text patch. */
export interface Mutant {
  /** What the copy does wrong, such as `acknowledges before the sync`. */
  readonly breaks: string;
  /** Below `src/`. */
  readonly file: string;
  /**
   * A declaration of the file, such as `append`, or a method of a class, such as `Journal.#append`: `from` is searched for
   * in it alone, so that it can be short.
   */
  readonly within?: string;
  /** Occurs exactly once in the file, or in the declaration. */
  readonly from: string;
  readonly to: string;
  /**
   * What should notice, the quickest first: a test by its file and name, such as `journal/lock: one writer`. A file alone,
   * such as `journal/lock`, runs all its tests, which takes longer.
   */
  readonly tests: readonly string[];
}

/** Reads an entry of `tests`: `journal/lock: one writer` is `{ file: 'journal/lock', name: 'one writer' }`. */
export function readTest(test: string): { readonly file: string; readonly name: string | undefined } {
  const [, file = '', name] = /^([^:]*)(?:: (.*))?$/.exec(test) ?? [];
  return { file, name };
}

/** @throws where the text has changed since the mutant was written, with a sentence that says how */
export function mutate(text: string, { breaks, file, within = '', from, to }: Mutant): string {
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

/** Relies on the formatter: a declaration ends on the line that closes it, which is indented as its first line is. */
function declarations(text: string, name: string): Span[] {
  const lines = text.split('\n');
  const escaped = name.replace(/[$]/g, '\\$&');
  const head = new RegExp(`^( *)${KEYWORDS}\\*?${escaped}(?:[(<]|\\??:| [=:{]| extends | implements )`);
  const found: Span[] = [];
  let start = 0;
  for (const [number, line] of lines.entries()) {
    const [, indent] = head.exec(line) ?? [];
    // A call begins as a method does, and ends on its line.
    if (indent !== undefined && !/^ *[\w#$]+\(.*[;,]$/.test(line))
      found.push({ start, end: start + lengthOf(lines.slice(number), indent) });
    start += line.length + 1;
  }
  return found;
}

/** @returns the characters up to the end of the declaration that the first line begins */
function lengthOf(lines: readonly string[], indent: string): number {
  const opens = /[({[]$|=>$|=$/;
  if (!opens.test(lines[0] ?? '')) return (lines[0] ?? '').length;
  const closing = lines.findIndex((line, number) => {
    if (number === 0 || !line.startsWith(indent) || line[indent.length] === ' ') return false;
    return /[)}\]]/.test(line[indent.length] ?? '') && !opens.test(line);
  });
  return lines.slice(0, closing === -1 ? lines.length : closing + 1).join('\n').length;
}
