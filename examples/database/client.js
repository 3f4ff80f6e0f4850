'use strict';
// The part of PostgreSQL's protocol 3.0 that the example needs: texts in, texts out, one query at a time per
// connection.
// https://www.postgresql.org/docs/current/protocol-message-formats.html

const net = require('node:net');

const text = (word) => Buffer.from(`${word}\0`);
const int16 = (number) => { const bytes = Buffer.alloc(2); bytes.writeInt16BE(number); return bytes; };
const int32 = (number) => { const bytes = Buffer.alloc(4); bytes.writeInt32BE(number); return bytes; };

/** A message: its type letter, the length of the rest, and the rest. */
function message(letter, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(letter), int32(body.length + 4), body]);
}

/** Returns the columns of a row as texts. */
function columns(body) {
  const found = [];
  let offset = 2;
  for (let left = body.readInt16BE(0); left > 0; left -= 1) {
    const length = body.readInt32BE(offset);
    offset += 4;
    found.push(length < 0 ? null : body.toString('utf8', offset, offset + length));
    offset += Math.max(length, 0);
  }
  return found;
}

class Connection {
  #line;
  #received = Buffer.alloc(0);
  #waiting = [];
  #prepared = new Set();

  /** Connects to a socket, or to a host and its port, as `user`, whom the server trusts. */
  static async open(place, user) {
    const connection = new Connection();
    connection.#line = net.connect(place);
    // Send small messages at once (tcp(7), TCP_NODELAY).
    connection.#line.setNoDelay(true);
    connection.#line.on('data', (bytes) => connection.#take(bytes));
    connection.#line.on('error', (error) => connection.#fail(error));
    connection.#line.on('close', () => connection.#fail(new Error('the database closed the connection')));
    const body = Buffer.concat([int32(196608), text('user'), text(user), text('database'), text('postgres'), Buffer.from([0])]);
    await connection.#ask(Buffer.concat([int32(body.length + 4), body]));
    return connection;
  }

  /** Runs a statement as text, which the server parses, plans and executes each time. */
  simple(statement) {
    return this.#ask(message('Q', text(statement)));
  }

  /** Runs a statement with values, which the server parses once per connection. */
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
    // Each field of an error has a letter; M is the message for people.
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
