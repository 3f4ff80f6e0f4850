'use strict';

// Answers `load` and `run mode=once`: prepares one case of a file, calls the file's `main`, waits for its report, and
// turns the report into events. Decides which cases are refused and when a run is over: after the report, after an
// error, on a stop, or when the event loop is empty and nothing was reported. Does not wait for code that merely keeps
// the process alive afterwards.

const path = require('path');
const { decodeList, decodeText } = require('../wire.js');
const { open } = require('./open.js');
const { HarnessError, atStage } = require('./error.js');

const VALUE = 'value.';

/** Longer answers are compared by their digest. */
const CHECK_LIMIT = 32768;

/**
 * Opens the file with the given values and keeps its benchmark as a job. Refuses an incomplete case, because a missing
 * value would silently become the first declared one, and a case that the file's own filter rejects.
 */
async function load(session, command) {
  const [job, form, file] = ['job', 'form', 'path'].map(command.text);
  if (!file) throw new HarnessError('protocol', 'MissingKey', "load needs 'path'");
  const given = Object.keys(command.fields).filter((key) => key.startsWith(VALUE));
  const argv = given.map((key) => `${key.slice(VALUE.length)}=${decodeText(command.fields[key])}`);

  // The role of a child: processes started by the benchmark must not act as a parent.
  process.env.NODE_RUN_BENCHMARK_FN = '';
  const state = { session, job, reported: null, begun: false };
  const opened = await open(session, {
    file, argv, root: command.text('root'), hooks: hooks(state), fields: { id: command.id, job },
  });
  checkComplete(opened.bench, given.map((key) => key.slice(VALUE.length)));
  checkName(opened.bench, command.text('benchmark'));
  session.jobs.set(job, Object.assign(state, opened));
  session.channel.send('loaded', { id: command.id, job, form, source: file, arity: opened.main.length });
}

function checkComplete(bench, given) {
  const missing = Object.keys(bench.options).filter((name) => !given.includes(name));
  if (missing.length > 0) {
    throw new HarnessError('protocol', 'MissingValue', `no value for '${missing.join("', '")}'`);
  }
  if (bench.queue.length !== 1) {
    throw new HarnessError('compile', 'NoCase', "the file's own filter rejects this case");
  }
}

function checkName(bench, wanted) {
  if (wanted !== undefined && wanted !== bench.name) {
    throw new HarnessError('protocol', 'UnknownBenchmark', `the file has '${bench.name}', not '${wanted}'`);
  }
}

async function run(session, command) {
  const jobs = decodeList(command.fields.jobs || '');
  const states = jobs.map((job) => loaded(session, job));
  const begin_ns = process.hrtime.bigint();
  for (const state of states) await runCase(session, state, command.id);
  const elapsed_ns = process.hrtime.bigint() - begin_ns;
  const folder = command.text('modules_below');
  const modules = folder === undefined ? undefined : modulesBelow(folder);
  session.channel.send('end', { id: command.id, jobs, elapsed_ns, max_late_ns: 0, modules });
}

/** Files below a folder from which modules were loaded, without installed packages. ES modules have no such list. */
function modulesBelow(folder) {
  const inside = (file) => file.startsWith(folder + path.sep) && !file.includes(`${path.sep}node_modules${path.sep}`);
  return Object.keys(require('module')._cache).filter(inside);
}

function loaded(session, job) {
  const state = session.jobs.get(job);
  if (!state) throw new HarnessError('protocol', 'UnknownJob', `unknown job '${job}'`);
  if (!state.bench) throw new HarnessError('protocol', 'Mode', `job '${job}' is code, which does not support mode 'once'`);
  if (state.begun) throw new HarnessError('protocol', 'SecondRun', `job '${job}' has already run; load it again`);
  return state;
}

/** Runs one case; reports its error as an event, not an exception, so that the other jobs continue. */
async function runCase(session, state, id) {
  const fields = { id, job: state.job };
  state.id = id;
  state.begun = true;
  try {
    await setUp(state);
    await completed(session, state, fields);
  } catch (error) {
    session.fail(error, fields);
  } finally {
    session.takeLoop();
    state.onReport = null;
    session.current = null;
  }
}

async function setUp({ options, bench }) {
  if (typeof options.setup !== 'function') return;
  try {
    await options.setup(bench.queue);
  } catch (error) {
    throw atStage('init', error);
  }
}

/** Resolves when the run is over; rejects with the error of the file. */
function completed(session, state, fields) {
  return new Promise((resolve, reject) => {
    session.current = { stage: 'run', fields, fail: (error) => reject(staged(error)) };
    process.once('beforeExit', () => {
      if (state.reported) resolve();
      else reject(new HarnessError('run', 'NothingReported', 'the file ended without reporting a result'));
    });
    // In a separate tick, as node calls the main function of a file that is run directly: ticks and promise jobs queued
    // by the function then run in the same order.
    process.nextTick(() => {
      try {
        state.main(state.bench.config);
      } catch (error) {
        reject(staged(error));
        return;
      }
      // Errors thrown right after the report belong to the run, so wait for one more turn of the event loop.
      const finish = () => setImmediate(resolve);
      if (state.reported) {
        finish();
        return;
      }
      state.onReport = finish;
      session.yieldLoop((stop) => {
        session.channel.send('stopped', { id: stop.id, job: state.job });
        resolve();
      });
    });
  });
}

function staged(error) {
  return error instanceof HarnessError ? error : atStage('run', error);
}

/** Hooks that the benchmark of a job calls. A result is sent at once, so that it survives a crash. */
function hooks(state) {
  const send = (verb, fields) => state.session.channel.send(verb, { id: state.id, job: state.job, ...fields });
  return {
    report(bench, measured) {
      state.reported = measured;
      send('once', onceFields(measured));
      for (const metric of httpMetrics(measured.http)) send('metric', metric);
      if (state.onReport) state.onReport();
    },
    metric(bench, metric) {
      send('metric', metric);
    },
    check(bench, text) {
      send('check', { text: text.length > CHECK_LIMIT ? digest(text) : text });
    },
    fail(bench, error) {
      state.session.uncaught(new HarnessError('run', error.name, error.message));
    },
  };
}

/** Iterations are integers on the wire; `rate` is exact. A tool's own time is better than its process's lifetime. */
function onceFields({ rate, elapsed_ns, iterations, cpu_ns, http }) {
  const time_ns = http ? Math.round(http.seconds * 1e9) : elapsed_ns;
  return { iterations: Math.round(iterations), elapsed_ns: time_ns, rate, cpu_ns, tool: http && http.tool };
}

function httpMetrics(http) {
  if (!http) return [];
  const { errors, non2xx, latency_ms = {} } = http;
  const list = [
    { name: 'http_errors', value: errors, unit: 'requests', better: 'lower' },
    { name: 'http_non2xx', value: non2xx, unit: 'requests', better: 'lower' },
    ...['mean', 'p50', 'p90', 'p99', 'p99_9', 'max'].map((name) => (
      { name: `latency_${name}`, value: latency_ms[name], unit: 'ms', better: 'lower' })),
  ];
  return list.filter(({ value }) => value !== undefined);
}

function digest(text) {
  const hash = require('crypto').createHash('sha256').update(text).digest('hex');
  return `sha256:${hash} of ${text.length} characters`;
}

Object.assign(exports, { load, run });
