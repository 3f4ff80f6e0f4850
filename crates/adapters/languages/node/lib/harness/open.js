'use strict';

// Executes a benchmark file inside the harness as if it were the main program, and intercepts the benchmark it creates.
// Decides how a file is loaded (CommonJS or ES module) and when it has failed to create one. Does not measure.

const fs = require('fs');
const path = require('path');
const runtime = require('../runtime.js');
const { HARNESS } = require('../benchmark.js');
const { Module, provide, provideToModules } = require('../resolve.js');
const { HarnessError, atStage } = require('./error.js');

const ENDED_EMPTY = 'the file did not call createBenchmark';
const NEEDS_TYPES = 'does not run TypeScript; 22.18, 23.6 and newer versions do';
let opened = 0;

/**
 * Executes `file` with `argv`. Resolves to `{ bench, main, options }` as soon as the file has called createBenchmark
 * and its top-level code has finished. `hooks` receives what the benchmark reports later; `outside` records what the
 * declaration depends on.
 */
async function open(session, { file, argv, root, hooks, fields, outside }) {
  const absolute = realPath(file);
  if (/\.[cm]?ts$/.test(absolute) && !process.features.typescript) {
    throw new HarnessError('compile', 'NoTypeScript', `Node.js ${process.versions.node} ${NEEDS_TYPES}`);
  }
  let fail;
  const failed = new Promise((resolve, reject) => { fail = reject; });
  let adopted = null;
  const created = new Promise((resolve) => {
    globalThis[HARNESS] = {
      ...hooks,
      adopt(bench, main, options) {
        if (adopted) throw new HarnessError('compile', 'SecondBenchmark', 'createBenchmark was called twice');
        adopted = { bench, main, options };
        if (outside) outside.stop();
        resolve();
      },
    };
  });
  session.opened = true;
  session.current = { stage: 'compile', fields, fail: (error) => fail(staged(error)) };
  if (root) process.env.SPEEDWELL_BENCHMARK_ROOT = root;
  process.argv = [process.argv[0], absolute, ...argv];
  try {
    await Promise.race([failed, execute(session, absolute, outside)]);
    if (!adopted) {
      session.yieldLoop(null);
      await Promise.race([failed, created, loopEmpty()]);
    }
  } finally {
    session.takeLoop();
    if (outside) outside.stop();
  }
  return adopted;
}

async function execute(session, file, outside) {
  try {
    provide();
    opened++;
    const isEsModule = isModule(file);
    if (outside && isEsModule) outside.module(file);
    if (outside) outside.watch(isEsModule);
    if (!isEsModule) {
      delete Module._cache[file];
      loadAsMain(file);
      return;
    }
    provideToModules();
    session.yieldLoop(null);
    const { pathToFileURL } = require('url');
    // The query makes node's cache treat a second opening of the same file as a new module.
    const { href } = pathToFileURL(file);
    const { importModule } = require('./import_module.cjs');
    await importModule(opened === 1 ? href : `${href}?opened=${opened}`);
  } catch (error) {
    throw error instanceof HarnessError ? error : staged(error);
  }
}

/** Executes a CommonJS file as the main program: `require.main === module` holds in it. */
function loadAsMain(file) {
  if (runtime.name !== 'bun') {
    // The third argument makes it the main module.
    Module._load(file, null, true);
    return;
  }
  // In Bun that function has no effect, and this property determines the main module.
  globalThis.Bun.main = file;
  require(file);
}

/** Node identifies a main program by its real path; the loader reports a missing file. */
function realPath(file) {
  try {
    return fs.realpathSync(file);
  } catch {
    return path.resolve(file);
  }
}

/** A statement that only an ES module has, at the start of a line. */
const MODULE_STATEMENT = /^\s*(?:import\s*['"{*]|import\s[^=(]*\sfrom\s*['"]|export\s)/m;

/** Whether node treats `file` as an ES module: by its name, by the nearest package.json, else by its syntax. */
function isModule(file) {
  if (file.endsWith('.mjs') || file.endsWith('.mts')) return true;
  if (!/\.[jt]s$/.test(file)) return false;
  const type = packageType(path.dirname(file));
  // Versions that check the syntax (22.7) got in-thread hooks later or at the same time.
  if (type) return type === 'module';
  return hasModuleStatement(file) && (runtime.name !== 'node' || Boolean(require('module').registerHooks));
}

function packageType(folder) {
  const description = path.join(folder, 'package.json');
  if (fs.existsSync(description)) return JSON.parse(fs.readFileSync(description, 'utf8')).type;
  const parent = path.dirname(folder);
  return folder === parent || path.basename(folder) === 'node_modules' ? undefined : packageType(parent);
}

function hasModuleStatement(file) {
  try {
    return MODULE_STATEMENT.test(fs.readFileSync(file, 'utf8'));
  } catch {
    return false;
  }
}

function staged(error) {
  return atStage(error instanceof SyntaxError ? 'parse' : 'compile', error);
}

function loopEmpty() {
  return new Promise((resolve, reject) => {
    process.once('beforeExit', () => reject(new HarnessError('compile', 'NoBenchmark', ENDED_EMPTY)));
  });
}

exports.open = open;
