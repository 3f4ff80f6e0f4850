'use strict';

// Every second promise is rejected, and a caller two functions above catches each rejection: the worst case for a
// debugger that pauses at exceptions. The other tests hardly reject anything.

const { measure } = require('./measure.js');

const CALLS = 1000;

async function answered(index) {
  if (index % 2 === 1) throw new RangeError('odd');
  return index;
}

async function handedOn(index) {
  return await answered(index);
}

async function work() {
  let caught = 0;
  for (let index = 0; index < CALLS; index++) {
    try {
      await handedOn(index);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      caught += 1;
    }
  }
  return caught;
}

measure(__filename, work, { expected: CALLS / 2, warmup: 10, rounds: 50 });
