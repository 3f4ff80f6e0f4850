'use strict';

// Implements `bench.http`: runs one HTTP tool against the benchmark's server and turns its output into a report.
// Decides what a failed tool means. Independent of specific tools; see lib/http/tools.js.

const { spawn } = require('child_process');
const { signals } = require('os').constants;
const { chooseTool } = require('./tools.js');

/** Defaults of settings. */
function defaults() {
  return { port: Number(process.env.PORT) || 12346, path: '/', connections: 100, duration: 10, scheme: 'http',
           host: '127.0.0.1' };
}

/** A tool that failed to measure. `status` is the exit status for the process. */
class ToolFailure extends Error {
  constructor(message, status) {
    super(message);
    this.name = 'ToolFailure';
    this.status = status;
  }
}

/**
 * Runs a tool according to `options` and reports its result. Calls `done(status)` as soon as the tool has ended,
 * also after a failure, so that the file can close its server. A failure then ends the process.
 */
function measure(bench, options, done) {
  const wanted = options.benchmarker || bench.config.benchmarker || bench.extra_options.benchmarker;
  run(wanted, { ...defaults(), ...options }, (failure, status, outcome) => {
    if (done) done(status);
    if (failure) {
      fail(bench, failure);
      return;
    }
    bench.config.benchmarker = outcome.tool;
    bench._report(reportOf(outcome));
  });
}

function fail(bench, failure) {
  if (bench._harness) {
    bench._harness.fail(bench, failure);
    return;
  }
  console.error(failure);
  process.exit(failure.status);
}

/** `rate` is the tool's own result; the details let a reader divide, or reject a run with errors. */
function reportOf({ tool, elapsed_ns, found }) {
  const { rate, seconds = Number(elapsed_ns) / 1e9, ...details } = found;
  const iterations = found.requests === undefined ? rate * seconds : found.requests;
  return { rate, elapsed_ns, iterations, http: { tool, seconds, ...details } };
}

function run(wanted, settings, callback) {
  let tool;
  let child;
  try {
    tool = chooseTool(wanted);
    const { file, args, env, shell } = tool.command(settings);
    child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'], env: env || process.env, shell });
  } catch (error) {
    callback(new ToolFailure(error.message, 1));
    return;
  }
  const begin_ns = process.hrtime.bigint();
  collect(child, ({ status, cause, stdout }) => {
    const elapsed_ns = process.hrtime.bigint() - begin_ns;
    if (status !== 0) {
      const output = stdout === '' ? '' : ` Output: ${stdout}`;
      callback(new ToolFailure(`${tool.name} failed with ${cause}.${output}`, status), status);
      return;
    }
    const found = tool.read(stdout);
    if (!found) {
      callback(new ToolFailure(`${tool.name} produced strange output: ${stdout}`, 1), status);
      return;
    }
    callback(null, status, { tool: tool.name, elapsed_ns, found });
  });
}

/**
 * Waits for the end of `child`: its output, its status as a shell reports it, and the cause as text. Node core
 * treats a tool killed by a signal as successful.
 */
function collect(child, callback) {
  let stdout = '';
  let startError = null;
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (chunk) => { stdout += chunk; });
  child.on('error', (error) => { startError = error; });
  child.once('close', (code, signal) => {
    if (startError) callback({ status: 1, cause: startError.code, stdout });
    else if (signal) callback({ status: 128 + (signals[signal] || 0), cause: signal, stdout });
    else callback({ status: code, cause: code, stdout });
  });
}

exports.defaults = defaults;
exports.measure = measure;
