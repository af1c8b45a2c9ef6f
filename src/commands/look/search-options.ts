/** The options that say which events `assetlog events` shows, from the table of a search. */

import { type Options, switchOption, text } from '../../config/options.ts';
import type { Event } from '../../event/event.ts';
import { endpoints } from '../../event/parameters.ts';
import { allSearches, type Filter, type OptionName, readEventType, type Search } from '../../event/search.ts';
import { keyOption } from './listing.ts';

/** The values of the options. A switch is false if it is not given, any other option undefined. */
export type SearchOptions = { readonly [Name in OptionName]: unknown };

const types = endpoints.map(({ name }) => name);

/** The options, in the order of the help. */
export const searchOptions = Object.fromEntries(allSearches.flatMap(optionsOf)) as Options<SearchOptions>;

/** @returns the members of the filter that are no bounds; of a switch and its opposite at most one is given */
export function membersOf(values: SearchOptions): Filter {
  const given: Readonly<Record<string, unknown>> = values;
  const members = allSearches.map(({ member, option = '', opposite }) => {
    const isUnset = opposite !== undefined && given[option] === given[opposite.option];
    return [member, isUnset ? undefined : given[option]];
  });
  return Object.fromEntries(members.filter(([, value]) => value !== undefined));
}

function optionsOf({ kind, option, what = '', help = what, opposite }: Search): [string, unknown][] {
  if (option === undefined) return [];
  if (kind === 'key' || kind === 'key prefix') return [[option, keyOption(help)]];
  if (kind === 'type') return [[option, { ...text('TYPE', help), choices: types, parse: readType }]];
  if (opposite === undefined) return [[option, text('NAME', help)]];
  return [
    [option, switchOption(help)],
    [opposite.option, switchOption(opposite.help)],
  ];
}

function readType(word: string): Event['type'] {
  const type = readEventType(word);
  if (type === undefined) throw new Error(`is not a type; use one of ${types.join(', ')}`);
  return type;
}
