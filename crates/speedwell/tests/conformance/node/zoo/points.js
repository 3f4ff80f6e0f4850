'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(() => {
  bench.start();
  bench.end(1);
}, { point: [1] });
