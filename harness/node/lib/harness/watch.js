'use strict';

// Looks at a pipe again and again, for programs whose event loop cannot be told to watch one in the background (Bun).
// It offers what channel.js uses of a socket.

const { EventEmitter } = require('events');
const fs = require('fs');

/** A stop is noticed after so long at most. A look takes a few microseconds. */
const LOOK_MS = 20;

class Watch extends EventEmitter {
  /** Of `descriptor` no reading may wait. */
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
