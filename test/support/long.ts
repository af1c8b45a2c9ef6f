/** How much of what chance decides a test repeats: all of it at night, a part in `npm test`. */

const isLong = process.env['ASSETLOG_TEST_LONG'] === '1';
/** A number that differs from commit to commit, so that each one strikes other calls. */
const draw = Number(process.env['ASSETLOG_TEST_DRAW'] ?? 0);

/** How often a test repeats what chance decides, such as `rounds({ long: 2_000, short: 400 })`. */
export function rounds({ long, short }: { readonly long: number; readonly short: number }): number {
  return isLong ? long : short;
}

/** Which calls a test at any call strikes: the `first` one, counted from 1, and each `step` calls after it. */
export interface Sample {
  readonly first: number;
  readonly step: number;
}

/**
 * @param short the step in the short form of a test that takes long; 1 if it is not given
 * @returns every call in the long form; otherwise every `short`-th one, times `ASSETLOG_TEST_EVERY`, from one that the draw decides
 */
export function sampledCalls(short = 1): Sample {
  const step = isLong ? 1 : short * Number(process.env['ASSETLOG_TEST_EVERY'] ?? 1);
  return { first: 1 + (draw % step), step };
}

/** @returns all values in the long form; otherwise a sample of them, like `sampledCalls` */
export function sampled<Value>(values: readonly Value[], short = 1): readonly Value[] {
  const { first, step } = sampledCalls(short);
  return values.filter((_, index) => index % step === first - 1);
}
