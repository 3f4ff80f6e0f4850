'use strict';

// The thread of guard.js.

const fs = require('fs');
const { workerData: { words, port, commandFd, giveUp_ms } } = require('worker_threads');

const [LOOKED, LOCK] = [0, 1];
const LOOK_MS = 250;

/** Whether the input requests the end of the run. */
const STOP = /(?:^|\n)stop\t/;

const SLEEP = new Int32Array(new SharedArrayBuffer(4));
let fd = null;
let text = '';
let due_ms = 0;
let before = -1;

for (;;) {
  // Never notified: this is a sleep.
  Atomics.wait(SLEEP, 0, 0, LOOK_MS);
  const looked = Atomics.load(words, LOOKED);
  const stuck = looked === before && looked >= 0;
  before = looked;
  if (!stuck) {
    due_ms = 0;
    text = '';
  } else if (due_ms === 0) {
    readCommands();
  } else if (Date.now() >= due_ms) {
    due_ms = 0;
    process.kill(process.pid, 'SIGINT');
  }
}

function readCommands() {
  if (Atomics.compareExchange(words, LOCK, 0, 1) !== 0) return;
  const { O_RDONLY, O_NONBLOCK } = fs.constants;
  const chunk = Buffer.allocUnsafe(65536);
  try {
    if (fd === null) fd = fs.openSync(`/proc/self/fd/${commandFd}`, O_RDONLY | O_NONBLOCK);
    const count = fs.readSync(fd, chunk, 0, chunk.length, null);
    const bytes = new Uint8Array(chunk.subarray(0, count));
    port.postMessage({ bytes, ended: count === 0 });
    text += chunk.toString('utf8', 0, count);
    if (count === 0 || STOP.test(text)) due_ms = Date.now() + giveUp_ms;
  } catch (error) {
    // No data; or not a pipe and thus not reopenable by name, so that nothing can be
    // interrupted.
    if (error.code !== 'EAGAIN' && error.code !== 'ENXIO') throw error;
  } finally {
    Atomics.store(words, LOCK, 0);
  }
}
