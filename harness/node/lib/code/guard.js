'use strict';

// Sees to it that a runner which never ends can be ended although it has the main thread to itself. A thread looks four
// times a second whether the main thread still looks at its commands. Only if it does not, the thread reads them in
// its place; after a stop, or the end of the commands, it interrupts the main thread as Ctrl-C would.

const vm = require('vm');

const [LOOKED, LOCK] = [0, 1];
const ACT = Symbol.for('speedwell.guarded');

class Guard {
  constructor(commandFd, giveUp_ms) {
    const { Worker, MessageChannel, receiveMessageOnPort } = require('worker_threads');
    this.words = new Int32Array(new SharedArrayBuffer(8));
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    this.port.unref();
    this.receive = receiveMessageOnPort;
    const workerData = { words: this.words, port: port2, commandFd, giveUp_ms };
    this.thread = new Worker(require.resolve('./guard_thread.js'), { workerData, transferList: [port2], stdout: false });
    this.thread.unref();
    this.script = new vm.Script(`globalThis[Symbol.for('speedwell.guarded')]()`, { filename: 'guard' });
  }

  /** Calls `act`; throws an error with code ERR_SCRIPT_EXECUTION_INTERRUPTED if it had to be interrupted. */
  run(act) {
    globalThis[ACT] = act;
    try {
      return this.script.runInThisContext({ breakOnSigint: true });
    } finally {
      delete globalThis[ACT];
    }
  }

  /** The main thread looks at its commands: `take` gets what the other thread has read in its place, then it reads. */
  look(take, read) {
    Atomics.add(this.words, LOOKED, 1);
    // The other thread is reading right now; what it reads is there at the next look.
    if (Atomics.compareExchange(this.words, LOCK, 0, 1) !== 0) return;
    try {
      for (let got = this.receive(this.port); got; got = this.receive(this.port)) take(got.message);
      read();
    } finally {
      Atomics.store(this.words, LOCK, 0);
    }
  }

  /** Nobody looks from now on, and nothing is wrong with that. */
  rest() {
    Atomics.store(this.words, LOOKED, -1);
  }

  wake() {
    Atomics.store(this.words, LOOKED, 0);
  }
}

exports.Guard = Guard;
