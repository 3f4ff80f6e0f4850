'use strict';

// Copying bytes: from the start of a buffer, or from an unaligned address.

const { createBenchmark } = require('speedwell');

const bench = createBenchmark(main, {
  offset: [0, 3],
  bytes: [1, 64, 1024, 8192],
  n: [3e5],
}, {
  // Alignment does not matter for a single byte.
  combinationFilter: ({ offset, bytes }) => offset === 0 || bytes > 1,
  test: { bytes: [64] },
});

function main({ offset, bytes, n }) {
  const source = Buffer.alloc(offset + bytes, 'speedwell');
  const target = Buffer.alloc(bytes);
  bench.start();
  for (let i = 0; i < n; i++) source.copy(target, 0, offset, offset + bytes);
  bench.end(n);
  bench.metric('bytes_copied', bytes * n, { unit: 'B' });
  bench.check(target.toString('latin1', 0, 8));
}
