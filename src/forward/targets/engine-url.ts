/** The URL of an engine: `nats://n1.example,n2.example:4223/ASSETLOG`. Unlike other URLs it may name several hosts. */

export interface EngineUrl {
  /** In lower case, without the colon: `nats`, `clickhouse+https`. */
  readonly scheme: string;
  /** In the order in which they are tried. At least one. */
  readonly hosts: readonly EngineHost[];
  /** What follows the slash after the hosts: `ASSETLOG`, `assets.events`. */
  readonly path: string;
}

export interface EngineHost {
  /** Without the brackets of an IPv6 address. */
  readonly host: string;
  /** Undefined for that of the scheme. */
  readonly port: number | undefined;
}

/** @returns the parts of a URL; undefined if it is none of an engine: with a user, a query, a fragment or a bad port */
export function readEngineUrl(to: string): EngineUrl | undefined {
  const [, scheme = '', hosts = '', path = ''] = URL_FORM.exec(to) ?? [];
  const read = hosts.split(',').map(readHost);
  if (scheme === '' || !read.every((host) => host !== undefined)) return undefined;
  return { scheme: scheme.toLowerCase(), hosts: read, path };
}

function readHost(text: string): EngineHost | undefined {
  const [, address, name, port] = HOST_FORM.exec(text) ?? [];
  const host = address ?? name;
  if (host === undefined || (port !== undefined && (Number(port) < 1 || Number(port) > PORT_MAX))) return undefined;
  return { host, port: port === undefined ? undefined : Number(port) };
}

const URL_FORM = /^([a-z][a-z0-9+]*):\/\/([^/?#@\s]+)\/([^?#@\s]*)$/i;
/** A name or an IPv4 address, or an IPv6 address in brackets, and a port. */
const HOST_FORM = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::(\d{1,5}))?$/i;
const PORT_MAX = 65_535;
