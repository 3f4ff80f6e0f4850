'use strict';

// wrk: its command line and its text report.

const os = require('os');
const { address, findProgram } = require('./program.js');

/** wrk supports whole seconds only. */
const SHORTEST_SECONDS = 1;
/** Threads on a system that does not report how many processors may be used. */
const FALLBACK_THREADS = 8;
const UNIT_MS = { us: 0.001, ms: 1, s: 1000, m: 60000, h: 3600000 };

function command(settings) {
  const { duration, connections, headers = {} } = settings;
  const time = typeof duration === 'number' ? Math.max(Math.ceil(duration), SHORTEST_SECONDS) : duration;
  const threads = Math.min(connections, (os.availableParallelism && os.availableParallelism()) || FALLBACK_THREADS);
  const args = ['--latency', '-d', time, '-c', connections, '-t', threads, address(settings)];
  for (const [name, value] of Object.entries(headers)) args.push('-H', `${name}: ${value}`);
  return { file: findProgram('wrk'), args: args.map(String) };
}

/** A report without a throughput line is not a result: wrk prints none when it could not connect. */
function read(stdout) {
  const throughput = /Requests\/sec:[ \t]+([0-9.]+)/.exec(stdout);
  if (!throughput || !Number.isFinite(Number(throughput[1]))) return undefined;
  const found = { rate: Number(throughput[1]) };
  const total = /([0-9]+) requests in ([0-9.]+)(us|ms|s|m|h),/.exec(stdout);
  if (total) {
    found.requests = Number(total[1]);
    found.seconds = seconds(total[2], total[3]);
  }
  found.errors = socketErrors(stdout);
  const refused = /Non-2xx or 3xx responses: ([0-9]+)/.exec(stdout);
  found.non2xx = refused ? Number(refused[1]) : 0;
  const latency_ms = latencies(stdout);
  if (latency_ms) found.latency_ms = latency_ms;
  return found;
}

/** wrk prints the line only if there was an error. */
function socketErrors(stdout) {
  const line = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout);
  return line ? line.slice(1).reduce((sum, count) => sum + Number(count), 0) : 0;
}

function latencies(stdout) {
  const mean = /Latency[ \t]+([0-9.]+)(us|ms|s|m|h)/.exec(stdout);
  if (!mean) return undefined;
  const latency_ms = { mean: milliseconds(mean[1], mean[2]) };
  for (const percent of [50, 99]) {
    const line = new RegExp(`^\\s*${percent}%\\s+([0-9.]+)(us|ms|s|m|h)`, 'm').exec(stdout);
    if (line) latency_ms[`p${percent}`] = milliseconds(line[1], line[2]);
  }
  return latency_ms;
}

/** Rounded to nanoseconds, so that 403.25us becomes 0.40325, not 0.40325000000000005; the same for seconds. */
function milliseconds(digits, unit) {
  return Math.round(Number(digits) * UNIT_MS[unit] * 1e6) / 1e6;
}

function seconds(digits, unit) {
  return Math.round(Number(digits) * UNIT_MS[unit] * 1e6) / 1e9;
}

exports.wrk = { name: 'wrk', present: () => findProgram('wrk') !== undefined, command, read };
exports.milliseconds = milliseconds;
exports.seconds = seconds;
