/** The headers that the service uses. Their type and their reader are derived from the table. */

/** The member of `HeaderFields` for each header name in lower case. */
const members = {
  host: 'host',
  'transfer-encoding': 'transferEncoding',
  'content-length': 'contentLength',
  'content-type': 'contentType',
  'content-encoding': 'contentEncoding',
  expect: 'expect',
  upgrade: 'upgrade',
  origin: 'origin',
  'sec-fetch-site': 'fetchSite',
  'sec-fetch-mode': 'fetchMode',
  'sec-fetch-dest': 'fetchDest',
  accept: 'accept',
  prefer: 'prefer',
  'last-event-id': 'lastEventId',
  'idempotency-key': 'idempotencyKey',
} as const;

type Member = (typeof members)[keyof typeof members];

/** The values of the headers in the table as sent, repeated headers joined with a comma (RFC 9110 section 5.3). */
export type HeaderFields = Record<Member, string | undefined> & {
  /** All headers as sent: name, value, name, value … */
  raw: readonly string[];
  /** Size of all headers in bytes, with their separators and line ends. */
  bytes: number;
  /** Number of `Host` headers. */
  hosts: number;
  /** Number of `Content-Type` headers. */
  contentTypes: number;
};

const memberOf: ReadonlyMap<string, Member> = new Map(Object.entries(members));

/** Copied for each request, so that all requests share one hidden class. */
const blank = blankFields();

/** @param raw name, value, name, value … */
export function readFields(raw: readonly string[]): HeaderFields {
  const fields: HeaderFields = { ...blank };
  fields.raw = raw;
  let bytes = 0;
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!;
    const value = raw[at + 1]!;
    bytes += name.length + value.length + HEADER_EXTRA_BYTES;
    const member = memberOf.get(name.toLowerCase());
    if (member === undefined) continue;
    const before = fields[member];
    fields[member] = before === undefined ? value : `${before}, ${value}`;
    if (member === 'host') fields.hosts += 1;
    else if (member === 'contentType') fields.contentTypes += 1;
  }
  fields.bytes = bytes;
  return fields;
}

const HEADER_EXTRA_BYTES = ': '.length + '\r\n'.length;

/** JSON.parse makes the members in-object properties, which are the fastest. */
function blankFields(): HeaderFields {
  const all = [...memberOf.values()];
  const nulls = Object.fromEntries(all.map((member) => [member, null]));
  const fields: HeaderFields = JSON.parse(JSON.stringify({ raw: [], bytes: 0, hosts: 0, contentTypes: 0, ...nulls }));
  for (const member of all) fields[member] = undefined;
  return fields;
}
