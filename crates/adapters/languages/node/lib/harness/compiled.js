'use strict';

// Stores the code cache of the bundled files for the next process of the same program with the same flags. A cache
// contains the functions that have been executed, so it is written when a process has done its work, and rewritten
// with the functions of both when a process did something new. It contains nothing of benchmark files.

const fs = require('fs');
const path = require('path');

/** What a process may have done, one bit each. */
const DONE = { describe: 1, run: 2 };

/** Every set of flags has its own cache; beyond this number, all are removed. */
const KEPT = 32;
const PREFIX = 'compiled-';

/** Stores the code of `bundle` after a process answered these verbs, unless an earlier process covered them all. */
function keep({ script, file, covered }, verbs) {
  const done = Object.keys(DONE).reduce((bits, verb) => (verbs.has(verb) ? bits | DONE[verb] : bits), 0);
  if ((covered | done) === covered || isShared()) return;
  try {
    forget(path.dirname(file));
    // Written to a temporary file and renamed: other processes read it at any time.
    const draft = `${file}.${process.pid}`;
    fs.writeFileSync(draft, Buffer.concat([script.createCachedData(), Buffer.of(covered | done)]));
    fs.renameSync(draft, file);
  } catch {
    // Without a writable place, the next process just compiles everything again.
  }
}

/** Whether V8 is in a shared library: then the program's file does not identify the compiler. */
function isShared() {
  const { node_shared, node_shared_v8 } = process.config.variables;
  return [node_shared, node_shared_v8].some((shared) => shared === true || shared === 'true');
}

function forget(folder) {
  const kept = fs.readdirSync(folder).filter((name) => name.startsWith(PREFIX));
  if (kept.length < KEPT) return;
  for (const name of kept) fs.unlinkSync(path.join(folder, name));
}

exports.keep = keep;
