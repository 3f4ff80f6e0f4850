'use strict';

// The lifecycle of both kinds of workers: they report when they are ready, and exit when the main process says so or is
// gone. A signal to the whole group (Ctrl-C) must not end them before their requests are answered.

function obeyMain() {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => {});
  process.on('disconnect', () => process.exit(0));
  say({ ready: true });
}

// The main process may have closed the channel before this process has noticed its end; then there is nothing to send.
function say(message) {
  if (process.connected) process.send(message, () => {});
}

module.exports = { obeyMain, say };
