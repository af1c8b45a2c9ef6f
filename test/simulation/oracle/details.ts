/** Where the events are that a sentence about a broken promise names: what a person asks first. */

import { type Destination, idsAt, type Watched } from './destinations.ts';
import type { SeenLine } from './journal-view.ts';

/** @returns a sentence for each event that is named: its id, and what the journals and the destinations have of it */
export function detailsOf(sentence: string, all: Iterable<Watched>): string[] {
  const watched = [...all];
  const at = ({ journal }: Watched) => sentence.search(new RegExp(`(?<![\\w/-])${journal.name}(?![\\w/-])`));
  const [named] = watched.filter((one) => at(one) >= 0).sort((a, b) => at(a) - at(b));
  if (named === undefined) return [];
  const seqs = new Set([...sentence.matchAll(/event (\d+)/g)].map(([, seq]) => Number(seq)));
  return [...seqs].map((seq) => {
    const line = named.view.lines.get(seq);
    const event = `event ${seq} of ${named.journal.name}`;
    if (line === undefined) return `${event} was never durable`;
    const file = named.view.isThere(seq) ? 'is in a file' : 'is in no file';
    const copies = watched.flatMap(({ journal, view }) => {
      const others = [...view.lines.values()].filter((one) => one !== line && one.id === line.id);
      return others.map((one) => `is event ${one.seq} of ${journal.name}`);
    });
    const places = named.sendsTo.map((destination) => placeOf(named, destination, line));
    return [`${event} is ${line.id}, the report ${line.mark}`, file, ...copies, ...places].join(', ');
  });
}

function placeOf({ journal }: Watched, { name, to, letters }: Destination, { seq, id }: SeenLine): string {
  const isThere = 'machine' in to ? 'for' : idsAt(to).has(id) ? 'is at' : 'is not at';
  const letter = letters.isOpen(seq) ? 'an open letter' : letters.named.has(seq) ? 'a letter' : 'no letter';
  const text = journal.disk.text(`forward-${name}.state`); // a crash may have torn it
  const [, state = 'not known'] = /"state":"(\w+)"/.exec(text) ?? [];
  const [, reason] = /"reason":("(?:[^"\\]|\\.)*")/.exec(text) ?? [];
  return `${isThere} ${name} has ${letter} and the state is ${reason === undefined ? state : `${state} (${JSON.parse(reason)})`}`;
}
