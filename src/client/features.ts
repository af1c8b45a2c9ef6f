/** What a service can do beyond the API, according to its OpenAPI document. Looking it up reports nothing. */

import { isObject, readObject } from '../config/json-file.ts';
import { batchPath } from '../event/item.ts';
import { endpoints } from '../event/parameters.ts';
import type { HttpReply } from './connection.ts';
import { type DeliveryFailure, judge, judgeNoReply, neverInDoubt, type SafeToRetry } from './delivery.ts';

export interface Features {
  /** The service takes many reports in one request. */
  readonly batch: boolean;
  /** The service records a report with an idempotency key once, however often it is sent. */
  readonly keys: boolean;
}

/** The features of a service without an OpenAPI document. */
export const noFeatures: Features = { batch: false, keys: false };

export type FeatureSearch =
  | { readonly kind: 'found'; readonly features: Features }
  /** The service did not answer, or cannot now. */
  | SafeToRetry
  | DeliveryFailure;

interface DocumentUrl {
  readonly url: URL;
  /** The path of the service below the document: empty, or `/prod` for a deployment. */
  readonly below: string;
}

/**
 * Looks for the OpenAPI document below the base URL, in the parent folder (the URL of a deployment ends in its name), and at the
 * root.
 * @param get requests a document; `below` is empty for the document of the base URL itself. Throws only NoReply.
 * @returns `noFeatures` if there is no document; `again` if the service did not answer
 */
export async function findFeatures(
  base: string,
  get: (document: DocumentUrl) => Promise<HttpReply>,
): Promise<FeatureSearch> {
  let unknown: SafeToRetry | undefined;
  for (const document of documentsOf(base)) {
    let reply: HttpReply;
    try {
      reply = await get(document);
    } catch (error) {
      return neverInDoubt(judgeNoReply(error));
    }
    const features = reply.status === 200 ? readFeatures(reply.body, document.below) : undefined;
    if (features !== undefined) return { kind: 'found', features };
    const judged = judge(reply);
    if (judged.kind === 'again') unknown ??= judged;
    else if (GATEWAY.has(reply.status)) unknown ??= { kind: 'again', reason: judged.reason, afterMs: 0 };
  }
  return unknown ?? { kind: 'found', features: noFeatures };
}

/** Statuses of a proxy whose service is away. */
const GATEWAY: ReadonlySet<number> = new Set([502, 504]);

function documentsOf(base: string): DocumentUrl[] {
  const { origin, pathname } = new URL(base);
  const path = pathname.replace(/\/+$/, '');
  const folders = new Set([path, path.slice(0, Math.max(0, path.lastIndexOf('/'))), '']);
  return [...folders].map((folder) => ({
    url: new URL(`${origin}${folder}/openapi.json`),
    below: path.slice(folder.length),
  }));
}

/**
 * Reads the features from a document. Only operations of this service count, since the root of a host may describe another one.
 * @param below the path of the service below the document: empty, or `/prod`, which matches the template `/{deployment_name}`
 * @returns undefined if the text is no JSON object with paths
 */
export function readFeatures(text: string, below: string): Features | undefined {
  const document = readObject(text);
  const paths = member(document, 'paths');
  if (!isObject(paths)) return undefined;
  const operations = (path: string) =>
    Object.entries(paths).filter(([template, item]) => matches(template, `${below}${path}/`) && isObject(item));
  const reports = [...endpoints.map(({ path }) => path), batchPath].flatMap(operations);
  return {
    batch: operations(batchPath).length > 0,
    keys: reports.some(([, item]) => hasKeyHeader(document, item) || hasKeyHeader(document, member(item, 'post'))),
  };
}

/** Whether a path matches a template such as `/{deployment_name}/report_asset_batch/`. */
function matches(template: string, path: string): boolean {
  const [wanted, parts] = [template.split('/'), path.split('/')];
  return (
    wanted.length === parts.length && wanted.every((part, index) => part === parts[index] || /^\{[^{}]+\}$/.test(part))
  );
}

/** @param holder a path item or an operation */
function hasKeyHeader(document: unknown, holder: unknown): boolean {
  const parameters = member(holder, 'parameters');
  if (!Array.isArray(parameters)) return false;
  return parameters.some((parameter) => {
    const { in: location, name } = resolved(document, parameter);
    return location === 'header' && typeof name === 'string' && name.toLowerCase() === 'idempotency-key';
  });
}

/** Follows a reference such as `{"$ref":"#/components/parameters/Idempotency-Key"}` once. */
function resolved(document: unknown, value: unknown): Readonly<Record<string, unknown>> {
  const reference = member(value, '$ref');
  if (typeof reference !== 'string') return isObject(value) ? value : {};
  const target = reference.split('/').slice(1).reduce(member, document);
  return isObject(target) ? target : {};
}

function member(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}
