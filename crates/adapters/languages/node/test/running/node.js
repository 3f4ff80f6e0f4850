'use strict';

// Starts node as a user or a driver does, and waits until it has exited.

const { spawn } = require('node:child_process');
const path = require('node:path');

const PACKAGE = path.join(__dirname, '..', '..');
const FIXTURES = path.join(__dirname, '..', 'fixtures');

/** Variables of the test environment that would change the behavior of a benchmark file. */
const FOREIGN = [
  'NODE_RUN_BENCHMARK_FN', 'NODE_BENCHMARK_FLAGS', 'NODEJS_BENCHMARK_ZERO_ALLOWED', 'NODE_RUN_BENCHMARK_GROUPS',
  'NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE', 'SPEEDWELL_FDS', 'SPEEDWELL_PROBE_FD', 'SPEEDWELL_PROGRAM',
  'SPEEDWELL_BENCHMARK_ROOT', 'PORT', 'duration', 'test_url', 'NODE_OPTIONS', 'NODE_TEST_CONTEXT', 'NODE_V8_COVERAGE',
];

function environment(extra) {
  const env = { ...process.env, ...extra };
  for (const name of FOREIGN) if (!(name in extra)) delete env[name];
  return env;
}

function fixture(name) {
  return path.join(FIXTURES, name);
}

/** Collects the output of a stream. */
function collect(stream) {
  let text = '';
  stream.setEncoding('utf8').on('data', (chunk) => { text += chunk; });
  return () => text;
}

/** Resolves to how a child ended. */
function ended(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
}

/** Runs `node ARGS...` without any channel. */
async function runNode(args, { env = {}, cwd } = {}) {
  const child = spawn(process.execPath, args, { env: environment(env), cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const end = await ended(child);
  return { ...end, stdout: stdout(), stderr: stderr() };
}

/** Runs `node ARGS...` with node's own channel on descriptor 3 and returns the raw text it sent and its
 * messages. A pipe of child_process is a socket pair on POSIX systems, which node expects there.
 */
async function runOverChannel(args, { env = {}, cwd } = {}) {
  const child = spawn(process.execPath, args, {
    env: environment({ NODE_CHANNEL_FD: '3', NODE_CHANNEL_SERIALIZATION_MODE: 'json', ...env }), cwd,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const [stdout, stderr, raw] = [child.stdout, child.stderr, child.stdio[3]].map(collect);
  const end = await ended(child);
  const messages = raw().split('\n').filter(Boolean).map((line) => JSON.parse(line))
    .filter((message) => message.type !== undefined);
  return { ...end, stdout: stdout(), stderr: stderr(), raw: raw(), messages };
}

/** The environment of a process that measures one case. */
const CHILD = { NODE_RUN_BENCHMARK_FN: '' };

module.exports = { CHILD, PACKAGE, collect, ended, environment, fixture, runNode, runOverChannel };
