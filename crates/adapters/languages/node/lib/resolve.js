'use strict';

// Makes the bare name `speedwell` resolve to this copy of the package, for benchmark files that are measured where
// it is not installed. Chooses the mechanism for each version of node; other imports are not affected.

const path = require('path');
const runtime = require('./runtime.js');

/** The result of `require('module')`; in Node.js without the ES module loader that it would load as well. */
const Module = module.constructor._load ? module.constructor : require('module');

const NAME = 'speedwell';
const INDEX = path.join(__dirname, '..', 'index.js');
let provided = false;
let providedToModules = false;

/** For `require('speedwell')`. */
function provide() {
  if (provided) return;
  provided = true;
  if (runtime.name === 'bun') {
    provideToBun();
    return;
  }
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function resolveFilename(request, ...rest) {
    if (request !== NAME) return resolve.call(this, request, ...rest);
    // Required here, because the files of the package may be bundled.
    require('../index.js');
    return INDEX;
  };
}

/**
 * For `import ... from 'speedwell'`: in-thread hooks where node has them (22.15 and 23.5), else hooks in the
 * loader's thread (20.6). Node 18 has neither without a flag; there the package must be installed.
 */
function provideToModules() {
  if (providedToModules || runtime.name === 'bun') return;
  providedToModules = true;
  // Loading it adds the hooks to the class.
  require('module');
  const { pathToFileURL } = require('url');
  const url = pathToFileURL(INDEX).href;
  if (Module.registerHooks) {
    Module.registerHooks({
      resolve(specifier, context, next) {
        if (specifier === NAME) return { url, format: 'commonjs', shortCircuit: true };
        return next(specifier, context);
      },
      // Deno 2.9 honors the other hook only together with this one.
      ...(runtime.name === 'deno' && { load: (address, context, next) => next(address, context) }),
    });
  } else if (Module.register) {
    Module.register(pathToFileURL(path.join(__dirname, 'resolve_hooks.mjs')).href, { data: { name: NAME, url } });
  }
}

/** Bun has one mechanism for both. */
function provideToBun() {
  const contents = () => ({ exports: require('../index.js'), loader: 'object' });
  Bun.plugin({ name: NAME, setup: (build) => { build.module(NAME, contents); } });
}

Object.assign(exports, { Module, provide, provideToModules });
