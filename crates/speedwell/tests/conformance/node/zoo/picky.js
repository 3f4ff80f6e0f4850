'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(() => {
  bench.start();
  bench.end(1);
}, { n: [1, 2] }, { combinationFilter: ({ n }) => n === 1 });
