/**
 * The OpenAPI document of a service. The built program has one for each kind of service, compressed: all of them together are
 * smaller than the code that makes them.
 */

import { type Limits, limits as standardLimits } from '../config/limits.ts';
import { type Endpoint, endpoints as standardEndpoints } from '../event/parameters.ts';
import type { Schema } from '../event/schema.ts';
import { describedHub } from '../forward/hub/described.ts';
import { openApi } from '../http/openapi.ts';
import { unpack } from '../http/packed.ts';
import { eventSchema } from '../journal/line-schema.ts';
import { describedReadings } from '../reading/described.ts';
import { describedTests } from '../test-mode/described.ts';

/** What the document of a service depends on: `{ server: '/', tokenHeader: undefined, takesKeys: true, test: false, … }`. */
export interface ContractOptions {
  /** The base URL of the paths: `/some/path`. */
  readonly server: string;
  /** Hosted mode: the header with the token, such as `Service-Cloud-Api-Token`. */
  readonly tokenHeader: string | undefined;
  /** Whether `Idempotency-Key` is looked at. */
  readonly takesKeys: boolean;
  /** Whether the service is in test mode. */
  readonly test: boolean;
  /** Only a test hands in others than the standard ones, as for `limits`. */
  readonly endpoints?: readonly Endpoint[];
  readonly limits?: Limits;
}

/** @returns the document as JSON text, for `GET /openapi.json`: `{"openapi":"3.1.1",…}` */
export function contractOf(options: ContractOptions): string {
  const { server, tokenHeader: name } = options;
  const document =
    typeof ASSETLOG_CONTRACTS === 'string'
      ? JSON.parse(unpack(ASSETLOG_CONTRACTS))[nameOf(options)]
      : makeContract(options);
  const components = name === undefined ? {} : { securitySchemes: { token: { type: 'apiKey', in: 'header', name } } };
  return JSON.stringify({
    ...document,
    servers: [{ url: server }],
    components: { ...(document['components'] as Schema), ...components },
  });
}

/** @returns the document of a service as an object: `{ openapi: '3.1.1', … }` */
export function makeContract({ test, limits = standardLimits, ...options }: ContractOptions): Schema {
  const routes = [...describedReadings(limits), ...describedHub(limits), ...(test ? describedTests : [])];
  return openApi({ endpoints: standardEndpoints, ...options, lineSchema: eventSchema(), routes, limits });
}

/** @returns the documents of all kinds of services by their names, for the build: `{ 'hosted,keys': { openapi: '3.1.1', … }, … }` */
export function allContracts(): Readonly<Record<string, Schema>> {
  const kinds = [undefined, 'Service-Cloud-Api-Token'].flatMap((tokenHeader) =>
    [true, false].flatMap((takesKeys) =>
      [true, false].map((test) => ({ server: '/', tokenHeader, takesKeys, test: test && tokenHeader === undefined })),
    ),
  );
  return Object.fromEntries(kinds.map((kind) => [nameOf(kind), makeContract(kind)]));
}

function nameOf({ tokenHeader, takesKeys, test }: ContractOptions): string {
  return `${tokenHeader === undefined ? 'local' : 'hosted'}${takesKeys ? ',keys' : ''}${test ? ',test' : ''}`;
}

/** Put here by `build.ts`: the documents of `allContracts` as JSON, see `packed`. */
declare const ASSETLOG_CONTRACTS: string;
