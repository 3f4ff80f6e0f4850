'use strict';

// A worker whose iterations are awaited. All such workers share the main thread and interleave whenever they wait.
// Promises that resolve immediately would block the event loop, so every 20 ms all workers yield to it once, together:
// none of them continues meanwhile.

const { Passes, Size, Windows, cpuNow_ns } = require('./batches.js');
const { LOOK_NS } = require('./sync_loop.js');

/** The turn of the event loop that all workers are waiting for. */
let turn = null;
let turned_ns = 0n;

function nextTurn() {
  if (!turn) {
    turn = new Promise((resolve) => {
      setImmediate(() => {
        turn = null;
        turned_ns = process.hrtime.bigint();
        resolve();
      });
    });
  }
  return turn;
}

class AsyncLoop {
  constructor(made, progress) {
    this.made = made;
    this.progress = progress;
    this.size = new Size();
  }

  /** Yields to the event loop when due; returns the time at which measurement resumes. */
  async _look(now, epoch_ns) {
    if (!turn && now - turned_ns < BigInt(LOOK_NS)) return Number(now - epoch_ns);
    await nextTurn();
    return Number(process.hrtime.bigint() - epoch_ns);
  }

  async continuous(plan, signals, job, epoch_ns, onPoint) {
    const windows = new Windows(plan);
    try {
      await this._continuous(windows, signals, job, epoch_ns, onPoint);
    } finally {
      if (!windows.complete) signals.finished();
    }
    return windows.result(this.size.iterations);
  }

  async _continuous(windows, signals, job, epoch_ns, onPoint) {
    let begun_ns = 0;
    for (let over = false; !over;) {
      const { iterations } = this.size;
      await this.made.loop(iterations);
      const now = process.hrtime.bigint();
      const now_ns = Number(now - epoch_ns);
      const was = windows.complete;
      if (windows.batch(iterations, now_ns - begun_ns, now_ns) && onPoint) onPoint(windows);
      this.size.adapt(now_ns - begun_ns);
      this.progress[0] += iterations;
      if (windows.complete && !was) signals.finished();
      over = (windows.complete && signals.allFinished) || signals.isOver(job);
      begun_ns = await this._look(now, epoch_ns);
    }
  }

  async timed(plan, signals, job, epoch_ns, { leads, meeting }) {
    const passes = new Passes(plan, leads);
    if (leads && plan.warmup_ns === 0) signals.keep(job);
    for (;;) {
      await meeting.arrive();
      if (passes.begun_ns.length >= plan.samples || signals.isOver(job)) break;
      const keeps = signals.keeps(job);
      const begun_cpu_ns = cpuNow_ns();
      const begun_ns = Number(process.hrtime.bigint() - epoch_ns);
      const ended_ns = await this._pass(plan.loop, begun_ns, epoch_ns, keeps ? passes.histogram : null, signals, job);
      const ended_cpu_ns = cpuNow_ns();
      await meeting.arrive();
      if (signals.isOver(job)) break;
      if (keeps) {
        passes.add(begun_ns, ended_ns, begun_cpu_ns, ended_cpu_ns);
      } else if (leads && ended_ns >= plan.warmup_ns) {
        signals.keep(job);
      }
    }
    return passes.result();
  }

  async _pass(count, begin_ns, epoch_ns, histogram, signals, job) {
    let begun_ns = begin_ns;
    let ended_ns = begin_ns;
    for (let left = count; left > 0 && !signals.isOver(job);) {
      const iterations = Math.min(this.size.iterations, left);
      await this.made.loop(iterations);
      const now = process.hrtime.bigint();
      ended_ns = Number(now - epoch_ns);
      if (histogram) histogram.add(((ended_ns - begun_ns) * 1000) / iterations);
      if (iterations === this.size.iterations) this.size.adapt(ended_ns - begun_ns);
      this.progress[0] += iterations;
      left -= iterations;
      begun_ns = left > 0 ? await this._look(now, epoch_ns) : ended_ns;
    }
    return ended_ns;
  }
}

/** A barrier for `count` workers of one job; `open` releases it permanently. */
class Meeting {
  constructor(count) {
    this.count = count;
    this.here = 0;
    this.isOpen = false;
    this._close();
  }

  _close() {
    this.gate = new Promise((resolve) => { this.release = resolve; });
  }

  arrive() {
    if (this.isOpen) return undefined;
    if (++this.here < this.count) return this.gate;
    this.here = 0;
    this.release();
    this._close();
    return undefined;
  }

  open() {
    this.isOpen = true;
    this.release();
  }
}

Object.assign(exports, { AsyncLoop, Meeting });
