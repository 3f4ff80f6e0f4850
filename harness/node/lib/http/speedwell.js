'use strict';

// Speedwell's own load generator as the tool of `bench.http`: the command line, and the line of JSON it prints.

const { address, findProgram } = require('./program.js');
const { parse } = require('./autocannon.js');

/** The driver names its own program, so that the generator is as new as the rest. */
function program() {
  return process.env.SPEEDWELL_PROGRAM || findProgram('speedwell');
}

function command(settings) {
  const { duration, connections, scheme, headers = {} } = settings;
  const args = ['load', '--benchmarker', '-c', String(connections), '-t', `${duration}s`];
  for (const [name, value] of Object.entries(headers)) args.push('-H', `${name}: ${value}`);
  // Benchmarks sign their certificates themselves, and no other tool checks them.
  if (scheme === 'https') args.push('--insecure');
  args.push(address(settings));
  return { file: program(), args };
}

function read(stdout) {
  const report = parse(stdout);
  if (!report || !Number.isFinite(report.requests) || !(report.seconds > 0)) return undefined;
  const { requests, seconds, errors, non2xx, latency_ms } = report;
  return { rate: requests / seconds, requests, seconds, errors, non2xx, latency_ms };
}

exports.speedwell = { name: 'speedwell', present: () => program() !== undefined, command, read };
