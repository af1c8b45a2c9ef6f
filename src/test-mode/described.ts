/** The routes of `serve --test`, for the OpenAPI document. */

import type { DescribedRoute } from '../http/openapi.ts';
import { SEED_MAX } from './fault.ts';

const faults = {
  type: 'object',
  properties: {
    seed: { type: 'integer', minimum: 0, maximum: SEED_MAX },
    faults: { type: 'array', items: { type: 'object', required: ['then'] } },
  },
};
// biome-ignore lint/suspicious/noThenProperty: the name in the JSON; its value is no function that could be called
const example = { faults: [{ match: { type: 'check' }, times: 2, then: { status: 503 } }] };

export const describedTests: readonly DescribedRoute[] = [
  {
    needs: 'nothing',
    path: '/test/reset',
    methods: ['post'],
    summary: 'Restart the journal at seq 1, without faults and refusals',
    content: { 'application/json': { type: 'object', maxProperties: 0 } },
  },
  {
    needs: 'nothing',
    path: '/test/faults',
    methods: ['get', 'head', 'put', 'post', 'delete'],
    summary: 'The faults that reports meet; PUT replaces them, POST adds some',
    body: { schema: { ...faults, required: ['faults'] }, example },
    content: { 'application/json': faults },
  },
];
