'use strict';

// Answers `monitor`: reports the runtime's state, at once and then at every interval. While code occupies the
// main thread no timer fires, so the workers' polls between batches replace the timer.

const { monitorEventLoopDelay, performance } = require('perf_hooks');
const v8 = require('v8');
const { CodeJob } = require('./job.js');
const { HarnessError } = require('../harness/error.js');

/** Resolution of the event loop's delay; the minimum that Node offers without cost is 1 ms. */
const DELAY_RESOLUTION_MS = 10;

async function monitor(session, command) {
  const interval_ns = Number(command.text('interval_ns'));
  if (!(interval_ns >= 0)) throw new HarnessError('protocol', 'MissingKey', "monitor needs 'interval_ns'");
  if (session.monitor) session.monitor.end();
  session.monitor = interval_ns > 0 ? new Monitor(session, command.id, interval_ns) : null;
}

class Monitor {
  constructor(session, id, interval_ns) {
    Object.assign(this, { session, id, interval_ns: BigInt(interval_ns), gc_count: 0, gc_time: 0 });
    this.delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
    this.delay.enable();
    // Newer versions of Node report collections while code runs; older ones would need the event loop.
    this.collections = v8.GCProfiler ? new v8.GCProfiler() : null;
    if (this.collections) this.collections.start();
    this.utilization = performance.eventLoopUtilization();
    this.next_ns = process.hrtime.bigint();
    this.timer = setInterval(() => this.glance(), Math.max(1, interval_ns / 1e6));
    this.timer.unref();
    this.glance();
  }

  /** Sends the gauges if due. */
  glance() {
    const now_ns = process.hrtime.bigint();
    // A timer may fire slightly early and must not skip its turn.
    if (now_ns < this.next_ns - this.interval_ns / 10n) return;
    while (this.next_ns <= now_ns + this.interval_ns / 10n) this.next_ns += this.interval_ns;
    const memory = process.memoryUsage();
    this._collect();
    const { delay, gc_count } = this;
    const utilization = performance.eventLoopUtilization(this.utilization).utilization;
    this.utilization = performance.eventLoopUtilization();
    this.session.channel.send('gauge', {
      id: this.id, t_ns: now_ns,
      event_loop_delay_p99: inMs(delay.percentile(99)), event_loop_delay_max: inMs(delay.max),
      event_loop_utilization: (utilization * 100).toFixed(1),
      heap_used: memory.heapUsed, heap_total: memory.heapTotal, rss: memory.rss, external: memory.external,
      gc_count, gc_time: this.gc_time.toFixed(3),
      ...Object.fromEntries([...this.session.jobs.values()].filter((job) => job instanceof CodeJob)
        .map((job) => [`job.${job.name}`, job.progress])),
    });
    delay.reset();
  }

  /** Adds the collections since the last call; their cost is in microseconds. */
  _collect() {
    if (!this.collections) return;
    const { statistics } = this.collections.stop();
    this.collections = new v8.GCProfiler();
    this.collections.start();
    this.gc_count += statistics.length;
    for (const { cost } of statistics) this.gc_time += cost / 1000;
  }

  end() {
    clearInterval(this.timer);
    this.delay.disable();
    if (this.collections) this.collections.stop();
  }
}

/** Without samples, the histogram itself would return the largest possible number. */
function inMs(delay_ns) {
  return delay_ns < 9e18 ? Math.max(0, delay_ns / 1e6 - DELAY_RESOLUTION_MS).toFixed(3) : '0';
}

exports.monitor = monitor;
