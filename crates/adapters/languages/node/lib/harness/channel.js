'use strict';

// The two descriptors of the harness protocol. Commands are read synchronously, which starts fastest; only while a
// benchmark uses the event loop are they watched asynchronously, so that a stop or the driver's end is noticed.
// Independent of verbs, except that `stop` may overtake others.

const fs = require('fs');
const runtime = require('../runtime.js');
const { decode, decodeText, encode, writeAll } = require('../wire.js');

const CHUNK_BYTES = 65536;

class Channel {
  constructor(commandFd, eventFd) {
    this.commandFd = commandFd;
    this.readFd = runtime.inherited(commandFd, fs.constants.O_RDONLY);
    this.eventFd = runtime.inherited(eventFd, fs.constants.O_WRONLY);
    this.lines = [];
    this.partial = Buffer.alloc(0);
    this.ended = false;
    this.socket = null;
    this.waiting = null;
    /** Another thread that reads commands while this one cannot; see code/guard.js. */
    this.guard = null;
    /** Called with a `stop` command that arrives while a benchmark runs. */
    this.onStop = null;
    /** Called when the driver closes the channel while a benchmark runs. */
    this.onEnd = null;
  }

  /** Writes one message; returns when the kernel has accepted it. */
  send(verb, fields) {
    writeAll(this.eventFd, encode(verb, fields).map((line) => `${line}\n`).join(''));
  }

  /** Returns the next command, or null at the end of the channel. A promise only if the descriptor is being
   * watched. */
  next() {
    for (;;) {
      const line = this.lines.shift();
      if (line !== undefined) return command(line);
      if (this.ended) return null;
      if (this.socket) return new Promise((resolve) => { this.waiting = resolve; });
      this._read();
    }
  }

  _read() {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    try {
      const count = fs.readSync(this.readFd, chunk, 0, CHUNK_BYTES, null);
      if (count === 0) this.ended = true;
      else this._take(chunk.subarray(0, count));
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      this.watch();
    }
  }

  _take(chunk) {
    const bytes = Buffer.concat([this.partial, chunk]);
    const end = bytes.lastIndexOf(10) + 1;
    this.partial = bytes.subarray(end);
    if (end > 0) this.lines.push(...bytes.toString('utf8', 0, end - 1).split('\n'));
  }

  /** From now on commands arrive through the event loop. */
  watch() {
    if (this.socket) return;
    this.socket = watched(this);
    this.socket.on('data', (chunk) => {
      this._take(chunk);
      if (this.onStop) this._overtake();
      this._wake();
    });
    const end = () => {
      this.ended = true;
      if (this.onEnd) this.onEnd();
      this._wake();
    };
    this.socket.on('end', end);
    this.socket.on('error', end);
  }

  /** Lets the process exit when its own event loop is empty, although commands may still arrive. */
  setBackground(background) {
    if (!this.socket) return;
    if (background) this.socket.unref();
    else this.socket.ref();
  }

  /** Reads the available input without waiting, while code occupies the thread. */
  glance() {
    if (this.ended) return;
    if (this.guard) this.guard.look((found) => this._takeFrom(found), () => this._glance());
    else this._glance();
    this._tell();
  }

  /** Takes over what another thread has read. */
  _takeFrom({ bytes, ended }) {
    if (ended) this.ended = true;
    else this._take(Buffer.from(bytes));
  }

  _glance() {
    if (this.ended) return;
    this.glanceFd = this.glanceFd || this._withoutWaiting();
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    try {
      const count = fs.readSync(this.glanceFd, chunk, 0, CHUNK_BYTES, null);
      if (count > 0) this._take(chunk.subarray(0, count));
      else this.ended = true;
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }

  /** Returns a non-blocking descriptor of the commands. */
  _withoutWaiting() {
    const { O_RDONLY, O_NONBLOCK } = fs.constants;
    try {
      // Opened again, because non-blocking mode belongs to the open pipe end, which other processes may share.
      return fs.openSync(`/proc/self/fd/${this.commandFd}`, O_RDONLY | O_NONBLOCK);
    } catch {
      // A socket cannot be opened by its name. Watching it does not block.
      this.watch();
      return this.commandFd;
    }
  }

  _tell() {
    if (this.ended && this.onEnd) this.onEnd();
    if (this.onStop) this._overtake();
  }

  _overtake() {
    const stops = this.lines.filter((line) => decode(line).verb === 'stop');
    this.lines = this.lines.filter((line) => !stops.includes(line));
    for (const line of stops) this.onStop(command(line));
  }

  _wake() {
    if (!this.waiting || (this.lines.length === 0 && !this.ended)) return;
    const resolve = this.waiting;
    this.waiting = null;
    resolve(this.lines.length > 0 ? command(this.lines.shift()) : null);
  }
}

/** Watches the descriptor with a socket. Bun has none for pipes that can run in the background. */
function watched(channel) {
  const { Watch } = runtime.name === 'bun' ? require('./watch.js') : {};
  if (Watch) return new Watch(channel._withoutWaiting());
  const { Socket } = require('net');
  return new Socket({ fd: channel.commandFd, readable: true, writable: false });
}

/** A command with the fields common to all; others stay encoded until they are read. */
function command(line) {
  const { verb, fields } = decode(line);
  const text = (key) => (fields[key] === undefined ? undefined : decodeText(fields[key]));
  return { verb, fields, text, id: text('id') };
}

exports.Channel = Channel;
