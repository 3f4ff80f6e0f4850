'use strict';

// Records the files of the user's checkout that modules are loaded from.
// Node.js executes this file first because Speedwell puts it into NODE_OPTIONS,
// while a framework lists its benchmarks, never while it measures. Writes each
// file below $SPEEDWELL_CHECKOUT as a line of $SPEEDWELL_MODULES. Some
// frameworks compile modules themselves and only read them, so reading a script
// counts as loading it.

const fs = require('fs');
const Module = require('module');
const path = require('path');
const { fileURLToPath } = require('url');

const SCRIPT = /\.(?:[cm]?[jt]s|[jt]sx|node)$/;

function watch(checkout, log) {
  const { appendFileSync, realpathSync } = fs;
  const noted = new Set();

  function note(file) {
    if (noted.has(file) || !path.isAbsolute(file)) return;
    noted.add(file);
    try {
      const real = realpathSync(file);
      if (real.startsWith(checkout + path.sep)) appendFileSync(log, `${real}\n`);
    } catch {
      // The file does not exist.
    }
  }

  function noteRead(file) {
    if (file instanceof URL) file = file.protocol === 'file:' ? fileURLToPath(file) : '';
    if (typeof file === 'string' && SCRIPT.test(file)) note(path.resolve(file));
  }

  const resolve = Module._resolveFilename;
  Module._resolveFilename = function resolved(...words) {
    const file = resolve.apply(this, words);
    note(file);
    return file;
  };
  if (Module.registerHooks) {
    Module.registerHooks({
      resolve(name, context, next) {
        const found = next(name, context);
        if (found.url.startsWith('file:')) note(fileURLToPath(found.url));
        return found;
      },
    });
  }
  for (const [module, name] of [[fs, 'readFile'], [fs, 'readFileSync'], [fs.promises, 'readFile']]) {
    const original = module[name];
    module[name] = function read(file, ...words) {
      noteRead(file);
      return original.call(this, file, ...words);
    };
  }
  Module.syncBuiltinESMExports();
}

const { SPEEDWELL_CHECKOUT: checkout, SPEEDWELL_MODULES: log } = process.env;
if (checkout && log) watch(checkout, log);
