/**
 * Reads the JSON of a journal line unchanged: digits, escapes, order and repeated members are kept as they were sent. A line
 * is valid JSON without white space between its tokens, so nothing is checked.
 */

/** A member of an object; its value is JSON text. */
export interface Member {
  readonly name: string;
  readonly value: string;
}

/** @returns the members of an object in their order */
export function jsonMembers(object: string): Member[] {
  const members: Member[] = [];
  for (let at = 1; object[at] === '"'; ) {
    const nameEnd = tokenEnd(object, at);
    const end = valueEnd(object, nameEnd + 1);
    members.push({ name: unquote(object.slice(at, nameEnd)), value: object.slice(nameEnd + 1, end) });
    at = end + 1;
  }
  return members;
}

/** The kind of a token, which determines its colour. */
export type TokenKind = 'name' | 'string' | 'number' | 'word' | 'mark';

/** A piece of JSON text. Line breaks and indentation are marks. */
export interface JsonToken {
  readonly kind: TokenKind;
  readonly text: string;
}

/** Yields a value token by token, indented: `{"a":[1]}` over several lines. The tokens are unchanged. */
export function* indented(value: string): Generator<JsonToken> {
  let depth = 0;
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  for (let at = 0; at < value.length; ) {
    const end = tokenEnd(value, at);
    const text = value.slice(at, end);
    const isEmpty = EMPTY.has(value.slice(at, at + 2)) || EMPTY.has(value.slice(end - 2, end));
    at = end;
    switch (text) {
      case '{':
      case '[':
        depth += 1;
        yield { kind: 'mark', text: isEmpty ? text : text + line() };
        break;
      case '}':
      case ']':
        depth -= 1;
        yield { kind: 'mark', text: isEmpty ? text : line() + text };
        break;
      case ',':
        yield { kind: 'mark', text: `,${line()}` };
        break;
      case ':':
        yield { kind: 'mark', text: ': ' };
        break;
      default:
        yield { kind: value[end] === ':' ? 'name' : jsonKind(text), text };
    }
  }
}

const EMPTY: ReadonlySet<string> = new Set(['{}', '[]']);

/** @returns the kind of a value: `number` for `1.0`, `mark` for an array or object */
export function jsonKind(value: string): TokenKind {
  const first = value[0] ?? '';
  if (first === '"') return 'string';
  if (first === '{' || first === '[') return 'mark';
  return /[-0-9]/.test(first) ? 'number' : 'word';
}

/** @returns the text of a JSON string: `a/b` for `"a\u002fb"` */
export function unquote(text: string): string {
  return text.includes('\\') ? JSON.parse(text) : text.slice(1, -1);
}

function valueEnd(text: string, start: number): number {
  let depth = 0;
  let at = start;
  do {
    const character = text[at];
    if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') depth -= 1;
    at = tokenEnd(text, at);
  } while (depth > 0 && at < text.length);
  return at;
}

function tokenEnd(text: string, start: number): number {
  const first = text[start] ?? '';
  if ('{}[],:'.includes(first)) return start + 1;
  let end = start + 1;
  if (first === '"') {
    for (; end < text.length && text[end] !== '"'; end += 1) if (text[end] === '\\') end += 1;
    return end + 1;
  }
  while (end < text.length && !',]}'.includes(text[end] ?? '')) end += 1;
  return end;
}
