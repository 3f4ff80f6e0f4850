'use strict';

// Which program performs this package, Node.js, Bun or Deno, and what has to be done otherwise in the last two. All else
// is written against Node's own modules, which the three share. Nothing here is decided by what a version can do: that
// is asked where it matters.

const fs = require('fs');

const { bun, deno, node } = process.versions;

/** `node`, `bun` or `deno`. */
const name = bun ? 'bun' : deno ? 'deno' : 'node';

/** The version of that program, not of the Node.js that it stands in for. */
const version = bun || deno || node;

/** How people call it. */
const title = { node: 'Node.js', bun: 'Bun', deno: 'Deno' }[name];

/**
 * A descriptor that was inherited as `descriptor`, for the functions of `fs`. Those of Deno know only what they have
 * opened themselves, so there it is opened by its name, which works for pipes and files.
 */
function inherited(descriptor, flags) {
  if (!deno) return descriptor;
  try {
    return fs.openSync(`/proc/self/fd/${descriptor}`, flags);
  } catch (error) {
    // What else has this number is Deno's own, such as a socket.
    if (!['ENOENT', 'ENXIO', 'EACCES'].includes(error.code)) throw error;
    console.error(`descriptor ${descriptor} did not reach Deno: the variant must name the program itself, or a script ` +
                  'that leaves descriptors open');
    return process.exit(2);
  }
}

Object.assign(exports, { name, version, title, inherited });
