'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(() => {
  bench.start();
  process.kill(process.pid, 'SIGKILL');
  setTimeout(() => {}, 10000);
}, { n: [1] });
