'use strict';

// The harness program: `node FLAGS harness.cjs` with SPEEDWELL_FDS=3,4 in its environment. Measures benchmark files
// that use this package, following Speedwell's harness protocol. Every sample pays for startup, so this program loads
// only what the current commands need; if Speedwell has bundled the files of this package when unpacking them, it reads
// that one file, with the code cache of an earlier process. Start reading at lib/harness/session.js.

const fs = require('fs');
const { Script } = require('vm');

const Module = module.constructor;

const descriptors = /^(\d+),(\d+)$/.exec(process.env.SPEEDWELL_FDS || '');
if (!descriptors) {
  console.error("SPEEDWELL_FDS must name two descriptors, such as '3,4'");
  process.exit(2);
}
// Child processes of a benchmark must not inherit the variable and use the descriptors.
delete process.env.SPEEDWELL_FDS;

const bundle = openBundle(`${__dirname}/bundle.js`);
const { Channel } = inPackage('lib/harness/channel.js');
const { Session } = inPackage('lib/harness/session.js');
const session = new Session(new Channel(Number(descriptors[1]), Number(descriptors[2])));
if (bundle) session.onQuit = (verbs) => inPackage('lib/harness/compiled.js').keep(bundle, verbs);
session.serve();

/**
 * The bundle, `{ NAME: function }`, or null if there is none. Bun and Deno read the files one by one: it is unknown
 * whether they accept a code cache of another version.
 */
function openBundle(path) {
  if (process.versions.bun || process.versions.deno) return null;
  const source = readIfThere(path, 'utf8');
  if (source === null) return null;
  const file = `${__dirname}/compiled-${programAndFlags()}`;
  const kept = readIfThere(file);
  // The last byte records what earlier processes did, and so which functions are in the cache; see
  // lib/harness/compiled.js.
  const cachedData = kept ? kept.subarray(0, -1) : undefined;
  const script = new Script(source, { filename: path, cachedData });
  const covered = kept && !script.cachedDataRejected ? kept[kept.length - 1] : 0;
  return { files: script.runInThisContext(), script, file, covered };
}

function readIfThere(path, encoding) {
  try {
    return fs.readFileSync(path, encoding);
  } catch {
    return null;
  }
}

/**
 * The key of a code cache. V8 itself compares only versions and flags, but developers of node compare builds of the
 * same version, so the program's file is part of the key, too.
 */
function programAndFlags() {
  const { dev, ino, size, mtimeMs } = fs.statSync(process.execPath);
  const text = [dev, ino, size, mtimeMs, process.version, process.env.NODE_OPTIONS, ...process.execArgv].join('\n');
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return (hash >>> 0).toString(16);
}

/** Loads a file of this package under its own name, so that other requires get the same instance. */
function inPackage(name) {
  const filename = `${__dirname}/${name}`;
  const define = bundle && Object.hasOwn(bundle.files, name) ? bundle.files[name] : null;
  if (!define) return require(filename);
  const loaded = Module._cache[filename];
  if (loaded) return loaded.exports;
  const made = new Module(filename, module);
  Module._cache[filename] = made;
  const folder = name.slice(0, Math.max(name.lastIndexOf('/'), 0));
  define(made.exports, requireFrom(folder), made, filename, folder ? `${__dirname}/${folder}` : __dirname);
  made.loaded = true;
  return made.exports;
}

/** Returns `require` for a file of the bundle in `folder`. */
function requireFrom(folder) {
  return (request) => {
    if (!request.startsWith('.')) return require(request);
    const parts = folder === '' ? [] : folder.split('/');
    for (const part of request.split('/')) {
      if (part === '..') parts.pop();
      else if (part !== '.') parts.push(part);
    }
    return inPackage(parts.join('/'));
  };
}
