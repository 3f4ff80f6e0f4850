'use strict';

// Runs a program with the collector loaded; returns its output and exit status.

const path = require('node:path');
const { spawn } = require('node:child_process');

const ROOT = path.join(__dirname, '..');
const COLLECTOR = path.join(ROOT, 'collector.js');

// `mode` undefined: without the collector.
function run(mode, words, env = {}) {
  const load = mode === undefined ? [] : [`--require=${COLLECTOR}`];
  return new Promise((resolve) => {
    const options = { cwd: ROOT, env: { ...process.env, CC_MODE: mode, ...env } };
    const child = spawn(process.execPath, [...load, ...words], options);
    const seen = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) child[name].on('data', (text) => { seen[name] += text; });
    child.on('close', (status) => resolve({ status, ...seen, ...reports(seen.stderr) }));
  });
}

// The JSON lines of stderr: { collector } and { crash }.
function reports(stderr) {
  const lines = stderr.split('\n').filter((line) => line.startsWith('{'));
  return Object.assign({}, ...lines.map((line) => JSON.parse(line)));
}

module.exports = { ROOT, run };
