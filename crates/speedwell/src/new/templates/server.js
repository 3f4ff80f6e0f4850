'use strict';

// A server that answers each request with a Fibonacci number, in six topologies:
//
//   --http=N  N processes handle HTTP (0: the main process does)
//   --fib=N   N processes calculate, round robin (0: the main process does)
//
// The main process draws the numbers, so the sequence depends only on --seed.

const { fork } = require('node:child_process');
const cluster = require('node:cluster');
const http = require('node:http');

const LARGEST = 30;

function option(name, usual) {
  const word = process.argv.find((word) => word.startsWith(`--${name}=`));
  return word === undefined ? usual : Number(word.slice(name.length + 3));
}

function fib(n) {
  return n < 2 ? 1 : fib(n - 1) + fib(n - 2);
}

// Marsaglia's 32-bit xorshift (Journal of Statistical Software 8, 2003): small, and identical everywhere.
function numbers(seed) {
  let state = (seed >>> 0) || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return 1 + (state >>> 0) % LARGEST;
  };
}

// Sends a message unless the process has exited.
function tell(peer, message) {
  if (peer.connected !== false) peer.send(message, () => {});
}

// Sends questions to another process and matches its answers.
function correspondence(peer) {
  const waiting = new Map();
  let last = 0;
  peer.on('message', ({ id, answer }) => {
    const answered = waiting.get(id);
    waiting.delete(id);
    answered?.(answer);
  });
  return (question, answered) => {
    last += 1;
    waiting.set(last, answered);
    tell(peer, { id: last, question });
  };
}

// Answers the questions of another process.
function answerTo(peer, answer) {
  peer.on('message', ({ id, question }) => {
    answer(question, (answer) => tell(peer, { id, answer }));
  });
}

function serve(calculate) {
  const server = http.createServer((request, response) => {
    calculate((answer) => response.end(String(answer)));
  });
  server.listen(option('port', 3002), '127.0.0.1');
}

// The main process: next() draws a number and calculates it or has it calculated.
function main() {
  const draw = numbers(option('seed', 1));
  const calculators = Array.from({ length: option('fib', 0) }, () =>
    correspondence(fork(__filename, ['--calculate'])));
  let turn = 0;
  const next = (answered) => {
    const n = draw();
    if (calculators.length === 0) return answered(fib(n));
    turn = (turn + 1) % calculators.length;
    return calculators[turn](n, answered);
  };
  const workers = option('http', 0);
  if (workers === 0) serve(next);
  for (let i = 0; i < workers; i++) answerTo(cluster.fork(), (question, answered) => next(answered));
  process.on('SIGTERM', () => process.exit(0));
}

if (process.argv.includes('--calculate')) {
  answerTo(process, (n, answered) => answered(fib(n)));
  process.on('disconnect', () => process.exit(0));
} else if (cluster.isPrimary) {
  main();
} else {
  // Exit when the main process is unreachable.
  cluster.worker.on('error', () => process.exit(0));
  const ask = correspondence(process);
  serve((answered) => ask(null, answered));
}
