'use strict';

// The tool that needs no installation: a node program that sends one request after the other. It shows that an HTTP
// benchmark works; its numbers say little about a server. As in Node core, its result is a COUNT of responses,
// which readers divide by the seconds.

const path = require('path');
const { address } = require('./program.js');
const { parse } = require('./autocannon.js');

const CLIENT = path.join(__dirname, 'test_double_client.js');

/** The test double for `protocol`: http, https or http2. */
function testDouble(protocol) {
  return { name: `test-double-${protocol}`, present: () => true, command: (settings) => command(protocol, settings),
           read };
}

function command(protocol, settings) {
  const env = { test_url: address(settings), ...process.env };
  // The environment takes precedence, so that a whole run can be shortened from outside.
  env.duration = process.env.duration || String(settings.duration);
  return { file: process.execPath, args: [CLIENT, protocol], env };
}

function read(stdout) {
  const report = parse(stdout);
  if (!report || !Number.isFinite(report.throughput)) return undefined;
  const { throughput, seconds, non2xx, latency_ms } = report;
  return { rate: throughput, requests: throughput, seconds, errors: 0, non2xx, latency_ms };
}

exports.testDouble = testDouble;
