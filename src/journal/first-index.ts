/**
 * Binary search.
 * @param isFarEnough true for an item and for all after it, or for none
 * @returns the index of the first item that is far enough; the length if none is
 */
export function firstIndex<Item>(items: readonly Item[], isFarEnough: (item: Item) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isFarEnough(items[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}
