/** The URL of an engine: `nats://n1.example,n2.example:4223/ASSETLOG`. Unlike other URLs it can name several hosts. */

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
  readonly port: number;
  /** With the port: `[::1]:4222`. */
  readonly name: string;
}

/**
 * @returns the parts of a URL; undefined if it is not an engine's URL, because it has another scheme, a user, a query, a fragment
 * or a bad port
 */
export function readEngineUrl(to: string): EngineUrl | undefined {
  const [, written = '', hosts = '', path = ''] = URL_FORM.exec(to) ?? [];
  const scheme = written.toLowerCase();
  const read = hosts.split(',').map((text) => readHost(text, PORTS[scheme]));
  return read.every((host) => host !== undefined) ? { scheme, hosts: read, path } : undefined;
}

/** Like `readEngineUrl`. @throws TypeError if the text is not such a URL */
export function engineUrlOf(to: string): EngineUrl {
  const url = readEngineUrl(to);
  if (url === undefined) throw new TypeError(`${to} is not the URL of an engine`);
  return url;
}

function readHost(text: string, portOfScheme = 0): EngineHost | undefined {
  const [, address, name, digits] = HOST_FORM.exec(text) ?? [];
  const port = digits === undefined ? portOfScheme : Number(digits);
  if (port < 1 || port > PORT_MAX) return undefined;
  if (address !== undefined) return { host: address, port, name: `[${address}]:${port}` };
  return name === undefined ? undefined : { host: name, port, name: `${name}:${port}` };
}

const URL_FORM = /^([a-z][a-z0-9+]*):\/\/([^/?#@\s]+)\/([^?#@\s]*)$/i;
/** A name or an IPv4 address, or an IPv6 address in brackets, and a port. */
const HOST_FORM = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::(\d{1,5}))?$/i;
const PORT_MAX = 65_535;
/** Default ports by scheme. */
const PORTS: Readonly<Record<string, number>> = {
  nats: 4222,
  'nats+tls': 4222,
  'clickhouse+http': 8123,
  'clickhouse+https': 8443,
};
