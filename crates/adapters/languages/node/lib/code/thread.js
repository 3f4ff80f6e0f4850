'use strict';

// A worker in its own thread: compiles the same code, initializes itself, then waits for runs. Communicates
// with workers.js. It reads no messages while measuring; signals.js replaces them.

const { parentPort, workerData } = require('worker_threads');
const { compileHook, compileLoop, expose, requirer } = require('./compile.js');
const { SyncLoop, Promised } = require('./sync_loop.js');
const { Signals } = require('./signals.js');
const { writeAll } = require('../wire.js');

// Node forwards a thread's output only while that thread is idle, and buffers all of it until then.
for (const [stream, descriptor] of [[process.stdout, 1], [process.stderr, 2]]) {
  stream.write = (chunk, encoding, callback) => {
    writeAll(descriptor, typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
    const then = typeof encoding === 'function' ? encoding : callback;
    if (then) process.nextTick(then);
    return true;
  };
}

const { forms, paths, modules, shared, progress } = workerData;
let loop;

async function begin() {
  const requires = requirer(paths);
  try {
    await expose(requires, modules);
    const state = forms.init_runner ? await compileHook(forms.init_runner)(requires, shared) : undefined;
    loop = new SyncLoop(compileLoop(forms.runner)(requires, shared, state), progress, () => {});
    parentPort.postMessage({ verb: 'begun' });
  } catch (error) {
    parentPort.postMessage({ verb: 'failed', stage: 'init_runner', error: portable(error) });
  }
}

parentPort.on('message', ({ mode, plan, memory, job, place, stream }) => {
  const signals = new Signals(memory);
  parentPort.postMessage({ verb: 'ready' });
  const onPoint = stream ? ({ t_ns, counts }) => {
    parentPort.postMessage({ verb: 'point', t_ns: t_ns[t_ns.length - 1], count: counts[counts.length - 1] });
  } : null;
  try {
    const epoch_ns = signals.awaitStart();
    const result = mode === 'timed' ? loop.timed(plan, signals, job, epoch_ns, place)
      : loop.continuous(plan, signals, job, epoch_ns, onPoint);
    parentPort.postMessage({ verb: 'done', result });
  } catch (error) {
    signals.fail(job);
    parentPort.postMessage({ verb: 'failed', stage: 'run', error: portable(error) });
  }
});

/** The parts of an error that survive the transfer to another thread, which loses its class. */
function portable(error) {
  if (error instanceof Promised) {
    return { name: 'Promised', message: 'the runner returns a promise: with several workers, put an await before it', stack: '' };
  }
  if (!(error instanceof Error)) return { name: typeof error, message: String(error), stack: '' };
  return { name: error.name, message: error.message, stack: error.stack };
}

begin();
