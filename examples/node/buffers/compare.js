'use strict';

// Comparing two equal buffers, which is the longest possible comparison.

const { createBenchmark } = require('speedwell');

const bench = createBenchmark(main, {
  method: ['compare', 'equals', 'static'],
  bytes: [16, 512, 4096],
  n: [500e3],
});

function comparison(method, left, right) {
  if (method === 'equals') return () => (left.equals(right) ? 0 : 1);
  if (method === 'static') return () => Buffer.compare(left, right);
  return () => left.compare(right);
}

function main({ method, bytes, n }) {
  const compare = comparison(method, Buffer.alloc(bytes, 'blue'), Buffer.alloc(bytes, 'blue'));
  let different = 0;
  bench.start();
  for (let i = 0; i < n; i++) different += compare();
  bench.end(n);
  bench.check(`${different} different`);
}
