'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(({ q }) => {
  bench.start();
  bench.end(1);
  bench.check(q);
}, { q: ['plain'] });
