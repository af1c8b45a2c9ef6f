/** What the actions of `assetlog forward` get. */

import type { Disk } from '../../journal/disk.ts';
import type { GoneRange } from '../../journal/segments.ts';
import type { Output } from '../cli/command.ts';

export interface ForwardValues {
  readonly data: string;
  readonly seq: GoneRange | undefined;
  readonly new: boolean;
  readonly json: boolean;
}

/** An action for one destination of one journal. */
export interface ForwardAction {
  readonly disk: Disk;
  /** The name of the destination. */
  readonly name: string;
  readonly values: ForwardValues;
  readonly output: Output;
}
