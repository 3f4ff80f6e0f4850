'use strict';

// Where numbers are computed: in the requesting process, or in calculation workers, round robin. Both are a
// function `calculate(n, give)`.

const { fibonacci } = require('./numbers.js');

function calculateHere(n, give) {
  give(fibonacci(n));
}

// Each worker answers its questions in order, but answers of several workers arrive in any order: each carries
// the index of its question.
function calculateIn(workers) {
  const waiting = new Map();
  let asked = 0;
  for (const worker of workers) {
    worker.on('message', (message) => {
      const give = waiting.get(message.index);
      if (give === undefined) return;
      waiting.delete(message.index);
      give(message.number);
    });
  }
  return (n, give) => {
    const worker = workers[asked % workers.length];
    asked += 1;
    waiting.set(asked, give);
    worker.send({ index: asked, n });
  };
}

module.exports = { calculateHere, calculateIn };
