'use strict';

// The parent role of a benchmark file: one fresh process per case, one after the other. Decides what a dead child
// means; the children report themselves and their messages are forwarded unchanged.

const { fork } = require('child_process');
const { signals } = require('os').constants;
const { caseArguments } = require('./case_arguments.js');
const { sendResult } = require('./report.js');

/**
 * Measures every case of `bench.queue`, which `file` declares. A child that exits with a status ends the whole file
 * with that status. If one dies by a signal, the other cases continue, but the file then exits with 128 + signal: in
 * Node core such a case silently disappears from the results.
 */
async function runCases(bench, file, { setup }) {
  if (process.send) {
    process.send({ type: 'config', name: bench.name, queueLength: bench.queue.length });
  }
  if (setup) await setup(bench.queue);
  for (const values of bench.queue) {
    const { code, signal } = await runCase(bench, file, values);
    if (code) process.exit(code);
    if (signal) {
      console.error(`${bench.name} ${caseArguments(values).join(' ')}: killed by ${signal}`);
      process.exitCode = 128 + (signals[signal] || 0);
    }
  }
}

/** Starts the process of one case and waits until it has exited and its messages have been read. */
function runCase(bench, file, values) {
  const child = fork(file, caseArguments(values).concat(caseArguments(bench.extra_options)), {
    env: { ...process.env, NODE_RUN_BENCHMARK_FN: '' },
    execArgv: bench.flags.concat(process.execArgv),
  });
  child.on('message', sendResult);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
}

exports.runCases = runCases;
