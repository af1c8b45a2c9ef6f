/** The OpenAPI document of a service. */

import type { Limits } from '../config/limits.ts';
import type { Schema } from '../event/schema.ts';
import { describedHub } from '../forward/hub/described.ts';
import { openApi } from '../http/openapi.ts';
import { eventSchema } from '../journal/line/line-schema.ts';
import { describedReadings } from '../reading/described.ts';
import { describedTests } from '../test-mode/described.ts';

export interface ContractOptions {
  /** The base URL of the paths: `/some/path`. */
  readonly server: string;
  /** Hosted mode: the header with the token, such as `Service-Cloud-Api-Token`. */
  readonly tokenHeader: string | undefined;
  /** Whether `Idempotency-Key` has an effect. */
  readonly acceptsKeys: boolean;
  /** Whether a report with an unknown parameter is refused. */
  readonly strict: boolean;
  readonly test: boolean;
  readonly limits: Limits;
}

export function makeContract({ test, limits, ...options }: ContractOptions): Schema {
  const routes = [...describedReadings(limits), ...describedHub(limits), ...(test ? describedTests : [])];
  return openApi({ ...options, lineSchema: eventSchema(), routes, limits });
}
