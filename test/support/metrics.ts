import assert from 'node:assert/strict';
import { ask, get } from './wire.ts';

export async function metricsOf({ port }: { readonly port: number }): Promise<string> {
  return (await ask(port, get('/metrics'))).body;
}

/** @returns each sample by its name and labels: `assetlog_events_total{type="AssetObservation"}` */
export function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.trimEnd().split('\n')) {
    if (line.startsWith('#')) continue;
    const [, name = '', value] = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line) ?? assert.fail(line);
    assert.ok(!samples.has(name), `${name} is there twice`);
    samples.set(name, value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value));
  }
  return samples;
}

/** @returns the number of open connections, with the connection of this request */
export async function connectionsOf(service: { readonly port: number }): Promise<number> {
  return samplesOf(await metricsOf(service)).get('assetlog_connections') ?? Number.NaN;
}
