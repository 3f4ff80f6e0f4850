'use strict';

// Which program executes this package, Node.js, Bun or Deno, and what differs in the last two. Everything else uses
// Node's own modules, which all three provide. Nothing here depends on what a version supports: that is checked where
// it matters.

const fs = require('fs');

const { bun, deno, node } = process.versions;

/** `node`, `bun` or `deno`. */
const name = bun ? 'bun' : deno ? 'deno' : 'node';

/** The version of that program, not of the Node.js version that it emulates. */
const version = bun || deno || node;

/** The name for users. */
const title = { node: 'Node.js', bun: 'Bun', deno: 'Deno' }[name];

/**
 * Returns an inherited descriptor for the functions of `fs`. Deno's accept only descriptors that they have opened
 * themselves, so there it is opened by its name, which works for pipes and files.
 */
function inherited(descriptor, flags) {
  if (!deno) return descriptor;
  try {
    return fs.openSync(`/proc/self/fd/${descriptor}`, flags);
  } catch (error) {
    // Anything else with this number is Deno's own, such as a socket.
    if (!['ENOENT', 'ENXIO', 'EACCES'].includes(error.code)) throw error;
    console.error(`descriptor ${descriptor} did not reach Deno: the variant must name the program itself, or a script ` +
                  'that leaves descriptors open');
    return process.exit(2);
  }
}

Object.assign(exports, { name, version, title, inherited });
