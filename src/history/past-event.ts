/**
 * What the line of an event tells about its asset over time: when it happened, its numbers, and the result of a check.
 */

import { historyLimits } from '../config/limits.ts';
import { believedEventMs, believedRecordingMs } from '../event/event-time.ts';
import { jsonKind, jsonMembers, unquote } from './json-text.ts';

export type CheckOutcome = 'passed' | 'warning' | 'failed';

export interface PastEvent {
  readonly seq: number;
  /** For example `AssetMaterialization`. */
  readonly type: string;
  /** When it happened, in ms since 1970, by the rules of the asset's state. */
  readonly atMs: number;
  readonly partition: string | undefined;
  /** Set for a check, like `outcome`. */
  readonly checkName: string | undefined;
  readonly outcome: CheckOutcome | undefined;
  /** The members of its metadata. Each value is the text of a number, or undefined for anything else. */
  readonly members: ReadonlyMap<string, string | undefined>;
}

/** @param line a journal line without its newline. @throws SyntaxError for a text that is not a line */
export function readPastEvent(line: string): PastEvent {
  const all = new Map(jsonMembers(line).map(({ name, value }) => [name, value]));
  const textOf = (name: string) => {
    const value = all.get(name);
    return value === undefined ? undefined : unquote(value);
  };
  const timeMs = Date.parse(textOf('time') ?? '');
  const atMs =
    believedEventMs(textOf('event_time'), timeMs) ?? believedRecordingMs(textOf('recorded'), timeMs) ?? timeMs;
  const metadata = jsonMembers(all.get('metadata') ?? '{}').slice(0, historyLimits.eventMembers);
  return {
    seq: Number(all.get('seq')),
    type: textOf('type') ?? '',
    atMs,
    partition: textOf('partition'),
    checkName: textOf('check_name'),
    outcome: outcomeOf(all.get('passed'), textOf('severity')),
    members: new Map(metadata.map(({ name, value }) => [name, numberIn(value)])),
  };
}

function outcomeOf(passed: string | undefined, severity: string | undefined): CheckOutcome | undefined {
  if (passed === undefined) return undefined;
  if (passed === 'true') return 'passed';
  return severity === 'WARN' ? 'warning' : 'failed';
}

/**
 * @returns the text of a number, which can be in Dagster's form `{"type":"int","raw_value":12}`; undefined for anything else
 */
function numberIn(value: string): string | undefined {
  if (jsonKind(value) === 'number') return value;
  if (!value.includes('"raw_value":')) return undefined;
  const raw = value.startsWith('{') ? jsonMembers(value).find(({ name }) => name === 'raw_value')?.value : undefined;
  return raw !== undefined && jsonKind(raw) === 'number' ? raw : undefined;
}
