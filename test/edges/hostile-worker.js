/** A service worker that fetches the address in each message, and answers with what it could read. */

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('message', async ({ data: url, ports: [port] }) => {
  try {
    const reply = await fetch(url);
    port.postMessage(`${reply.status} ${await reply.text()}`);
  } catch {
    port.postMessage('nothing');
  }
});
