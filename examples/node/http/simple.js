'use strict';

// A server that answers every request with the same bytes, whole or in chunks, measured by an HTTP tool.

const http = require('http');
const { createBenchmark, PORT } = require('speedwell');

const bench = createBenchmark(main, {
  len: [4, 1024, 102400],
  chunks: [1, 4],
  c: [50],
  duration: [1],
}, {
  test: { len: [4], c: [2] },
});

function main({ len, chunks, c, duration }) {
  const body = Buffer.alloc(len, 'b');
  const step = Math.ceil(len / chunks);
  const server = http.createServer((request, response) => {
    if (chunks === 1) {
      response.setHeader('Content-Length', len);
      response.end(body);
      return;
    }
    for (let offset = 0; offset < len; offset += step) response.write(body.subarray(offset, offset + step));
    response.end();
  });
  server.listen(PORT, '127.0.0.1', () => {
    bench.http({ path: '/', connections: c, duration }, () => server.close());
  });
}
