'use strict';

// Keeps the compiled form of the joined files for the next process of the same program with the same flags. A form has
// the functions that were executed until then, so it is made when a process has done its work, and made anew, with the
// functions of both, when a process did what none before it did. Nothing of a benchmark file is in it.

const fs = require('fs');
const path = require('path');

/** What a process may have done, as a bit each. */
const DONE = { describe: 1, run: 2 };

/** Every set of flags has a form of its own; beyond so many all are removed. */
const KEPT = 32;
const PREFIX = 'compiled-';

/** Keeps what `bundle` has become in a process that answered these verbs, if no process did all of it before. */
function keep({ script, file, covered }, verbs) {
  const done = Object.keys(DONE).reduce((bits, verb) => (verbs.has(verb) ? bits | DONE[verb] : bits), 0);
  if ((covered | done) === covered || isShared()) return;
  try {
    forget(path.dirname(file));
    // Written beside and moved: other processes read it at any time.
    const draft = `${file}.${process.pid}`;
    fs.writeFileSync(draft, Buffer.concat([script.createCachedData(), Buffer.of(covered | done)]));
    fs.renameSync(draft, file);
  } catch {
    // Without a place for it everything is compiled again the next time, which is all.
  }
}

/** Whether V8 lies in a library: then the file of the program does not tell which one compiles. */
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
