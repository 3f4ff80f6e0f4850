'use strict';

// The three places in which a worker may run, with the same methods: `begin` initializes it, `measure` resolves to
// its results, `end` ends it. job.js decides which one a job gets.

const { compileHook, compileLoop } = require('./compile.js');
const { atStage } = require('../harness/error.js');

/** In the main thread, not awaited: the main thread does nothing else during a run. */
class MainWorker {
  constructor(job) {
    this.job = job;
    this.blocks = true;
    this.progress = new Float64Array(1);
  }

  async begin() {
    const { SyncLoop } = require('./sync_loop.js');
    const { loop, state } = await made(this.job);
    this.state = state;
    this.loop = new SyncLoop(loop, this.progress, () => this.job.look());
  }

  /** Not a promise: blocks the caller. */
  measure({ mode, plan, signals, index, epoch_ns, place, onPoint }) {
    if (mode === 'timed') return this.loop.timed(plan, signals, index, epoch_ns, place);
    return this.loop.continuous(plan, signals, index, epoch_ns, onPoint);
  }

  end() {}
}

/** In the main thread, awaited. */
class AwaitedWorker {
  constructor(job) {
    this.job = job;
    this.progress = new Float64Array(1);
  }

  async begin() {
    const { AsyncLoop } = require('./async_loop.js');
    this.loop = new AsyncLoop((await made(this.job)).loop, this.progress);
  }

  /** Takes over from a worker that stopped because its first iteration returned a promise. */
  async continue({ state }, promise) {
    const { AsyncLoop } = require('./async_loop.js');
    const { forms, requires, shared } = this.job;
    const loop = compileLoop(forms.runner)(requires, shared, state);
    loop.keep(await promise);
    this.loop = new AsyncLoop(loop, this.progress);
  }

  async measure({ mode, plan, signals, index, epoch_ns, place, onPoint }) {
    if (mode === 'timed') return this.loop.timed(plan, signals, index, epoch_ns, place);
    return this.loop.continuous(plan, signals, index, epoch_ns, onPoint);
  }

  end() {}
}

/** In its own thread. */
class ThreadWorker {
  constructor(job) {
    this.job = job;
    this.progress = new Float64Array(new SharedArrayBuffer(8));
    this.hear = null;
    this.point = null;
  }

  begin() {
    const { Worker } = require('worker_threads');
    const { forms: { runner, init_runner }, paths, modules, shared } = this.job;
    const workerData = { forms: { runner, init_runner }, paths, modules, shared, progress: this.progress };
    try {
      this.thread = new Worker(require.resolve('./thread.js'), { workerData });
    } catch (error) {
      if (error.name !== 'DataCloneError') throw error;
      const hint = 'the value of init cannot be copied to worker threads; create it in init_runner instead';
      throw atStage('init_runner', Object.assign(new Error(`${hint}: ${error.message}`), { name: error.name }));
    }
    this.thread.on('message', (message) => this._heard(message));
    this.thread.on('error', (error) => this._heard({ verb: 'failed', stage: 'run', error }));
    this.thread.on('exit', () => this._heard({ verb: 'failed', stage: 'run', error: EXITED }));
    return this._next('begun');
  }

  /** Resolves when the thread is ready for the start of the run. */
  ready({ mode, plan, signals, index, place, onPoint }) {
    this.onPoint = onPoint;
    const ready = this._next('ready');
    this.thread.postMessage({ mode, plan, memory: signals.memory, job: index, place, stream: Boolean(onPoint) });
    return ready;
  }

  measure() {
    return this._next('done').then(({ result }) => result);
  }

  end() {
    if (!this.thread) return undefined;
    this.thread.removeAllListeners('exit');
    return this.thread.terminate();
  }

  /** Resolves to the next message with that verb, which may have arrived earlier; rejects if the worker fails. */
  _next(verb) {
    return new Promise((resolve, reject) => {
      this.wanted = { verb, resolve, reject };
      if (this.early) this._heard(this.early);
    });
  }

  _heard(message) {
    const { wanted } = this;
    if (message.verb === 'point') {
      this.onPoint({ t_ns: [message.t_ns], counts: [message.count] });
      return;
    }
    this.early = null;
    if (!wanted) {
      this.early = message;
      return;
    }
    this.wanted = null;
    if (message.verb === 'failed') wanted.reject(atStage(message.stage, restored(message.error)));
    else wanted.resolve(message);
  }
}

const EXITED = { name: 'ProcessExit', message: 'the code ended its thread', stack: '' };

/** Recreates an error as it was in its thread. */
function restored({ name, message, stack }) {
  const error = new Error(message);
  return Object.assign(error, { name, stack });
}

/** Creates the loop of a job for a new worker in this thread, and the worker's state. */
async function made({ forms, requires, shared }) {
  let state;
  if (forms.init_runner) {
    try {
      state = await compileHook(forms.init_runner)(requires, shared);
    } catch (error) {
      throw atStage('init_runner', error);
    }
  }
  return { loop: compileLoop(forms.runner)(requires, shared, state), state };
}

Object.assign(exports, { MainWorker, AwaitedWorker, ThreadWorker });
