/** A service worker: it fetches the address of each message, and answers with what it got to read. */

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('message', async ({ data: url, ports: [port] }) => {
  try {
    const reply = await fetch(url);
    port.postMessage(`${reply.status} ${await reply.text()}`);
  } catch {
    port.postMessage('nothing');
  }
});
