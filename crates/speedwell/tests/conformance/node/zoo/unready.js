'use strict';
const { createBenchmark } = require('speedwell');
createBenchmark(() => {}, { n: [1] }, {
  setup() {
    throw new Error('no room');
  },
});
