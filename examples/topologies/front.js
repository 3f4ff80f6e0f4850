'use strict';

// The HTTP side, the same in the main process and in HTTP workers:
//
//     GET  /fib/randomfib    a random Fibonacci number, computed in the main process
//     GET  /fib/randomfib2   the same, computed by one calculation worker
//     GET  /fib/randomfib3   the same, computed by N calculation workers in turn
//     POST /fib              the Fibonacci number of `number` (1 to 40; in the query, or as a form or JSON in the body)
//
// Responses are numbers as text. Other modules decide where a number comes from: `ask(question, give)` with `{ endpoint
// }` or `{ n }` calls `give(number)`.

const http = require('node:http');
const net = require('node:net');

const RANDOM = new Set(['randomfib', 'randomfib2', 'randomfib3']);

const MOST_BODY_BYTES = 4096;

// Longer than any load leaves a connection idle. Node's 5 s would close connections that starve behind others, and the
// client would count errors instead of slow responses.
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
      const [path, query = ''] = request.url.split('?', 2);
      const endpoint = /^\/fib\/(\w+)$/.exec(path)?.[1];
      const give = (number) => this.#answer(response, 200, String(number));
      if (path === '/fib' && request.method === 'POST') {
        readBody(request, (body) => this.#askFor(numberIn(query, body), ask, response));
      } else {
        // An unread body would block the next request of its connection.
        request.resume();
        if (RANDOM.has(endpoint) && request.method === 'GET') ask({ endpoint }, give);
        else this.#answer(response, 404, 'not found: use GET /fib/randomfib, randomfib2, randomfib3 or POST /fib\n');
      }
    });
    this.#server.keepAliveTimeout = IDLE_MS;
  }

  // Resolves with the port: a free one for 0.
  listen(port) {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', () => resolve(this.#server.address().port));
    });
  }

  // Resolves when the server no longer listens and every received request has been answered.
  stop() {
    this.#stopping = true;
    if (!this.#server.listening) return Promise.resolve();
    return new Promise((resolve) => {
      // http.Server's own close() also ends connections that it considers idle, including those whose response waits
      // for an earlier one (Node 19 and later).
      net.Server.prototype.close.call(this.#server, resolve);
      this.#closeWhenAnswered();
    });
  }

  #askFor(n, ask, response) {
    if (n >= 1 && n <= 40) ask({ n }, (number) => this.#answer(response, 200, String(number)));
    else this.#answer(response, 400, 'n must be between 1 and 40');
  }

  #answer(response, status, text) {
    // The length lets HTTP/1.0 clients (ab) keep their connections.
    const headers = { 'content-type': 'text/plain', 'content-length': Buffer.byteLength(text) };
    // Sent only with the last response of a connection: Node drops those that follow.
    if (this.#stopping && this.#latest.get(response.socket) === response) headers.connection = 'close';
    response.writeHead(status, headers);
    response.end(text);
  }

  #answered() {
    this.#unanswered -= 1;
    if (this.#stopping) this.#closeWhenAnswered();
  }

  // closeIdleConnections() would keep connections open that never had a request.
  #closeWhenAnswered() {
    if (this.#unanswered === 0) this.#server.closeAllConnections();
  }
}

// Reads a body as text, truncated to the length that a number needs.
function readBody(request, then) {
  let text = '';
  request.setEncoding('utf8');
  request.on('data', (part) => { if (text.length < MOST_BODY_BYTES) text += part; });
  request.on('end', () => then(text));
}

function numberIn(query, body) {
  const text = new URLSearchParams(query).get('number') ?? new URLSearchParams(body).get('number') ?? inJson(body);
  return /^\d+$/.test(text) ? Number(text) : NaN;
}

function inJson(body) {
  try {
    return String(JSON.parse(body).number);
  } catch {
    return '';
  }
}

module.exports = { Front };
