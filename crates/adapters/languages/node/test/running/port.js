'use strict';

const net = require('node:net');

/**
 * Returns a free port below those that the kernel assigns by itself, so that it is not assigned to another process
 * before it is used, and test files can run concurrently.
 */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = net.createServer();
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => { server.close(resolve); });
    return port;
  }
}

module.exports = { freePort };
