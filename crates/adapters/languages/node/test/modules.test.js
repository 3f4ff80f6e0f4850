'use strict';

// How the package is found: by its bare name without an installation, from CommonJS and from ES modules.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { converse, measureCase } = require('./running/harness.js');
const { PACKAGE, fixture, runNode } = require('./running/node.js');

const [major, minor] = process.versions.node.split('.').map(Number);
const hooks = major > 20 || (major === 20 && minor >= 6);
const noHooks = hooks ? false : 'this node cannot resolve imports of a package that is not installed';
const register = path.join(PACKAGE, 'register.cjs');

/** A folder outside of this package, where the bare name can only resolve to an installation. */
function elsewhere(t, files) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'speedwell-modules-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  }
  return (name) => path.join(fs.realpathSync(folder), name);
}

const BODY = "const bench = createBenchmark(main, { n: [5] });\nfunction main({ n }) { bench.start(); bench.end(n); }\n";
const COMMONJS = `const { createBenchmark } = require('speedwell');\n${BODY}`;
const MODULE = `import { createBenchmark } from 'speedwell';\n${BODY}`;

const verbs = (events) => events.map(({ verb }) => verb);
const complete = ['ready', 'loaded', 'once', 'end'];

test('the harness provides the package to a CommonJS file', async (t) => {
  const at = elsewhere(t, { 'g/plain.js': COMMONJS });
  const { events } = await measureCase(at('g/plain.js'), { n: 3 });
  assert.deepStrictEqual(verbs(events), complete);
});

test('an ES module is described and measured', { skip: noHooks }, async (t) => {
  const at = elsewhere(t, { 'g/module.mjs': MODULE });
  const described = await converse([['describe', { path: at('g/module.mjs') }], ['quit']]);
  assert.deepStrictEqual(described.events.map(({ verb, name, args }) => [verb, name, args]), [
    ['benchmark', 'g/module.mjs', undefined], ['case', undefined, 'n=5'], ['described', undefined, undefined],
  ]);
  const { events } = await measureCase(at('g/module.mjs'), { n: 3 });
  assert.deepStrictEqual(verbs(events), complete);
});

test('a package.json decides what a .js file is', { skip: noHooks }, async (t) => {
  const at = elsewhere(t, { 'package.json': '{ "type": "module" }', 'g/file.js': MODULE });
  const { events } = await measureCase(at('g/file.js'), { n: 3 });
  assert.deepStrictEqual(verbs(events), complete);
});

test('an error in an ES module has its stage, and top-level await is supported', { skip: noHooks }, async (t) => {
  const at = elsewhere(t, {
    'g/throws.mjs': "throw new RangeError('top');",
    'g/waits.mjs': `await new Promise((resolve) => { setTimeout(resolve, 20); });\n${MODULE}`,
    'g/broken.mjs': 'this is (not JavaScript',
  });
  const stages = async (name) => {
    const { events } = await measureCase(at(name), { n: 3 });
    return events.slice(1, 2).map((event) => event.verb === 'error' ? [event.stage, event.class] : event.verb);
  };
  assert.deepStrictEqual(await stages('g/throws.mjs'), [['compile', 'RangeError']]);
  assert.deepStrictEqual(await stages('g/waits.mjs'), ['loaded']);
  assert.deepStrictEqual(await stages('g/broken.mjs'), [['parse', 'SyntaxError']]);
});

test('an installed package works in an ES module on every node', async (t) => {
  const at = elsewhere(t, { 'g/module.mjs': MODULE });
  fs.mkdirSync(at('node_modules'));
  fs.symlinkSync(PACKAGE, at('node_modules/speedwell'));
  const { stdout, code } = await runNode([at('g/module.mjs')]);
  assert.strictEqual(code, 0);
  assert.match(stdout, /^g\/module\.mjs n=5: [\d,.]+\n$/);
  const { events } = await measureCase(at('g/module.mjs'), { n: 3 });
  assert.deepStrictEqual(verbs(events), complete);
});

test('a preload provides the package to files that are run by hand', async (t) => {
  const at = elsewhere(t, { 'g/plain.js': COMMONJS, 'g/module.mjs': MODULE });
  const plain = await runNode(['-r', register, at('g/plain.js')]);
  assert.match(plain.stdout, /^g\/plain\.js n=5: /);
  if (hooks) {
    const module = await runNode(['-r', register, at('g/module.mjs')]);
    assert.match(module.stdout, /^g\/module\.mjs n=5: /, module.stderr);
  }
});

test('the drop-in has every name that Node core\'s benchmarks use', () => {
  const library = require(fixture('common.js'));
  const types = Object.fromEntries(['createBenchmark', 'Benchmark', 'binding', 'bakeUrlData', 'sendResult', 'PORT',
    'buildType', 'urls', 'searchParams', 'urlDataTypes', 'default_http_benchmarker'].map((name) => [name, typeof library[name]]));
  assert.deepStrictEqual(types, {
    createBenchmark: 'function', Benchmark: 'function', binding: 'function', bakeUrlData: 'function',
    sendResult: 'function', PORT: 'number', buildType: 'string', urls: 'object', searchParams: 'object',
    urlDataTypes: 'object', default_http_benchmarker: 'string',
  });
});

test('ports come from the environment', async () => {
  const print = ['-p', `require(${JSON.stringify(fixture('common.js'))}).PORT`];
  assert.strictEqual((await runNode(print)).stdout, '12346\n');
  assert.strictEqual((await runNode(print, { env: { PORT: '4711' } })).stdout, '4711\n');
});

test('internal bindings are reachable with and without node\'s internals', async () => {
  const library = JSON.stringify(fixture('common.js'));
  const print = (name) => `console.log(typeof require(${library}).binding('${name}'))`;
  const inside = await runNode(['--expose-internals', '-e', print('util')]);
  assert.strictEqual(inside.stdout, 'object\n', inside.stderr);
  const outside = await runNode(['--no-deprecation', '-e', print('uv')]);
  assert.strictEqual(outside.stdout, 'object\n', outside.stderr);
});
