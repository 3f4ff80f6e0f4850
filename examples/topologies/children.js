'use strict';

// The processes of a topology: starts, awaits and ends them. A crashed process is not replaced: the measurement must
// see the crash.

const cluster = require('node:cluster');
const path = require('node:path');
const { fork } = require('node:child_process');

class Children {
  #living = new Map();
  #stopping = false;
  #onCrash;

  // `onCrash(message)` is called for the first child that ends unexpectedly.
  constructor(onCrash) {
    this.#onCrash = onCrash;
  }

  httpWorkers(count) {
    cluster.setupPrimary({ exec: path.join(__dirname, 'http-worker.js'), args: [] });
    return this.#started(count, 'HTTP worker', () => cluster.fork());
  }

  calculationWorkers(count) {
    return this.#started(count, 'calculation worker', () => fork(path.join(__dirname, 'fib-worker.js'), []));
  }

  #started(count, what, start) {
    return Array.from({ length: count }, (_, i) => {
      const child = start();
      const name = `${what} ${i + 1}`;
      this.#living.set(child, name);
      child.on('exit', (code, signal) => {
        this.#living.delete(child);
        if (!this.#stopping || code !== 0) {
          this.#onCrash(`${name} ended with ${signal ? `signal ${signal}` : `status ${code}`}`);
        }
      });
      child.on('message', (message) => {
        if (message.failed !== undefined) this.#onCrash(message.failed);
      });
      // Writing to a child that has just died; 'exit' reports its end.
      child.on('error', () => {});
      return child;
    });
  }

  // From now on, children are expected to exit.
  expectEnds() {
    this.#stopping = true;
  }

  killAll() {
    this.#stopping = true;
    for (const child of this.#living.keys()) (child.process ?? child).kill('SIGKILL');
  }
}

// Resolves to the messages with this key when each child has sent one.
function each(children, key) {
  return Promise.all(children.map((child) => new Promise((resolve) => {
    child.on('message', function heard(message) {
      if (message[key] === undefined) return;
      child.removeListener('message', heard);
      resolve(message[key]);
    });
  })));
}

// Resolves when all children have exited.
function ended(children) {
  return Promise.all(children.map((child) => new Promise((resolve) => {
    const { exitCode, signalCode } = child.process ?? child;
    if (exitCode !== null || signalCode !== null) resolve();
    else child.on('exit', resolve);
  })));
}

module.exports = { Children, each, ended };
