'use strict';

// h2load: its command line and its text report.

const { address, findProgram } = require('./program.js');
const { milliseconds, seconds } = require('./wrk.js');

/** Settings with a short option, in the order of the command line. Only numbers are passed on. */
const SHORT = {
  clients: '-c',
  threads: '-t',
  maxConcurrentStreams: '-m',
  initialWindowSize: '-w',
  sessionInitialWindowSize: '-W',
  rate: '-r',
  timeout: '-N',
};

const LONG = {
  ratePeriod: '--rate-period',
  headerTableSize: '--header-table-size',
  encoderHeaderTableSize: '--encoder-header-table-size',
};

function command(settings) {
  const args = limit(settings);
  for (const [name, option] of Object.entries(SHORT)) {
    if (typeof settings[name] === 'number') args.push(option, String(settings[name]));
  }
  for (const [name, option] of Object.entries(LONG)) {
    if (typeof settings[name] === 'number') args.push(`${option}=${settings[name]}`);
  }
  args.push(address(settings));
  return { file: findProgram('h2load'), args };
}

/**
 * The length of a measurement: `-D`, with which h2load ignores the number of requests. It rejects `-D` together with
 * a rate of new connections, so there the number of requests is the limit. Durations are integers with a unit.
 */
function limit({ duration, requests, rate }) {
  if (typeof duration === 'number' && typeof rate !== 'number') {
    return ['-D', `${Math.max(1, Math.round(duration * 1000))}ms`];
  }
  return typeof requests === 'number' ? ['-n', String(requests)] : [];
}

function read(stdout) {
  const throughput = /([0-9]+\.[0-9]+) req\/s/.exec(stdout);
  if (!throughput) return undefined;
  const found = { rate: Number(throughput[1]) };
  const time = /finished in ([0-9.]+)(us|ms|s|m|h),/.exec(stdout);
  if (time) found.seconds = seconds(time[1], time[2]);
  const counts = /requests: .* (\d+) done, .* (\d+) errored/.exec(stdout);
  if (counts) {
    found.requests = Number(counts[1]);
    found.errors = Number(counts[2]);
  }
  const codes = /status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/.exec(stdout);
  if (codes) found.non2xx = codes.slice(1).reduce((sum, count) => sum + Number(count), 0);
  const times = /time for request: +\S+ +\S+ +([0-9.]+)(us|ms|s|m|h)/.exec(stdout);
  if (times) found.latency_ms = { mean: milliseconds(times[1], times[2]) };
  return found;
}

exports.h2load = { name: 'h2load', present: () => findProgram('h2load') !== undefined, command, read };
