/** The address of the client of a request, also when trusted proxies pass the request on. */

import { BlockList, isIP, SocketAddress } from 'node:net';

/** Addresses that begin with the same bits. */
export interface Network {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly bits: number;
}

/** For an option: `ADDRESS` or `ADDRESS/BITS`. @throws Error whose message completes "--flag "value" …" */
export function readNetwork(text: string): Network {
  const [, sent = '', digits] = /^([^/]*)(?:\/([0-9]{1,3}))?$/.exec(text) ?? [];
  const address = canonical(sent);
  if (address === undefined) throw new Error('is not an address such as 127.0.0.1, or a network such as 10.0.0.0/8');
  const family = familyOf(address);
  // The bits of an IPv4 address that is written as IPv6 are counted from the 96 that say so.
  const skipped = family === 'ipv4' && isIP(sent) === 6 ? MAPPED_BITS : 0;
  const bitsMax = (family === 'ipv4' ? 32 : 128) + skipped;
  const bits = digits === undefined ? bitsMax : Number(digits);
  if (bits > bitsMax) throw new Error(`has more than the ${bitsMax} bits of its address`);
  if (bits <= skipped) throw new Error('would let every client choose its address; name the proxies only');
  return { address, family, bits: bits - skipped };
}

/**
 * Each proxy appends the address that it was asked from to `X-Forwarded-For`, so only what trusted proxies appended is true:
 * the client is the last address that is not a trusted proxy itself. What is left of it the client may have made up.
 * @returns a function of the address of the connection and the headers (name, value, name, value …)
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
      if (address === undefined) return client; // the proxy does not know: it answers for its clients itself
      client = address;
    }
    return client;
  };
}

const MAPPED_BITS = 96;

/** Several lines of the header are one list, in their order (RFC 9110 section 5.3). */
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

/** @returns the one way to write the address, without zone, and IPv4 as such also if it was mapped; undefined for no address */
function canonical(text: string): string | undefined {
  if (isIP(text) !== 6) return isIP(text) === 4 ? text : undefined;
  const { address } = new SocketAddress({ address: text.replace(/%.*/, ''), family: 'ipv6' });
  return /^::ffff:([0-9.]+)$/.exec(address)?.[1] ?? address;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}
