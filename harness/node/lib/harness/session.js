'use strict';

// One conversation with Speedwell: reads a command, answers it, reads the next. Decides which command may come when,
// what an error looks like on the wire, and what the runtime says about itself. How a file is opened, described and
// measured lies in the files beside it, which are loaded when they are needed.

const path = require('path');
const runtime = require('../runtime.js');
const { writeAll } = require('../wire.js');

const PROTOCOL = '1';

class Session {
  constructor(channel) {
    this.channel = channel;
    this.jobs = new Map();
    /** What is going on, for errors that come out of the event loop: `{ stage, fields, fail }`. */
    this.current = null;
    this.leaving = false;
    /** Whether a benchmark file is executed here, and not code. */
    this.opened = false;
    /** Verbs of the commands so far, and who hears them before the process ends. */
    this.verbs = new Set();
    this.onQuit = null;
    /** Set while gauges are shown. */
    this.monitor = null;
  }

  /** Answers commands until `quit` or the end of the channel, then ends the process. */
  async serve() {
    process.on('uncaughtException', (error) => this.uncaught(error));
    process.on('exit', (status) => this._exiting(status));
    for (;;) {
      const command = await this.channel.next();
      if (command === null || command.verb === 'quit') break;
      await this._answer(command);
    }
    await this._undo();
    if (this.onQuit) this.onQuit(this.verbs);
    this.leave();
  }

  /** Ends what code has left to be undone. */
  async _undo() {
    for (const [name, job] of this.jobs) {
      this.jobs.delete(name);
      try {
        if (job.end) await job.end();
      } catch (error) {
        this.fail(error, { job: name });
      }
    }
  }

  /** From now on user code owns the event loop: the end of the driver ends the process, `onStop` hears a stop. */
  yieldLoop(onStop) {
    const { channel } = this;
    channel.watch();
    channel.setBackground(true);
    channel.onEnd = () => this.leave();
    channel.onStop = onStop;
  }

  /** Commands are waited for again, whatever user code has left behind. */
  takeLoop() {
    this.channel.onEnd = null;
    this.channel.onStop = null;
    this.channel.setBackground(false);
  }

  /** A run of code goes on until `onEnd` or `onStop` end it; `blocks` says that it leaves no time for events. */
  holdLoop(blocks, onStop, onEnd) {
    const { channel } = this;
    channel.onEnd = onEnd;
    channel.onStop = onStop;
    if (!blocks) channel.watch();
    channel.setBackground(false);
  }

  /** Between two batches of code that leaves no time for events. */
  glance() {
    this.channel.glance();
    if (this.monitor) this.monitor.glance();
  }

  leave() {
    this.leaving = true;
    process.exit(0);
  }

  async _answer(command) {
    this.verbs.add(command.verb);
    const verbs = {
      hello: () => this._hello(command),
      describe: () => require('./describe.js').describe(this, command),
      load: () => this._load(command),
      workers: () => require('../code/job.js').workers(this, command),
      calibrate: () => require('../code/calibrate.js').calibrate(this, command),
      monitor: () => require('../code/monitor.js').monitor(this, command),
      run: () => this._run(command),
      stop: () => this.channel.send('stopped', { id: command.id, job: command.text('job') }),
      unload: () => this._unload(command),
    };
    try {
      if (!Object.hasOwn(verbs, command.verb)) {
        throw new HarnessError('protocol', 'UnknownVerb', `unknown verb '${command.verb}'`);
      }
      await verbs[command.verb]();
    } catch (error) {
      this.fail(error, { id: command.id, job: command.text('job') });
    } finally {
      this.current = null;
    }
  }

  _hello(command) {
    if (command.text('proto') !== PROTOCOL) {
      this.fail(new HarnessError('protocol', 'Version', `only protocol version ${PROTOCOL} is spoken here`),
                { id: command.id }, true);
      this.leave();
    }
    this.channel.send('ready', { id: command.id, proto: PROTOCOL, ...readyFields() });
  }

  _load(command) {
    const [job, form] = ['job', 'form'].map(command.text);
    if (!job) throw new HarnessError('protocol', 'MissingKey', "load needs 'job'");
    if (form === 'text') return require('../code/job.js').load(this, command);
    if (form === 'case') return require('./measure.js').load(this, command);
    throw new HarnessError('protocol', 'Form', `form '${form}' is not offered, only 'case' and 'text'`);
  }

  _run(command) {
    const mode = command.text('mode');
    if (mode === 'once') return require('./measure.js').run(this, command);
    if (['continuous', 'timed', 'series'].includes(mode)) return require('../code/run.js').run(this, command);
    throw new HarnessError('protocol', 'Mode', `mode '${mode}' is not offered, only 'once', 'continuous', 'timed' and 'series'`);
  }

  async _unload(command) {
    const name = command.text('job');
    const job = this.jobs.get(name);
    if (!this.jobs.delete(name)) throw new HarnessError('protocol', 'UnknownJob', `no job '${name}'`);
    if (job.end) await job.end();
    this.channel.send('unloaded', { id: command.id, job: name });
  }

  /**
   * Sends an `error` event. `fatal` says that this process is about to end. The stack of an error of a benchmark file
   * goes to stderr as well, where its author would see it without us: of a SyntaxError it shows the line.
   */
  fail(error, fields, fatal = false) {
    const described = errorFields(error);
    if (this.opened && described.stack) writeAll(2, `${ownFrames(described.stack)}\n`);
    this.channel.send('error', { ...fields, ...described, fatal: fatal ? 1 : 0 });
  }

  /** An error that no caller can catch: it belongs to whatever is going on. */
  uncaught(error) {
    if (this.current) {
      this.current.fail(error);
      return;
    }
    // Code of a file that has already been answered for; its results stand, but its author should know.
    this.channel.send('log', { level: 'warning', text: `after the run: ${error && error.stack ? error.stack : error}` });
  }

  /** The file called process.exit: say so before the process is gone. */
  _exiting(status) {
    if (this.leaving) return;
    const { stage = 'run', fields = {} } = this.current || {};
    this.fail(new HarnessError(stage, 'ProcessExit', `the process exited with status ${status}`), fields, true);
  }
}

/** An error with its stage: protocol, parse, compile, init or run. */
class HarnessError extends Error {
  constructor(stage, name, message) {
    super(message);
    this.stage = stage;
    this.name = name;
  }
}

/** The error of user code at `stage`; what was thrown need not be an Error. */
function atStage(stage, thrown) {
  return { stage, thrown };
}

/** Fields of an `error` event for a HarnessError or for something thrown at a stage. */
function errorFields(error) {
  if (error instanceof HarnessError) return { stage: error.stage, class: error.name, msg: error.message };
  const { stage, thrown } = Object.hasOwn(error, 'thrown') ? error : { stage: 'run', thrown: error };
  if (!(thrown instanceof Error)) return { stage, class: typeof thrown, msg: String(thrown) };
  const { name, message, stack = '' } = thrown;
  return { stage, class: name, msg: message, stack, line: lineOf(stack) };
}

/** The stack without the frames of node and of this harness. */
function ownFrames(stack) {
  const foreign = [`(${path.resolve(__dirname, '..', '..')}${path.sep}`, 'node:internal/'];
  const isFrame = (line) => /^\s+at /.test(line);
  return stack.split('\n').filter((line) => !isFrame(line) || !foreign.some((mark) => line.includes(mark))).join('\n');
}

/** What stacks call code that was given as text: `[runner]:2` or, in a frame, `[runner]:2:5`. */
const CODE_LINE = /\[(?:runner|init|init_runner|done)\]:(\d+)/;

/** Line in the code, or in the benchmark file (argv 1 while it is loaded), where the error came from, if known. */
function lineOf(stack) {
  const code = CODE_LINE.exec(stack);
  if (code) return code[1];
  const file = process.argv[1] || '';
  const at = stack.indexOf(`${file}:`);
  const digits = at < 0 ? null : /^\d+/.exec(stack.slice(at + file.length + 1));
  return digits ? digits[0] : undefined;
}

const CLOCK_READS = 16;

/** What `monitor` shows, with units; named as in Node.js's own documentation. */
const GAUGES = [
  'event_loop_delay_p99:ms', 'event_loop_delay_max:ms', 'event_loop_utilization:percent', 'heap_used:B', 'heap_total:B',
  'rss:B', 'external:B', 'gc_count:count', 'gc_time:ms',
];

function readyFields() {
  return {
    lang: 'node',
    version: runtime.version,
    runtime: runtime.name,
    flavor: flag('--jitless') ? 'interp' : 'jit',
    build: process.features.debug ? 'debug' : 'opt',
    cpus: processors(),
    clock: 'process.hrtime',
    clock_res_ns: clockStep_ns(),
    caps: ['once', 'continuous', 'timed', 'series', 'workers', 'async', 'monitor', 'parallel'],
    gauges: GAUGES,
    ...numbered('warn', warnings()),
  };
}

/** Processors this process may use. */
function processors() {
  const os = require('os');
  return os.availableParallelism ? os.availableParallelism() : os.cpus().length;
}

/** Smallest step seen between two readings of the clock: its resolution and cost together, which is what counts. */
function clockStep_ns() {
  let smallest = Infinity;
  let before = process.hrtime.bigint();
  for (let read = 0; read < CLOCK_READS; read++) {
    const now = process.hrtime.bigint();
    if (now > before) smallest = Math.min(smallest, Number(now - before));
    before = now;
  }
  return Number.isFinite(smallest) ? smallest : 0;
}

function warnings() {
  const list = [];
  if (process.features.debug) list.push(`this is a debug build of ${runtime.title}`);
  if (flag('--inspect')) list.push('the inspector is on');
  if (process.env.NODE_V8_COVERAGE) list.push('NODE_V8_COVERAGE is set: code is counted while it runs');
  if (process.env.NODE_OPTIONS) list.push(`NODE_OPTIONS is set: '${process.env.NODE_OPTIONS}'`);
  if (process.env.NODE_DEBUG) list.push(`NODE_DEBUG is set: '${process.env.NODE_DEBUG}'`);
  return list;
}

function flag(prefix) {
  return process.execArgv.some((argument) => argument.startsWith(prefix));
}

function numbered(key, values) {
  return Object.fromEntries(values.map((value, index) => [`${key}${index}`, value]));
}

Object.assign(exports, { Session, HarnessError, atStage });
