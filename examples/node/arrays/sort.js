'use strict';

// Sorting a copy of shuffled numbers and of texts, with and without a comparison function.

const { createBenchmark } = require('speedwell');

const bench = createBenchmark(main, {
  of: ['numbers', 'texts'],
  size: [1000],
  n: [200],
}, {
  test: { n: [1] },
});

function shuffled(size) {
  // Steps of a prime visit every number below another prime once.
  return Array.from({ length: size }, (_, i) => (i * 7919) % 1009);
}

function main({ of, size, n }) {
  const numbers = shuffled(size);
  const texts = numbers.map((number) => `key ${number}`);
  const sorted = of === 'numbers'
    ? () => numbers.slice().sort((one, other) => one - other)
    : () => texts.slice().sort();
  let last;
  bench.start();
  for (let i = 0; i < n; i++) last = sorted();
  bench.end(n);
  bench.check(last.slice(0, 10).join());
}
