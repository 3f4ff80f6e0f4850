'use strict';

// Shared memory between the threads of one run, because a measuring thread reads no messages: when to start, when
// to stop, who is still needed, and where passes begin and end.

const [GO, STOP, LEFT, EPOCH_WORDS] = [0, 1, 2, 4];
const FIRST_JOB = 6;
const [FAILED, ARRIVED, PHASE, KEEP] = [0, 1, 2, 3];
const WORDS_PER_JOB = 4;

/** How often a waiting thread checks whether the others still run. */
const LOOK_MS = 20;

class Signals {
  constructor(memory) {
    this.memory = memory;
    this.words = new Int32Array(memory);
    this.epoch = new BigInt64Array(memory, EPOCH_WORDS * 4, 1);
  }

  /** For a run of this many jobs, in which this many workers must get all their points. */
  static forRun(jobs, workers) {
    const signals = new Signals(new SharedArrayBuffer((FIRST_JOB + WORDS_PER_JOB * jobs) * 4));
    Atomics.store(signals.words, LEFT, workers);
    return signals;
  }

  /** Starts all threads at `epoch_ns`. */
  start(epoch_ns) {
    Atomics.store(this.epoch, 0, epoch_ns);
    Atomics.store(this.words, GO, 1);
    Atomics.notify(this.words, GO);
  }

  /** Blocks a thread until the start; returns the epoch. */
  awaitStart() {
    while (Atomics.load(this.words, GO) === 0) Atomics.wait(this.words, GO, 0, 1000);
    const epoch_ns = Atomics.load(this.epoch, 0);
    while (process.hrtime.bigint() < epoch_ns);
    return epoch_ns;
  }

  stop() {
    Atomics.store(this.words, STOP, 1);
    // Release threads that have not started yet.
    Atomics.store(this.words, GO, 1);
    Atomics.notify(this.words, GO);
  }

  /** A worker has all its points, or cannot get them anymore. */
  finished() {
    Atomics.sub(this.words, LEFT, 1);
  }

  get allFinished() {
    return Atomics.load(this.words, LEFT) <= 0;
  }

  fail(job) {
    Atomics.store(this.words, this._at(job, FAILED), 1);
  }

  /** Whether the workers of a job must end at once. */
  isOver(job) {
    return Atomics.load(this.words, STOP) === 1 || Atomics.load(this.words, this._at(job, FAILED)) === 1;
  }

  /** From now on, samples are kept; called by the first worker of a job while the others wait for it. */
  keeps(job) {
    return Atomics.load(this.words, this._at(job, KEEP)) === 1;
  }

  keep(job) {
    Atomics.store(this.words, this._at(job, KEEP), 1);
  }

  /** Blocks a thread until all `workers` of the job have arrived. False if the run is over. */
  meet(job, workers) {
    if (workers === 1) return !this.isOver(job);
    const [arrived, phase] = [this._at(job, ARRIVED), this._at(job, PHASE)];
    const now = Atomics.load(this.words, phase);
    if (Atomics.add(this.words, arrived, 1) === workers - 1) {
      Atomics.store(this.words, arrived, 0);
      Atomics.add(this.words, phase, 1);
      Atomics.notify(this.words, phase);
      return !this.isOver(job);
    }
    while (Atomics.load(this.words, phase) === now) {
      if (this.isOver(job)) return false;
      Atomics.wait(this.words, phase, now, LOOK_MS);
    }
    return !this.isOver(job);
  }

  _at(job, word) {
    return FIRST_JOB + job * WORDS_PER_JOB + word;
  }
}

exports.Signals = Signals;
