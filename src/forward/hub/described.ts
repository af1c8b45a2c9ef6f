/** The routes of a hub, for the OpenAPI document. */

import type { Limits } from '../../config/limits.ts';
import { orNull, type Schema } from '../../event/schema.ts';
import { lineTypes } from '../../http/batch.ts';
import { type DescribedRoute, packedHeader, pathParameter } from '../../http/openapi.ts';
import { ID_FORM } from '../../journal/line/uuid.ts';

/** @returns their descriptions: `[{ needs: 'forward', path: '/forward/{source}', … }, { …, path: '/forward/{source}/{first_seq}' }]` */
export function describedHub({
  batchItemsMax,
  forwardBodyBytesMax,
  forwardThroughMax,
}: Pick<Limits, 'batchItemsMax' | 'forwardBodyBytesMax' | 'forwardThroughMax'>): readonly DescribedRoute[] {
  const source = pathParameter('source', { type: 'string', pattern: `^${ID_FORM}$` }, SOURCE);
  const firstSeq = pathParameter('first_seq', { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, 7);
  const sources = `^${ID_FORM}(?:, ${ID_FORM}){0,${forwardThroughMax - 1}}$`;
  const headers = [
    ...otherHeaders,
    ['Assetlog-Through', sources, 'The journals that the lines came through.'],
  ] as const;
  const lines = `Lines of a journal as they are, with consecutive seqs: at most ${batchItemsMax} lines and ${forwardBodyBytesMax} bytes.`;
  const content = { 'application/json': position };
  return [
    {
      needs: 'forward',
      methods: ['get', 'head'],
      path: '/forward/{source}',
      summary: 'Ask how far this hub is with another journal',
      parameters: [source],
      content: { 'application/json': asked },
    },
    {
      needs: 'forward',
      methods: ['put'],
      path: '/forward/{source}/{first_seq}',
      summary: 'Forward events of another journal',
      description:
        'Each event is recorded once, in the order of its journal: what is here already is not recorded again. All of a request ' +
        'is recorded or nothing. A 409 says where to continue.',
      parameters: [source, firstSeq, ...headers.map(inHeader), packedHeader],
      body: { schema: { type: 'string', description: lines }, types: lineTypes },
      content,
      also: [409],
    },
  ];
}

const SEQ = '^[1-9][0-9]{0,15}$';
const SOURCE = '0193e0c2-8d1f-7c5e-9a41-2b7f5d3c6e90';

/** Name, pattern and description. */
type Header = readonly [string, string, string];

const otherHeaders: readonly Header[] = [
  ['Assetlog-Crc', '^[0-9a-f]{8}$', 'The crc of the line before the first one; 00000000 at the beginning of a file.'],
  ['Assetlog-Last', SEQ, 'The last seq of the journal.'],
  ['Assetlog-Name', '^(?:[!-$&-~]|%[0-9A-F]{2})+$', 'The name of the device, percent-encoded.'],
  ['Assetlog-After', `^${ID_FORM}$`, 'The id of the event before the first line.'],
  ['Assetlog-Lost', '^[1-9][0-9]*-[1-9][0-9]*$', 'Seqs that the device no longer has, up to the first line.'],
  ['Assetlog-Begins', SEQ, 'The first event of the journal under its id; those before it are not lost.'],
];

const position: Schema = {
  type: 'object',
  properties: {
    seq: {
      type: 'integer',
      minimum: 0,
      description: 'Of the last event that is here, in its own journal; 0 if there is none.',
    },
    id: orNull({ type: 'string' }),
    via: {
      type: 'array',
      items: { type: 'string' },
      description: 'The journals that the events reach: this one, and those that it forwards to.',
    },
  },
  required: ['seq', 'id', 'via'],
};

/** The answer to a question. */
const asked: Schema = {
  ...position,
  properties: {
    ...(position['properties'] as Schema),
    gzip: { type: 'boolean', description: 'Whether the body of a PUT can be packed with gzip.' },
  },
};

function inHeader([name, pattern, description]: Header): Schema {
  return { name, in: 'header', description, schema: { type: 'string', pattern } };
}
