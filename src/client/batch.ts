/** A batch of reports as a request: its body, and the outcome of each item in a reply. Pure functions. */

import { readObject } from '../config/json-file.ts';
import type { Limits } from '../config/limits.ts';
import type { HttpReply } from './connection.ts';
import { type DeliveryInDoubt, onOneLine } from './delivery.ts';
import type { Submission } from './submission.ts';

/** The outcome of a batch. `reasons` has a clause for each refused item that the reply names, by the index of the item from 0. */
export type BatchReply =
  | { readonly kind: 'recorded' }
  /**
   * Up to the last item in `reasons`, the other items are recorded. All later items are recorded if `isComplete`; otherwise some
   * of them are, and the reply does not name them.
   */
  | { readonly kind: 'some recorded'; readonly reasons: ReadonlyMap<number, string>; readonly isComplete: boolean }
  | { readonly kind: 'none recorded'; readonly reasons: ReadonlyMap<number, string> };

/** Valid items of the batch are recorded even if others are not valid: `Prefer: handling=lenient` (RFC 7240 section 4.4). */
export const batchHeaders = { 'Content-Type': 'application/x-ndjson', Prefer: 'handling=lenient' } as const;

/** A report as an item of a batch. */
export interface BatchItem {
  /** JSON text of an object on one line: `{"type":"check","asset_key":"orders",…}`. */
  readonly text: string;
  readonly hasKey: boolean;
  /** See `Submission.isWithoutTime`. */
  readonly isWithoutTime: boolean;
  /**
   * Creates the single report of the item. @throws Error whose message is a clause about the item: `it is not valid
   * JSON …`
   */
  readonly single: () => Submission;
}

export function itemOf(submission: Submission): BatchItem {
  const { endpoint, body, idempotencyKey, isWithoutTime = false } = submission;
  const parameters = body === '{}' ? '' : `,${body.slice(1, -1)}`;
  const text = `{"type":"${endpoint.name}"${parameters}}`;
  const item = { text, hasKey: false, isWithoutTime, single: () => submission };
  return idempotencyKey === undefined ? item : withKey(item, idempotencyKey);
}

/**
 * @returns an item without a key, extended by a key:
 * `{"type":"check","asset_key":"orders",…,"idempotency_key":"load-17/1"}`
 */
export function withKey({ text, isWithoutTime, single }: BatchItem, idempotencyKey: string): BatchItem {
  return {
    text: `${text.slice(0, -1)},"idempotency_key":${JSON.stringify(idempotencyKey)}}`,
    hasKey: true,
    isWithoutTime,
    single: () => ({ ...single(), idempotencyKey }),
  };
}

/** @returns batches of at most `linesMax` items and `bodyBytesMax` bytes; a larger item has its own batch */
export function batchesOf(items: readonly BatchItem[], linesMax: number, { bodyBytesMax }: Limits): BatchItem[][] {
  const batches: BatchItem[][] = [];
  let batch: BatchItem[] = [];
  let bytes = 0;
  for (const item of items) {
    const lineBytes = Buffer.byteLength(item.text) + 1;
    if (batch.length === linesMax || (batch.length > 0 && bytes + lineBytes > bodyBytesMax)) {
      batches.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += lineBytes;
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}

/**
 * Reads the outcome of a batch of `count` items. A 200 or 207 that does not account for each item is in doubt.
 * @returns undefined for a reply that is not specific to batches, such as a 503, or the page of another server
 */
export function readBatchReply({ status, body }: HttpReply, count: number): BatchReply | DeliveryInDoubt | undefined {
  if (status !== 200 && status !== 207 && status !== 400) return undefined;
  const { recorded, failed, reasons } = readCounts(body, count);
  if (status === 400) return reasons === undefined ? undefined : { kind: 'none recorded', reasons };
  if (recorded === undefined) return undefined;
  if (status === 200 && recorded === count && failed === 0) return { kind: 'recorded' };
  const isSum = reasons !== undefined && reasons.size <= failed && recorded + failed === count;
  if (status === 207 && isSum) return { kind: 'some recorded', reasons, isComplete: reasons.size === failed };
  return { kind: 'in doubt', reason: `answers ${status}: ${recorded} recorded, ${failed} not, of ${count} items` };
}

interface ReplyCounts {
  readonly recorded: number | undefined;
  readonly failed: number;
  /** Undefined if the reply has no reasons, or if they do not describe items of the batch. */
  readonly reasons: ReadonlyMap<number, string> | undefined;
}

function readCounts(body: string, count: number): ReplyCounts {
  const { recorded, failed, errors } = readObject(body) ?? {};
  const number = (value: unknown) => (Number.isSafeInteger(value) ? (value as number) : undefined);
  return {
    recorded: number(recorded),
    failed: number(failed) ?? 0,
    reasons: Array.isArray(errors) ? readReasons(errors, count) : undefined,
  };
}

function readReasons(errors: readonly unknown[], count: number): Map<number, string> | undefined {
  const reasons = new Map<number, string>();
  let last = 0;
  for (const each of errors as readonly ({ item?: unknown; error?: unknown } | null)[]) {
    const item = each?.item;
    if (typeof item !== 'number' || !Number.isInteger(item) || item <= last || item > count) return undefined;
    if (typeof each?.error !== 'string') return undefined;
    reasons.set(item - 1, `answers 400: ${onOneLine(each.error)}`);
    last = item;
  }
  return reasons.size === 0 ? undefined : reasons;
}
