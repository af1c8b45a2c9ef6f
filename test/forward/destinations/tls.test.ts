/** Destinations behind TLS: an authority of their own, wrong names, certificates out of their time, no TLS at all. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { limits as standard } from '../../../src/config/limits.ts';
import { unreached } from '../../../src/forward/destinations/answers.ts';
import type { AskableDestination, Asked } from '../../../src/forward/destinations/destination.ts';
import { traitsOf } from '../../../src/forward/destinations/kinds.ts';
import { openNats } from '../../../src/forward/destinations/nats/nats.ts';
import { newFolder } from '../../support/program.ts';
import { linesOf } from '../../support/sent-lines.ts';
import { missing } from '../../support/tools.ts';
import { startScripted } from '../../world/http-server.ts';
import { startNatsStub } from '../../world/nats-server.ts';

const skip = missing('openssl is missing', 'openssl', ['version']);
const NEVER = new AbortController().signal;
const HUB = '{"seq":0,"id":null}';

const NEW_KEY = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';

/** @param args separated by a space, which is in no path of a test */
function openssl(args: string): void {
  execFileSync('openssl', args.split(' '), { stdio: ['ignore', 'ignore', 'pipe'], timeout: 20_000 });
}

/** @returns the path of its certificate; the key is beside it */
function makeAuthority(folder: string, name: string): string {
  const certificate = join(folder, `${name}.pem`);
  openssl(`req -x509 ${NEW_KEY} -keyout ${join(folder, name)}.key -out ${certificate} -days 2 -subj /CN=${name}`);
  return certificate;
}

interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** @param names such as `IP:127.0.0.1,DNS:localhost`; @param period when it is valid, such as `20200101000000Z` */
function makeCertificate(
  folder: string,
  authority: string,
  names: string,
  period?: readonly [string, string],
): Certificate {
  const server = join(folder, 'server');
  const [key, request, cert, config] = [`${server}.key`, `${server}.csr`, `${server}.crt`, `${server}.cnf`];
  writeFileSync(
    config,
    `[ca]\ndefault_ca=own\n[own]\nnew_certs_dir=${folder}\ndatabase=${folder}/index.txt\nrand_serial=yes\ndefault_md=sha256\npolicy=any\nx509_extensions=names\nunique_subject=no\n[any]\ncommonName=supplied\n[names]\nsubjectAltName=${names}\n`,
  );
  writeFileSync(join(folder, 'index.txt'), '');
  openssl(`req ${NEW_KEY} -keyout ${key} -out ${request} -subj /CN=server`);
  const dates = period === undefined ? '-days 1' : `-startdate ${period[0]} -enddate ${period[1]}`;
  const signer = `-cert ${authority} -keyfile ${authority.replace(/pem$/, 'key')}`;
  openssl(`ca -batch -notext -config ${config} ${signer} -in ${request} -out ${cert} ${dates}`);
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
}

async function startTls(t: TestContext, certificate: Certificate, host?: string) {
  const create = (listener: RequestListener) => createTlsServer({ ...certificate }, listener);
  return startScripted(t, () => [200, HUB], { create, host });
}

function open(t: TestContext, to: string, caFile?: string): AskableDestination {
  const limits = { ...standard, keptMs: 0 };
  const destination = traitsOf.hub.open({ to, source: 'x', tokenHeader: 'X-Token', stamp: false, caFile, limits });
  t.after(() => destination.close());
  return destination;
}

/** @returns the kind of an answer, and of a refusal its reason */
async function ask(destination: AskableDestination): Promise<string> {
  const asked: Asked = await destination.ask(NEVER);
  if (asked.kind !== 'stopped') return asked.kind;
  assert.equal(asked.why, 'turned away');
  return asked.reason;
}

test('a certificate is trusted if its CA is in the file of the destination, by name and by address', {
  skip,
}, async (t) => {
  const folder = newFolder(t);
  const authority = makeAuthority(folder, 'own');
  const certificate = makeCertificate(folder, authority, 'DNS:localhost,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1');
  const { url } = await startTls(t, certificate);
  const { url: url6 } = await startTls(t, certificate, '::1');
  for (const to of [url, url.replace('127.0.0.1', 'localhost'), url6]) {
    assert.equal(await ask(open(t, to, authority)), 'at', to);
    assert.match(
      await ask(open(t, to)),
      /^cannot be reached: its certificate is from no authority that is trusted here; name a CA file/,
    );
  }
  assert.match(url6, /\[::1\]/);
  const other = makeAuthority(folder, 'other');
  assert.match(await ask(open(t, url, other)), new RegExp(`^cannot be reached: .*; check that ${other} has its CA$`));
  // Several authorities in one file, with text between them, as a distribution has them.
  const both = join(folder, 'both.pem');
  writeFileSync(both, `# one\n${readFileSync(other, 'utf8')}\n# two\n${readFileSync(authority, 'utf8')}`);
  assert.equal(await ask(open(t, url, both)), 'at');
});

test('a replaced CA file is used for the next connection, and a bad one stops the destination with its name', {
  skip,
}, async (t) => {
  const folder = newFolder(t);
  const authority = makeAuthority(folder, 'own');
  const { url, got } = await startTls(t, makeCertificate(folder, authority, 'IP:127.0.0.1'));
  const caFile = join(folder, 'ca.pem');
  writeFileSync(caFile, readFileSync(makeAuthority(folder, 'other')));
  const destination = open(t, url, caFile);
  assert.match(await ask(destination), /^cannot be reached: .*; check that /);
  writeFileSync(caFile, readFileSync(authority));
  assert.equal(await ask(destination), 'at');
  for (const text of ['', 'no PEM', readFileSync(join(folder, 'own.key'), 'utf8')]) {
    writeFileSync(caFile, text);
    assert.equal(await ask(destination), `no request was sent: ${caFile} has no certificate (PEM)`);
  }
  writeFileSync(caFile, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  const found = await ask(destination);
  assert.match(found, /^(no request was sent|cannot be reached): /);
  const sent = await destination.send(
    { lines: linesOf([{ type: 'AssetObservation', assetKey: ['a'] }]), lost: undefined },
    NEVER,
  );
  assert.equal(sent.kind, 'stopped');
  writeFileSync(caFile, readFileSync(authority));
  assert.equal(await ask(destination), 'at');
  assert.equal(got.length, 2);
});

test('a certificate for another name, or outside its dates, is refused, and the reason says what to do', {
  skip,
}, async (t) => {
  const folder = newFolder(t);
  const authority = makeAuthority(folder, 'own');
  const table: readonly (readonly [string, readonly [string, string] | undefined, RegExp, host?: string])[] = [
    [
      'DNS:elsewhere.example',
      undefined,
      /^cannot be reached: its certificate is not for this name \(IP: 127\.0\.0\.1 is not in the cert.s list\); use a name that its certificate has, unless/,
    ],
    [
      'IP:127.0.0.1',
      ['20200101000000Z', '20200102000000Z'],
      /^cannot be reached: its certificate has expired; renew its certificate, or set the clock of this machine, which is at 20/,
    ],
    [
      'IP:127.0.0.1',
      ['20900101000000Z', '20910101000000Z'],
      /^cannot be reached: its certificate is not yet valid; renew its certificate, or set the clock/,
    ],
    [
      'IP:127.0.0.1,IP:0:0:0:0:0:0:0:2',
      undefined,
      /; use a name that its certificate has, unless a captive portal is in between$/,
      '::1',
    ],
  ];
  for (const [names, period, expected, host] of table) {
    const { url, got } = await startTls(t, makeCertificate(folder, authority, names, period), host);
    assert.match(await ask(open(t, url, authority)), expected);
    assert.deepEqual(got, []);
  }
});

test('a server without TLS at an https URL gets no request, and the reason says so', async (t) => {
  const { url, got } = await startScripted(t, () => [200, HUB]);
  assert.match(
    await ask(open(t, url.replace('http:', 'https:'))),
    /^cannot be reached: it does not speak TLS \(([a-z ]+)\); is it an http:\/\/ address, or is a captive portal in between\?$/,
  );
  assert.deepEqual(got, []);
});

test('a server that requires a certificate of its client is reported as such, and not as one without TLS', () => {
  const message =
    'C0:error:0A00045C:SSL routines:ssl3_read_bytes:tlsv13 alert certificate required:../ssl/record.c:1605:';
  assert.deepEqual(unreached({ message, code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' }, { caFile: 'ca.pem' }), {
    kind: 'stopped',
    why: 'turned away',
    reason:
      'cannot be reached: it ends the TLS handshake (tlsv13 alert certificate required); its log says why; client certificates are not sent',
  });
});

test('TLS with NATS begins after the first line, and the login is sent only if the certificate is right', {
  skip,
}, async (t) => {
  const folder = newFolder(t);
  const authority = makeAuthority(folder, 'own');
  const tls = makeCertificate(folder, authority, 'DNS:localhost,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1');
  const bad = join(folder, 'bad.pem');
  writeFileSync(bad, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  for (const info of [{ tls_required: true }, { tls_available: true }]) {
    const stub = await startNatsStub(t, { tls, info });
    const ask = async (to: string, caFile: string | undefined) => {
      const destination = openNats({ to, source: 'x', tokenHeader: '', stamp: false, caFile, limits: standard });
      t.after(() => destination.close());
      return destination.ask(NEVER);
    };
    const secure = stub.to.replace('nats:', 'nats+tls:');
    const urls = 'tls_required' in info ? [secure, stub.to] : [secure];
    for (const to of urls) {
      for (const [caFile, problem] of [
        [undefined, /: its certificate is from no authority that is trusted here; name a CA file/],
        [makeAuthority(folder, 'other'), /; check that .*other.pem has its CA$/],
        [bad, /^127.0.0.1:\d+ /],
      ] as const) {
        const asked = await ask(to, caFile);
        assert.ok(asked.kind === 'stopped' && asked.why === 'turned away', JSON.stringify(asked));
        assert.match(asked.reason, problem);
      }
    }
    assert.deepEqual(stub.logins, []);
    for (const to of [...urls, secure.replace('127.0.0.1', 'localhost')]) {
      assert.equal((await ask(to, authority)).kind, 'at', to);
    }
    assert.equal(stub.logins.length, urls.length + 1);
    const { to } = await startNatsStub(t, { tls, info }, '::1');
    assert.equal((await ask(to.replace('nats:', 'nats+tls:'), authority)).kind, 'at', to);
  }
});
