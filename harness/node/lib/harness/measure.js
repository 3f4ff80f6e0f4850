'use strict';

// Answers `load` and `run mode=once`: makes one case of a file ready, calls the file's `main`, waits until it has
// reported, and turns what it reports into events. Decides which cases are refused and when a run is over: after the
// report, after an error, when asked to stop, or when the event loop is empty and nothing was reported. Code that
// merely keeps the process alive afterwards is not waited for.

const path = require('path');
const { decodeList, decodeText } = require('../wire.js');
const { open } = require('./open.js');
const { HarnessError, atStage } = require('./session.js');

const VALUE = 'value.';

/** An answer longer than this is compared by its digest. */
const CHECK_LIMIT = 32768;

/**
 * Opens the file with the given values and keeps its benchmark as a job. Refuses a case that is not complete, because
 * a missing value would silently become the first declared one, and one that the file's own filter rejects.
 */
async function load(session, command) {
  const [job, form, file] = ['job', 'form', 'path'].map(command.text);
  if (!file) throw new HarnessError('protocol', 'MissingKey', "load needs 'path'");
  const given = Object.keys(command.fields).filter((key) => key.startsWith(VALUE));
  const argv = given.map((key) => `${key.slice(VALUE.length)}=${decodeText(command.fields[key])}`);

  // The role of a child: processes that the benchmark starts must not take themselves for a parent.
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

/** Files below a folder from which modules were loaded, without those of installed packages. ES modules have no list. */
function modulesBelow(folder) {
  const inside = (file) => file.startsWith(folder + path.sep) && !file.includes(`${path.sep}node_modules${path.sep}`);
  return Object.keys(require('module')._cache).filter(inside);
}

function loaded(session, job) {
  const state = session.jobs.get(job);
  if (!state) throw new HarnessError('protocol', 'UnknownJob', `no job '${job}'`);
  if (!state.bench) throw new HarnessError('protocol', 'Mode', `job '${job}' is code, which is not measured once`);
  if (state.begun) throw new HarnessError('protocol', 'SecondRun', `job '${job}' has run; load it again`);
  return state;
}

/** Runs one case; its error is an event, not an exception, so that the other jobs go on. */
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
    // A tick of its own, as node gives it to the main function of a file that is run directly: ticks and promise
    // jobs that the function queues are then processed in the same order.
    process.nextTick(() => {
      try {
        state.main(state.bench.config);
      } catch (error) {
        reject(staged(error));
        return;
      }
      // Errors thrown right behind the report belong to the run, hence one more turn of the event loop.
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

/** What the benchmark of a job calls when it has something to say. A result is sent at once: it survives a crash. */
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

/** Iterations are whole on the wire; `rate` is exact. A tool's own time is better than the life of its process. */
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
