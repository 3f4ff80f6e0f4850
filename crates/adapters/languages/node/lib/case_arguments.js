'use strict';

// How a case is written on a command line; shared by both roles of a file and by the harness.

/** Returns `name=value` for every value, in the order of the case. */
function caseArguments(values) {
  return Object.entries(values).map(([name, value]) => `${name}=${value}`);
}

exports.caseArguments = caseArguments;
