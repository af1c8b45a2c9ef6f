/** Random damage to the files of a journal. */

import { flip, splitLines } from './segments.ts';

/** @param random see `randomFrom` @returns the bytes of a file with one damage: to a byte, a range or a line */
export function damaged(bytes: Buffer, random: () => number): Buffer {
  if (bytes.length === 0) return bytes;
  const below = (end: number) => Math.floor(random() * end);
  const [from, to] = [below(bytes.length), below(bytes.length)].sort((a, b) => a - b) as [number, number];
  const lines = splitLines(bytes);
  const at = below(lines.length);
  const line = lines[at]!;
  const text = Buffer.from(['\n', 'x', 'garbage\n', '{"seq":3,'][below(4)]!);
  const ways = [
    () => [flip(bytes, from)],
    () => [bytes.subarray(0, from)],
    () => [bytes.subarray(0, from), bytes.subarray(to)],
    () => [bytes.subarray(0, to), bytes.subarray(from)],
    () => [bytes.subarray(0, from), text, bytes.subarray(from)],
    () => [bytes, text],
    () => [Buffer.from(bytes).fill(0, from, to)],
    () => [Buffer.from(bytes).fill(0, from, Math.min(bytes.length, from + 1 + below(600)))],
    () => lines.toSpliced(at, 1),
    () => lines.toSpliced(at, 0, line),
    () => lines.toSpliced(at, 2, ...lines.slice(at, at + 2).reverse()),
    () => lines.toSpliced(at, 1).toSpliced(below(lines.length), 0, line),
  ];
  return Buffer.concat(ways[below(ways.length)]!());
}
