'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(() => {
  bench.start();
  setInterval(() => {}, 1000);
}, { n: [1] });
