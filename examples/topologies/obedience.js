'use strict';

// What both kinds of workers owe the main process: they say when they are ready, and end when it wants or when it is
// gone, whatever became of it. A signal to the whole group (Ctrl-C) must not end them before its requests are answered.

function obeyMain() {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => {});
  process.on('disconnect', () => process.exit(0));
  say({ ready: true });
}

// The main process may have closed the line before its end has been noticed here: nothing to be said about then.
function say(message) {
  if (process.connected) process.send(message, () => {});
}

module.exports = { obeyMain, say };
