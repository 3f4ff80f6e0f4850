'use strict';

// Shared by all servers: their port, and how they end.

// `--port=N`, else the variable PORT, else 3000.
function port() {
  const word = process.argv.find((argument) => argument.startsWith('--port='));
  return Number(word?.slice('--port='.length) ?? process.env.PORT ?? 3000);
}

// Ends the process gracefully at SIGINT and SIGTERM, so that output at exit is printed. `close` is the framework's own
// way to stop; keep-alive connections, which some frameworks wait for, are closed as well.
function untilSignal(server, close) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      Promise.resolve(close()).then(() => process.exit(0), (error) => {
        process.stderr.write(`${error.stack}\n`);
        process.exit(1);
      });
      server.closeAllConnections();
    });
  }
}

// Resolves when a server of node:http, or one with the same callback, has closed.
function closed(server) {
  return new Promise((resolve) => {
    server.close(resolve);
  });
}

const HOST = '127.0.0.1';

module.exports = { closed, HOST, port, untilSignal };
