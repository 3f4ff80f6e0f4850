'use strict';

// Splits a line into words. Try it:
//
//   speedwell run split.js
//   speedwell run split.js --set method=split

const { createBenchmark } = require('speedwell');

// One case per combination of the values.
const bench = createBenchmark(main, {
  method: ['split', 'match'],
  words: [10, 1000],
  n: [2e3],
});

function main({ method, words, n }) {
  const line = Array.from({ length: words }, (_, i) => `word${i}`).join(' ');
  let found = 0;
  // Only the time between start and end is measured: n iterations.
  bench.start();
  if (method === 'split') {
    for (let i = 0; i < n; i++) found += line.split(' ').length;
  } else {
    for (let i = 0; i < n; i++) found += line.match(/\w+/g).length;
  }
  bench.end(n);
  // A result that differs between two variants is an error: a fast wrong result does not count.
  bench.check(found);
}
