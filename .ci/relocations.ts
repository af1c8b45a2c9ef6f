/** Rewrites a library for musl before 1.2.4, such as Debian's, which ignores packed relocations (DT_RELR). */

/** Numbers of the ELF format, for 64 bits and x86-64. */
const LOAD = 1;
const DYNAMIC = 2;
const NOTE = 4;
const [DT_RELA, DT_RELASZ, DT_RELR, DT_RELRSZ] = [7, 8, 36, 35];
const RELATIVE = 8n;
const READABLE = 4;
const [HEADER_BYTES, ENTRY_BYTES, RELOCATION_BYTES, WORD_BYTES, PAGE_BYTES] = [56, 16, 24, 8, 4096];

/** @returns the library with each packed relocation as an ordinary one, in a table at its end */
export function unpackRelocations(library: Buffer): Buffer {
  const u64 = (at: number) => Number(library.readBigUInt64LE(at));
  const headers = Array.from({ length: library.readUInt16LE(56) }, (_, index) => {
    const at = u64(32) + index * HEADER_BYTES;
    const [offset, address, fileBytes, bytes] = [u64(at + 8), u64(at + 16), u64(at + 32), u64(at + 40)];
    return { at, type: library.readUInt32LE(at), offset, address, fileBytes, end: address + bytes };
  });
  const loads = headers.filter(({ type }) => type === LOAD);
  const [dynamic, note] = [DYNAMIC, NOTE].map((wanted) => headers.find(({ type }) => type === wanted)!);
  const offsetOf = (address: number) => {
    const load = loads.find((one) => address >= one.address && address < one.address + one.fileBytes)!;
    return address - load.address + load.offset;
  };
  /** Offsets of the values of the dynamic table, by their tags. */
  const values = new Map<number, number>();
  for (let at = dynamic!.offset; u64(at) !== 0; at += ENTRY_BYTES) values.set(u64(at), at + 8);
  const entryOf = (tag: number) => u64(values.get(tag)!);
  if (!values.has(DT_RELR)) return library;

  const unpacked = relocatedPlaces(library, offsetOf(entryOf(DT_RELR)), entryOf(DT_RELRSZ)).map((place) => {
    const words = [BigInt(place), RELATIVE, library.readBigUInt64LE(offsetOf(place))];
    return Buffer.from(BigUint64Array.from(words).buffer);
  });
  const others = offsetOf(entryOf(DT_RELA));
  const table = Buffer.concat([...unpacked, library.subarray(others, others + entryOf(DT_RELASZ))]);
  const pageEnd = (bytes: number) => Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
  const [offset, address] = [pageEnd(library.length), pageEnd(Math.max(...loads.map(({ end }) => end)))];
  const result = Buffer.alloc(offset + table.length);
  library.copy(result);
  table.copy(result, offset);
  result.writeUInt32LE(LOAD, note!.at); // in place of a header that nothing needs
  result.writeUInt32LE(READABLE, note!.at + 4);
  for (const [index, value] of [offset, address, address, table.length, table.length, PAGE_BYTES].entries())
    result.writeBigUInt64LE(BigInt(value), note!.at + 8 + index * WORD_BYTES);
  result.writeBigUInt64LE(BigInt(address), values.get(DT_RELA)!);
  result.writeBigUInt64LE(BigInt(entryOf(DT_RELASZ) + unpacked.length * RELOCATION_BYTES), values.get(DT_RELASZ)!);
  result.writeBigUInt64LE(0n, values.get(DT_RELRSZ)!);
  return result;
}

/** Reads a table of DT_RELR: an even word is an address, each bit of an odd one stands for one of the 63 words after the last. */
function relocatedPlaces(library: Buffer, start: number, bytes: number): number[] {
  const places: number[] = [];
  let next = 0;
  for (let at = start; at < start + bytes; at += WORD_BYTES) {
    const word = library.readBigUInt64LE(at);
    if (word % 2n === 0n) {
      places.push(Number(word));
      next = Number(word) + WORD_BYTES;
      continue;
    }
    for (let bit = 0; bit < 63; bit += 1)
      if ((word >> BigInt(bit + 1)) % 2n === 1n) places.push(next + bit * WORD_BYTES);
    next += 63 * WORD_BYTES;
  }
  return places;
}
