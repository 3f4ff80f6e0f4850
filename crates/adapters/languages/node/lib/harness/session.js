'use strict';

// One conversation with Speedwell: reads a command, answers it, reads the next. Decides which command is allowed
// when, and what the runtime reports about itself. The files beside it open, describe and measure files; they are
// loaded on demand.

const runtime = require('../runtime.js');
const { writeAll } = require('../wire.js');
const { HarnessError, errorFields, ownFrames } = require('./error.js');

const PROTOCOL = '1';

class Session {
  constructor(channel) {
    this.channel = channel;
    this.jobs = new Map();
    /** The current activity, for errors from the event loop: `{ stage, fields, fail }`. */
    this.current = null;
    this.leaving = false;
    /** Whether a benchmark file is executed here, not code. */
    this.opened = false;
    /** Verbs received so far, and the callback that gets them before the process ends. */
    this.verbs = new Set();
    this.onQuit = null;
    /** Set while gauges are reported. */
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

  /** Ends jobs that are still loaded. */
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

  /** From now on user code owns the event loop: the driver's end ends the process, and `onStop` handles a stop. */
  yieldLoop(onStop) {
    const { channel } = this;
    channel.watch();
    channel.setBackground(true);
    channel.onEnd = () => this.leave();
    channel.onStop = onStop;
  }

  /** Waits for commands again, whatever user code has left in the event loop. */
  takeLoop() {
    this.channel.onEnd = null;
    this.channel.onStop = null;
    this.channel.setBackground(false);
  }

  /** A run of code continues until `onEnd` or `onStop` ends it; `blocks` means that it leaves no time for events. */
  holdLoop(blocks, onStop, onEnd) {
    const { channel } = this;
    channel.onEnd = onEnd;
    channel.onStop = onStop;
    if (!blocks) channel.watch();
    channel.setBackground(false);
  }

  /** Called between two batches of code that leaves no time for events. */
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
      this.fail(new HarnessError('protocol', 'Version', `only protocol version ${PROTOCOL} is supported`),
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
    throw new HarnessError('protocol', 'Form', `unsupported form '${form}': expected 'case' or 'text'`);
  }

  _run(command) {
    const mode = command.text('mode');
    if (mode === 'once') return require('./measure.js').run(this, command);
    if (['continuous', 'timed', 'series'].includes(mode)) return require('../code/run.js').run(this, command);
    throw new HarnessError('protocol', 'Mode', `unsupported mode '${mode}': expected 'once', 'continuous', 'timed' or 'series'`);
  }

  async _unload(command) {
    const name = command.text('job');
    const job = this.jobs.get(name);
    if (!this.jobs.delete(name)) throw new HarnessError('protocol', 'UnknownJob', `unknown job '${name}'`);
    if (job.end) await job.end();
    this.channel.send('unloaded', { id: command.id, job: name });
  }

  /**
   * Sends an `error` event. `fatal`: this process is about to end. The stack trace of a benchmark file's error also
   * goes to stderr, as without the harness; for a SyntaxError it contains the line.
   */
  fail(error, fields, fatal = false) {
    const described = errorFields(error);
    if (this.opened && described.stack) writeAll(2, `${ownFrames(described.stack)}\n`);
    this.channel.send('error', { ...fields, ...described, fatal: fatal ? 1 : 0 });
  }

  /** Handles an error that no caller can catch, as part of the current activity. */
  uncaught(error) {
    if (this.current) {
      this.current.fail(error);
      return;
    }
    // From a file whose run is over; its results stand, but its author should see the error.
    this.channel.send('log', { level: 'warning', text: `after the run: ${error && error.stack ? error.stack : error}` });
  }

  /** The file called process.exit: report it before the process is gone. */
  _exiting(status) {
    if (this.leaving) return;
    const { stage = 'run', fields = {} } = this.current || {};
    this.fail(new HarnessError(stage, 'ProcessExit', `the process exited with status ${status}`), fields, true);
  }
}

const CLOCK_READS = 16;

/** What `monitor` reports, with units; named as in Node.js's documentation. */
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

/** Number of processors that this process may use. */
function processors() {
  const os = require('os');
  return os.availableParallelism ? os.availableParallelism() : os.cpus().length;
}

/** Smallest difference between two readings of the clock: resolution and cost combined. */
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
  if (process.env.NODE_V8_COVERAGE) list.push('NODE_V8_COVERAGE is set: coverage slows down the code');
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

exports.Session = Session;
