/** Records events, counts the new ones in the metrics, and shows them on a terminal. */

import type { Event } from '../event/event.ts';
import { batchPath } from '../event/item.ts';
import type { Done, RecordedResult } from '../event/record-result.ts';
import type { Activity } from '../telemetry/activity.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { type Acknowledgements, type Recorder, type RecordHandled, type Reply, unavailable } from './message.ts';

export interface CountedParts {
  readonly metrics: Pick<Metrics, 'events' | 'recordedBatch' | 'deployments'>;
  readonly activity: Pick<Activity, 'showsRecorded' | 'textOf' | 'recorded'>;
}

/** Records the events of a report. Calls `respond` once with the reply. */
export type RecordReport = (
  outcome: RecordHandled,
  recorder: Recorder,
  route: string,
  respond: (reply: Reply) => void,
) => void;

/** @param acks undefined if replies do not wait for a destination */
export function reportRecorder(parts: CountedParts, acks: Acknowledgements | undefined): RecordReport {
  const { metrics } = parts;
  return ({ events, onConflict, replyTo, conflictReply }, recorder, route, respond) => {
    const refusal = acks?.refusal(recorder.deployment);
    if (refusal !== undefined) return respond(unavailable(refusal));
    const count = events.length; // so that the callback does not retain the events
    const done: Done = (result, first = 0, last = 0, before = NO_SEQS) => {
      if (result.kind === 'refused') return respond(unavailable(result.reason));
      if (result.kind === 'too large') return respond({ kind: 'error', status: 413, error: result.reason });
      if (result.kind === 'conflict') return respond(conflictReply(result.conflicts));
      if (route === batchPath) metrics.recordedBatch(count - (result.conflicts?.length ?? 0));
      if (acks === undefined) return respond(replyTo(result));
      acks.wait(recorder.deployment, first, last, before, answerWith(replyTo(result), respond));
    };
    appendCounted(recorder, parts, events, done, onConflict);
  };
}

/** A separate function: as a closure in `done` it would cost each report a scope, even without `--ack`. */
function answerWith(reply: Reply, respond: (reply: Reply) => void): (reason?: string) => void {
  return (reason) => respond(reason === undefined ? reply : unavailable(reason));
}

/** @returns a recorder for a handler that records events itself */
export function countingRecorder(recorder: Recorder, parts: CountedParts): Recorder {
  return {
    deployment: recorder.deployment,
    begin: () => recorder.begin(),
    refusal: (bodyBytes) => recorder.refusal(bodyBytes),
    append: (...args) => appendCounted(recorder, parts, ...args),
  };
}

/** Like `Recorder.append`, but also counts and shows the new events. */
function appendCounted(
  recorder: Recorder,
  parts: CountedParts,
  ...[events, done, onConflict]: Parameters<Recorder['append']>
): void {
  const { activity } = parts;
  const types = events.map(({ type }) => type);
  const lines = activity.showsRecorded ? events.map((event) => activity.textOf(event)) : NO_LINES;
  const counted: Done = (result, first, last, before) => {
    if (result.kind === 'recorded') count(types, lines, result, parts, recorder.deployment);
    done(result, first, last, before);
  };
  recorder.append(events, counted, onConflict);
}

function count(
  types: readonly Event['type'][],
  lines: readonly string[],
  result: RecordedResult,
  { metrics, activity }: CountedParts,
  deployment = '',
): void {
  const old = result.replayed === undefined && result.conflicts === undefined ? NONE : indexesOfOld(result);
  metrics.deployments?.recorded(deployment, types.length - old.size);
  types.forEach((type, index) => {
    if (!old.has(index)) metrics.events[type] += 1;
  });
  lines.forEach((line, index) => {
    if (!old.has(index)) activity.recorded(line);
  });
}

/** @returns the indexes of events that were recorded earlier or left out */
function indexesOfOld({ replayed = [], conflicts = [] }: RecordedResult): ReadonlySet<number> {
  return new Set([...replayed, ...conflicts.map(({ index }) => index)]);
}

const NO_SEQS: readonly number[] = [];
const NO_LINES: readonly string[] = [];
const NONE: ReadonlySet<number> = new Set();
