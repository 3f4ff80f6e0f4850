'use strict';

// Gathers the state of a process before it crashes: the call frames and their local variables at the throw, which
// are gone when 'uncaughtException' is told. Loaded with `node --require=.../collector.js`.
//
// The means is a debugger in the process itself: an inspector session in the same thread, told to pause where an
// exception is thrown that nobody will catch, as far as V8 can tell (it looks at the frames on the stack; for a
// rejected promise it guesses). What is collected at each pause is kept in memory; the report is written when the
// process really crashes, and the crash goes on.
//
//     CC_MODE     none      loaded, nothing else
//                 session   a session is connected
//                 enable    the Debugger domain is enabled
//                 uncaught  and pauses at exceptions that are predicted to be uncaught: the whole module (default)
//                 all       pauses at all exceptions
//     CC_REPORT   the file for the report; stderr if it is not given
//
// Each mode contains those above it, so that measuring them all tells which part costs what. At exit one line on
// stderr says which mode was in force and how often the process was paused: a run without it was not measured
// with the module.

const fs = require('node:fs');
const inspector = require('node:inspector');
const { statesAt } = require('./frames.js');

const MODES = ['none', 'session', 'enable', 'uncaught', 'all'];

// Most pauses are for rejections that are handled later. Only the last ones can belong to the crash.
const REMEMBERED = 16;

class Collector {
  #mode;
  #session;
  #pauses = 0;
  #states = [];
  #scripts = new Map();

  constructor(mode) {
    this.#mode = mode;
    const rung = MODES.indexOf(mode);
    if (rung < 0) throw new Error(`CC_MODE is none of ${MODES.join(', ')}: '${mode}'`);
    if (rung >= 1) this.#connect();
    if (rung >= 2) this.#command('Debugger.enable');
    if (rung >= 3) this.#command('Debugger.setPauseOnExceptions', { state: mode });
    // The monitor sees an exception without handling it: exit status and message stay what they are.
    process.on('uncaughtExceptionMonitor', (error, origin) => this.#report(error, origin));
    process.on('exit', () => {
      say({ collector: { mode, pauses: this.#pauses } });
    });
  }

  #connect() {
    this.#session = new inspector.Session();
    this.#session.connect();
    this.#session.on('Debugger.scriptParsed', ({ params }) => this.#scripts.set(params.scriptId, params.url));
    this.#session.on('Debugger.paused', ({ params }) => this.#paused(params));
  }

  // Answers of a session in the same thread come before post() returns, while the program is paused, too.
  #command(method, parameters) {
    let answer;
    this.#session.post(method, parameters, (error, result) => {
      answer = { error, result };
    });
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`);
    return answer.result;
  }

  #paused({ reason, data, callFrames }) {
    this.#pauses += 1;
    try {
      const frames = statesAt(callFrames, this.#scripts, (method, words) => this.#command(method, words));
      this.#states.push({ reason, thrown: data?.description ?? String(data?.value), frames });
      if (this.#states.length > REMEMBERED) this.#states.shift();
    } catch (error) {
      // A program must not behave otherwise because somebody watches.
      say({ collector: { mode: this.#mode, failed: error.message } });
    }
  }

  #report(error, origin) {
    const thrown = error instanceof Error ? error.stack : String(error);
    const state = this.#states.findLast?.((known) => known.thrown === thrown) ?? this.#states.at(-1);
    const report = { crash: { origin, thrown, pid: process.pid, node: process.version, ...state } };
    if (process.env.CC_REPORT) {
      fs.writeFileSync(process.env.CC_REPORT, `${JSON.stringify(report, undefined, 2)}\n`);
    } else {
      say(report);
    }
  }
}

// At once: what a stream still holds when a process crashes may be lost.
function say(value) {
  fs.writeSync(2, `${JSON.stringify(value)}\n`);
}

new Collector(process.env.CC_MODE || 'uncaught');
