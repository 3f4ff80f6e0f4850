'use strict';

// Access to node's internal C++ bindings, for benchmarks of node itself.

/**
 * Returns the internal binding `name`. With `--expose-internals` all bindings are accessible; otherwise only a
 * short list through `process.binding`.
 */
function binding(name) {
  let internalBinding;
  try {
    ({ internalBinding } = require('internal/test/binding'));
  } catch {
    return process.binding(name);
  }
  return internalBinding(name);
}

exports.binding = binding;
