/** How often tests repeat random cases: all of them at night, a part in `npm test`. */

const isLong = process.env['ASSETLOG_TEST_LONG'] === '1';
/** Differs from commit to commit, so that each commit strikes other calls. */
const draw = Number(process.env['ASSETLOG_TEST_DRAW'] ?? 0);

/** How often a test repeats a random case, such as `rounds({ long: 2_000, short: 400 })`. */
export function rounds({ long, short }: { readonly long: number; readonly short: number }): number {
  return isLong ? long : short;
}

/** The calls at which a test strikes: `first`, counted from 1, and every `step`-th one after it. */
export interface Sample {
  readonly first: number;
  readonly step: number;
}

/**
 * @param short the step in the short form of a slow test
 * @returns every call in the long form; otherwise every `short`-th call, times `ASSETLOG_TEST_EVERY`, from a call that the draw decides
 */
export function sampledCalls(short = 1): Sample {
  const step = isLong ? 1 : short * Number(process.env['ASSETLOG_TEST_EVERY'] ?? 1);
  return { first: 1 + (draw % step), step };
}

/** @returns all values in the long form; otherwise a sample, like `sampledCalls` */
export function sampled<Value>(values: readonly Value[], short = 1): readonly Value[] {
  const { first, step } = sampledCalls(short);
  return values.filter((_, index) => index % step === first - 1);
}
