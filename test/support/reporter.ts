/**
 * The reporter of `npm test`: prints a line for each file, each failure in full, and at the end the failures, the skipped tests and the
 * counts. On a terminal, progress replaces the lines of files. Node holds back the results of a file until all earlier files are
 * done, but reports the start of a file at once, so progress counts starts.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, resolve, sep } from 'node:path';
import { inspect } from 'node:util';
import { COMPILED } from './compiler.ts';

const PROGRESS_MS = 4_000;
/** The output of a file is shown if one of its tests fails. */
const OUTPUT_CHARACTERS_MAX = 20_000;

/** A test that did not pass, in the form of `results`. */
export interface Named {
  /** Relative to `test/`, such as `journal/disk.test.ts`. */
  readonly file: string;
  readonly name: string;
  readonly reason?: string;
}

/** The content of the file that `ASSETLOG_TEST_RESULTS` names. */
export interface Results {
  readonly passed: number;
  readonly failed: readonly Named[];
  readonly skipped: readonly Named[];
  /** For each file, the sum of the milliseconds of its tests. */
  readonly filesMs: Readonly<Record<string, number>>;
}

/** The part of an event of `node:test` that is used here. */
export interface RunnerEvent {
  readonly type: string;
  readonly data: {
    readonly name: string;
    readonly nesting: number;
    readonly file?: string;
    readonly message?: string;
    readonly skip?: string | boolean;
    readonly details?: { readonly duration_ms: number; readonly type?: string; readonly error?: Error };
  };
}

class Run {
  readonly #files: number;
  readonly #startedMs = performance.now();
  readonly #starts: string[] = [];
  readonly #output = new Map<string, string>();
  readonly #filesMs = new Map<string, number>();
  readonly #failed: Named[] = [];
  readonly #skipped: Named[] = [];
  #passed = 0;
  #file: string | undefined;
  #inFile = { passed: 0, failed: 0, skipped: 0 };

  constructor(files: number) {
    this.#files = files;
  }

  handle({ type, data }: RunnerEvent): string {
    const file = fileOf(data.file);
    if (type === 'test:dequeue' && data.nesting === 0 && fileOf(data.name) !== data.name)
      this.#starts.push(fileOf(data.name));
    if (type === 'test:stdout' || type === 'test:stderr')
      this.#output.set(file, `${this.#output.get(file) ?? ''}${data.message}`.slice(-OUTPUT_CHARACTERS_MAX));
    if ((type !== 'test:pass' && type !== 'test:fail') || data.details?.type === 'suite') return '';
    const ended = file === this.#file ? '' : this.#endFile();
    this.#file = file;
    return ended + this.#result(file, type === 'test:pass', data);
  }

  #result(file: string, isGood: boolean, { name, nesting, skip, details }: RunnerEvent['data']): string {
    if (nesting === 0) this.#filesMs.set(file, (this.#filesMs.get(file) ?? 0) + (details?.duration_ms ?? 0));
    if (skip !== undefined && skip !== false) {
      this.#inFile.skipped += 1;
      this.#skipped.push({ file, name, reason: String(skip) });
      return '';
    }
    if (isGood) {
      this.#inFile.passed += 1;
      this.#passed += 1;
      return '';
    }
    this.#inFile.failed += 1;
    this.#failed.push({ file, name });
    const output = this.#output.get(file) ?? '';
    this.#output.delete(file);
    return `✖ ${file}: ${name}\n${indented(mapPlaces(`${output}${textOf(details?.error)}`))}\n`;
  }

  #endFile(): string {
    const file = this.#file;
    if (file === undefined) return '';
    const { passed, failed, skipped } = this.#inFile;
    this.#inFile = { passed: 0, failed: 0, skipped: 0 };
    this.#output.delete(file);
    if (process.stdout.isTTY) return '';
    const seconds = ((this.#filesMs.get(file) ?? 0) / 1000).toFixed(1);
    const others = `${failed > 0 ? `, ${failed} failed` : ''}${skipped > 0 ? `, ${skipped} skipped` : ''}`;
    return `${failed > 0 ? '✖' : '✔'} ${file}: ${passed} passed${others} (${seconds} s)\n`;
  }

  progress(): string {
    const seconds = ((performance.now() - this.#startedMs) / 1000).toFixed(0);
    const last = this.#starts.at(-1);
    return `${seconds} s: file ${this.#starts.length} of ${this.#files}${last === undefined ? '' : `, ${last}`}\n`;
  }

  end(): { readonly text: string; readonly results: Results } {
    const ended = this.#endFile();
    const failed = this.#failed.map(({ file, name }) => `✖ ${file}: ${name}\n`).join('');
    const skipped = this.#skipped.map(({ file, name, reason }) => `﹣ ${file}: ${name}: ${reason}\n`).join('');
    const lists = `${skipped && `skipped:\n${skipped}`}${failed && `failed:\n${failed}`}`;
    const counts = `${this.#passed} passed, ${this.#failed.length} failed, ${this.#skipped.length} skipped\n`;
    const filesMs = Object.fromEntries(this.#filesMs);
    return {
      text: `${ended}${lists}${counts}`,
      results: { passed: this.#passed, failed: this.#failed, skipped: this.#skipped, filesMs },
    };
  }
}

/** @returns the path relative to `test/`, with the ending of the source; the argument if it is not a test file */
function fileOf(path = ''): string {
  const [, below] = /(?:^|\/)test\/((?!.*\/test\/).*\.test)\.[jt]s$/.exec(path.replaceAll(sep, '/')) ?? [];
  return below === undefined ? path : `${below}.ts`;
}

function textOf(error: Error | undefined): string {
  const cause = error?.cause ?? error;
  return cause instanceof Error || typeof cause !== 'string' ? inspect(cause, { breakLength: 160 }) : cause;
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '    ').trimEnd();
}

/** Maps places in compiled files to their sources: `--enable-source-maps` would cost a fifth more processor time. */
function mapPlaces(text: string): string {
  const places = new RegExp(`(?:file://)?(/[^\\s():]*/${COMPILED}/[^\\s():]*\\.js):(\\d+):(\\d+)`, 'g');
  return text.replace(places, (place, file: string, line: string, column: string) => {
    if (!existsSync(`${file}.map`)) return place;
    const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')));
    const found = map.findEntry(Number(line) - 1, Number(column) - 1);
    if (!('originalSource' in found)) return place;
    return `${resolve(dirname(file), found.originalSource)}:${found.originalLine + 1}:${found.originalColumn + 1}`;
  });
}

/** The function that `node --test-reporter` calls. */
export default async function* report(events: AsyncIterable<RunnerEvent>): AsyncGenerator<string> {
  const run = new Run(Number(process.env['ASSETLOG_TEST_FILES'] ?? 0));
  const timer = process.stdout.isTTY ? setInterval(() => process.stdout.write(run.progress()), PROGRESS_MS) : undefined;
  for await (const event of events) {
    const text = run.handle(event);
    if (text !== '') yield text;
  }
  clearInterval(timer);
  const { text, results } = run.end();
  yield text;
  const path = process.env['ASSETLOG_TEST_RESULTS'];
  if (path !== undefined) writeFileSync(path, JSON.stringify(results));
}
