/** Finds the features of a service beyond the API, in its OpenAPI document. This records no report. */

import { isObject, readObject } from '../config/json-file.ts';
import { batchPath } from '../event/item.ts';
import type { HttpReply } from './connection.ts';
import { type DeliveryFailure, judge, type SafeToRetry } from './delivery.ts';

export interface Features {
  /** The service accepts many reports in one request. */
  readonly batch: boolean;
  /** The service records a report with an idempotency key once, however often it is sent. */
  readonly keys: boolean;
  /** The service accepts batches that are compressed with gzip. */
  readonly gzip: boolean;
}

/** The features of a service without an OpenAPI document. */
export const noFeatures: Features = { batch: false, keys: false, gzip: false };

export type FeatureSearch =
  | { readonly kind: 'found'; readonly features: Features }
  /** The service did not answer, or is temporarily unavailable. */
  | SafeToRetry
  | DeliveryFailure;

export interface ServiceDocument {
  readonly url: URL;
  /** Whether the document is above the base URL, and describes all deployments. */
  readonly isAbove: boolean;
}

/** @param hasToken whether a token is sent to the base URL, which then ends in the name of a deployment */
export function documentOf(base: string, hasToken: boolean): ServiceDocument {
  const { origin, pathname } = new URL(base);
  const path = pathname.replace(/\/+$/, '');
  const isAbove = hasToken && path !== '';
  const folder = isAbove ? path.slice(0, path.lastIndexOf('/')) : path;
  return { url: new URL(`${origin}${folder}/openapi.json`), isAbove };
}

/**
 * @returns the features in a reply to a request for the document; `noFeatures` for any document that is not from assetlog
 */
export function readFeatures(reply: HttpReply, { isAbove }: ServiceDocument): FeatureSearch {
  const judged = judge(reply);
  if (judged.kind === 'again') return judged;
  if (GATEWAY.has(reply.status)) return { kind: 'again', reason: judged.reason, afterMs: 0 };
  const document = reply.status === 200 ? readObject(reply.body) : undefined;
  const hasObject = (...names: string[]) => isObject(names.reduce<unknown>(member, document));
  if (!hasObject('paths', `${isAbove ? '/{deployment_name}' : ''}${batchPath}/`))
    return { kind: 'found', features: noFeatures };
  const hasHeader = (name: string) => hasObject('components', 'parameters', name);
  const features = { batch: true, keys: hasHeader('Idempotency-Key'), gzip: hasHeader('Content-Encoding') };
  return { kind: 'found', features };
}

/** Statuses of a proxy whose service is unavailable. */
const GATEWAY: ReadonlySet<number> = new Set([502, 504]);

function member(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}
