'use strict';

// Makes it possible to end a runner that never returns although it occupies the main thread. A thread checks four times
// per second whether the main thread still polls its commands. If not, the thread reads them instead; after a stop, or
// the end of the commands, it interrupts the main thread as Ctrl-C would.

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

  /** Calls `act`; throws an error with code ERR_SCRIPT_EXECUTION_INTERRUPTED if it was interrupted. */
  run(act) {
    globalThis[ACT] = act;
    try {
      return this.script.runInThisContext({ breakOnSigint: true });
    } finally {
      delete globalThis[ACT];
    }
  }

  /** The main thread polls its commands: passes to `take` what the guard thread has read, then calls `read`. */
  look(take, read) {
    Atomics.add(this.words, LOOKED, 1);
    // The guard thread is reading; its input is available at the next poll.
    if (Atomics.compareExchange(this.words, LOCK, 0, 1) !== 0) return;
    try {
      for (let got = this.receive(this.port); got; got = this.receive(this.port)) take(got.message);
      read();
    } finally {
      Atomics.store(this.words, LOCK, 0);
    }
  }

  /** Suspends the guard: the main thread legitimately does not poll. */
  rest() {
    Atomics.store(this.words, LOOKED, -1);
  }

  wake() {
    Atomics.store(this.words, LOOKED, 0);
  }
}

exports.Guard = Guard;
