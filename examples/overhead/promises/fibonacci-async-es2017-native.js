'use strict';

// A Fibonacci number by calls that are all asynchronous: many small functions that suspend twice each.

const { measure } = require('./measure.js');

async function fibonacci(n) {
  if (n < 2) return n;
  return await fibonacci(n - 1) + await fibonacci(n - 2);
}

measure(__filename, () => fibonacci(20), { expected: 6765, warmup: 5, rounds: 80 });
