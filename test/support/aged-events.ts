/** Journals whose events are some hours old, each written as one line of text. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PlainEvent } from './plain-event.ts';
import { newFolder, type Scope } from './program.ts';
import { FIRST, timedEvents } from './segments.ts';

const HOUR_MS = 3_600_000;

export const hoursAgo = (hours: number) => new Date(Date.now() - hours * HOUR_MS);

/** The kinds of events. A check is named `c`. */
const kinds: Readonly<Record<string, Omit<PlainEvent, 'assetKey'>>> = {
  observed: { type: 'AssetObservation' },
  materialized: { type: 'AssetMaterialization' },
  passed: { type: 'AssetCheckEvaluation', checkName: 'c', passed: true, severity: 'ERROR' },
  failed: { type: 'AssetCheckEvaluation', checkName: 'c', passed: false, severity: 'ERROR' },
};

/** @param events such as `50 observed w/b`, which was recorded 50 hours ago; the oldest first. @returns a file of a journal */
export function agedEvents(events: readonly string[], firstSeq = 1): Buffer {
  const timed = events.map((event) => {
    const [hours, kind = '', key = ''] = event.split(' ');
    return [hoursAgo(Number(hours)), { ...kinds[kind]!, assetKey: key.split('/') }] as const;
  });
  return timedEvents(timed, firstSeq);
}

/** @returns a folder with a journal of these events */
export function agedJournal(t: Scope, events: readonly string[]): string {
  const data = newFolder(t);
  writeFileSync(join(data, FIRST), agedEvents(events));
  return data;
}
