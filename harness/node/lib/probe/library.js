'use strict';

// Observes the call of `createBenchmark`, whichever library it belongs to. Decides nothing; what it saw tells a file
// without cases from one that never created a benchmark, and whether it has a set-up step of its own.

const Module = require('module');

/** Fills `seen.called`, `seen.setup` and `seen.declared` when a library loaded from now on is used. */
function watchLibrary(seen) {
  const wrapped = new WeakSet();
  const load = Module._load;
  Module._load = function observedLoad(...args) {
    const loaded = load.apply(this, args);
    if (isLibrary(loaded) && !wrapped.has(loaded)) {
      wrapped.add(loaded);
      wrap(loaded, seen);
    }
    return loaded;
  };
}

function isLibrary(loaded) {
  if (loaded === null || typeof loaded !== 'object') return false;
  const property = Object.getOwnPropertyDescriptor(loaded, 'createBenchmark');
  return property !== undefined && typeof property.value === 'function' && property.writable;
}

function wrap(library, seen) {
  const create = library.createBenchmark;
  library.createBenchmark = function createBenchmark(...args) {
    seen.called = true;
    const [, parameters, options] = args;
    if (options && typeof options.setup === 'function') seen.setup = true;
    // Noted before the library adds what stands on the command line. Groups have parameters of their own.
    if (!(options && options.byGroups)) seen.declared = declared(parameters);
    const bench = create.apply(this, args);
    if (seen.onDeclared) seen.onDeclared();
    return bench;
  };
}

/** Names with lists of values. */
function declared(parameters) {
  return Object.entries(parameters || {}).map(([name, values]) => ({ name, values: [].concat(values) }));
}

exports.watchLibrary = watchLibrary;
