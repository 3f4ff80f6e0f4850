'use strict';
const { createBenchmark } = require('speedwell');
createBenchmark(() => {
  throw new RangeError('bad\tluck');
}, { n: [1] });
