'use strict';

// The drawn numbers: uniformly distributed, and determined by the seed alone.

const test = require('node:test');
const assert = require('node:assert');
const { drawn, fibonacci } = require('../numbers.js');

const sequence = (seed, length) => Array.from({ length }, (_, index) => drawn(seed, index));

test('the naive computation begins with 1 and 1', () => {
  assert.deepStrictEqual([0, 1, 2, 3, 4, 5, 10, 30].map(fibonacci), [1, 1, 2, 3, 5, 8, 89, 1346269]);
});

test('each number from 1 to 30 is drawn about equally often', () => {
  for (const seed of [0, 1, 2, 0xffffffff]) {
    const counts = new Array(31).fill(0);
    for (const n of sequence(seed, 30_000)) counts[n] += 1;
    assert.strictEqual(counts[0], 0);
    // Chi-squared with 29 degrees of freedom: above 58.3 in 1 of 1000 cases.
    const chi = counts.slice(1).reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0);
    assert.ok(chi < 58.3, `seed ${seed}: ${chi}`);
  }
});

test('8000 answers have about as many digits as those of the published runs', () => {
  // "HTML transferred" of the six series of 2012, which drew uniformly from the same numbers.
  const published = [28692, 28554, 28615, 29093, 28678, 28658];
  const lengths = Array.from({ length: 31 }, (_, n) => String(fibonacci(n)).length);
  const digits = sequence(1, 8000).reduce((sum, n) => sum + lengths[n], 0);
  assert.ok(digits > 0.99 * Math.min(...published) && digits < 1.01 * Math.max(...published), String(digits));
});

test('neighboring seeds give unrelated numbers', () => {
  const [a, b] = [sequence(1, 3000), sequence(2, 3000)];
  const equal = a.filter((n, index) => n === b[index]).length;
  assert.ok(equal > 50 && equal < 150, String(equal));
  assert.deepStrictEqual(sequence(1, 5), sequence(1, 5));
});
