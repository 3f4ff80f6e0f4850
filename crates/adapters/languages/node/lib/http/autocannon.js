'use strict';

// autocannon: its command line and its JSON report.

const { address, findProgram } = require('./program.js');

function command(settings) {
  const { duration, connections, headers = {} } = settings;
  const windows = process.platform === 'win32';
  const args = ['-d', duration, '-c', connections, '-j', '-n'];
  for (const [name, value] of Object.entries(headers)) {
    args.push('-H', windows ? `'${name}=${value}'` : `${name}=${value}`);
  }
  args.push(address(settings));
  // The launcher of an npm package is a batch file on Windows, which only the shell can start.
  return { file: windows ? 'autocannon.cmd' : findProgram('autocannon'), args: args.map(String), shell: windows };
}

/** The rate is autocannon's mean over one-second samples; without counts, nothing was measured. */
function read(stdout) {
  const report = parse(stdout);
  if (!report || !report.requests || !report.requests.average) return undefined;
  const { requests, duration, errors, non2xx, latency } = report;
  const found = { rate: requests.average };
  if (Number.isFinite(requests.total)) found.requests = requests.total;
  if (duration > 0) found.seconds = duration;
  if (Number.isFinite(errors)) found.errors = errors;
  if (Number.isFinite(non2xx)) found.non2xx = non2xx;
  if (latency && Number.isFinite(latency.average)) {
    found.latency_ms = { mean: latency.average, p50: latency.p50, p99: latency.p99 };
  }
  return found;
}

/** The object in `stdout`, or undefined. */
function parse(stdout) {
  try {
    const value = JSON.parse(stdout);
    return value !== null && typeof value === 'object' ? value : undefined;
  } catch {
    return undefined;
  }
}

exports.autocannon = {
  name: 'autocannon', present: () => findProgram('autocannon') !== undefined, command, read,
};
exports.parse = parse;
