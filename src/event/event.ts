/** The event that a report records: one event about one asset (specification section 6). */

interface Common {
  readonly assetKey: readonly string[];
  readonly partition?: string | undefined;
  /** The JSON text of an object, as it was sent. */
  readonly metadata?: string | undefined;
}

/** A materialization or an observation, which have the same fields. */
export interface AssetEvent extends Common {
  readonly type: 'AssetMaterialization' | 'AssetObservation';
  readonly description?: string | undefined;
  /** Recorded as the tag `data_version`. */
  readonly dataVersion?: string | undefined;
}

export interface CheckEvent extends Common {
  readonly type: 'AssetCheckEvaluation';
  readonly checkName: string;
  readonly passed: boolean;
  readonly severity: Severity;
}

export const severities = ['WARN', 'ERROR'] as const;
export type Severity = (typeof severities)[number];

export type Event = AssetEvent | CheckEvent;
