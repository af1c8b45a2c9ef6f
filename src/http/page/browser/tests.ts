/** Shows that a service is for tests, with its faults and their counts. */

import { pageLimits } from '../../../config/limits.ts';
import { visible } from '../../../event/visible.ts';
import { sleep } from './connection.ts';
import { element } from './dom.ts';
import type { Service } from './service.ts';

/** A fault in the reply of `/test/faults`. */
interface Fault {
  readonly match?: object;
  readonly then: object;
  readonly matched: number;
  readonly met: number;
}

/** Keeps a line up to date until the signal aborts. Other services are asked once. Never rejects. */
export async function watchTests(service: Service, signal: AbortSignal, line: HTMLElement): Promise<void> {
  const ready = await service.text('readyz', signal).catch(() => '');
  if (signal.aborted) return; // another call has started
  line.hidden = !ready.includes('"mode":"test"');
  for (; !line.hidden && !signal.aborted; await sleep(pageLimits.pollMs, signal)) {
    const text = await service.text('test/faults', signal).catch(() => '');
    if (text === '' || signal.aborted) continue;
    const { faults }: { readonly faults: readonly Fault[] } = JSON.parse(text);
    const shown = faults.slice(0, FAULTS_MAX).map((fault) => element('span', {}, visible(textOf(fault))));
    const more = faults.length > shown.length ? [element('span', {}, `${faults.length - shown.length} more`)] : [];
    const none = faults.length === 0 ? ['no faults'] : [];
    line.firstElementChild?.replaceChildren('Test mode: ', ...none, ...shown, ...more);
  }
}

function textOf({ match = {}, then, matched, met }: Fault): string {
  const of = Object.keys(match).length === 0 ? 'any report' : JSON.stringify(match);
  return `${JSON.stringify(then)} for ${of} (met by ${met} of ${matched})`;
}

const FAULTS_MAX = 10;
