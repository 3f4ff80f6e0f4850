'use strict';

// Runs the probe as a driver must: a separate pipe for the record, whose reader may be slow.

const { spawn } = require('node:child_process');
const path = require('node:path');
const { PACKAGE, collect, ended, environment } = require('./node.js');

const PROBE = path.join(PACKAGE, 'probe.cjs');

/** Resolves to how the process ended and the probe's record, or null without one. */
async function probe(file, { args = [], flags = [], env = {}, delay_ms = 0, preload = ['-r', PROBE] } = {}) {
  const child = spawn(process.execPath, [...flags, ...preload, file, ...args], {
    env: environment({ SPEEDWELL_PROBE_FD: '3', ...env }), stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = [child.stdout, child.stderr].map(collect);
  let record = () => '';
  setTimeout(() => { record = collect(child.stdio[3]); }, delay_ms);
  const end = await ended(child);
  const text = record();
  return { ...end, stdout: stdout(), stderr: stderr(), record: text === '' ? null : JSON.parse(text) };
}

module.exports = { PROBE, probe };
