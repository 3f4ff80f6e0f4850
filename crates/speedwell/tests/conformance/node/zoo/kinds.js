'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(() => {
  process.stdout.write('measured');
  bench.start();
  bench.end(1);
}, { n: [5, 7], share: [0.5], flag: [true, false], q: ['plain'] });
