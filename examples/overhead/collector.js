'use strict';

// Collects the state of a process before it crashes: the call frames and their local variables at the throw, which
// no longer exist when 'uncaughtException' is emitted. Loaded with `node --require=.../collector.js`.
//
// It uses a debugger in the process itself: an inspector session in the same thread that pauses at exceptions that
// will not be caught, as far as V8 can tell (it inspects the frames on the stack; for rejected promises it
// guesses). Each pause keeps its data in memory; the report is written when the process really crashes, and the
// crash continues.
//
//     CC_MODE     none      loaded, nothing else
//                 session   a session is connected
//                 enable    the Debugger domain is enabled
//                 uncaught  and pauses at exceptions that are predicted to be uncaught: the whole module (default)
//                 all       pauses at all exceptions
//     CC_REPORT   the file for the report; stderr if it is not given
//
// Each mode includes those above it, so that measuring them all tells which part costs what. At exit, one line on
// stderr reports the mode and the number of pauses: a run without it was not measured with the module.

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
    if (rung < 0) throw new Error(`unknown CC_MODE '${mode}': expected one of ${MODES.join(', ')}`);
    if (rung >= 1) this.#connect();
    if (rung >= 2) this.#command('Debugger.enable');
    if (rung >= 3) this.#command('Debugger.setPauseOnExceptions', { state: mode });
    // The monitor observes an exception without handling it: exit status and message do not change.
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

  // In the same thread, a session's responses arrive before post() returns, even while the program is paused.
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
      // An observer must not change the program's behavior.
      say({ collector: { mode: this.#mode, failed: error.message } });
    }
  }

  #report(error, origin) {
    const thrown = error instanceof Error ? error.stack : String(error);
    const state = this.#states.findLast?.((seen) => seen.thrown === thrown) ?? this.#states.at(-1);
    const report = { crash: { origin, thrown, pid: process.pid, node: process.version, ...state } };
    if (process.env.CC_REPORT) {
      fs.writeFileSync(process.env.CC_REPORT, `${JSON.stringify(report, undefined, 2)}\n`);
    } else {
      say(report);
    }
  }
}

// Synchronously: buffered stream output may be lost in a crash.
function say(value) {
  fs.writeSync(2, `${JSON.stringify(value)}\n`);
}

new Collector(process.env.CC_MODE || 'uncaught');
