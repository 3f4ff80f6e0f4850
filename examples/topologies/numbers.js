'use strict';

// The work: which Fibonacci number a request gets, and its naive computation.
//
// Only the process that the load is sent to (the main one) draws numbers, in all topologies: every request
// passes through it on its way to the calculation. So the number of a request depends on the seed and its
// arrival order there, and all topologies get the same numbers in the same order. Drawing in the HTTP workers
// would make the sequence depend on how connections are distributed.

const LARGEST = 30;

// The fractional part of the golden ratio times 2^32, made odd: consecutive indices map far apart, and none
// repeats within 2^32 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
const STEP = 0x9e3779b9;

// The 32-bit finalizer of MurmurHash3 (Austin Appleby, public domain): every input bit changes about half of
// the output bits.
function mixed(bits) {
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

// The number between 1 and 30 for the request with this index: ceil(u * 30) with u in (0, 1].
function drawn(seed, index) {
  const u = (mixed(mixed(seed) + Math.imul(index + 1, STEP)) + 1) / 2 ** 32;
  return Math.ceil(u * LARGEST);
}

// Naive on purpose: the cost grows by the golden ratio with each n, so a few requests cost far more than most.
function fibonacci(n) {
  return n < 2 ? 1 : fibonacci(n - 2) + fibonacci(n - 1);
}

module.exports = { drawn, fibonacci, LARGEST };
