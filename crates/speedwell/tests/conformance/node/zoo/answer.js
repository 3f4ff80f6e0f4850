'use strict';
const { createBenchmark } = require('speedwell');
const bench = createBenchmark(({ n }) => {
  let sum = 0;
  bench.start();
  for (let i = 0; i < n; i++) sum += i;
  bench.end(1);
  bench.metric('weight', 64 * n, { unit: 'B', better: 'lower' });
  bench.check(`sum ${sum}`);
}, { n: [1000] });
