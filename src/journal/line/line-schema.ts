/** The JSON Schema of a line of the journal. */

import { type Event, severities } from '../../event/event.ts';
import { keyPartSchema, type Schema } from '../../event/schema.ts';
import { SEQ_MAX } from './record.ts';

/**
 * @returns the JSON Schema of one line: `{ $schema: 'https://json-schema.org/draft/2020-12/schema', title: …, oneOf: […] }`.
 *   It does not describe the order of the members or the checksum chain, since no schema can express them
 */
export function eventSchema(): Schema {
  const text = { type: 'string' };
  const line = (types: readonly Event['type'][], own: Schema, required: readonly string[]) => {
    const members = {
      seq: { type: 'integer', minimum: 1, maximum: SEQ_MAX, description: 'Counts up without gaps.' },
      id: { ...text, pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' },
      time: {
        ...text,
        pattern: TIME,
        description: 'When it was recorded.',
      },
      type: { ...text, enum: types },
      asset_key: { type: 'array', items: keyPartSchema(), minItems: 1 },
      partition: text,
      ...own,
      metadata: { type: 'object', additionalProperties: true },
      event_time: { ...text, pattern: EVENT_TIME, description: 'When it happened, as reported by the client.' },
      idempotency_key: { ...text, pattern: '^[\\x21-\\x7e]+$', description: 'Identifies a report that is sent again.' },
      origin: nameOf('The line that was reported, if that is not `from`: the id of its journal, and its seq there.'),
      by: { ...text, pattern: '^[^"\\\\]{1,100}$', description: 'The name of the token of its report.' },
      erased: { ...text, pattern: TIME, description: 'When what it said was erased.' },
      from: nameOf('The line in the journal that sent the event.'),
      recorded: { ...text, pattern: TIME, description: 'The time of the line that was reported.' },
      crc: { ...text, pattern: '^[0-9a-f]{8}$', description: 'Chains it to the line before it.' },
    };
    // The schema is open, since later versions add members.
    return {
      type: 'object',
      properties: members,
      required: ['seq', 'id', 'time', 'type', 'asset_key', ...required, 'crc'],
    };
  };
  const tags = {
    type: 'object',
    properties: { data_version: text },
    required: ['data_version'],
    additionalProperties: false,
  };
  const check = {
    check_name: { ...text, minLength: 1 },
    passed: { type: 'boolean' },
    severity: { ...text, enum: severities },
  };
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A line of an assetlog journal',
    oneOf: [
      line(['AssetMaterialization', 'AssetObservation'], { description: text, tags }, []),
      line(['AssetCheckEvaluation'], check, Object.keys(check)),
    ],
  };
}

function nameOf(description: string): Schema {
  return {
    type: 'array',
    prefixItems: [{ type: 'string' }, { type: 'integer', minimum: 1, maximum: SEQ_MAX }],
    items: {}, // client generators support no boolean schemas
    minItems: 2,
    maxItems: 2,
    description,
  };
}

const TIME = '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$';
const EVENT_TIME = '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?Z$';
