'use strict';

// Shared by all HTTP tools: finds programs, and builds the target address.

const fs = require('fs');
const path = require('path');

/** Absolute path of the program `name` on PATH, or undefined. */
function findProgram(name) {
  const endings = process.platform === 'win32' ? ['.exe', '.cmd'] : [''];
  for (const folder of (process.env.PATH || '').split(path.delimiter)) {
    for (const ending of endings) {
      const file = path.resolve(folder, name + ending);
      if (executable(file)) return file;
    }
  }
  return undefined;
}

function executable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The address that a tool loads. */
function address({ scheme, host, port, path: target }) {
  return `${scheme}://${host}:${port}${target}`;
}

exports.findProgram = findProgram;
exports.address = address;
