/** What the actions of `assetlog forward` get. */

import type { Disk } from '../journal/disk.ts';
import type { GoneRange } from '../journal/segments.ts';
import type { Output } from './command.ts';

/** The values of the options: `{ data: '/data', seq: { first: 7, last: 7 }, new: false, json: false }`. */
export interface ForwardValues {
  readonly data: string;
  readonly seq: GoneRange | undefined;
  readonly new: boolean;
  readonly json: boolean;
}

/** An action for one destination of one journal: `{ disk, name: 'upstream', values, output }`. */
export interface ForwardAction {
  readonly disk: Disk;
  /** Of the destination. */
  readonly name: string;
  readonly values: ForwardValues;
  readonly output: Output;
}
