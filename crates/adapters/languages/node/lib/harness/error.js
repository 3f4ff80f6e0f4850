'use strict';

// The errors of the harness and of user code: at which stage each occurred, and its fields on the wire.

const path = require('path');

/** An error with its stage: protocol, parse, compile, init or run. */
class HarnessError extends Error {
  constructor(stage, name, message) {
    super(message);
    this.stage = stage;
    this.name = name;
  }
}

/** Wraps an error of user code at `stage`; the thrown value need not be an Error. */
function atStage(stage, thrown) {
  return { stage, thrown };
}

let visibleNames = '';

/** Sets what follows the message about an undefined name: which names the user's modules export. */
function describeNames(text) {
  visibleNames = text;
}

/** Fields of an `error` event for a HarnessError or for a value thrown at a stage. */
function errorFields(error) {
  if (error instanceof HarnessError) return { stage: error.stage, class: error.name, msg: error.message };
  const { stage, thrown } = Object.hasOwn(error, 'thrown') ? error : { stage: 'run', thrown: error };
  if (!(thrown instanceof Error)) return { stage, class: typeof thrown, msg: String(thrown) };
  const { name, message, stack = '' } = thrown;
  const msg = name === 'ReferenceError' ? message + visibleNames : message;
  return { stage, class: name, msg, stack, line: lineOf(stack) };
}

/** Removes the frames of node and of this harness from a stack trace. */
function ownFrames(stack) {
  const foreign = [`(${path.resolve(__dirname, '..', '..')}${path.sep}`, 'node:internal/'];
  const isFrame = (line) => /^\s+at /.test(line);
  return stack.split('\n').filter((line) => !isFrame(line) || !foreign.some((mark) => line.includes(mark))).join('\n');
}

/** File names in stack traces of code given as text: `[runner]:2` or, in a frame, `[runner]:2:5`. */
const CODE_LINE = /\[(?:runner|init|init_runner|done)\]:(\d+)/;

/** Line in the code, or in the benchmark file (argv 1 while it is loaded), that the error came from, if known. */
function lineOf(stack) {
  const code = CODE_LINE.exec(stack);
  if (code) return code[1];
  const file = process.argv[1] || '';
  const position = stack.indexOf(`${file}:`);
  const digits = position < 0 ? null : /^\d+/.exec(stack.slice(position + file.length + 1));
  return digits ? digits[0] : undefined;
}

Object.assign(exports, { HarnessError, atStage, describeNames, errorFields, ownFrames });
