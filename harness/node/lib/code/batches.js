'use strict';

// The rules of measuring that are the same for code that is awaited and code that is not: how long a batch is, which
// points are noted, what belongs to the histogram. It is told of every batch that is over.

const runtime = require('../runtime.js');
const { Histogram } = require('./histogram.js');

/** A batch shorter than this is doubled, a longer one than that is halved (docs/reference/protocol.md, "Measuring code"). */
const SHORT_NS = 50e3;
const LONG_NS = 2e6;

/** Far above what 50 µs can hold, and counted in small integers by V8. */
const MOST = 2 ** 30;

/** Whether each thread has a clock of its processor time. That of Deno 2.9 goes in steps of 10 ms. */
const HAS_THREAD_CLOCK = Boolean(process.threadCpuUsage) && runtime.name !== 'deno';

/**
 * The processor time of this thread, or of the process where Node.js cannot tell (before 23.9). It takes some
 * microseconds, so it is read outside of what the other clock measures, or once in a window.
 */
function cpuNow_ns() {
  const { user, system } = HAS_THREAD_CLOCK ? process.threadCpuUsage() : process.cpuUsage();
  return (user + system) * 1000;
}

// Compiled now, because the first call may be within a window.
cpuNow_ns();

/** How many iterations the next batch of a worker has; lives as long as the worker. */
class Size {
  constructor() {
    this.iterations = 1;
  }

  adapt(took_ns) {
    if (took_ns < SHORT_NS) this.iterations = Math.min(this.iterations * 2, MOST);
    else if (took_ns > LONG_NS && this.iterations > 1) this.iterations = Math.floor(this.iterations / 2);
  }
}

/** The points and batches of one worker in one continuous run. Times are ns since the epoch. */
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

  /** A batch is over; says whether it gave a point. */
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
 * The reference loop: the same work whenever it is performed, so what changes its time is the machine. It is performed
 * after every so many samples; 0: never.
 */
class Reference {
  constructor(every) {
    this.every = every;
    this.turns = 1e4;
    if (every === 0) return;
    // Compiled and optimised now, long before the first sample.
    for (let round = 0; round < 50; round++) referenceLoop_ns(this.turns);
    // Whoever loses the processor meanwhile has taken long as well, but not three times.
    while (least_ns(3, this.turns) < 2e5) this.turns *= 2;
  }

  after(samples, times_ns) {
    if (this.every > 0 && samples % this.every === 0) times_ns.push(referenceLoop_ns(this.turns));
  }
}

/** The least time of so many performances of the reference loop. */
function least_ns(count, turns) {
  return Math.min(...Array.from({ length: count }, () => referenceLoop_ns(turns)));
}

/** By the wall clock: that of the processor has steps of a microsecond and may count other threads. */
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

/** The samples of one worker in one timed run: when each began and ended, in ns since the epoch and by processor time. */
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
