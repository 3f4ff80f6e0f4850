'use strict';

const net = require('node:net');

/**
 * A port that nobody listens on just now: one below those that the kernel hands out by itself, so that nobody else is
 * given it before it is used, and test files may run at the same time.
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
