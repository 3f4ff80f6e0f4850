'use strict';

// The rules of measurement for both awaited and synchronous code: how long a batch is, which points are recorded, what
// counts in the histogram. Called after every batch.

const runtime = require('../runtime.js');
const { Histogram } = require('./histogram.js');

/** Shorter batches are doubled, batches longer than the next limit halved (docs/reference/protocol.md, "Measuring
 * code"). */
const SHORT_NS = 50e3;
const LONG_NS = 2e6;

/** Far above what fits into 50 µs, and a small integer for V8. */
const MOST = 2 ** 30;

/** Whether each thread has its own processor clock. Deno 2.9's has a resolution of 10 ms. */
const HAS_THREAD_CLOCK = Boolean(process.threadCpuUsage) && runtime.name !== 'deno';

/**
 * Processor time of this thread, or of the process if Node.js cannot measure threads (before 23.9). Takes some
 * microseconds, so it is read outside the wall-clock measurement, or once per window.
 */
function cpuNow_ns() {
  const { user, system } = HAS_THREAD_CLOCK ? process.threadCpuUsage() : process.cpuUsage();
  return (user + system) * 1000;
}

// Compile it now, because the first call may fall into a window.
cpuNow_ns();

/** The number of iterations of a worker's next batch; lives as long as the worker. */
class Size {
  constructor() {
    this.iterations = 1;
  }

  adapt(took_ns) {
    if (took_ns < SHORT_NS) this.iterations = Math.min(this.iterations * 2, MOST);
    else if (took_ns > LONG_NS && this.iterations > 1) this.iterations = Math.floor(this.iterations / 2);
  }
}

/** The points and batches of one worker in one continuous run. Times are in ns since the epoch. */
class Windows {
  constructor({ warmup_ns, interval_ns, samples }) {
    this.interval_ns = interval_ns;
    this.warmup_ns = warmup_ns;
    this.wanted = samples + 1;
    this.deadline_ns = warmup_ns;
    this.t_ns = [];
    this.counts = [];
    this.count = 0;
    this.late_ns = 0;
    this.begun_cpu_ns = 0;
    this.ended_cpu_ns = 0;
    this.histogram = new Histogram();
    if (warmup_ns === 0) this._note(0);
  }

  get complete() {
    return this.t_ns.length >= this.wanted;
  }

  /** Records a finished batch; returns whether it completed a point. */
  batch(iterations, took_ns, now_ns) {
    this.count += iterations;
    if (this.complete) return false;
    if (this.t_ns.length > 0) this.histogram.add((took_ns * 1000) / iterations);
    if (now_ns < this.deadline_ns) return false;
    this.late_ns = Math.max(this.late_ns, now_ns - this.deadline_ns);
    this._note(now_ns);
    return true;
  }

  _note(now_ns) {
    this.t_ns.push(now_ns);
    this.counts.push(this.count);
    this.ended_cpu_ns = cpuNow_ns();
    if (this.counts.length === 1) this.begun_cpu_ns = this.ended_cpu_ns;
    const passed = Math.floor((now_ns - this.warmup_ns) / this.interval_ns);
    this.deadline_ns = this.warmup_ns + (passed + 1) * this.interval_ns;
  }

  result(batch) {
    const { t_ns, counts, late_ns, histogram } = this;
    const cpu_ns = counts.length > 1 ? this.ended_cpu_ns - this.begun_cpu_ns : undefined;
    return { t_ns, count: counts, late_ns, batch, q_ps: histogram.quantiles_ps(), batches: histogram.count, cpu_ns };
  }
}

/**
 * The reference loop: constant work, so that changes of its time are due to the machine. Runs after every `every`
 * samples; never if that is 0.
 */
class Reference {
  constructor(every) {
    this.every = every;
    this.turns = 1e4;
    if (every === 0) return;
    // Compile and optimize it now, long before the first sample.
    for (let round = 0; round < 50; round++) referenceLoop_ns(this.turns);
    // A preempted measurement takes too long as well, but hardly three times in a row.
    while (least_ns(3, this.turns) < 2e5) this.turns *= 2;
  }

  after(samples, times_ns) {
    if (this.every > 0 && samples % this.every === 0) times_ns.push(referenceLoop_ns(this.turns));
  }
}

/** Returns the minimum time of this many runs of the reference loop. */
function least_ns(count, turns) {
  return Math.min(...Array.from({ length: count }, () => referenceLoop_ns(turns)));
}

/** Uses the wall clock: the processor clock has a resolution of a microsecond and may include other threads. */
function referenceLoop_ns(turns) {
  const begun_ns = process.hrtime.bigint();
  let state = 88675123;
  for (let turn = 0; turn < turns; turn++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  referenceLoop_ns.kept = state;
  return Number(process.hrtime.bigint() - begun_ns);
}

/** The samples of one worker in one timed run: their start and end, in ns since the epoch and by processor time. */
class Passes {
  constructor({ reference }, leads) {
    // The workers share the machine, so one of them is enough.
    this.reference = new Reference(leads ? reference : 0);
    this.reference_ns = [];
    this.begun_ns = [];
    this.ended_ns = [];
    this.begun_cpu_ns = [];
    this.ended_cpu_ns = [];
    this.histogram = new Histogram();
  }

  add(begun_ns, ended_ns, begun_cpu_ns, ended_cpu_ns) {
    this.begun_ns.push(begun_ns);
    this.ended_ns.push(ended_ns);
    this.begun_cpu_ns.push(begun_cpu_ns);
    this.ended_cpu_ns.push(ended_cpu_ns);
    this.reference.after(this.begun_ns.length, this.reference_ns);
  }

  result() {
    const { begun_ns, ended_ns, begun_cpu_ns, ended_cpu_ns, reference_ns, histogram } = this;
    return { begun_ns, ended_ns, begun_cpu_ns, ended_cpu_ns, reference_ns, histogram: histogram.parts() };
  }
}

Object.assign(exports, { HAS_THREAD_CLOCK, Size, Windows, Passes, cpuNow_ns });
