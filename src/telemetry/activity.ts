/**
 * Lines about single requests, for the operator of the service: each refusal, and on a terminal each recorded event. Both have
 * a rate limit, so that a flood of requests floods neither the log nor the terminal; lines beyond it are counted.
 */

import type { Limits } from '../config/limits.ts';
import { shownKey } from '../event/asset-key.ts';
import { decodeEvent, type Event } from '../event/event.ts';
import { shownCharactersMax } from '../event/shown.ts';
import { LineRate, type Notices, oncePerName } from './log.ts';
import { findTokens, type IsToken, MASK, masked, maskedReason, maskTokens } from './masked.ts';
import { printable, shortened } from './printable.ts';
import { type RefusalFacts, type Refusals, type RefusalsOptions, targetPath, traceparentIn } from './refusals.ts';

export interface ActivityOptions {
  readonly notices: Notices;
  /** The terminal on which people read the log; undefined if a program reads it. */
  readonly terminal: Terminal | undefined;
  /** If true, the terminal shows no recorded events. */
  readonly quiet: boolean;
  /** Keeps the last refused requests. */
  readonly refusals: Pick<Refusals, 'add'>;
  /** See `RefusalsOptions.addressOf`. */
  readonly addressOf: RefusalsOptions['addressOf'];
  readonly limits: Limits;
}

export interface Terminal {
  /** Receives one line with its newline. */
  readonly write: (line: string) => void;
  /** Whether it shows colours: see `showsColours`. */
  readonly colours: boolean;
}

/** Logs refused requests and shows recorded events: `15:19:45 recorded AssetObservation warehouse/orders`. */
export class Activity {
  /** Set in hosted mode: its tokens are masked in paths. */
  isToken: IsToken = () => false;
  readonly #options: ActivityOptions;
  readonly #refusalRate: LineRate;
  readonly #recordedRate: LineRate;
  readonly #isNew: (problem: string) => boolean;
  /** Whether a terminal shows recorded events. If it does not, for example with `--quiet`, they cost nothing. */
  readonly showsRecorded: boolean;

  constructor(options: ActivityOptions) {
    const { notices, terminal, quiet, limits } = options;
    const { activityMs, refusalLinesMax, recordedLinesMax } = limits;
    this.#options = options;
    this.#isNew = oncePerName(limits.oncePerNameMax);
    this.showsRecorded = terminal !== undefined && !quiet && notices.isInfo;
    this.#refusalRate = new LineRate(refusalLinesMax, activityMs, (count) =>
      notices.info('further requests were refused', { count }),
    );
    this.#recordedRate = new LineRate(recordedLinesMax, activityMs, (count) =>
      notices.info('further events were recorded', { count }),
    );
  }

  /**
   * Keeps a refusal for `GET /refusals`. Logs it at level info, at most `limits.refusalLinesMax` in `limits.activityMs`
   * milliseconds. The first 403 with a problem is a warning, beyond any rate. On a terminal:
   * `15:19:45 400 refused POST /report_asset_check/a: passed is missing: …`.
   */
  refused(request: RefusalFacts): void {
    const { notices, terminal, refusals, addressOf, limits } = this.#options;
    const { id, method, url, status, peer = '', headers = [], tokenName: token_name } = request;
    refusals.add(request);
    // A foreign page, host or token might be an attack, and is not a mistake of an ordinary client.
    const isWarning = status === 403 && this.#isNew(request.problem);
    if (!isWarning && (!notices.isInfo || !this.#refusalRate.allow())) return;
    const max = limits.loggedPathCharactersMax;
    const target = targetPath(url ?? '');
    const tokens = findTokens(target, this.isToken, max);
    const path = url === undefined ? undefined : shortened(masked(target, tokens), max);
    const problem = maskedReason(request.problem, tokens, this.isToken);
    if (terminal === undefined) {
      const about = { request_id: id, method, path, status, problem };
      const from = { address: addressOf(peer, headers), token_name, traceparent: traceparentIn(headers) };
      notices[isWarning ? 'warn' : 'info']('refused', { ...about, ...from });
      return;
    }
    const what = path === undefined ? '' : ` ${method} ${path}`;
    this.#show(terminal, status < 500 ? YELLOW : RED, `${status} refused`, `${what}: ${problem}`);
  }

  /** @returns the path of a target for the log, masked and cut: `/report_asset_check/a` for `/report_asset_check/a?x=1` */
  pathOf(url: string): string {
    const { loggedPathCharactersMax } = this.#options.limits;
    const path = targetPath(url);
    return shortened(masked(path, findTokens(path, this.isToken, loggedPathCharactersMax)), loggedPathCharactersMax);
  }

  /** @returns the name of a parameter for the log, masked and cut */
  nameOf(parameter: string): string {
    return this.isToken(parameter) ? MASK : maskTokens(parameter).slice(0, shownCharactersMax);
  }

  /**
   * Called only if `showsRecorded` is true.
   * @returns the text of an event on the terminal: `AssetCheckEvaluation warehouse/orders no_nulls failed (WARN) [2026-11-20]`. It
   *   does not retain the event
   */
  textOf(event: Event): string {
    const { type, asset_key, check_name, passed, severity, partition } = decodeEvent(event);
    const outcome = check_name === undefined ? '' : ` ${check_name} ${passed ? 'passed' : `failed (${severity})`}`;
    const where = partition === undefined ? '' : ` [${partition}]`;
    const text = maskTokens(`${type} ${shownKey(asset_key)}${outcome}${where}`);
    // A substring would keep the whole event's text in memory while the report waits for the disk.
    return Buffer.from(text.slice(0, this.#options.limits.loggedPathCharactersMax)).toString();
  }

  /**
   * Shows a durable event, at most `limits.recordedLinesMax` in `limits.activityMs` milliseconds.
   * @param text from `textOf`: `AssetObservation warehouse/orders`
   */
  recorded(text: string): void {
    const { terminal } = this.#options;
    if (terminal !== undefined && this.#recordedRate.allow()) this.#show(terminal, GREEN, 'recorded', ` ${text}`);
  }

  /** Logs immediately how many lines were suppressed. */
  close(): void {
    this.#refusalRate.close();
    this.#recordedRate.close();
  }

  #show({ write, colours }: Terminal, colour: string, word: string, text: string): void {
    const shown = colours ? `${colour}${word}${NO_COLOUR}` : word;
    write(`${new Date().toISOString().slice(11, 19)} ${shown}${printable(text)}\n`);
  }
}

/** Whether to write colours to a terminal, according to `NO_COLOR` (no-color.org) and `TERM` in the environment. */
export function showsColours(env: Readonly<Record<string, string | undefined>>): boolean {
  return !env['NO_COLOR'] && env['TERM'] !== 'dumb';
}

/** ANSI escape sequences (ECMA-48, SGR). */
const RED = '\u001b[31m';
const GREEN = '\u001b[32m';
const YELLOW = '\u001b[33m';
const NO_COLOUR = '\u001b[0m';
