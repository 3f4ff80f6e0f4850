'use strict';

// Compiles code into functions: the loop around a runner, and hooks. The text of an expression or of statements is
// pasted into the loop, so that an iteration costs no call; a function is called, and V8's optimizing compiler usually
// inlines the call. The result of an iteration stays in a variable that outlives the loop. Does not measure.

const vm = require('vm');
const runtime = require('../runtime.js');
const { formOf, fileName } = require('./forms.js');
const { HarnessError } = require('../harness/error.js');

const MOST_ARITY = { runner: 2, init: 0, init_runner: 1, done: 1 };

/** Names in generated code. This prefix is reserved, so that they do not collide with names of the user. */
const PREFIX = '$speedwell_';
const [LOOP, LIMIT, TURN, LAST, GIVEN, CALL, OWN, SHARED, EXPORTS] =
  ['loop', 'limit', 'turn', 'last', 'given', 'call', 'own', 'shared', 'exports'].map((name) => PREFIX + name);

/** Parses and checks a runner or hook; undefined for a missing text. */
function read(text, name) {
  if (text === undefined) return undefined;
  const form = formOf(text, name);
  if (form.kind === 'function' && form.arity > MOST_ARITY[name]) {
    const message = `a function for '${name}' takes at most ${MOST_ARITY[name]} parameters, this one takes ${form.arity}`;
    throw new HarnessError('compile', 'Arity', message);
  }
  // Code without an await of its own may return promises, or be a function that does: the loop awaits them.
  return { ...form, name, text, awaits: form.async && form.kind !== 'function' };
}

/**
 * Source of a runner's loop. The user's text starts in the first line, so that line numbers in stack traces are the
 * user's. A line feed follows it because it may end in a comment. The limit is converted to a small integer, because a
 * batch size that V8 keeps as a floating-point number would make each turn compare doubles.
 */
function loopSource(form) {
  const isFunction = form.kind === 'function';
  const begin = `(function (require, shared, state) { let ${LAST} = state; ${imports(form)}`;
  const made = isFunction ? `const ${CALL} = (${form.tail}\n); ` : '';
  const loop = `${form.async ? 'async ' : ''}function ${LOOP}(${LIMIT}) { ${LIMIT} |= 0; let ${GIVEN} = ${LAST}; `;
  // An export named `state` leaves a function without a state of its own.
  const own = isFunction ? `const ${OWN} = ${(form.names || []).includes('state') ? undefined : 'state'}; ` : '';
  const head = form.head === '' ? '' : `${form.head}${form.tail === '' ? '\n' : ''};`;
  const value = isFunction ? call(form) : `(${form.tail || 'undefined'}\n)`;
  const turns = `for (let ${TURN} = 0; ${TURN} < ${LIMIT}; ${TURN}++) `;
  const body = `{ ${head}${GIVEN} = ${form.async && !form.awaits ? 'await ' : ''}${value}; }`;
  const result = `return { loop: ${LOOP}, last: () => ${LAST}, keep: (value) => { ${LAST} = value; } }; `;
  const end = ` ${LAST} = ${GIVEN}; } ${result}${closing(form)}})`;
  return begin + made + loop + own + turns + body + end;
}

/** Opens a block with the names of exposed modules, which may hide the parameters of the function around it. */
function imports({ names = [] }) {
  return names.length > 0 ? `const ${EXPORTS} = require.exports; { const { ${names.join(', ')} } = ${EXPORTS}; ` : '';
}

/** Closes the block of `imports`. */
function closing({ names = [] }) {
  return names.length > 0 ? '} ' : '';
}

/**
 * Loads modules of the user for code that gets `requires`. Returns the names of their exports, without those that the
 * code cannot see, such as `default`.
 */
async function expose(requires, files) {
  const { pathToFileURL } = require('url');
  const { importModule } = require('../harness/import_module.cjs');
  requires.exports = {};
  for (const file of files) {
    const loaded = await importModule(pathToFileURL(file).href);
    // Node does not find all exports of a CommonJS module, but the default export has them.
    Object.assign(requires.exports, loaded.default, loaded);
  }
  return Object.keys(requires.exports).filter((name) => {
    if (!/^[A-Za-z_$][\w$]*$/.test(name) || name.startsWith(PREFIX)) return false;
    try {
      new vm.Script(`(async function () { const ${name} = 0; })`);
      return true;
    } catch {
      return false;
    }
  });
}

function call({ arity }) {
  return `${CALL}(${['', OWN, `${OWN}, ${GIVEN}`][arity]})`;
}

/** Compiles a factory `(require, shared, state) => ({ loop, last, keep })` of a runner. */
function compileLoop(form) {
  return run(loopSource(form), form.name);
}

/** The same for an empty runner of that form. */
function compileEmpty({ kind, async, arity }) {
  const tail = kind === 'function' ? `${async ? 'async ' : ''}(${['', 'a', 'a, b'][arity]}) => undefined` : 'undefined';
  return run(loopSource({ kind, head: '', tail, async, arity }), 'empty');
}

/** Compiles a hook into a function `(require, shared) => value` (or a promise of it). */
function compileHook({ kind, head, tail, async, name, names }) {
  const value = `(${tail || 'undefined'}\n)${kind === 'function' ? `(${SHARED})` : ''}`;
  const statements = head === '' ? '' : `${head}${tail === '' ? '\n' : ''};`;
  const begin = `(${async ? 'async ' : ''}function (require, shared) { const ${SHARED} = shared; ${imports({ names })}`;
  // The block lets statements declare any name.
  return run(`${begin}{ ${statements}return ${value} } ${closing({ names })}})`, name);
}

function run(source, name) {
  const loader = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  const options = { filename: fileName(name), importModuleDynamically: loader };
  return new vm.Script(loader ? source : withImport(source), options).runInThisContext();
}

/** Before 20.12 and 21.7, scripts cannot import; there, a helper function resolves as a file in this folder would. */
function withImport(source) {
  globalThis.$speedwell_import = globalThis.$speedwell_import || ((name) => {
    const isPath = /^\.{0,2}\//.test(name);
    return import(isPath ? require('url').pathToFileURL(require('path').resolve(name)).href : name);
  });
  return source.replace(/(?<![.\w$])import(?=\s*\()/g, '$$speedwell_import');
}

/** Returns `require` as in a file of the current folder that also searches `folders`. */
function requirer(folders) {
  const Module = require('module');
  const path = require('path');
  if (runtime.name === 'bun') return requirerOfBun(Module, path, folders);
  const codeModule = new Module(path.resolve('[code]'));
  codeModule.filename = path.resolve('[code]');
  const absolute = folders.map((folder) => path.resolve(folder));
  codeModule.paths = [...absolute, ...absolute.map((folder) => path.join(folder, 'node_modules')),
               ...Module._nodeModulePaths(process.cwd())];
  return (id) => codeModule.require(id);
}

/** The same for Bun, where modules cannot be created by hand: tries one folder after the other. */
function requirerOfBun(Module, path, folders) {
  const here = Module.createRequire(path.resolve('[code]'));
  const others = folders.map((folder) => Module.createRequire(path.resolve(folder, '[code]')));
  return (id) => {
    for (const other of others) {
      for (const name of /^[./]/.test(id) ? [] : [`./${id}`, id]) {
        try {
          other.resolve(name);
        } catch {
          continue;
        }
        return other(name);
      }
    }
    return here(id);
  };
}

Object.assign(exports, { read, loopSource, compileLoop, compileEmpty, compileHook, expose, requirer });
