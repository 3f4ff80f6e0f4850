'use strict';

// The HTTP side, the same in the main process and in HTTP workers: `GET /` is answered with a number as text,
// anything else with 404. Where the number comes from is none of its business: `ask(give)` calls `give(number)`.

const http = require('node:http');
const net = require('node:net');

// Longer than any load leaves a connection without a request. Node's 5 s would close connections that starve
// behind others, and the client would count errors where there is only slowness.
const IDLE_MS = 120_000;

class Front {
  #server;
  #unanswered = 0;
  #stopping = false;
  #latest = new WeakMap();

  constructor(ask) {
    this.#server = http.createServer((request, response) => {
      this.#unanswered += 1;
      this.#latest.set(request.socket, response);
      response.on('close', () => this.#answered());
      // A body that nobody reads would block the next request of its connection.
      request.resume();
      const path = request.url.split('?', 1)[0];
      if (path === '/' && request.method === 'GET') {
        ask((number) => this.#answer(response, 200, String(number)));
      } else {
        this.#answer(response, 404, 'only GET / is answered\n');
      }
    });
    this.#server.keepAliveTimeout = IDLE_MS;
  }

  // Resolves with the port: a free one where 0 is asked for.
  listen(port) {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', () => resolve(this.#server.address().port));
    });
  }

  // Resolves when nothing is listened to any more and every request that had come in is answered.
  stop() {
    this.#stopping = true;
    if (!this.#server.listening) return Promise.resolve();
    return new Promise((resolve) => {
      // http.Server's own close() also ends connections that look idle to it, and so do those whose answers wait for an
      // earlier one (Node 19 and later).
      net.Server.prototype.close.call(this.#server, resolve);
      this.#closeWhenAnswered();
    });
  }

  #answer(response, status, text) {
    // The length lets clients of HTTP/1.0 (ab) keep their connections.
    const headers = { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(text) };
    // Said with the last answer of a connection only: Node drops those that come after it.
    if (this.#stopping && this.#latest.get(response.socket) === response) headers.connection = 'close';
    response.writeHead(status, headers);
    response.end(text);
  }

  #answered() {
    this.#unanswered -= 1;
    if (this.#stopping) this.#closeWhenAnswered();
  }

  // closeIdleConnections() would leave connections open on which nothing was ever asked.
  #closeWhenAnswered() {
    if (this.#unanswered === 0) this.#server.closeAllConnections();
  }
}

module.exports = { Front };
