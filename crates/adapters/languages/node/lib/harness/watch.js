'use strict';

// Polls a pipe, for runtimes whose event loop cannot watch one in the background (Bun). Provides the part of a
// socket's interface that channel.js uses.

const { EventEmitter } = require('events');
const fs = require('fs');

/** Upper bound for noticing a stop. A poll takes a few microseconds. */
const LOOK_MS = 20;

class Watch extends EventEmitter {
  /** `descriptor` must be non-blocking. */
  constructor(descriptor) {
    super();
    this.descriptor = descriptor;
    this.timer = setInterval(() => this._look(), LOOK_MS);
  }

  ref() {
    this.timer.ref();
  }

  unref() {
    this.timer.unref();
  }

  _look() {
    const chunk = Buffer.allocUnsafe(65536);
    try {
      const count = fs.readSync(this.descriptor, chunk, 0, chunk.length, null);
      if (count > 0) {
        this.emit('data', chunk.subarray(0, count));
        return;
      }
      clearInterval(this.timer);
      this.emit('end');
    } catch (error) {
      if (error.code === 'EAGAIN') return;
      clearInterval(this.timer);
      this.emit('error', error);
    }
  }
}

exports.Watch = Watch;
