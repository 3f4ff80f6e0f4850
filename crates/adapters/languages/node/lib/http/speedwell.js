'use strict';

// Speedwell's own load generator as a tool of `bench.http`: its command line, and the line of JSON it prints.

const fs = require('fs');
const { address, findProgram } = require('./program.js');
const { parse } = require('./autocannon.js');

/** The driver passes its own program, so that the generator has the same version. */
function program() {
  return process.env.SPEEDWELL_PROGRAM || findProgram('speedwell');
}

/** `require('http2')`, `from "node:http2"` and the like. */
const asksFor = (name) => new RegExp(`['"](node:)?${name}['"]`);

/**
 * Whether the server uses HTTP/2 without TLS, which its address does not tell: the file requests it (`http2: true`),
 * sets an option that only HTTP/2 has, or requires no other HTTP module.
 */
function speaksHttp2({ http2, maxConcurrentStreams, script }) {
  if (http2 !== undefined) return http2;
  if (maxConcurrentStreams !== undefined) return true;
  const text = sourceOf(script);
  return asksFor('http2').test(text) && !asksFor('https?').test(text);
}

function sourceOf(script) {
  try {
    return fs.readFileSync(script, 'utf8');
  } catch {
    return '';
  }
}

/** h2load's options for HTTP/2: connections with this many streams each, and a number of requests. */
function traffic(settings) {
  const { connections, clients, maxConcurrentStreams = 1, requests } = settings;
  if (!speaksHttp2(settings)) return ['-c', String(connections)];
  const streams = maxConcurrentStreams > 1 ? ['--streams', String(maxConcurrentStreams)] : [];
  const count = typeof requests === 'number' ? ['-n', String(requests)] : [];
  const open = typeof clients === 'number' ? clients : connections;
  return ['--http2', '-c', String(open * maxConcurrentStreams), ...streams, ...count];
}

function command(settings) {
  const { duration, scheme, headers = {} } = settings;
  const args = ['load', '--benchmarker', ...traffic(settings), '-t', `${duration}s`];
  for (const [name, value] of Object.entries(headers)) args.push('-H', `${name}: ${value}`);
  // Benchmarks use self-signed certificates, and no other tool checks them.
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
