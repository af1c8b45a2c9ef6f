/**
 * Finds the first mistake of a text that `json-bytes.ts` did not accept as JSON, with line and column, and names common mistakes
 * such as `True` for `true`.
 */

import { JsonError, mistakeAtEnd, mistakeInName, mistakeInString, mistakeInValue, shownAt } from './json-mistakes.ts';

/** The most members and elements. Each occurrence of a repeated name counts. */
export interface Counts {
  /** Used if the text is an object. */
  readonly members?: number;
  /** Used if the text is an array. */
  readonly elements?: number;
  /** Used for each object that is an element of this array. */
  readonly elementMembers?: number;
}

/**
 * @param text a text that is not one JSON value, nests deeper than `depthMax` or has more members or elements than `counts`
 * @param depthMax the maximum depth of arrays and objects; an array or object without another inside has depth 1
 * @throws JsonError for its first mistake
 */
export function refuseJson(text: string, depthMax: number, counts: Counts): never {
  new Parser(text, depthMax).document(counts);
  throw new Error('JSON without a mistake was refused');
}

/** A recursive descent parser of one text. */
class Parser {
  readonly #text: string;
  readonly #depthMax: number;
  #at = 0;
  #depth = 0;

  constructor(text: string, depthMax: number) {
    this.#text = text;
    this.#depthMax = depthMax;
  }

  document({ members, elements, elementMembers }: Counts): void {
    this.#skipSpace();
    if (this.#peek() === '{') this.#object(members);
    else if (this.#peek() === '[') this.#array(elements, elementMembers);
    else this.#value();
    this.#skipSpace();
    if (this.#isAtEnd) return;
    if (/[,\]}]/.test(this.#peek())) this.#refuse(`there is a ${this.#peek()} too many after the value`);
    if (this.#peek() === '{')
      this.#refuse(
        'another object starts; send one, or each on its own line (curl -d joins lines, --data-binary does not)',
      );
    this.#refuse('there is more text after the value; send one value');
  }

  /** The next character; empty at the end. */
  #peek(): string {
    return this.#text.charAt(this.#at);
  }

  get #isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  #value(membersMax?: number): void {
    const first = this.#peek();
    if (first === '"') this.#string();
    else if (first === '{') this.#object(membersMax);
    else if (first === '[') this.#array();
    else if (/[tfn]/.test(first)) this.#literal();
    else this.#number();
  }

  #object(membersMax = Number.POSITIVE_INFINITY): void {
    const opened = this.#open();
    for (let count = 0; this.#peek() !== '}'; count += 1) {
      if (this.#peek() !== '"') this.#refuse(mistakeInName(this.#text, this.#at, opened));
      const name = this.#at;
      this.#string();
      this.#skipSpace();
      if (this.#peek() !== ':')
        this.#refuse(this.#isAtEnd ? mistakeAtEnd('an object', this.#text) : 'a colon is missing after a member name');
      this.#at += 1;
      this.#skipSpace();
      if (count === membersMax) this.#refuse(`there are more than ${membersMax} members`, name);
      this.#value();
      this.#comma('an object', '}');
    }
    this.#close();
  }

  #array(elementsMax = Number.POSITIVE_INFINITY, membersMax?: number): void {
    const opened = this.#open();
    for (let count = 0; this.#peek() !== ']'; count += 1) {
      if (this.#isAtEnd) this.#refuse(mistakeAtEnd('an array', this.#text, opened));
      if (count === elementsMax) this.#refuse(`there are more than ${elementsMax} elements`);
      this.#value(membersMax);
      this.#comma('an array', ']');
    }
    this.#close();
  }

  /** @returns the offset at which the array or object starts */
  #open(): number {
    const opened = this.#at;
    this.#depth += 1;
    if (this.#depth > this.#depthMax) this.#refuse(`it nests deeper than ${this.#depthMax} levels`);
    this.#at += 1;
    this.#skipSpace();
    return opened;
  }

  #close(): void {
    this.#depth -= 1;
    this.#at += 1;
  }

  /** Skips the comma after an element or member, unless it is the last one. */
  #comma(inside: string, closing: string): void {
    this.#skipSpace();
    if (this.#peek() === closing) return;
    const comma = this.#at;
    if (this.#isAtEnd) this.#refuse(mistakeAtEnd(inside, this.#text));
    if (this.#peek() !== ',')
      this.#refuse(`expected a comma or ${closing} in ${inside}, found ${shownAt(this.#text, comma)}`);
    this.#at += 1;
    this.#skipSpace();
    if (this.#peek() === closing) this.#refuse(`trailing comma before ${closing}; JSON allows none, remove it`, comma);
    if (this.#peek() === ',') this.#refuse('two commas in a row; remove one');
  }

  #string(): void {
    const text = this.#text;
    const start = this.#at;
    let at = start + 1;
    while (text.charAt(at) !== '"') {
      if (at >= text.length) this.#refuse('this string is never closed; its closing double quote is missing', start);
      const length = text.charAt(at) === '\\' ? lengthOfEscape(text, at) : Number(text.charAt(at) >= ' ');
      if (length === 0) this.#refuse(mistakeInString(text, at), at);
      at += length;
    }
    this.#at = at + 1;
  }

  #literal(): void {
    const [word = ''] = this.#match(/(?:true|false|null)(?![\w$])/y);
    if (word === '') this.#refuse(mistakeInValue(this.#text, this.#at));
    this.#at += word.length;
  }

  #number(): void {
    const start = this.#at;
    const [whole = '', digits = ''] = this.#match(/-?([0-9]+)/y);
    if (whole === '') this.#refuse(mistakeInValue(this.#text, start));
    if (/^0./.test(digits)) this.#refuse('a number cannot start with 0; remove the zero or send a string');
    this.#at += whole.length;
    this.#digits(/\.([0-9]*)/y, 'a digit is missing after the decimal point');
    this.#digits(/[eE][+-]?([0-9]*)/y, 'a digit is missing in the exponent');
    if (/[\w$]/.test(this.#peek())) this.#refuse(`unexpected ${this.#peek()} after a number`);
  }

  /** Skips an optional part of a number. */
  #digits(part: RegExp, problem: string): void {
    const [text = '', digits] = this.#match(part);
    if (digits === '') this.#refuse(problem);
    this.#at += text.length;
  }

  /** @param pattern a sticky expression */
  #match(pattern: RegExp): readonly string[] {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text) ?? [];
  }

  #skipSpace(): void {
    while (/[ \t\r\n]/.test(this.#peek())) this.#at += 1;
  }

  #refuse(problem: string, offset = this.#at): never {
    throw new JsonError(problem, this.#text, offset);
  }
}

/** @returns the number of characters of the escape at `at`, or 0 for an invalid escape */
function lengthOfEscape(text: string, at: number): number {
  if (/["\\/bfnrt]/.test(text.charAt(at + 1))) return 2;
  return /^u[0-9a-fA-F]{4}$/.test(text.slice(at + 1, at + 6)) ? 6 : 0;
}
