'use strict';

// A cluster whose workers answer one request at a time, after 10 ms each, so that it serves as many requests at once
// as it has workers. `start(N)` resolves to a function that sends a request and resolves to its answer.

const { fork } = require('child_process');

if (process.send) {
  let last = Promise.resolve();
  const wait = () => new Promise((resolve) => { setTimeout(resolve, 10); });
  process.on('message', (id) => { last = last.then(wait).then(() => process.send(id)); });
}

exports.start = (count) => {
  const free = [];
  const waiting = [];
  const serve = (worker, answered) => {
    worker.answered = answered;
    worker.send(1);
  };
  for (let number = 0; number < count; number++) {
    const worker = fork(__filename);
    worker.on('message', () => {
      worker.answered();
      const next = waiting.shift();
      if (next) serve(worker, next);
      else free.push(worker);
    });
    free.push(worker);
  }
  return () => new Promise((resolve) => {
    const worker = free.pop();
    if (worker) serve(worker, resolve);
    else waiting.push(resolve);
  });
};
