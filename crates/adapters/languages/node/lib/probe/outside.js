'use strict';

// Records what the cases of a file depend on besides its own text: files that are loaded or read, and environment
// variables, until the file has declared its benchmark. If the file inspects anything else (folders, other programs),
// the answer is `volatile` and must not be cached. Time and randomness are not detected. Used while a file is
// described, never while it is measured.

const childProcess = require('child_process');
const fs = require('fs');
const path = require('path');

/** Functions whose results do not depend only on a file's content. */
const VOLATILE = [
  [fs, ['existsSync', 'statSync', 'lstatSync', 'readdirSync', 'opendirSync', 'openSync', 'accessSync', 'readlinkSync']],
  [childProcess, ['execSync', 'execFileSync', 'spawnSync']],
];

/** What an ES module may import without being volatile: its imports cannot be followed here. */
const IMPORT = /\b(?:import|export)\b[^'"`;]*?\(?\s*(['"])(.*?)\1/g;
const HARMLESS = /^(?:speedwell|(?:node:)?(?:assert|buffer|events|path|querystring|string_decoder|url|util|zlib|crypto|timers))$/;

class Outside {
  constructor() {
    this.files = new Set();
    this.environment = new Set();
    this.volatile = false;
    this.depth = 0;
    this.undo = [];
    this.sync = () => {};
  }

  /** Starts recording; `modules` says whether ES modules, which have their own bindings of these functions, may be
   * among the callers. */
  watch(modules) {
    if (modules) this.sync = require('module').syncBuiltinESMExports;
    const real = process.env;
    process.env = this._observed(real);
    this.undo.push(() => { process.env = real; });
    for (const [module, names] of VOLATILE) {
      for (const name of names) this._replace(module, name, () => { if (!asksForTool()) this.volatile = true; });
    }
    this._replace(fs, 'readFileSync', (file) => this._read(file));
    this.sync();
  }

  /** The file has declared its benchmark; whatever it inspects from now on changes no case. */
  stop() {
    while (this.undo.length > 0) this.undo.pop()();
    this.sync();
  }

  /** An ES module: its imports cannot be followed, so they must be known to be harmless. */
  module(file) {
    const text = fs.readFileSync(file, 'utf8');
    this.files.add(file);
    const imports = [...text.matchAll(IMPORT)].map(([, , name]) => name);
    if (/\bimport\s*\(/.test(text) || !imports.every((name) => HARMLESS.test(name))) this.volatile = true;
  }

  /** Returns the record, without the files of this package. */
  summary() {
    const packageFolder = `${path.resolve(__dirname, '..', '..')}${path.sep}`;
    return {
      files: [...this.files].filter((file) => !file.startsWith(packageFolder)),
      env: [...this.environment],
      volatile: this.volatile ? 1 : undefined,
    };
  }

  _read(file) {
    if (typeof file === 'string' || file instanceof URL) {
      this.files.add(typeof file === 'string' ? path.resolve(file) : require('url').fileURLToPath(file));
    } else {
      this.volatile = true;
    }
  }

  _replace(module, name, note) {
    const original = module[name];
    const outside = this;
    module[name] = function observed(...args) {
      // Node implements some of these functions with others of them.
      if (outside.depth === 0) note(...args);
      outside.depth++;
      try {
        return original.apply(this, args);
      } finally {
        outside.depth--;
      }
    };
    this.undo.push(() => { module[name] = original; });
  }

  _observed(real) {
    const note = (name) => { if (typeof name === 'string') this.environment.add(name); };
    return new Proxy(real, {
      get: (target, name) => { note(name); return target[name]; },
      has: (target, name) => { note(name); return name in target; },
      set: (target, name, value) => { target[name] = value; return true; },
      ownKeys: (target) => { this.volatile = true; return Reflect.ownKeys(target); },
    });
  }
}

/** Node core's library searches for HTTP tools whenever it is loaded, which changes no case. */
function asksForTool() {
  return new Error().stack.includes('_http-benchmarkers.js');
}

exports.Outside = Outside;
