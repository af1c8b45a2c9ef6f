/** Finds the texts in TypeScript source: its strings and templates, without its comments and patterns. */

/** A text of the source, with `…` in place of each value, and the line where it starts. */
export interface Literal {
  readonly text: string;
  readonly line: number;
  /** The end of the code before it, such as `notices.warn(`. */
  readonly before: string;
}

/** What precedes a `/` that begins a pattern instead of dividing. */
const BEFORE_PATTERN = /(?:^|[=(,:;[!&|?{}+>]|\breturn)\s*$/;
const SKIPPED = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const PATTERN = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y;
const QUOTED = /(['"])((?:\\.|(?!\1)[^\\\n])*)\1/y;

/** The literals of a source, a text inside of a `${…}` too. @throws Error if a part of the source is misread */
export function literalsIn(source: string): readonly Literal[] {
  const found: Literal[] = [];
  let at = 0;
  const lineAt = (offset: number) => source.slice(0, offset).split('\n').length;
  const before = (offset: number) => source.slice(Math.max(0, offset - 40), offset);
  const add = (text: string, start: number) =>
    found.push({ text: unescaped(text), line: lineAt(start), before: before(start) });
  const take = (pattern: RegExp) => {
    pattern.lastIndex = at;
    const match = pattern.exec(source);
    if (match !== null) at = pattern.lastIndex;
    return match;
  };
  const readTemplate = () => {
    const start = at;
    let text = '';
    for (at += 1; source[at] !== '`'; ) {
      if (at >= source.length) throw new Error(`the template in line ${lineAt(start)} has no end`);
      if (source.startsWith('${', at)) {
        at += 2;
        readCode();
        text += '…';
      } else {
        if (source[at] === '\\') text += source[at++];
        text += source[at];
      }
      at += 1;
    }
    add(text, start);
    at += 1;
  };
  /** Reads up to the `}` that closes what was open before, or to the end. */
  const readCode = () => {
    for (let open = 0; at < source.length; ) {
      const start = at;
      if (take(SKIPPED) !== null) continue;
      const quoted = take(QUOTED);
      if (quoted !== null) add(quoted[2] ?? '', start);
      else if (source[at] === '`') readTemplate();
      else if (source[at] === '/' && BEFORE_PATTERN.test(before(at)) && take(PATTERN)) continue;
      else if (source[at] === '}' && open === 0) return;
      else {
        if (source[at] === '{') open += 1;
        if (source[at] === '}') open -= 1;
        at += 1;
      }
    }
  };
  readCode();
  if (at < source.length) throw new Error(`the } in line ${lineAt(at)} closes nothing`);
  return found;
}

const unescaped = (text: string) => text.replace(/\\(['"`\\])/g, '$1').replace(/\\n/g, '\n');
