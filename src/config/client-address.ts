/** Networks of addresses, and the address of the client that sent a request, directly or through trusted proxies. */

import { BlockList, isIP, SocketAddress } from 'node:net';

/** A network in CIDR notation: the addresses that share the first `bits` bits. */
export interface Network {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  /** Length of the prefix: 1 to 32 for `ipv4`, 1 to 128 for `ipv6`. */
  readonly bits: number;
}

/**
 * Parses the value of an option, `ADDRESS` or `ADDRESS/BITS`.
 * @param bitsMin 0 to allow the network of all addresses
 * @throws Error whose message completes "--flag "value" …"
 */
export function readNetwork(text: string, bitsMin = 1): Network {
  const [, sent = '', digits] = /^([^/]*)(?:\/([0-9]{1,3}))?$/.exec(text) ?? [];
  const address = canonical(sent);
  if (address === undefined) throw new Error('is not an address such as 127.0.0.1, or a network such as 10.0.0.0/8');
  const family = familyOf(address);
  // The prefix length of an IPv4-mapped IPv6 address includes the 96 bits of the prefix ::ffff:0:0/96.
  const skipped = family === 'ipv4' && isIP(sent) === 6 ? MAPPED_BITS : 0;
  const bitsMax = (family === 'ipv4' ? 32 : 128) + skipped;
  const bits = digits === undefined ? bitsMax : Number(digits);
  if (bits > bitsMax) throw new Error(`has more than the ${bitsMax} bits of its address`);
  if (bits < skipped + bitsMin) throw new Error('would let every client choose its address; name the proxies only');
  return { address, family, bits: bits - skipped };
}

/** @returns whether the address is in the network; false if `text` is not a network, or `address` is not an address */
export function isInNetwork(given: string, text: string): boolean {
  const address = canonical(given);
  if (address === undefined) return false;
  try {
    const { address: first, bits, family } = readNetwork(text, 0);
    const network = new BlockList();
    network.addSubnet(first, bits, family);
    // For a BlockList each IPv4 address is also the IPv6 address that it is mapped to.
    return family === familyOf(address) && network.check(address, family);
  } catch {
    return false;
  }
}

/**
 * Each proxy appends the address of its peer to `X-Forwarded-For`, so only the entries of trusted proxies are reliable. The
 * client is the last address that is not itself a trusted proxy; the client may have forged the entries before it.
 * @returns a function from the address of the connection and the headers (name, value, name, value …) to the client's address. For
 *   the trusted peer `127.0.0.1` and the header `X-Forwarded-For: 192.0.2.9, 192.0.2.7` that is `192.0.2.7`.
 */
export function createClientAddress(
  trustedProxies: readonly Network[],
): (peer: string, headers: readonly string[]) => string {
  const trusted = new BlockList();
  for (const { address, bits, family } of trustedProxies) trusted.addSubnet(address, bits, family);
  const isTrusted = (address: string) => isIP(address) !== 0 && trusted.check(address, familyOf(address));

  return (peer, headers) => {
    let client = canonical(peer) ?? peer;
    if (!isTrusted(client)) return client;
    const entries = forwardedFor(headers);
    for (let entry = entries.pop(); entry !== undefined && isTrusted(client); entry = entries.pop()) {
      const address = addressIn(entry);
      if (address === undefined) return client; // the proxy does not know its client, so the proxy counts as the client
      client = address;
    }
    return client;
  };
}

const MAPPED_BITS = 96;

/** Repeated header lines form one list, in the order of the lines (RFC 9110 section 5.3). */
function forwardedFor(headers: readonly string[]): string[] {
  const entries: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at]!.toLowerCase() === 'x-forwarded-for') entries.push(...headers[at + 1]!.split(','));
  }
  return entries;
}

/** @param entry an address; some proxies add a port: `192.0.2.1:5678`, `[2001:db8::1]:80` */
function addressIn(entry: string): string | undefined {
  const text = entry.trim();
  const [, inBrackets, beforePort] = /^(?:\[([^\]]*)\](?::[0-9]+)?|([0-9.]+):[0-9]+)$/.exec(text) ?? [];
  return canonical(inBrackets ?? beforePort ?? text);
}

/**
 * @returns the canonical text of the address, without its zone, and an IPv4-mapped address as IPv4; undefined if the text is
 * not an address
 */
function canonical(text: string): string | undefined {
  if (isIP(text) !== 6) return isIP(text) === 4 ? text : undefined;
  const { address } = new SocketAddress({ address: text.replace(/%.*/, ''), family: 'ipv6' });
  return /^::ffff:([0-9.]+)$/.exec(address)?.[1] ?? address;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}
