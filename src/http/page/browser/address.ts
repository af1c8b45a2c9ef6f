/** The state of the page in the hash of its address, so that it can be linked: `#events?type=check&failed=1&open=17`. */

export const views = ['events', 'assets', 'refusals', 'sources'] as const;
export type ViewName = (typeof views)[number];

export interface Address {
  readonly view: ViewName;
  readonly text: string;
  readonly key_prefix: string;
  readonly type: string;
  readonly partition: string;
  /** The id or the name of a source. */
  readonly source: string;
  readonly failed: string;
  /** The id of the item whose details are shown; empty for none. */
  readonly open: string;
}

/** The members of an address that filter the list. */
export const filterNames = ['text', 'key_prefix', 'type', 'partition', 'source', 'failed'] as const;
/** The members of an address except its view. */
const names = [...filterNames, 'open'] as const;

/** @returns the address in a hash; an unknown view becomes `events` */
export function readAddress(hash: string): Address {
  const [view = '', query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  const values = new URLSearchParams(query);
  const value = (name: string) => values.get(name) ?? '';
  return {
    view: views.find((one) => one === view) ?? 'events',
    ...(Object.fromEntries(names.map((name) => [name, value(name)])) as Omit<Address, 'view'>),
  };
}

/** @returns the hash of an address: `#events?type=check` */
export function hashOf(address: Address): string {
  const values = new URLSearchParams();
  for (const name of names) if (address[name] !== '') values.set(name, address[name]);
  const query = values.toString();
  return `#${address.view}${query === '' ? '' : `?${query}`}`;
}

/** @returns the address with another view or other filters, and no open item */
export function addressOf(view: ViewName, filters: Partial<Address> = {}): Address {
  return { view, text: '', key_prefix: '', type: '', partition: '', source: '', failed: '', open: '', ...filters };
}
