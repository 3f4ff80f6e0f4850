'use strict';

// Times a piece of asynchronous work and prints `Time(NAME): 12.34 ms`. The work runs a few times before, so that it
// is compiled when it is timed, and its answer is checked.

const { performance } = require('node:perf_hooks');
const path = require('node:path');

// `work()` resolves with its answer. The time is that of `rounds` rounds, one after the other; `node TEST.js 1` runs
// a single round, to check that it works.
async function measure(file, work, { expected, warmup, rounds }) {
  const most = Number(process.argv[2] ?? Infinity);
  await repeated(work, Math.min(warmup, most), expected);
  const start = performance.now();
  await repeated(work, Math.min(rounds, most), expected);
  const elapsed = performance.now() - start;
  process.stdout.write(`Time(${path.basename(file, '.js')}): ${elapsed.toFixed(2)} ms\n`);
}

async function repeated(work, rounds, expected) {
  for (let round = 0; round < rounds; round++) {
    const answer = await work();
    if (answer !== expected) throw new Error(`the answer is ${answer}, expected ${expected}`);
  }
}

module.exports = { measure };
