'use strict';

// Answers `run` for code: starts all workers of all jobs at one epoch, waits for them, reports. Decides what a failure
// of one job means for the others, and what happens to workers that do not stop.

const runtime = require('../runtime.js');
const { decodeList } = require('../wire.js');
const { HarnessError, atStage } = require('../harness/error.js');
const { HAS_THREAD_CLOCK } = require('./batches.js');
const { Histogram } = require('./histogram.js');
const { codeJob } = require('./job.js');
const { Signals } = require('./signals.js');

/** How long a batch may continue after a stop (docs/reference/protocol.md). */
const GIVE_UP_MS = 1000;

const ENDLESS = `an iteration did not end within ${GIVE_UP_MS / 1000} s after the stop`;

/**
 * A thread guards code that may run forever; starting it costs a tenth of starting Node.js. So code without loops or
 * waits is not guarded; if it never ends nevertheless, Speedwell's timeout ends it.
 */
const MAY_NOT_END = /\b(?:for|while)\b|\bAtomics\.wait\b|Sync\b/;

/** Delay from the start order to the epoch, so that threads are awake by then. */
const START_NS = 200000n;

async function run(session, command) {
  const begin_ns = process.hrtime.bigint();
  const isSeries = command.text('mode') === 'series';
  const mode = isSeries ? 'timed' : command.text('mode');
  const names = decodeList(command.fields.jobs || '');
  const jobs = names.map((name) => codeJob(session, name));
  const plan = isSeries ? { warmup_ns: 0, ...numbers(command, { samples: 1, loop: 1 }) }
    : mode === 'timed' ? numbers(command, { samples: 1, warmup_ns: 0, loop: 1 })
    : numbers(command, { samples: 1, warmup_ns: 0, interval_ns: 1 });
  plan.reference = isSeries && command.text('reference') ? numbers(command, { reference: 0 }).reference : 0;
  const stream = command.text('stream') === '1';
  const made = new Run(session, { id: command.id, mode, plan, stream });
  for (const job of jobs) await made.prepare(job);
  while (await made.measure());
  made.report();
  const elapsed_ns = process.hrtime.bigint() - begin_ns;
  session.channel.send('end', { id: command.id, jobs: names, elapsed_ns, max_late_ns: made.late_ns });
}

/** Parses the integers that a command must have, each with a minimum. */
function numbers(command, least) {
  return Object.fromEntries(Object.entries(least).map(([key, from]) => {
    const number = Number(command.text(key));
    if (!Number.isSafeInteger(number) || number < from) {
      throw new HarnessError('protocol', 'MissingKey', `run needs '${key}', an integer of at least ${from}`);
    }
    return [key, number];
  }));
}

class Run {
  constructor(session, { id, mode, plan, stream }) {
    Object.assign(this, { session, id, mode, plan, stream });
    this.parts = [];
    this.late_ns = 0;
  }

  /** Lets a job take part in the run if its worker can be initialized. */
  async prepare(job) {
    try {
      if (job.workers.length === 0) await job.resize(1);
      this.parts.push({ job, index: this.parts.length, results: [], failed: false, points: [] });
    } catch (error) {
      this.session.fail(error, { id: this.id, job: job.name });
    }
  }

  /** Measures; returns true if it must be repeated because a runner turned out to return promises. */
  async measure() {
    const parts = this.parts.filter(({ failed }) => !failed);
    const workers = parts.reduce((sum, { job }) => sum + job.workers.length, 0);
    if (workers === 0) return false;
    const signals = Signals.forRun(this.parts.length, workers);
    this.signals = signals;
    this.promised = null;
    const tasks = parts.flatMap((part) => this._tasks(part));
    const blocking = tasks.filter(({ worker }) => worker.blocks);
    const others = tasks.filter(({ worker }) => !worker.blocks);
    if (blocking.length > 0 && others.some(({ worker }) => !worker.ready)) {
      throw new HarnessError('protocol', 'OneThread', 'an awaited and a synchronous runner share the main ' +
                             'thread: load both before setting workers');
    }
    this._listen(parts);
    try {
      await Promise.all(others.map((task) => task.worker.ready && task.worker.ready(task)));
      const epoch_ns = process.hrtime.bigint() + (others.some(({ worker }) => worker.ready) ? START_NS : 0n);
      for (const task of tasks) task.epoch_ns = epoch_ns;
      signals.start(epoch_ns);
      const waiting = others.map((task) => this._outcome(task, () => task.worker.measure(task)));
      // Nothing else happens in this thread until it has its points.
      const done = blocking.map((task) => this._outcome(task, () => this._guarded(task)));
      await Promise.race([Promise.all([...waiting, ...done]), this.givenUp]);
    } finally {
      this._unlisten();
    }
    for (const part of parts.filter(({ failed }) => failed)) await part.job.drop();
    if (!this.promised) return false;
    const { part, worker, promise } = this.promised;
    try {
      await part.job.becomeAwaited(worker, promise);
    } catch (error) {
      this._fail(part, atStage('run', error));
    }
    return true;
  }

  /** Measures in this thread; another thread interrupts an iteration that does not end after a stop. */
  _guarded(task) {
    const { channel } = this.session;
    const measure = () => task.worker.measure(task);
    // The guard's signal would kill Deno.
    if (runtime.name === 'deno') return measure();
    if (!channel.guard && !MAY_NOT_END.test(task.part.job.forms.runner.text)) return measure();
    const { Guard } = require('./guard.js');
    channel.guard = channel.guard || new Guard(channel.commandFd, GIVE_UP_MS);
    channel.guard.wake();
    try {
      return channel.guard.run(measure);
    } catch (error) {
      if (error.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
      throw new HarnessError('timeout', 'Endless', ENDLESS);
    } finally {
      // Take over what the guard thread has read.
      channel.glance();
      channel.guard.rest();
    }
  }

  _tasks(part) {
    const { job, index } = part;
    part.results = [];
    part.points = [];
    const count = job.workers.length;
    part.meeting = job.awaited ? new (require('./async_loop.js').Meeting)(count) : null;
    const place = part.meeting ? { meeting: part.meeting } : { workers: count };
    return job.workers.map((worker, w) => ({
      part, worker, w, mode: this.mode, plan: this.plan, signals: this.signals, index,
      place: { ...place, leads: w === 0 },
      onPoint: this.stream ? (windows) => this._point(part, w, windows) : null,
    }));
  }

  /** Keeps the results of a worker, or reports its error once per job. */
  async _outcome(task, measure) {
    const { part, w } = task;
    try {
      part.results[w] = await measure();
    } catch (error) {
      if (error.promise) {
        this.promised = { part, worker: task.worker, promise: error.promise };
        this.signals.stop();
      } else {
        this._fail(part, Object.hasOwn(error, 'stage') ? error : atStage('run', error));
      }
    }
  }

  _fail(part, error) {
    this.signals.fail(part.index);
    if (part.meeting) part.meeting.open();
    if (part.failed) return;
    part.failed = true;
    this.session.fail(error, { id: this.id, job: part.job.name });
  }

  /** While a run is in progress, a stop or the end of the commands ends it. */
  _listen(parts) {
    let giveUp;
    this.givenUp = new Promise((resolve) => { giveUp = resolve; });
    const stop = () => {
      this.signals.stop();
      for (const { meeting } of parts) if (meeting) meeting.open();
      this.timer = this.timer || setTimeout(() => {
        for (const part of parts) {
          const missing = part.job.workers.some((worker, w) => !part.results[w]);
          if (missing) this._fail(part, new HarnessError('timeout', 'Endless', ENDLESS));
        }
        giveUp();
      }, GIVE_UP_MS);
    };
    const { session } = this;
    session.current = { stage: 'run', fields: { id: this.id }, fail: (error) => this._fail(parts[0], atStage('run', error)) };
    session.holdLoop(parts.every(({ job }) => job.workers.every(({ blocks }) => blocks)), (command) => {
      session.channel.send('stopped', { id: command.id, job: command.text('job') });
      stop();
    }, stop);
  }

  _unlisten() {
    clearTimeout(this.timer);
    this.timer = null;
    this.session.takeLoop();
  }

  /** Sends `sample` for every deadline that all workers of a job have passed. */
  _point(part, w, { t_ns, counts }) {
    const { job, points } = part;
    const workerPoints = points[w] = points[w] || (this.plan.warmup_ns === 0 ? [[0, 0]] : []);
    workerPoints.push([t_ns[t_ns.length - 1], counts[counts.length - 1]]);
    part.said = part.said || 0;
    const all = () => job.workers.every((worker, index) => points[index] && points[index].length > part.said);
    for (; all(); part.said++) this._sample(part, part.said);
  }

  _sample({ job, points }, k) {
    const latest = points.map((workerPoints) => workerPoints[k]);
    const t_ns = Math.max(...latest.map(([time]) => time));
    const count = latest.reduce((sum, [, counted]) => sum + counted, 0);
    const deadline_ns = this.plan.warmup_ns + k * this.plan.interval_ns;
    const late_ns = Math.max(0, t_ns - deadline_ns);
    this.session.channel.send('sample', { id: this.id, job: job.name, k, t_ns, count, workers: points.length, late_ns });
  }

  report() {
    for (const { job, results, failed } of this.parts) {
      if (failed) continue;
      if (this.mode === 'timed') this._reportTimed(job, results);
      else results.forEach((result, w) => this._reportWorker(job, result, w));
    }
  }

  _reportWorker(job, { t_ns, count, late_ns, batch, q_ps, batches, cpu_ns }, w) {
    this.late_ns = Math.max(this.late_ns, late_ns);
    this.session.channel.send('worker', {
      id: this.id, job: job.name, w, epoch_ns: 0, batch, t_ns, count, q_ps, batches,
      // With several workers, the process's time cannot be attributed to one.
      cpu_ns: job.workers.length === 1 || haveClocks(job) ? cpu_ns : undefined,
    });
  }

  _reportTimed(job, results) {
    const histogram = new Histogram();
    for (const result of results) histogram.merge(result.histogram);
    const samples = Math.min(...results.map(({ ended_ns }) => ended_ns.length));
    const fromFirstToLast = (begun, ended, i) => (
      Math.max(...results.map((result) => result[ended][i])) - Math.min(...results.map((result) => result[begun][i])));
    const ns = Array.from({ length: samples }, (_, i) => fromFirstToLast('begun_ns', 'ended_ns', i));
    const cpu_ns = ns.map((_, i) => (haveClocks(job)
      ? results.reduce((sum, { begun_cpu_ns, ended_cpu_ns }) => sum + ended_cpu_ns[i] - begun_cpu_ns[i], 0)
      : fromFirstToLast('begun_cpu_ns', 'ended_cpu_ns', i)));
    this.session.channel.send('timed', {
      id: this.id, job: job.name, ns, cpu_ns, loop: [this.plan.loop], workers: results.length, q_ps: histogram.quantiles_ps(),
      batches: histogram.count, reference_ns: results[0].reference_ns.length > 0 ? results[0].reference_ns : undefined,
    });
  }
}

/** Whether each worker of a job has its own processor clock: awaited ones share their thread. */
function haveClocks({ workers }) {
  return HAS_THREAD_CLOCK && workers.every(({ blocks, thread }) => blocks || thread);
}

exports.run = run;
