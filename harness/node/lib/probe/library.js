'use strict';

// Observes the call of `createBenchmark`, whichever library it belongs to. Decides nothing; what it saw tells a file
// without cases from one that never created a benchmark, and whether it has a set-up step of its own.

const Module = require('module');

/** Fills `seen.called` and `seen.setup` when a library loaded from now on is used. */
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
    const [, , options] = args;
    if (options && typeof options.setup === 'function') seen.setup = true;
    return create.apply(this, args);
  };
}

exports.watchLibrary = watchLibrary;
