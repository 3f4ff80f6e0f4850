'use strict';

// The harness program: `node FLAGS harness.cjs` with SPEEDWELL_FDS=3,4 in its environment. It measures benchmark
// files that use this package, as Speedwell's harness protocol says. Start-up time is paid for every sample. So this
// program loads only what the commands at hand need; and where Speedwell has joined the files of this package when it
// unpacked them, it reads the one file, with the compiled form that an earlier process kept. Start reading at
// lib/harness/session.js.

const fs = require('fs');
const { Script } = require('vm');

const Module = module.constructor;

const descriptors = /^(\d+),(\d+)$/.exec(process.env.SPEEDWELL_FDS || '');
if (!descriptors) {
  console.error("SPEEDWELL_FDS must name two descriptors, such as '3,4'");
  process.exit(2);
}
// Processes that a benchmark starts must not believe that the descriptors are theirs.
delete process.env.SPEEDWELL_FDS;

const bundle = openBundle(`${__dirname}/bundle.js`);
const { Channel } = inPackage('lib/harness/channel.js');
const { Session } = inPackage('lib/harness/session.js');
const session = new Session(new Channel(Number(descriptors[1]), Number(descriptors[2])));
if (bundle) session.onQuit = (verbs) => inPackage('lib/harness/compiled.js').keep(bundle, verbs);
session.serve();

/**
 * The joined files, `{ NAME: function }`, or null where there are none. Bun and Deno read the files one by one: whether
 * they take a compiled form of another version is not known.
 */
function openBundle(path) {
  if (process.versions.bun || process.versions.deno) return null;
  const source = readIfThere(path, 'utf8');
  if (source === null) return null;
  const file = `${__dirname}/compiled-${programAndFlags()}`;
  const kept = readIfThere(file);
  // The last byte says what the processes did whose functions are in it; see lib/harness/compiled.js.
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
 * Tells apart what may compile differently. V8 itself compares versions and flags only, and two builds of the same
 * version are what developers of node compare: so the file of the program counts, too.
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

/** Loads a file of this package under its own name, so that whoever else requires it gets the same. */
function inPackage(name) {
  const filename = `${__dirname}/${name}`;
  const define = bundle && Object.hasOwn(bundle.files, name) ? bundle.files[name] : null;
  if (!define) return require(filename);
  const known = Module._cache[filename];
  if (known) return known.exports;
  const made = new Module(filename, module);
  Module._cache[filename] = made;
  const folder = name.slice(0, Math.max(name.lastIndexOf('/'), 0));
  define(made.exports, requireFrom(folder), made, filename, folder ? `${__dirname}/${folder}` : __dirname);
  made.loaded = true;
  return made.exports;
}

/** `require` for a file of the bundle that lies in `folder`. */
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
