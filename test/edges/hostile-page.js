/**
 * Runs in a browser: every way in which a page can make it send a request to an address. Each attempt resolves to what
 * the page could read, or to `nothing`.
 */

const nothing = 'nothing';
const json = '{"asset_key":["stolen"]}';
const LATE_MS = 3_000;
/** Attempts whose results the tests need. They always end, so the long limit is only for a busy machine. */
const SURE = new Set(['cors', 'head', 'xhr', 'event-source', 'fetch-json']);
const SURE_MS = 60_000;
/** Time in which a new window replaces its first document. */
const WINDOW_MS = 400;

const attempts = {
  'fetch-empty': (url) => send(url, { mode: 'no-cors' }),
  'fetch-text': (url) => send(url, { mode: 'no-cors', headers: { 'Content-Type': 'text/plain' }, body: json }),
  'fetch-json': (url) => send(url, { headers: { 'Content-Type': 'application/json' }, body: json }),
  'fetch-readable': (url) => send(url, {}),
  'fetch-header': (url) => send(url, { headers: { 'X-Requested-With': 'page' } }),
  'fetch-credentials': (url) => send(url, { mode: 'no-cors', credentials: 'include' }),
  'fetch-keepalive': (url) => send(url, { mode: 'no-cors', keepalive: true }),
  // The fetch standard sets Origin to null here, which must not count as absent.
  'fetch-no-referrer': (url) => send(url, { mode: 'no-cors', referrerPolicy: 'no-referrer' }),
  'fetch-redirected': (url) => send(redirectTo(url), { mode: 'no-cors' }),
  'fetch-get': (url) => send(url, { method: 'GET' }),
  'fetch-worker': (url) => inWorker(url),
  'xhr-empty': (url) => withXhr(url),
  'beacon-empty': (url) => beacon(url),
  'beacon-text': (url) => beacon(url, json),
  'beacon-json': (url) => beacon(url, new Blob([json], { type: 'application/json' })),
  'ping-link': (url) => link({ href: '#pinged', ping: url }),
  'form-empty': (url) => form(url, 'POST'),
  'form-fields': (url) => form(url, 'POST', { fields: { check_name: 'fresh', passed: 'true' } }),
  'form-multipart': (url) => form(url, 'POST', { enctype: 'multipart/form-data', fields: { passed: 'true' } }),
  // The body is JSON: the name ends inside a string, which the value closes.
  'form-text-plain': (url) =>
    form(url, 'POST', { enctype: 'text/plain', fields: { '{"asset_key":"stolen","data_version":"': '"}' } }),
  'form-redirected': (url) => form(redirectTo(url), 'POST'),
  'form-new-window': (url) => form(url, 'POST', { target: '_blank' }),
  'form-get': (url) => form(url, 'GET'),
  'frame-sandboxed': (url) => sandboxed(url),
  'frame-get': (url) => frame((inner) => inner.setAttribute('src', url)),
  'window-open': async (url) => readWindow(window.open(url)),
  image: (url) => element('img', { src: url }),
  script: (url) => element('script', { src: url }),
  style: (url) => element('link', { rel: 'stylesheet', href: url }),
  'web-socket': (url) => socket(new WebSocket(url.replace(/^http/, 'ws'))),
  'event-source': (url) => socket(new EventSource(url)),
};

/** Every way in which a page can send a GET, also if it cannot read the reply. */
const readings = {
  cors: (url) => send(url, get),
  'no-cors': (url) => send(url, { ...get, mode: 'no-cors' }),
  credentials: (url) => send(url, { ...get, credentials: 'include' }),
  'no-cors-credentials': (url) => send(url, { ...get, mode: 'no-cors', credentials: 'include' }),
  'no-referrer': (url) => send(url, { ...get, mode: 'no-cors', referrerPolicy: 'no-referrer' }),
  head: (url) => send(url, { method: 'HEAD' }),
  stream: (url) => send(url, { ...get, headers: { Accept: 'text/event-stream' } }),
  token: (url) => send(url, { ...get, headers: { 'Service-Cloud-Api-Token': token } }),
  'no-cors-token': (url) => send(url, { ...get, mode: 'no-cors', headers: { 'Service-Cloud-Api-Token': token } }),
  redirected: (url) => send(redirectTo(url), get),
  worker: (url) => inWorker(url, get),
  'service-worker': (url) => inServiceWorker(url),
  xhr: (url) => withXhr(url, 'GET'),
  'xhr-credentials': (url) => withXhr(url, 'GET', true),
  'event-source': (url) => socket(new EventSource(url)),
  'event-source-credentials': (url) => socket(new EventSource(url, { withCredentials: true })),
  'web-socket': (url) => socket(new WebSocket(url.replace(/^http/, 'ws'))),
  script: (url) => element('script', { src: url }),
  'script-module': (url) => element('script', { type: 'module', src: url }),
  image: (url) => element('img', { src: url }),
  style: (url) => element('link', { rel: 'stylesheet', href: url }),
  video: (url) => element('video', { src: url }),
  object: (url) => element('object', { data: url }),
  font: async (url) => `loaded ${(await new FontFace('stolen', `url(${url})`).load()).status}`,
  frame: (url) => frame((inner) => inner.setAttribute('src', url)),
  'form-frame': (url) => form(url, 'GET'),
  'form-new-window': (url) => form(url, 'GET', { target: '_blank' }),
  link: (url) => link({ href: url, target: '_blank' }),
  'window-open': async (url) => readWindow(window.open(url)),
};
const get = { method: 'GET' };
/** A token of no deployment, so the page may have it. */
const token = 'a'.repeat(43);

/** @returns what each attempt could read, by its name */
async function attack(base) {
  const results = Object.entries(attempts).map(([name, attempt]) => tryOne(name, () => attempt(base + name)));
  return Object.fromEntries(await Promise.all(results));
}

/** @returns what each reading of each address could read, by its name and the path of the address: `cors /events` */
async function read(urls) {
  const results = urls.flatMap((url) =>
    Object.entries(readings).map(([name, reading]) => tryOne(`${name} ${new URL(url).pathname}`, () => reading(url))),
  );
  return Object.fromEntries(await Promise.all(results));
}

/** @returns traces of other servers' replies in the errors and timings of the page: sizes, statuses and texts */
function leaks() {
  const timings = performance.getEntriesByType('resource').filter(({ name }) => new URL(name).origin !== origin);
  const shown = timings.filter((one) => one.encodedBodySize > 0 || one.transferSize > 0 || one.responseStatus > 0);
  return [...shown.map(({ name }) => name), ...errors];
}
const errors = [];
addEventListener('error', ({ message }) => {
  if (message !== undefined && message !== 'Script error.') errors.push(message);
});

async function tryOne(name, attempt) {
  const lateMs = SURE.has(name.split(' ')[0]) ? SURE_MS : LATE_MS;
  const late = new Promise((resolve) => setTimeout(resolve, lateMs, nothing));
  return [name, await Promise.race([(async () => attempt())(), late]).catch(() => nothing)];
}
Object.assign(window, { attack, read, leaks });

async function send(url, options) {
  const reply = await fetch(url, { method: 'POST', ...options });
  return reply.type === 'opaque' ? nothing : `${reply.status} ${await reply.text()}`;
}

/** The server of the page answers with 307, which keeps method and body. */
function redirectTo(url) {
  return `/redirect?to=${encodeURIComponent(url)}`;
}

function inWorker(url, options = { method: 'POST', mode: 'no-cors' }) {
  const source = `fetch(${JSON.stringify(url)}, ${JSON.stringify(options)})
    .then(async (reply) => postMessage(reply.type === 'opaque' ? '' : reply.status + ' ' + (await reply.text())))
    .catch(() => postMessage(''))`;
  const worker = new Worker(URL.createObjectURL(new Blob([source])));
  return new Promise((resolve) => worker.addEventListener('message', ({ data }) => resolve(data || nothing)));
}

/** Service workers need TLS or a page whose name is of this machine. */
async function inServiceWorker(url) {
  await navigator.serviceWorker.register('/worker');
  const { active } = await navigator.serviceWorker.ready;
  const { port1, port2 } = new MessageChannel();
  const answered = new Promise((resolve) => {
    port1.onmessage = ({ data }) => resolve(data);
  });
  active.postMessage(url, [port2]);
  return answered;
}

function withXhr(url, method = 'POST', withCredentials = false) {
  const request = new XMLHttpRequest();
  request.open(method, url);
  request.withCredentials = withCredentials;
  request.send();
  return new Promise((resolve) =>
    request.addEventListener('loadend', () =>
      resolve(request.status === 0 ? nothing : `${request.status} ${request.responseText}`),
    ),
  );
}

async function beacon(url, body) {
  navigator.sendBeacon(url, body);
  return nothing;
}

async function link(attributes) {
  const made = document.createElement('a');
  Object.assign(made, attributes);
  document.body.append(made);
  made.click();
  return nothing;
}

function form(url, method, { enctype = 'application/x-www-form-urlencoded', fields = {}, target } = {}) {
  const made = document.createElement('form');
  Object.assign(made, { action: url, method, enctype });
  for (const [name, value] of Object.entries(fields)) {
    const field = document.createElement('input');
    Object.assign(field, { name, value, type: 'hidden' });
    made.append(field);
  }
  document.body.append(made);
  const submitTo = (name) => {
    made.target = name;
    made.submit();
  };
  if (target === undefined) {
    return frame((inner) => {
      inner.name = `frame-${Math.random()}`;
      return () => submitTo(inner.name);
    });
  }
  submitTo(target);
  return Promise.resolve(nothing);
}

/** @param prepare can return a function, which runs once the frame is in the document */
function frame(prepare) {
  const inner = document.createElement('iframe');
  const then = prepare(inner);
  document.body.append(inner);
  // An empty frame loads immediately; the next load is the requested document.
  return new Promise((resolve) => {
    inner.addEventListener('load', () => resolve(inner.contentDocument?.body?.textContent || nothing));
    then?.();
  });
}

/** A sandboxed frame has the Origin null. Its request is not awaited: Chromium delays frames that are out of sight. */
async function sandboxed(url) {
  const inner = document.createElement('iframe');
  inner.setAttribute('sandbox', 'allow-scripts');
  inner.srcdoc = `<script>fetch(${JSON.stringify(url)}, { method: 'POST', mode: 'no-cors' })</script>`;
  document.body.append(inner);
  return nothing;
}

async function readWindow(opened) {
  await new Promise((resolve) => setTimeout(resolve, WINDOW_MS));
  return opened.document.body.textContent || nothing; // throws if the window has another origin
}

function element(tag, attributes) {
  const made = document.createElement(tag);
  const over = new Promise((resolve) => {
    made.addEventListener('load', () => resolve('loaded'));
    made.addEventListener('error', () => resolve(nothing));
  });
  Object.assign(made, attributes);
  document.body.append(made);
  return over;
}

function socket(connection) {
  return new Promise((resolve) => {
    connection.addEventListener('open', () => resolve('opened'));
    connection.addEventListener('error', () => {
      connection.close(); // an EventSource would reconnect
      resolve(nothing);
    });
  });
}
