/** Reads a line of `--from` as an item of a batch. A journal line is not parsed, since the service parses it anyway. */

import { type BatchItem, itemOf } from '../../client/batch.ts';
import { isTime, readSubmission } from '../../client/submission.ts';
import type { JsonLimits } from '../../event/json-bytes.ts';
import { readWrittenReport } from '../../journal/line/members.ts';

/**
 * @param keepTimes whether the `time` of a journal line becomes its `event_time` even if it has an idempotency key
 * @returns a function that reads a line in UTF-8. It throws ItemError whose message is a clause about the line
 */
export function itemReader(limits: JsonLimits, keepTimes: boolean): (line: Buffer) => BatchItem {
  let lastTime = '';
  let isLastTime = false;
  const isTimed = (time: string): boolean => {
    if (time !== lastTime) [lastTime, isLastTime] = [time, isTime(time)]; // many lines have the same time
    return isLastTime;
  };
  return (bytes) => {
    const line = bytes.toString();
    const written = readWrittenReport(line);
    if (written === undefined) return itemOf(readSubmission(line, limits, keepTimes));
    const { encoded, time, hasEventTime, hasKey } = written;
    const hasTime = !hasEventTime && isTimed(time);
    const isWithoutTime = hasTime && hasKey && !keepTimes;
    const member = hasTime && !isWithoutTime ? `,"event_time":"${time}"` : '';
    const single = () => readSubmission(line, limits, keepTimes);
    return { text: `{${encoded}${member}}`, hasKey, isWithoutTime, single };
  };
}
