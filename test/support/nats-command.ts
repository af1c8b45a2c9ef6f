/** The handbook's commands of the `nats` program, for machines without that program. */

import { STREAM, streamDefaults } from './nats.ts';
import { NatsClient } from './nats-client.ts';

const [, port = ''] = /:(\d+)/.exec(process.env['NATS_URL'] ?? '') ?? [];
const [verb = '', ...words] = process.argv.slice(2);
const client = await NatsClient.open(Number(port));
if (verb === 'stream' && words[0] === 'add') {
  const replicas = Number(words[words.indexOf('--replicas') + 1]);
  await client.api(`STREAM.CREATE.${STREAM}`, { ...streamDefaults, num_replicas: replicas });
} else {
  const messages = await client.messages(STREAM);
  if (verb === 'stream') console.log([...new Set(messages.map(({ subject }) => subject))].join('\n'));
  const [wanted = ''] = words;
  const isWanted = (subject: string) =>
    wanted.endsWith('>') ? subject.startsWith(wanted.slice(0, -1)) : subject === wanted;
  for (const { subject, payload } of messages) if (verb === 'sub' && isWanted(subject)) console.log(payload);
}
client.close();
