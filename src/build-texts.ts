/**
 * Takes the long texts out of the functions of the built program, such as what an error says: they are kept together,
 * compressed, and unpacked when the first of them is needed. A start and a report need none: what they need is a constant outside of
 * functions.
 * Part of the build, not of the program.
 */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseSync } from '@swc/core';
import type { Plugin } from 'esbuild';
import { packed } from './http/page/build.ts';

/** Has `packedText`. */
const unpacker = fileURLToPath(new URL('http/packed.ts', import.meta.url));

/** Shorter texts are not worth a call. */
const LEAST_CHARACTERS = 16;

/** What runs when it is called, not when the program is loaded: types of nodes of the syntax tree of swc. */
const functions =
  /^(Function(Declaration|Expression)|ArrowFunctionExpression|(Class|Private)?Method(Property)?|Constructor|[GS]etterProperty)$/;

/** Functions whose arguments are left as they are: they are dropped with the call, or needed each time and seldom used. */
const excepted: readonly string[] = ['forHelp', 'described', 'matching', 'explainDelay'];

interface Node {
  readonly type: string;
  readonly span: { readonly start: number; readonly end: number };
}

/** What is called: `complain`, or the member `complain` of an object. */
interface Callee {
  readonly value?: string;
  readonly property?: { readonly value?: string };
}

/** A text in a source: where it is, in bytes, and what it says. */
interface Found {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly isInTemplate: boolean;
}

/** The texts of one build. */
export class Texts {
  readonly #found: string[] = [];
  readonly #used: string[] = [];

  /** Replaces each text by a call of `packedText` that is as long, so that source maps stay right. */
  readonly plugin: Plugin = {
    name: 'texts',
    setup: ({ onLoad }) => {
      onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => ({
        loader: 'ts',
        contents: this.#takeFrom(readFileSync(path)),
      }));
    },
  };

  #takeFrom(source: Buffer): string {
    const pieces = [`import { packedText as $t } from ${JSON.stringify(unpacker)}; `];
    let done = 0;
    for (const { start, end, text, isInTemplate } of textsIn(parseSync(source.toString(), { syntax: 'typescript' }))) {
      const own = source.toString('utf8', start, end);
      const call = `$t("@${this.#found.length}")`;
      const length = isInTemplate ? own.length - 3 : own.length;
      if (call.length > length || own.includes('\n')) continue;
      this.#found.push(text);
      const padded = call.padEnd(length);
      pieces.push(source.toString('utf8', done, start), isInTemplate ? `$\{${padded}}` : padded);
      done = end;
    }
    return done === 0 ? source.toString() : pieces.join('') + source.toString('utf8', done);
  }

  /** @returns the code that esbuild has made with the plugin, with calls that say the number of a text */
  number(code: string): string {
    return code.replace(/"@(\d+)"/g, (marker, index) => {
      const text = this.#found[index] ?? '';
      if (!this.#used.includes(text)) this.#used.push(text);
      return String(this.#used.indexOf(text)).padEnd(marker.length);
    });
  }

  /** @returns the texts that were numbered, as a literal for `ASSETLOG_TEXTS` */
  packed(): string {
    return packed(this.#used.join('\0'));
  }
}

/** @returns the texts with words in the functions below a node, in order. Names of members and types are none */
function textsIn(root: unknown): Found[] {
  const found: Found[] = [];
  const visit = (value: unknown, isInFunction: boolean): void => {
    if (Array.isArray(value)) for (const one of value) visit(one, isInFunction);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const { type = '', span = { start: 0, end: 0 }, ...members } = value as Partial<Node>;
    const isTemplate = type === 'TemplateElement';
    if (isTemplate || type === 'StringLiteral') {
      const { value, cooked } = members as { readonly value?: string; readonly cooked?: string };
      const text = value ?? cooked ?? '';
      if (isInFunction && text.length >= LEAST_CHARACTERS && /^[^\0]*[a-z] [a-z][^\0]*$/i.test(text)) {
        found.push({ start: span.start - 1, end: span.end - 1, text, isInTemplate: isTemplate });
      }
      return;
    }
    if (type === 'TaggedTemplateExpression' || type === 'TsLiteralType') return;
    if (type === 'BinaryExpression' && /^[!=]==$/.test(String((members as { operator?: unknown }).operator))) {
      const sides = members as { readonly left?: Partial<Node>; readonly right?: Partial<Node> };
      for (const side of [sides.left, sides.right]) if (side?.type !== 'StringLiteral') visit(side, isInFunction);
      return; // a text that is compared is seldom printed
    }
    const { callee } = members as { readonly callee?: Callee };
    if (excepted.includes(callee?.property?.value ?? callee?.value ?? '')) return;
    for (const [name, member] of Object.entries(members)) {
      if (name !== 'key') visit(member, isInFunction || functions.test(type));
    }
  };
  visit(root, false);
  return found.sort((a, b) => a.start - b.start);
}
