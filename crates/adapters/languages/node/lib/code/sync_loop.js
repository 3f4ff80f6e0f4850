'use strict';

// A worker whose iterations are not awaited. It occupies its thread while it measures: nothing else happens there
// except `look`, which is called between two batches, at most every 20 ms, and whose time is not part of any batch.

const { Passes, Size, Windows, cpuNow_ns } = require('./batches.js');

/**
 * Polling for a command costs 12 µs on the machine where this was measured, so this is 0.06 % of a window's time. It
 * also bounds how late a stop is noticed.
 */
const LOOK_NS = 20e6;

/** Thrown by the first iteration if it returned a promise: the code must be awaited. */
class Promised {
  constructor(promise) {
    this.promise = promise;
  }
}

class SyncLoop {
  /** `made` comes from compile.js; `progress[0]` counts the iterations for observers. */
  constructor(made, progress, look) {
    this.made = made;
    this.progress = progress;
    this.look = look;
    this.size = new Size();
    this.proved = false;
  }

  /** Called after the very first iteration, which is a batch by itself: throws if it returned a promise. */
  _prove() {
    this.proved = true;
    const value = this.made.last();
    if (value !== null && typeof value === 'object' && typeof value.then === 'function') throw new Promised(value);
  }

  continuous(plan, signals, job, epoch_ns, onPoint) {
    const windows = new Windows(plan);
    try {
      this._continuous(windows, signals, job, epoch_ns, onPoint);
    } finally {
      // Others must not wait for a worker that cannot get its points.
      if (!windows.complete) signals.finished();
    }
    return windows.result(this.size.iterations);
  }

  _continuous(windows, signals, job, epoch_ns, onPoint) {
    const { loop } = this.made;
    let begun_ns = 0;
    let look_ns = LOOK_NS;
    for (let over = false; !over;) {
      const { iterations } = this.size;
      loop(iterations);
      if (!this.proved) this._prove();
      let now_ns = Number(process.hrtime.bigint() - epoch_ns);
      const was = windows.complete;
      if (windows.batch(iterations, now_ns - begun_ns, now_ns) && onPoint) {
        onPoint(windows);
        // Reporting took time that is not part of any batch.
        look_ns = now_ns;
      }
      this.size.adapt(now_ns - begun_ns);
      this.progress[0] += iterations;
      if (windows.complete && !was) signals.finished();
      over = (windows.complete && signals.allFinished) || signals.isOver(job);
      if (now_ns >= look_ns) {
        this.look();
        now_ns = Number(process.hrtime.bigint() - epoch_ns);
        look_ns = now_ns + LOOK_NS;
      }
      begun_ns = now_ns;
    }
  }

  timed(plan, signals, job, epoch_ns, { workers, leads }) {
    const passes = new Passes(plan, leads);
    if (leads && plan.warmup_ns === 0) signals.keep(job);
    while (passes.begun_ns.length < plan.samples && signals.meet(job, workers)) {
      const keeps = signals.keeps(job);
      const begun_cpu_ns = cpuNow_ns();
      const begun_ns = Number(process.hrtime.bigint() - epoch_ns);
      const ended_ns = this._pass(plan.loop, begun_ns, epoch_ns, keeps ? passes.histogram : null, signals, job);
      const ended_cpu_ns = cpuNow_ns();
      if (!signals.meet(job, workers)) break;
      if (keeps) {
        passes.add(begun_ns, ended_ns, begun_cpu_ns, ended_cpu_ns);
      } else if (leads && ended_ns >= plan.warmup_ns) {
        signals.keep(job);
      }
    }
    return passes.result();
  }

  /** Takes one sample; returns its end. */
  _pass(count, begin_ns, epoch_ns, histogram, signals, job) {
    const { loop } = this.made;
    let begun_ns = begin_ns;
    let look_ns = begin_ns + LOOK_NS;
    for (let left = count; left > 0;) {
      const iterations = Math.min(this.size.iterations, left);
      loop(iterations);
      if (!this.proved) this._prove();
      const now_ns = Number(process.hrtime.bigint() - epoch_ns);
      if (histogram) histogram.add(((now_ns - begun_ns) * 1000) / iterations);
      if (iterations === this.size.iterations) this.size.adapt(now_ns - begun_ns);
      this.progress[0] += iterations;
      left -= iterations;
      begun_ns = now_ns;
      if (now_ns < look_ns) continue;
      this.look();
      if (signals.isOver(job)) break;
      begun_ns = Number(process.hrtime.bigint() - epoch_ns);
      look_ns = begun_ns + LOOK_NS;
    }
    // The last clock reading of a batch, so that a poll after it is not measured.
    return Math.max(begun_ns, begin_ns);
  }
}

Object.assign(exports, { SyncLoop, Promised, LOOK_NS });
