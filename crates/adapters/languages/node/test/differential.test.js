'use strict';

// The same files under Node core's own library and under this package: same messages, same exit status, same error.
// SPEEDWELL_NODE_CORE names the `benchmark` folder of a checkout of Node; without it these tests are skipped.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { CHILD, PACKAGE, fixture, runNode, runOverChannel } = require('./running/node.js');

const core = process.env.SPEEDWELL_NODE_CORE;
const skip = core ? false : 'SPEEDWELL_NODE_CORE does not name a benchmark folder of Node core';

/** Creates a folder with our fixtures and the given library; the original derives file names from its own
 * location. */
function folderWith(t, install) {
  const root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'speedwell-core-')));
  t.after(() => fs.rmSync(root, { recursive: true }));
  for (const group of ['zz', 'api']) fs.cpSync(fixture(group), path.join(root, group), { recursive: true });
  install(root);
  return root;
}

function original(root) {
  for (const name of ['common.js', '_http-benchmarkers.js', '_test-double-benchmarker.js']) {
    fs.copyFileSync(path.join(core, name), path.join(root, name));
  }
}

function ours(root) {
  const library = JSON.stringify(path.join(PACKAGE, 'common.js'));
  fs.writeFileSync(path.join(root, 'common.js'), `module.exports = require(${library});\n`);
}

/** Masks figures and reduces stack traces to the error itself. */
function comparable({ code, signal, stdout, stderr, messages = [] }) {
  const errors = stderr.split('\n').filter((line) => /^(\w*Error: |bad argument)/.test(line));
  const reports = messages.map(({ rate, time, ...rest }) => {
    const figures = rate === undefined ? [] : [typeof rate, /^\d+\.\d{9}$/.test(time)];
    return JSON.stringify([rest, ...figures]);
  });
  return { code, signal, stdout: stdout.replace(/: [\d,.e+]+$/gm, ': R'), errors, reports };
}

const invocations = [
  ['zz/scalar.js'],
  ['zz/scalar.js', 'q=a', 's=', 'n=0x10', 'q=b=c'],
  ['zz/scalar.js', '--test'],
  ['zz/kill.js', 'a=0', 'a=0', 'a=2'],
  ['zz/kill.js', '--test'],
  ['zz/kill.js', '--test', 'a=5'],
  ['zz/kill.js', 'a=0', '--foo=1', 'other=2'],
  ['zz/kill.js', 'a=0', '--foo'],
  ['zz/kill.js', 'a=0', '=1'],
  ['zz/kill.js', 'n=', 'a=0'],
  ['zz/noend.js'], ['zz/endnostart.js'], ['zz/starttwice.js'], ['zz/endtwice.js'], ['zz/zero.js'], ['zz/noops.js'],
  ['zz/typecfg.js'], ['zz/mixed.js'], ['zz/filternb.js'], ['zz/filternone.js'], ['zz/exit3.js'], ['zz/throwtop.js'],
  ['api/flags.js'], ['api/extra.js', 'colour=blue'], ['api/detached.js'], ['api/later.js', 'n=1'],
];

for (const [file, ...args] of invocations) {
  test(`same behavior: ${[file, ...args].join(' ')}`, { skip }, async (t) => {
    const roots = [folderWith(t, original), folderWith(t, ours)];
    const run = (how, env) => Promise.all(roots.map(async (root) => {
      return comparable(await how([path.join(root, file), ...args], { env }));
    }));
    for (const env of [{}, { NODEJS_BENCHMARK_ZERO_ALLOWED: '1' }]) {
      const [theirs, own] = await run(runOverChannel, env);
      assert.deepStrictEqual(own, theirs);
    }
    const [theirChild, ownChild] = await run(runOverChannel, CHILD);
    assert.deepStrictEqual(ownChild, theirChild);
    const [theirText, ownText] = await run(runNode, {});
    assert.deepStrictEqual(ownText, theirText);
  });
}

test('same messages, but a death by signal affects the exit status', { skip }, async (t) => {
  const [theirs, own] = await Promise.all([folderWith(t, original), folderWith(t, ours)]
    .map(async (root) => comparable(await runOverChannel([path.join(root, 'zz/kill.js')]))));
  assert.deepStrictEqual(own.reports, theirs.reports);
  assert.deepStrictEqual([theirs.code, own.code], [0, 137]);
});
