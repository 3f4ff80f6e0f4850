const { createBenchmark } = require('speedwell');
const bench = createBenchmark(main, { len: [64, 1024], n: [2e5] });
function main({ len, n }) {
  const from = Buffer.alloc(len), to = Buffer.alloc(len);
  bench.start();
  for (let i = 0; i < n; i++) from.copy(to);
  bench.end(n);
}
