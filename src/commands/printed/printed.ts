/**
 * The Python programs that users run next to their own programs. A command prints each of them. They are files in their own
 * language, so that the tools for that language can read them. The built program contains them, like the page; a program that
 * runs from its source reads them: see `textOf`.
 */

import { type Description, defineFile } from '../cli/command.ts';

interface Printed {
  /** A file whose bytes are printed. */
  readonly file: string;
  readonly help: Omit<Description<object>, 'options'>;
}

const printed = {
  dagster: {
    file: 'assetlog_sensor.py',
    help: {
      summary: 'print a sensor for Dagster that asks a service for its events',
      about:
        'Prints one file for a folder of your Dagster code. Its sensor asks GET /events of a service every few seconds, and\n' +
        'Dagster records each event without a run: materializations, observations and checks, with type and time.',
      notes: [
        'Pull with this sensor if Dagster can reach the service. Dagster needs no web server and no open port for it,\n' +
          'and each event has its partition, data version and time there. Push with forward if only the service can reach\n' +
          'Dagster, or if events have to arrive within a second.',
        '',
        'Environment of the code location:',
        '  ASSETLOG_URL           the service, http://127.0.0.1:3000 by default; with deployments https://hub.example/prod',
        '  ASSETLOG_TOKEN_FILE    the file of a token that may read; it is read again for each request',
        '  ASSETLOG_TOKEN_HEADER  the header of the token, Service-Cloud-Api-Token by default',
        '  ASSETLOG_KEY_PREFIX    only events of these assets: warehouse, or ["warehouse","a/b"]',
        '  ASSETLOG_TICK_SECONDS  how often the sensor asks: 10 by default',
        '  ASSETLOG_TICK_EVENTS   the most events that it reads each time: 1000 by default',
        '  HTTPS_PROXY, HTTP_PROXY and NO_PROXY are for services on other machines.',
        '',
        'Each event is recorded once. Dagster stores the cursor of the sensor after the events of a tick: if its daemon is\n' +
          'killed, or an event cannot be stored, at most the events of one tick are there twice, with the same assetlog/id.\n' +
          'If events were removed before they were read, the journal was replaced, or an event cannot be stored, the tick\n' +
          'logs it, the check is_complete of the asset "assetlog" fails, and the sensor continues.',
        '',
        'Metadata: a text that begins with https:// is a link. {"type": "md", "raw_value": "# Title"} is Markdown; the\n' +
          'types are those of Dagster Pipes, such as path, url, timestamp, int and table_schema. What Dagster refuses is JSON,\n' +
          'and what it could not show is a text: names like __class__, and half of a surrogate pair.',
        'Dagster stores one result for each partition of a check. The next ones have assetlog/partition in the metadata.',
        'To start later, set the cursor of the sensor in Dagster to [[SEQ, "ID"]], the last event that is left out.',
        '',
        'Examples:',
        '  assetlog dagster > assetlog_sensor.py',
        '  dagster dev -f assets.py -f assetlog_sensor.py',
      ],
    },
  },
  pytest: {
    file: 'assetlog_fixtures.py',
    help: {
      summary: 'print fixtures for pytest that start a service',
      about:
        'Prints fixtures for a conftest.py. They match this version, and need only pytest and the standard library.',
      notes: [
        'Examples:',
        '  assetlog pytest >> tests/conftest.py',
        '  ASSETLOG_PROGRAM=dist/server.js pytest     for a program that is not on the PATH',
      ],
    },
  },
  python: {
    file: 'assetlog_client.py',
    help: {
      summary: 'print a client in Python that reports each item once',
      about:
        'Prints one file for production code, with the function report. It needs Python 3.8 or newer and only the standard\n' +
        'library. It retries with backoff, jitter and Retry-After, and records nothing twice.',
      notes: [
        'report(items, key=None, url=None, headers=None, retry_for=60, timeout=10)',
        '  items      as in a batch: [{"type": "observation", "asset_key": ["warehouse", "orders"]}]',
        '  key        the idempotency key; a job that is restarted passes the same key and items [random]',
        '  url        the base URL, with the deployment, if any [ASSETLOG_URL, or http://127.0.0.1:3000]',
        '  headers    of each request',
        '  retry_for  seconds from the start of the call to the last repetition of a request',
        '  timeout    seconds that an attempt waits for the next bytes; all of it takes at most retry_for, if that is longer',
        '',
        'It returns the items that are wrong: [{"item": 2, "error": "..."}], counted from 1. All others are recorded.',
        'It raises ValueError before it sends anything, for a wrong argument; Refused if a repetition is of no use, as for a\n' +
          'wrong token; and Unavailable if the service was away until retry_for had passed: report the same items with\n' +
          'error.key again. InDoubt is for a lost reply of a service that takes no keys: a repetition could record items twice.\n' +
          'Of the first error.done items, only error.wrong are not recorded.',
        'More than 10,000 items or 1 MiB are sent in several requests, with the keys KEY, KEY/1, KEY/2 and so on.',
        '',
        'Environment of the client:',
        '  ASSETLOG_URL           the service, if the call has no url',
        '  ASSETLOG_TOKEN_FILE    the file of a token that may report; each call reads it',
        '  ASSETLOG_TOKEN_HEADER  the header of the token, Service-Cloud-Api-Token by default',
        '  HTTPS_PROXY, HTTP_PROXY and NO_PROXY are for services on other machines.',
        '',
        'Examples:',
        '  assetlog python > assetlog_client.py',
      ],
    },
  },
  relay: {
    file: 'assetlog_relay.py',
    help: {
      summary: 'print a relay in Python from a hook to Slack, ntfy, Alertmanager or a ping URL',
      about:
        'Prints one file that runs beside the service. A hook posts alarms to it at 127.0.0.1, and it passes each on in the\n' +
        'form of its target. It needs Python 3.8 or newer and only the standard library.',
      notes: [
        'Environment of the relay:',
        '  ALARM_FORM             slack, ntfy, alertmanager or ping',
        '  ALARM_URL              the URL of the target',
        '  ALARM_TOPIC            the topic, for ntfy',
        '  PORT                   where the relay listens: 8080 by default',
        '  HTTPS_PROXY, HTTP_PROXY and NO_PROXY are for targets on other machines.',
        '',
        'It answers with the status of the target: 502 for a redirect, which it does not follow, 503 without a reply.',
        '',
        'Examples:',
        '  assetlog relay > assetlog_relay.py',
        '  ALARM_FORM=slack ALARM_URL=https://hooks.slack.com/services/... python3 assetlog_relay.py',
      ],
    },
  },
} satisfies Readonly<Record<string, Printed>>;

/** The result of `packPrinted`, defined by the build. Compressed, so that the file of the program is small. */
declare const ASSETLOG_PRINTED: string;

async function textOf(file: string): Promise<string> {
  if (typeof ASSETLOG_PRINTED === 'string') {
    const { brotliDecompressSync } = process.getBuiltinModule('node:zlib'); // loaded only if needed, since loading costs time
    return JSON.parse(brotliDecompressSync(Buffer.from(ASSETLOG_PRINTED, 'base64')).toString())[file];
  } else {
    const { readPrinted } = await import('./build.ts'); // when the program runs from its source
    return readPrinted()[file] ?? '';
  }
}

function command({ file, help }: Printed) {
  return defineFile(help, () => textOf(file));
}

export const dagster = command(printed.dagster);
export const pytest = command(printed.pytest);
export const python = command(printed.python);
export const relay = command(printed.relay);
