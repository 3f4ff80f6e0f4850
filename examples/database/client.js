'use strict';
// As much of PostgreSQL's protocol 3.0 as an example needs: texts in, texts out, one query at a time on a connection.
// https://www.postgresql.org/docs/current/protocol-message-formats.html

const net = require('node:net');

const text = (word) => Buffer.from(`${word}\0`);
const int16 = (number) => { const bytes = Buffer.alloc(2); bytes.writeInt16BE(number); return bytes; };
const int32 = (number) => { const bytes = Buffer.alloc(4); bytes.writeInt32BE(number); return bytes; };

/** A message: its letter, the length of what follows, and that. */
function message(letter, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(letter), int32(body.length + 4), body]);
}

/** The columns of a row as texts. */
function columns(body) {
  const found = [];
  let at = 2;
  for (let left = body.readInt16BE(0); left > 0; left -= 1) {
    const length = body.readInt32BE(at);
    at += 4;
    found.push(length < 0 ? null : body.toString('utf8', at, at + length));
    at += Math.max(length, 0);
  }
  return found;
}

class Connection {
  #line;
  #received = Buffer.alloc(0);
  #waiting = [];
  #prepared = new Set();

  /** Connects to a socket, or to a host and its port, as `user`, whom the server lets in without a question. */
  static async open(place, user) {
    const own = new Connection();
    own.#line = net.connect(place);
    // What is small goes at once (tcp(7), TCP_NODELAY).
    own.#line.setNoDelay(true);
    own.#line.on('data', (bytes) => own.#take(bytes));
    own.#line.on('error', (error) => own.#fail(error));
    own.#line.on('close', () => own.#fail(new Error('the database closed the connection')));
    const body = Buffer.concat([int32(196608), text('user'), text(user), text('database'), text('postgres'), Buffer.from([0])]);
    await own.#ask(Buffer.concat([int32(body.length + 4), body]));
    return own;
  }

  /** A statement as a text, which the server reads, plans and executes each time. */
  simple(statement) {
    return this.#ask(message('Q', text(statement)));
  }

  /** A statement with values, which the server reads once for each connection. */
  prepared(name, statement, values) {
    const parts = [];
    if (!this.#prepared.has(name)) {
      this.#prepared.add(name);
      parts.push(message('P', text(name), text(statement), int16(0)));
    }
    const bound = values.map((value) => {
      const bytes = Buffer.from(String(value));
      return Buffer.concat([int32(bytes.length), bytes]);
    });
    parts.push(message('B', text(''), text(name), int16(0), int16(values.length), ...bound, int16(0)));
    parts.push(message('E', text(''), int32(0)), message('S'));
    return this.#ask(Buffer.concat(parts));
  }

  close() {
    this.#line.removeAllListeners('close');
    this.#line.end(message('X'));
  }

  #ask(bytes) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject, rows: [], error: null });
      this.#line.write(bytes);
    });
  }

  #take(bytes) {
    this.#received = Buffer.concat([this.#received, bytes]);
    while (this.#received.length >= 5) {
      const end = 1 + this.#received.readInt32BE(1);
      if (this.#received.length < end) return;
      this.#heard(String.fromCharCode(this.#received[0]), this.#received.subarray(5, end));
      this.#received = this.#received.subarray(end);
    }
  }

  #heard(letter, body) {
    const question = this.#waiting[0];
    if (question === undefined) return;
    if (letter === 'D') question.rows.push(columns(body));
    // Fields of an error have a letter each; M is what is said to people.
    if (letter === 'E') question.error = new Error(body.toString().split('\0').find((field) => field[0] === 'M')?.slice(1));
    if (letter === 'Z') {
      this.#waiting.shift();
      if (question.error) question.reject(question.error);
      else question.resolve(question.rows);
    }
  }

  #fail(error) {
    for (const question of this.#waiting.splice(0)) question.reject(question.error ?? error);
  }
}

module.exports = { Connection };
