#!/usr/bin/env node
'use strict';

// Starts the program in the package for this platform and exits with its status.

const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const platform = `${process.platform}-${process.arch}`;

function fail(message, hint) {
  process.stderr.write(`speedwell: ${message}\nhint: ${hint}\n`);
  process.exit(2);
}

function find() {
  try {
    return require.resolve(`@speedwell-bench/${platform}/bin/speedwell`);
  } catch {
    return fail(`the package of the program for '${platform}' is not installed`,
      'npm skips it with --omit=optional; on other platforms, build it with cargo');
  }
}

const program = find();
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// A terminal also sends these to the program, which saves its measurements before it exits.
for (const signal of ['SIGINT', 'SIGQUIT']) process.on(signal, () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => fail(`cannot start '${program}': ${error.message}`, 'is the file executable?'));
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
