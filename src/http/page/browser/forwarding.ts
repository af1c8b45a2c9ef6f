/** Shows the progress of a local service's destinations, from its metrics. */

import { pageLimits } from '../../../config/limits.ts';
import { sleep } from './connection.ts';
import { element } from './dom.ts';
import type { Service } from './service.ts';
import { badge, counted } from './view.ts';

/** The metrics of a destination by name: `lag_events`, or `state=waiting` for a label. */
type Figures = Map<string, number>;

/**
 * Keeps a line up to date until the signal aborts. The metrics of a service without destinations are read once. If the service
 * does not answer, no destination is shown, since the page already shows that it is not connected. Never rejects.
 */
export async function watchForwarding(service: Service, signal: AbortSignal, line: HTMLElement): Promise<void> {
  for (let isForwarding = true; isForwarding && !signal.aborted; await sleep(pageLimits.pollMs, signal)) {
    const metrics = await service.text('metrics', signal).catch(() => '');
    if (signal.aborted) return; // another call has started
    const all = destinationsIn(metrics);
    isForwarding = all.size > 0;
    const spans = [...all].map(([name, figures]) => element('span', {}, `${name} `, ...shown(figures)));
    // This can happen with `--ack`, and if retention waits for a destination.
    if (/^assetlog_ready 0$/m.test(metrics)) spans.push(element('span', {}, 'reports get 503: see /readyz'));
    line.replaceChildren('Forwarding: ', ...spans);
    line.hidden = !isForwarding;
  }
}

function destinationsIn(metrics: string): ReadonlyMap<string, Figures> {
  const all = new Map<string, Figures>();
  const samples = /^assetlog_(?:forward_)?(\w+)\{destination="([^"]*)"(?:,(\w+="[^"]*"))?\} (\S+)$/gm;
  for (const [, name = '', destination = '', label, value] of metrics.matchAll(samples)) {
    const figures = all.get(destination) ?? new Map<string, number>();
    all.set(destination, figures.set(label?.replaceAll('"', '') ?? name, Number(value)));
  }
  return all;
}

function shown(figures: Figures): (Node | string)[] {
  const of = (name: string) => figures.get(name) ?? 0;
  const lag = of('lag_events');
  const lagText = alarmsText(figures) ?? (lag === 0 ? 'has all events' : `is ${counted(lag, 'event')} behind`);
  const letters = of('dead_letters') === 0 ? '' : `, ${counted(of('dead_letters'), 'dead letter')}`;
  if (of('state=stopped') > 0) return [badge('bad', 'stopped'), ` ${lagText}${letters}; see assetlog forward status`];
  if (of('state=waiting') + of('state=suspect') > 0) return [badge('warn', 'waiting'), ` ${lagText}${letters}`];
  return [lagText + letters];
}

/** @returns undefined unless the destination is a hook with `on` */
function alarmsText(figures: Figures): string | undefined {
  const waiting = figures.get('alarms_waiting');
  if (waiting === undefined) return undefined;
  return waiting === 0 ? 'has all alarms' : `lacks ${counted(waiting, 'alarm')}`;
}
