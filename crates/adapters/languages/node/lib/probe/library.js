'use strict';

// Observes the call of `createBenchmark` in any library. Its record distinguishes a file without cases from one that
// never created a benchmark, and tells whether the file has a setup step.

const Module = require('module');

/** Sets `seen.called`, `seen.setup` and `seen.declared` when a library loaded from now on is used. */
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
    // Recorded before the library adds command-line values. Groups have their own parameters.
    if (!(options && options.byGroups)) seen.declared = declared(parameters);
    const bench = create.apply(this, args);
    if (seen.onDeclared) seen.onDeclared();
    return bench;
  };
}

/** Parameter names with lists of values. */
function declared(parameters) {
  return Object.entries(parameters || {}).map(([name, values]) => ({ name, values: [].concat(values) }));
}

exports.watchLibrary = watchLibrary;
