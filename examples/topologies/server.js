'use strict';

// One HTTP server in six topologies. Requests compute Fibonacci numbers of random size, so some cost far more CPU than
// others; the topologies differ in which processes handle HTTP (an option) and which compute (the address of each
// request, see front.js):
//
//                             HTTP in main process    HTTP in N workers (--http=N)
//     /fib/randomfib          red                     green     computed in the main process
//     /fib/randomfib2         blue                    purple    in one worker
//     /fib/randomfib3         brown                   cyan      in N workers (--fib=N; as many as processors by default)
//
// HTTP workers compute nothing: they ask the main process, which draws the number and either computes it or passes it
// to a calculation worker. The server listens when all its processes are ready, and stops on SIGTERM or SIGINT after
// answering received requests.

const os = require('node:os');
const { calculateHere, calculateIn } = require('./calculation.js');
const { Children, each, ended } = require('./children.js');
const { Front } = require('./front.js');
const { drawn } = require('./numbers.js');

const USAGE = 'usage: node server.js [--http=WORKERS] [--fib=WORKERS] [--port=PORT] [--seed=NUMBER]';

// Time limit for answering received requests after a stop signal.
const GRACE_MS = 2000;

function options(words) {
  const given = { http: 0n, fib: BigInt(os.availableParallelism?.() ?? os.cpus().length), port: 3002n, seed: 1n };
  for (const word of words) {
    const [, name, value] = /^--(\w+)=(\d+)$/.exec(word) ?? [];
    if (name === undefined || !Object.hasOwn(given, name)) throw new Error(`unknown argument '${word}'`);
    given[name] = BigInt(value);
  }
  if (given.port > 65535n) throw new Error(`invalid port '${given.port}'`);
  if (given.http > 1000n || given.fib > 1000n) throw new Error('at most 1000 workers are supported');
  if (given.fib === 0n) throw new Error('--fib must be at least 1 for /fib/randomfib3');
  // Fold 64-bit seeds: both halves count.
  const seed = Number((given.seed ^ (given.seed >> 32n)) & 0xffffffffn);
  return { http: Number(given.http), fib: Number(given.fib), port: Number(given.port), seed };
}

// The main process's side of HTTP workers: they send the index of a request and its question, and get a number.
function serveWorkers(workers, ask) {
  for (const worker of workers) {
    worker.on('message', ({ index, question }) => {
      if (index === undefined) return;
      ask(question, (number) => {
        if (worker.isConnected()) worker.send({ index, number });
      });
    });
  }
}

// Resolves with the port when all processes listen on it.
async function listen(port, front, workers) {
  if (front) return front.listen(port);
  const listening = each(workers, 'listening');
  for (const worker of workers) worker.send({ listen: port });
  return (await listening)[0];
}

// Processes that ask end before those that answer.
async function stop(front, workers, calculators) {
  const silent = ended(workers);
  const gone = ended(calculators);
  for (const worker of workers) worker.send({ stop: true });
  await front?.stop();
  await silent;
  for (const calculator of calculators) calculator.disconnect();
  await gone;
}

async function serve({ http, fib, port, seed }) {
  const children = new Children(fail);
  const [single, ...several] = children.calculationWorkers(1 + fib);
  const calculators = [single, ...several];
  const workers = children.httpWorkers(http);
  function fail(message) {
    process.stderr.write(`server.js: ${message}\n`);
    children.killAll();
    process.exit(1);
  }

  let requests = 0;
  const calculate = {
    randomfib: calculateHere, randomfib2: calculateIn([single]), randomfib3: calculateIn(several),
  };
  const ask = ({ endpoint, n }, give) => {
    if (n !== undefined) calculateHere(n, give);
    else calculate[endpoint](drawn(seed, requests++), give);
  };
  const front = http > 0 ? undefined : new Front(ask);
  serveWorkers(workers, ask);

  let stopping = false;
  const onSignal = async () => {
    if (stopping) return;
    stopping = true;
    children.expectEnds();
    setTimeout(() => fail(`some requests were not answered within ${GRACE_MS} ms`), GRACE_MS);
    await stop(front, workers, calculators);
    process.exit(0);
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, onSignal);

  await each([...calculators, ...workers], 'ready');
  if (stopping) return;
  const where = await listen(port, front, workers).catch((error) => fail(error.message));
  process.stdout.write(`listening on 127.0.0.1:${where}\n`);
}

let wanted;
try {
  wanted = options(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`server.js: ${error.message}\n${USAGE}\n`);
  process.exit(2);
}
serve(wanted);
