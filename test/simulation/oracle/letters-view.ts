/** What an observer knows of the dead letters of one destination, from their durable bytes, with a parser of its own. */

export class LettersView {
  /** The events that had a letter at any time, also after it was closed and removed. */
  readonly named = new Set<number>();
  /** By seq: whether an operator has to decide about it. */
  #states = new Map<number, boolean>();
  #bytes: Buffer | undefined;

  /** The seqs about which an operator has to decide. */
  get open(): number[] {
    return [...this.#states].flatMap(([seq, isOpen]) => (isOpen ? [seq] : []));
  }

  isOpen(seq: number): boolean {
    return this.#states.get(seq) === true;
  }

  /**
   * @param mayRepeat whether a letter may be there twice, since its first write failed
   * @returns what is wrong with the letters, if anything is
   */
  refresh(bytes: Buffer | undefined, mayRepeat = true): string | undefined {
    if (bytes === this.#bytes) return undefined;
    this.#bytes = bytes;
    const states = new Map<number, boolean>();
    const removed = new Set<number>();
    let hasZeros = false;
    const end = bytes?.lastIndexOf('\n') ?? -1; // what follows is torn, also if only the line feed is missing
    for (const text of bytes?.toString('utf8', 0, Math.max(end, 0)).split('\n') ?? []) {
      // A power cut may leave zeros in the last letter, or in place of it. A start cuts it off before another is written.
      hasZeros ||= text.includes('\0');
      const isWhole = text.endsWith('}') && text.lastIndexOf('\0') < text.lastIndexOf('{"time":');
      if (hasZeros && isWhole) return 'a dead letter was written after one with zeros in it';
      if (!isWhole) continue; // torn, or the end
      const { outcome, became, line, first = line?.seq, last = first } = JSON.parse(text);
      const isOpen = became !== 'taken' && outcome !== 'sent again' && outcome !== 'skipped';
      for (let seq = first; seq <= last; seq += 1) {
        // An operator gives up the open letters of a range, and no other event of it.
        if (outcome === 'skipped' && line === undefined && !states.has(seq)) continue;
        states.set(seq, isOpen);
        this.named.add(seq);
        // A crash before the cursor passes one that was taken after all.
        if (became === 'taken') removed.delete(seq);
        if (outcome !== 'removed' || became !== undefined) continue;
        if (removed.has(seq) && !mayRepeat) return `event ${seq} has two dead letters that say it was removed`;
        removed.add(seq);
      }
    }
    for (const [seq, wasOpen] of this.#states)
      if (wasOpen && !states.has(seq)) return `the dead letter of event ${seq} is gone, and was open`;
    this.#states = states;
    return undefined;
  }
}
