'use strict';

// Times per iteration of batches, in picoseconds, each with an error of at most 0.5 %: neighboring classes differ by
// 2^(1/70), which is 1 %, and a class is reported by its middle.

const CLASSES_PER_DOUBLING = 70;
const DOUBLINGS = 63;

class Histogram {
  constructor() {
    this.classes = new Uint32Array(CLASSES_PER_DOUBLING * DOUBLINGS);
    this.count = 0;
    this.least_ps = Infinity;
  }

  /** Adds the time per iteration of one batch. */
  add(time_ps) {
    if (time_ps < this.least_ps) this.least_ps = time_ps;
    this.classes[Math.floor(Math.log2(Math.max(time_ps, 1)) * CLASSES_PER_DOUBLING)]++;
    this.count++;
  }

  /** Returns a form that can be sent to another thread. */
  parts() {
    const { classes, count, least_ps } = this;
    return { classes, count, least_ps };
  }

  /** Adds the counts of another histogram. */
  merge({ classes, count, least_ps }) {
    for (let index = 0; index < classes.length; index++) this.classes[index] += classes[index];
    this.count += count;
    this.least_ps = Math.min(this.least_ps, least_ps);
  }

  /** Minimum, 5 %, 25 % and 50 %, as the protocol requires; nothing if no batch was added. */
  quantiles_ps() {
    if (this.count === 0) return [];
    return [this.least_ps, this._quantile_ps(0.05), this._quantile_ps(0.25), this._quantile_ps(0.5)].map(Math.round);
  }

  _quantile_ps(share) {
    let left = Math.ceil(share * this.count);
    const index = this.classes.findIndex((count) => (left -= count) <= 0);
    return Math.max(this.least_ps, 2 ** ((index + 0.5) / CLASSES_PER_DOUBLING));
  }
}

exports.Histogram = Histogram;
