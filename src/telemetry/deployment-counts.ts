/**
 * `--deployment-metrics`: counts of each deployment and each of its tokens since the start, and their samples for `/metrics`.
 */

/** Adds a metric to a text. @param samples the text after the name, for each sample */
export type Add = (own: string, type: string, help: string, samples: readonly string[]) => void;

/** The counts of deployments. */
export class DeploymentCounts {
  /** Number of recorded events, by deployment. */
  readonly #events = new Map<string, number>();
  /** Number of refused requests, by deployment and status. */
  readonly #refused = new Map<string, Map<number, number>>();
  /** When a token was last used, in ms since 1970, by deployment and SHA-256. */
  readonly #usedMs = new Map<string, number>();

  recorded(deployment: string, events: number): void {
    this.#events.set(deployment, (this.#events.get(deployment) ?? 0) + events);
  }

  refused(deployment: string, status: number): void {
    const counts = this.#refused.get(deployment) ?? new Map<number, number>();
    this.#refused.set(deployment, counts.set(status, (counts.get(status) ?? 0) + 1));
  }

  used(deployment: string, sha256: Buffer, nowMs: number): void {
    this.#usedMs.set(keyOf(deployment, sha256), nowMs);
  }

  /** @param seriesMax the most series of each metric; the others are left out */
  show(add: Add, deployments: readonly DeploymentFigures[], seriesMax: number): void {
    const addAll = (name: string, help: string, samplesOf: (one: DeploymentFigures) => Iterable<Sample>) => {
      const samples = new Map<string, number>(); // two entries with the same token are one series
      for (const one of deployments) {
        for (const [labels, value] of samplesOf(one)) {
          if (samples.size === seriesMax) break;
          samples.set(`{deployment="${one.name}"${labels}}`, value);
        }
      }
      const type = name.endsWith('_total') ? 'counter' : 'gauge';
      add(
        name,
        type,
        help,
        [...samples].map(([labels, value]) => `${labels} ${value}`),
      );
    };
    const one = (value: number | undefined): Sample[] => (value === undefined ? [] : [['', value]]);
    const seconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);
    addAll('deployment_events_total', 'Recorded events.', ({ name }) => one(this.#events.get(name) ?? 0));
    addAll('deployment_refused_total', 'Refused requests by status.', ({ name }) =>
      [...(this.#refused.get(name) ?? [])].map(([status, count]): Sample => [`,status="${status}"`, count]),
    );
    addAll('deployment_journal_bytes', 'Size of the files with events.', ({ bytes }) => one(bytes));
    addAll('deployment_last_event_timestamp_seconds', 'When the last event was recorded.', ({ lastMs }) =>
      one(seconds(lastMs)),
    );
    addAll('token_last_used_timestamp_seconds', 'When a token was used last; 0: not since the start.', (owner) =>
      owner.tokens.map(({ name, sha256 }) => [
        `,token="${escaped(name)}",sha256="${sha256.toString('hex', 0, 4)}"`,
        (this.#usedMs.get(keyOf(owner.name, sha256)) ?? 0) / 1000,
      ]),
    );
  }
}

type Sample = readonly [labels: string, value: number];

/** Figures of a deployment in addition to its counts. */
export interface DeploymentFigures {
  readonly name: string;
  readonly tokens: readonly { readonly name: string; readonly sha256: Buffer }[];
  /** Size of its segments; undefined while it is unknown. */
  readonly bytes: number | undefined;
  /** When its last event was recorded, in ms since 1970; undefined if there is none, or while it is unknown. */
  readonly lastMs: number | undefined;
}

function keyOf(deployment: string, sha256: Buffer): string {
  return `${deployment}/${sha256.toString('latin1')}`;
}

/** @returns a label value, since names of tokens can contain any character */
function escaped(text: string): string {
  return text.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n');
}
