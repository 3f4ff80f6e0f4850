'use strict';

// A protocol client for a harness process, written without the code under test: what it cannot parse is an error
// of the harness.

const { spawn } = require('node:child_process');
const path = require('node:path');
const { PACKAGE, collect, ended, environment } = require('./node.js');

/** Encodes one value: bytes below 0x20, `%` and 0x7f become %XX. */
function encode(value) {
  return String(value).replace(/[\x00-\x1f%\x7f]/g, (c) => `%${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

function commandLine([verb, fields = {}]) {
  return `${[verb, ...Object.entries(fields).map(([key, value]) => `${key}=${encode(value)}`)].join('\t')}\n`;
}

/** `{ verb, key: text }`; lists stay encoded, see `list`. */
function event(line) {
  const [verb, ...fields] = line.split('\t');
  const entries = fields.map((field) => {
    const equals = field.indexOf('=');
    return [field.slice(0, equals), field.slice(equals + 1)];
  });
  return { verb, ...Object.fromEntries(entries) };
}

function text(value) {
  return decodeURIComponent(value.replace(/%(?![0-9A-F]{2})/g, '%25'));
}

function list(value) {
  return value === '' ? [] : value.split(',').map(text);
}

/** A running harness process: `send` commands, read `events` as they arrive, `close` the command channel. */
function startHarness({ flags = [], env = {}, cwd } = {}) {
  const child = spawn(process.execPath, [...flags, path.join(PACKAGE, 'harness.cjs')], {
    env: environment({ SPEEDWELL_FDS: '3,4', ...env }), cwd, stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
  });
  const [stdout, stderr, raw] = [child.stdout, child.stderr, child.stdio[4]].map(collect);
  const waiting = [];
  const events = () => raw().split('\n').slice(0, -1).map(event);
  child.stdio[4].on('data', () => {
    for (const { verb, resolve } of waiting) if (events().some((one) => one.verb === verb)) resolve();
  });
  child.stdio[3].on('error', () => {});
  return {
    child,
    raw,
    events,
    send: (...commands) => child.stdio[3].write(commands.map(commandLine).join('')),
    close: () => child.stdio[3].end(),
    saw: (verb) => new Promise((resolve) => {
      if (events().some((one) => one.verb === verb)) resolve();
      else waiting.push({ verb, resolve });
    }),
    done: async () => ({ ...await ended(child), stdout: stdout(), stderr: stderr(), events: events(), raw: raw() }),
  };
}

/** Sends all commands at once and waits for the process to exit. */
async function converse(commands, options) {
  const harness = startHarness(options);
  const done = harness.done();
  harness.send(...commands);
  return done;
}

/** The complete conversation of a process that measures one case. */
function measureCase(file, values, { load = {}, ...options } = {}) {
  const given = Object.entries(values).map(([name, value]) => [`value.${name}`, value]);
  return converse([
    ['hello', { id: 1, proto: 1 }],
    ['load', { id: 2, job: 'a', form: 'case', path: file, ...load, ...Object.fromEntries(given) }],
    ['run', { id: 3, jobs: 'a', mode: 'once' }],
    ['quit', { id: 4 }],
  ], options);
}

module.exports = { converse, list, measureCase, startHarness, text };
