'use strict';

// Makes the bare name `speedwell` mean this copy of the package, for benchmark files that are measured where it is
// not installed. Decides how each version of node is told; files that say anything else are not affected.

const path = require('path');
const runtime = require('./runtime.js');

/** What `require('module')` gives; in Node.js without the loader of ES modules that it would load as well. */
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
    // From here, because the files of the package may be joined in one.
    require('../index.js');
    return INDEX;
  };
}

/**
 * For `import ... from 'speedwell'`: hooks in the same thread where node has them (22.15 and 23.5), else in the
 * loader's own thread (20.6). Node 18 has neither without a flag; there the package must be installed.
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
      // Deno 2.9 heeds the other hook only beside one of this kind.
      ...(runtime.name === 'deno' && { load: (address, context, next) => next(address, context) }),
    });
  } else if (Module.register) {
    Module.register(pathToFileURL(path.join(__dirname, 'resolve_hooks.mjs')).href, { data: { name: NAME, url } });
  }
}

/** Bun has one way for both. */
function provideToBun() {
  const contents = () => ({ exports: require('../index.js'), loader: 'object' });
  Bun.plugin({ name: NAME, setup: (build) => { build.module(NAME, contents); } });
}

Object.assign(exports, { Module, provide, provideToModules });
