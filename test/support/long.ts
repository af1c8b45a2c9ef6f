/** The long versions of tests that repeat something: CI runs them, `npm test` by hand does a part of it. */

const isLong = process.env['ASSETLOG_TEST_LONG'] === '1';

/** How often a test repeats what chance decides, such as `rounds({ long: 2_000, short: 400 })`. */
export function rounds({ long, short }: { readonly long: number; readonly short: number }): number {
  return isLong ? long : short;
}
