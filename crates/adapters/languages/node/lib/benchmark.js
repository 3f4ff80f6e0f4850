'use strict';

// The class behind `createBenchmark`. Decides the role of this process (describe the cases and start a process for
// each, or measure one case) and what counts as a valid measurement. Does not know how results are sent
// (lib/report.js, or the harness that drives this process) or how processes are started (lib/parent.js).

const path = require('path');
const { BadArgument, combinations, parseArguments } = require('./cases.js');

/** The harness that drives this process puts its hooks here; shared by all copies of the package in one process. */
const HARNESS = Symbol.for('speedwell.harness');

class Benchmark {
  // Ordinary fields and methods only: native benchmarks call start and end as methods of the benchmark.
  constructor(main, parameters, options = {}) {
    this._started = false;
    this._ended = false;
    this._time = 0n;
    this._cpu_ns = 0;
    this._harness = globalThis[HARNESS];
    // Loaded now, because a later load may fall into the measured section.
    this._channel = this._harness ? null : require('./report.js');
    this.name = benchmarkName(mainFile(), process.env.SPEEDWELL_BENCHMARK_ROOT);
    this.flags = environmentFlags().concat(options.flags || []);
    this.combinationFilter =
      typeof options.combinationFilter === 'function' ? options.combinationFilter : () => true;
    this._describe(process.argv.slice(2), parameters, options);
    if (this._harness) {
      this._harness.adopt(this, main, options);
      return;
    }
    if (this.queue.length === 0) return;
    process.nextTick(() => this._play(main, options));
  }

  /** Sets `options`, `extra_options`, `queue` and `config` from the declaration and the command line. */
  _describe(argv, parameters, options) {
    try {
      if (options.byGroups) {
        const { groupedCases } = require('./groups.js');
        const grouped = groupedCases(argv, parameters, options, this.combinationFilter);
        this.options = grouped.options;
        this.extra_options = grouped.extra;
        this.queue = grouped.cases;
      } else {
        const parsed = parseArguments(argv, parameters, options);
        this.options = parsed.options;
        this.extra_options = parsed.extra;
        this.queue = combinations(parsed.options, this.combinationFilter);
      }
    } catch (error) {
      if (!(error instanceof BadArgument) || this._harness) throw error;
      console.error(error.message);
      process.exit(1);
    }
    this.config = this.queue[0];
    compileEnd();
  }

  _play(main, options) {
    if (process.env.NODE_RUN_BENCHMARK_FN !== undefined) {
      main(this.config);
    } else {
      require('./parent.js').runCases(this, mainFile(), options);
    }
  }

  /**
   * Begins the measured section. Reads the clock last, so that no part of this method is measured. A harness also takes
   * the processor time of the whole process, because a benchmark includes the work of its other threads.
   */
  start() {
    if (this._started) throw new Error('Called start more than once in a single benchmark');
    this._started = true;
    if (this._harness) this._cpu_ns = cpuNow_ns();
    this._time = process.hrtime.bigint();
  }

  /** Ends the measured section after `operations` iterations and reports it. Reads the clock first. */
  end(operations) {
    const time = process.hrtime.bigint();
    const cpu_ns = this._harness ? cpuNow_ns() - this._cpu_ns : undefined;
    const zeroAllowed = Boolean(process.env.NODEJS_BENCHMARK_ZERO_ALLOWED);
    if (!this._started) throw new Error('called end without start');
    if (this._ended) throw new Error('called end multiple times');
    if (typeof operations !== 'number') {
      throw new Error('called end() without specifying operation count');
    }
    if (operations <= 0 && !zeroAllowed) throw new Error('called end() with operation count <= 0');
    this._ended = true;

    const elapsed_ns = time - this._time;
    if (elapsed_ns === 0n) {
      if (!zeroAllowed) throw new Error('insufficient clock precision for short benchmark');
      this._report({ rate: operations && Number.MAX_VALUE, elapsed_ns, iterations: operations });
      return;
    }
    const seconds = Number(elapsed_ns) / 1e9;
    this._report({ rate: operations / seconds, elapsed_ns, iterations: operations, cpu_ns });
  }

  /** Reports a rate (iterations per second) that was measured in another way; `elapsed_ns` is a BigInt. */
  report(rate, elapsed_ns) {
    this._report({ rate, elapsed_ns, iterations: (rate * Number(elapsed_ns)) / 1e9 });
  }

  _report(measured) {
    if (this._harness) {
      this._harness.report(this, measured);
      return;
    }
    const { rate, elapsed_ns, http } = measured;
    const time = this._channel.secondsText(elapsed_ns);
    const message = { name: this.name, conf: this.config, rate, time, type: 'report' };
    if (http) message.http = http;
    this._channel.sendResult(message);
  }

  /** Reports a further metric of this case, such as bytes per second; `better` is 'higher' or 'lower'. */
  metric(name, value, { unit = '', better = 'higher' } = {}) {
    if (typeof name !== 'string' || name === '') throw new TypeError('metric name must be a non-empty string');
    if (typeof value !== 'number') throw new TypeError(`metric "${name}" had type ${typeof value}`);
    if (better !== 'higher' && better !== 'lower') {
      throw new TypeError(`metric "${name}": better must be 'higher' or 'lower'`);
    }
    const metric = { name, value, unit, better };
    if (this._harness) this._harness.metric(this, metric);
    else this._channel.sendResult({ name: this.name, conf: this.config, metric, type: 'metric' });
  }

  /** Reports the answer that the measured code computed; all variants of a case must agree on it. */
  check(answer) {
    const text = String(answer);
    if (this._harness) this._harness.check(this, text);
    else this._channel.sendResult({ name: this.name, conf: this.config, text, type: 'check' });
  }

  /** Measures a server with an HTTP tool; calls `done(code)` when the tool has ended, before the report. */
  http(options, done) {
    require('./http/measure.js').measure(this, { script: mainFile(), ...options }, done);
  }
}

/** Processor time of the process so far; Node.js provides whole microseconds. */
function cpuNow_ns() {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
}

/** Compiles `end` before the measured section: functions are compiled at their first call. */
function compileEnd() {
  try {
    Benchmark.prototype.end.call({});
  } catch {
    // It throws because nothing was started.
  }
}

/**
 * Absolute path of the program's main file. `require.main` is fixed when a module is loaded, in the harness before
 * the benchmark file becomes the main program; with an ES module, `mainModule` is undefined or another file.
 */
function mainFile() {
  const main = process.mainModule;
  if (main && main.filename && !globalThis[HARNESS]) return main.filename;
  return process.argv[1] ? path.resolve(process.argv[1]) : '';
}

/**
 * Name of the benchmark: `group/file.js`, or `group/name/index.js` for a benchmark that is a folder. With `root` (a
 * folder that contains the file), the path below that folder. Always with forward slashes, because names are
 * compared across systems. Node core removes the folder of its own library from the path, which garbles the names of
 * files elsewhere; this name depends only on the file or on the given folder.
 */
function benchmarkName(file, root) {
  if (root) {
    const relative = path.relative(root, file);
    if (relative && !relative.startsWith('..') && !path.isAbsolute(relative)) return slashed(relative);
  }
  const segments = path.basename(file) === 'index.js' ? 3 : 2;
  return slashed(file).split('/').filter(Boolean).slice(-segments).join('/');
}

function slashed(file) {
  return path.sep === '/' ? file : file.split(path.sep).join('/');
}

/** Flags from the environment. In Node core, a leading blank yields an empty flag, which node rejects. */
function environmentFlags() {
  const text = process.env.NODE_BENCHMARK_FLAGS;
  return text ? text.split(/\s+/) : [];
}

Object.assign(exports, { Benchmark, HARNESS, benchmarkName, mainFile });
