'use strict';

// Observes the parent role of a benchmark file: which cases it would start, with which flags, and its messages to
// its driver. Decides what is recorded and what the file sees instead of its children. verdict.js decides whether
// the record suffices to measure single cases.

const { EventEmitter } = require('events');
const childProcess = require('child_process');
const { watchLibrary } = require('./library.js');
const { Outside } = require('./outside.js');
const { verdict } = require('./verdict.js');
const { writeAll } = require('../wire.js');

/** A file that forks another program and has no case after this time waits for an answer that cannot come. */
const FOREIGN_FORK_MS = 500;

class Recorder {
  constructor(descriptor, preload) {
    this.descriptor = descriptor;
    this.preload = preload;
    this.cases = [];
    this.config = null;
    this.error = null;
    this.foreignForks = [];
    this.outside = new Outside();
    this.library = { called: false, setup: false, declared: undefined, onDeclared: () => this.outside.stop() };
  }

  install() {
    process.execArgv = withoutPreload(process.execArgv, this.preload);
    this._replaceFork();
    this._listenForConfig();
    watchLibrary(this.library);
    // This event observes an error without handling it: the process still dies as usual.
    process.on('uncaughtExceptionMonitor', (error) => { this.error = describeError(error); });
    process.on('exit', (status) => this._handOver(status));
    this.outside.watch(true);
  }

  _replaceFork() {
    const recorder = this;
    childProcess.fork = function fork(file, args, options) {
      const list = Array.isArray(args) ? args : [];
      const settings = (Array.isArray(args) ? options : args || options) || {};
      return String(file) === mainFile() ? recorder._ownFork(list, settings) : recorder._foreignFork(file);
    };
    require('module').syncBuiltinESMExports();
  }

  /** The file starts itself for one case: record it, and report success immediately. */
  _ownFork(args, { execArgv = process.execArgv }) {
    this.cases.push({ args: args.map(String), execArgv: withoutPreload(execArgv.map(String), this.preload) });
    const child = inertChild();
    setImmediate(() => {
      child.emit('exit', 0, null);
      child.emit('close', 0, null);
    });
    return child;
  }

  _foreignFork(file) {
    this.foreignForks.push(String(file));
    setTimeout(() => { if (this.cases.length === 0) process.exit(0); }, FOREIGN_FORK_MS).unref();
    return inertChild();
  }

  /** Without a channel the library would not announce the number of cases; a stub receives this and nothing else. */
  _listenForConfig() {
    if (process.send) return;
    process.send = (message, ...rest) => {
      if (message && message.type === 'config' && !this.config) {
        this.config = { name: message.name, queueLength: message.queueLength };
      }
      const callback = rest.find((argument) => typeof argument === 'function');
      if (callback) process.nextTick(callback, null);
      return true;
    };
  }

  _handOver(status) {
    this.outside.stop();
    const { cases, config, error, foreignForks, library } = this;
    const { files, env, volatile } = this.outside.summary();
    const main = mainFile();
    // The text of an ES module, and the accesses of a library that could not be observed, are unknown.
    const remember = library.called && Boolean(process.mainModule) && !volatile;
    const document = {
      probe: 1, main, node: process.version, versions: process.versions, config, cases, declared: library.declared,
      ...verdict({ main, cases, config, error, foreignForks, library }), exit_code: status, error,
      program: process.execPath, depends: { files, env, volatile: !remember },
    };
    writeAll(this.descriptor, `${JSON.stringify(document)}\n`);
  }
}

/** `process.mainModule` is set once the file is being loaded; with an ES module only the command line has it. */
function mainFile() {
  const main = process.mainModule;
  return main && main.filename ? main.filename : process.argv[1] || '';
}

/** Returns a child that never does anything. */
function inertChild() {
  const child = new EventEmitter();
  return Object.assign(child, {
    pid: undefined, connected: false, exitCode: null, signalCode: null, stdin: null, stdout: null, stderr: null,
    send: () => false, kill: () => false, disconnect() {}, ref() {}, unref() {},
  });
}

/** Flags without the option that loads this probe, in all its spellings. */
function withoutPreload(flags, preload) {
  const kept = [];
  for (let index = 0; index < flags.length; index++) {
    const [option, value] = flags[index].split(/=(.*)/s);
    if ((flags[index] === '-r' || flags[index] === '--require') && flags[index + 1] === preload) index++;
    else if (option !== '--require' || value !== preload) kept.push(flags[index]);
  }
  return kept;
}

function describeError(error) {
  if (!(error instanceof Error)) return { class: typeof error, message: String(error), stack: '' };
  return { class: error.name, message: error.message, stack: error.stack };
}

exports.Recorder = Recorder;
exports.withoutPreload = withoutPreload;
