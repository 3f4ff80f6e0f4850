'use strict';

// Answers `calibrate`: the cost of an iteration with an empty runner, in a loop of the same form.

const { compileEmpty } = require('./compile.js');
const { Size } = require('./batches.js');
const { codeJob } = require('./job.js');
const { HarnessError } = require('../harness/error.js');

async function calibrate(session, command) {
  const job = codeJob(session, command.text('job'));
  const target_ns = Number(command.text('target_ns'));
  if (!(target_ns > 0)) throw new HarnessError('protocol', 'MissingKey', "calibrate needs 'target_ns'");
  const { loop } = compileEmpty({ ...job.forms.runner, async: job.awaited })(undefined, undefined, undefined);
  const size = new Size();
  const begin_ns = process.hrtime.bigint();
  let least_ps = Infinity;
  for (let before_ns = begin_ns; before_ns - begin_ns < target_ns;) {
    const { iterations } = size;
    const waited = loop(iterations);
    if (waited) await waited;
    const now_ns = process.hrtime.bigint();
    const took_ns = Number(now_ns - before_ns);
    least_ps = Math.min(least_ps, (took_ns * 1000) / iterations);
    size.adapt(took_ns);
    before_ns = now_ns;
  }
  session.channel.send('calibrated', { id: command.id, job: job.name, empty_ps: Math.round(least_ps) });
}

exports.calibrate = calibrate;
