'use strict';

// Decides from the probe's record whether single cases of a file can be measured without its parent role.

const fs = require('fs');

/** A property `setup` of an object literal: `setup: ...`, `setup(...) {`, or the short form before `,` or `}`. */
const SETUP_PROPERTY = /[{,]\s*(?:async\s+)?setup\s*(?:[:,}]|\([^()]*\)\s*\{)/;

/** Returns `needs_parent`, and the reason. */
function verdict(seen) {
  // A file that failed cannot be measured otherwise either.
  const reason = seen.error ? '' : reasonFor(seen);
  return { needs_parent: reason !== '', reason };
}

function reasonFor({ main, cases, config, foreignForks, library }) {
  if (library.setup || (!library.called && declaresSetup(main))) return 'the file declares a setup step';
  if (cases.length === 0) {
    if (foreignForks.length > 0) return `the file starts '${foreignForks[0]}' itself`;
    return library.called ? '' : 'the file did not call createBenchmark in this process';
  }
  if (!config) return 'the file announced no cases';
  if (config.queueLength !== cases.length) {
    return `the file announced ${config.queueLength} cases and started ${cases.length}`;
  }
  return '';
}

/** Guesses from the text, for files whose library could not be observed; ignores comments. */
function declaresSetup(main) {
  let text;
  try {
    text = fs.readFileSync(main, 'utf8');
  } catch {
    return false;
  }
  return SETUP_PROPERTY.test(text.replace(/\/\*[^]*?\*\/|\/\/.*/g, ''));
}

exports.verdict = verdict;
