/**
 * Loaded before each process of `npm test`. `node:test` watches each promise, to know the test of an error that nothing catches. That
 * takes a seventh of the processor time. Here such an error ends the process instead, and its files fail.
 */

import asyncHooks from 'node:async_hooks';

asyncHooks.createHook = () => {
  const hook = { enable: () => hook, disable: () => hook };
  return hook;
};
for (const event of ['uncaughtException', 'unhandledRejection']) {
  process.on(event, (error) => {
    console.error(error);
    process.exit(1);
  });
}
