'use strict';

// One piece of code with its hooks and workers. Decides where workers run: awaited ones interleave in the main thread.
// A single synchronous worker has the main thread to itself if it is alone in the process, because starting a thread
// takes longer than everything else; several workers, and those of several jobs, run in threads.

const fs = require('fs');
const path = require('path');
const { compileHook, expose, loopSource, read, requirer } = require('./compile.js');
const { assignsState } = require('./forms.js');
const { AwaitedWorker, MainWorker, ThreadWorker } = require('./workers.js');
const { HarnessError, atStage, describeNames } = require('../harness/error.js');

const MOST_WORKERS = 4096;

class CodeJob {
  constructor(session, name, texts, paths) {
    this.session = session;
    this.name = name;
    this.paths = paths;
    /** Files among the search paths: modules whose exports the code sees. */
    this.modules = paths.filter((file) => fs.existsSync(file) && fs.statSync(file).isFile());
    this.forms = Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, read(text, key)]));
    this.awaited = this.forms.runner.async;
    this.requires = requirer(paths);
    this.shared = undefined;
    this.begun = false;
    this.workers = [];
    /** Iterations of workers that have ended. */
    this.past = 0;
  }

  async begin() {
    if (this.modules.length > 0) {
      const names = await atHook('init', () => expose(this.requires, this.modules));
      for (const form of Object.values(this.forms).filter(Boolean)) form.names = names;
      const files = this.modules.map((file) => `'${path.basename(file)}'`).join(', ');
      if (names.includes('state') && this.forms.init_runner) {
        throw new HarnessError('compile', 'Names', `${files} exports 'state', which is also the value of --init-worker`);
      }
      describeNames(`; ${files} exports ${names.join(', ') || 'nothing'}`);
    }
    if (this.forms.init) this.shared = await atHook('init', () => compileHook(this.forms.init)(this.requires));
    this.begun = true;
  }

  get source() {
    return loopSource(this.forms.runner);
  }

  get arity() {
    return this.forms.runner.arity || 0;
  }

  /** Iterations so far. */
  get progress() {
    return this.workers.reduce((sum, { progress }) => sum + progress[0], this.past);
  }

  /** Called between two batches of a worker in the main thread. */
  look() {
    this.session.glance();
  }

  /** Changes the number of workers to `count`; resolves when the new ones are initialized. */
  async resize(count) {
    if (!Number.isInteger(count) || count < 1 || count > MOST_WORKERS) {
      throw new HarnessError('protocol', 'Workers', `a job has 1 to ${MOST_WORKERS} workers, not ${count}`);
    }
    await this._endWorkers(this.workers.splice(count));
    const made = [];
    while (this.workers.length + made.length < count) made.push(this._make(count));
    const results = await Promise.allSettled(made.map((worker) => asPromise(() => worker.begin())));
    const failed = results.find(({ status }) => status === 'rejected');
    if (failed) {
      await this._endWorkers(made);
      throw failed.reason;
    }
    this.workers.push(...made);
  }

  _make(count) {
    if (this.awaited) return new AwaitedWorker(this);
    const alone = count === 1 && this.session.jobs.size === 1;
    return alone ? new MainWorker(this) : new ThreadWorker(this);
  }

  /** The first iteration returned a promise: from now on, the runner is awaited. */
  async becomeAwaited(worker, promise) {
    this.awaited = true;
    this.forms.runner.async = true;
    const next = new AwaitedWorker(this);
    await next.continue(worker, promise);
    this.workers = this.workers.map((one) => (one === worker ? next : one));
  }

  /** Ends all workers, even running ones. */
  async drop() {
    await this._endWorkers(this.workers.splice(0));
  }

  async _endWorkers(workers) {
    for (const { progress } of workers) this.past += progress[0];
    await Promise.all(workers.map((worker) => worker.end()));
  }

  /** Ends the workers and executes `done`. */
  async end() {
    await this.drop();
    const { done } = this.forms;
    if (done && this.begun) await atHook('done', () => compileHook(done)(this.requires, this.shared));
  }
}

async function atHook(stage, act) {
  try {
    return await act();
  } catch (error) {
    throw atStage(stage, error);
  }
}

async function asPromise(act) {
  return act();
}

const PATH = /^path(\d+)$/;
const HOOKS = ['runner', 'init', 'init_runner', 'done'];

/** Answers `load form=text`. */
async function load(session, command) {
  const name = command.text('job');
  if (command.fields.runner === undefined) throw new HarnessError('protocol', 'MissingKey', "load needs 'runner'");
  const lang = command.text('lang');
  if (lang !== undefined && lang !== 'node') {
    throw new HarnessError('protocol', 'Language', `unsupported language '${lang}': expected 'node'`);
  }
  if (session.jobs.has(name)) throw new HarnessError('protocol', 'SecondLoad', `job '${name}' is already loaded`);
  const texts = Object.fromEntries(HOOKS.map((key) => [key, command.text(key)]));
  const paths = Object.keys(command.fields).filter((key) => PATH.test(key))
    .sort((a, b) => PATH.exec(a)[1] - PATH.exec(b)[1]).map(command.text);
  const job = new CodeJob(session, name, texts, paths);
  await job.begin();
  session.jobs.set(name, job);
  const { awaited, source, arity } = job;
  const folds = assignsState(job.forms.runner) ? 0 : undefined;
  session.channel.send('loaded', {
    id: command.id, job: name, form: 'text', source, arity, async: awaited ? 1 : undefined, folds,
  });
}

/** Answers `workers`. */
async function workers(session, command) {
  const job = codeJob(session, command.text('job'));
  const begin_ms = performance.now();
  await job.resize(Number(command.text('n')));
  const ms = Math.round(performance.now() - begin_ms);
  session.channel.send('workers', { id: command.id, job: job.name, n: job.workers.length, ms });
}

/** Returns the job of that name, which must be code. */
function codeJob(session, name) {
  const job = session.jobs.get(name);
  if (!job) throw new HarnessError('protocol', 'UnknownJob', `unknown job '${name}'`);
  if (!(job instanceof CodeJob)) throw new HarnessError('protocol', 'Form', `job '${name}' is a benchmark file, not code`);
  return job;
}

Object.assign(exports, { CodeJob, codeJob, load, workers });
