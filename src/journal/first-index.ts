/**
 * Binary search.
 * @param isFarEnough if true for an item, it must be true for all later items
 * @returns the index of the first item that is far enough; the length of `items` if there is none
 */
export function findFirstIndex<Item>(items: readonly Item[], isFarEnough: (item: Item) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isFarEnough(items[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}
