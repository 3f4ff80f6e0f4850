'use strict';

// The program behind the test double: requests `test_url` for `duration` seconds, one request at a time, then prints
// one line of JSON. The first failed request ends it with status 1, because a refusing server is not a valid
// benchmark.

const PROTOCOLS = ['http', 'https', 'http2'];

/** Reads the whole response; `callback(status)`. */
function requester(protocol, url) {
  if (protocol === 'http2') {
    const session = require('http2').connect(url, { rejectUnauthorized: false });
    session.on('error', die);
    const { pathname, search } = new URL(url);
    return { close: () => session.close(), ask: (callback) => askStream(session, pathname + search, callback) };
  }
  const library = require(protocol);
  const agent = new library.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  return { close: () => agent.destroy(), ask: (callback) => askPlain(library, url, agent, callback) };
}

function askPlain(library, url, agent, callback) {
  library.get(url, { agent }, (response) => {
    response.resume();
    response.on('error', die);
    response.on('end', () => callback(response.statusCode));
  }).on('error', die);
}

function askStream(session, path, callback) {
  const stream = session.request({ ':path': path });
  let status = 0;
  stream.on('response', (headers) => { status = headers[':status']; });
  stream.on('error', die);
  stream.on('end', () => callback(status));
  stream.resume();
}

function die(error) {
  console.error(error.message);
  process.exit(1);
}

/** Sends requests until the time is over; the pending request then still counts. */
function run(protocol, url, duration_s) {
  const { ask, close } = requester(protocol, url);
  const times_ms = [];
  let non2xx = 0;
  const begin = performance.now();

  function next() {
    const sent = performance.now();
    ask((status) => {
      const now = performance.now();
      times_ms.push(now - sent);
      if (status < 200 || status > 299) non2xx++;
      if (now - begin < duration_s * 1000) {
        next();
        return;
      }
      close();
      console.log(JSON.stringify(summary(times_ms, non2xx, (now - begin) / 1000)));
    });
  }
  next();
}

function summary(times_ms, non2xx, seconds) {
  const sorted = times_ms.sort((a, b) => a - b);
  const quantile = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length;
  return { throughput: sorted.length, seconds, non2xx, latency_ms: { mean, p50: quantile(0.5), p99: quantile(0.99) } };
}

const [protocol] = process.argv.slice(2);
if (!PROTOCOLS.includes(protocol)) throw new Error(`protocol must be one of ${PROTOCOLS.join(', ')}`);
run(protocol, process.env.test_url, Number(process.env.duration));
