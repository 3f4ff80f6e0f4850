'use strict';

// Listing the cases of a file without running one.

const test = require('node:test');
const assert = require('node:assert');
const { PROBE, probe } = require('./running/probe.js');
const { fixture, runNode } = require('./running/node.js');

test('the cases of a file are those its parent role would start, in order', async () => {
  const { code, stdout, stderr, record } = await probe(fixture('zz/kill.js'), { args: ['a=0', 'a=5', 'extra=x'] });
  assert.deepStrictEqual([code, stdout, stderr], [0, '', '']);
  assert.deepStrictEqual(record.cases, [
    { args: ['n=1000', 'a=0', 'extra=x'], execArgv: [] },
    { args: ['n=1000', 'a=5', 'extra=x'], execArgv: [] },
  ]);
  assert.deepStrictEqual(record.config, { name: 'zz/kill.js', queueLength: 2 });
  assert.deepStrictEqual([record.probe, record.main, record.node, record.exit_code, record.error],
                         [1, fixture('zz/kill.js'), process.version, 0, null]);
  assert.strictEqual(record.versions.v8, process.versions.v8);
  assert.deepStrictEqual([record.needs_parent, record.reason], [false, '']);
});

test('flags of the file and of the command line are recorded, the probe itself is not', async () => {
  for (const preload of [['-r', PROBE], ['--require', PROBE], [`--require=${PROBE}`]]) {
    const { record } = await probe(fixture('api/flags.js'), { flags: ['--no-warnings'], preload });
    assert.deepStrictEqual(record.cases, [{ args: ['n=1'], execArgv: ['--expose-gc', '--no-warnings'] }]);
  }
});

test('other preloads stay among the flags', async () => {
  const other = fixture('api/nothing.js');
  const { record } = await probe(fixture('zz/noend.js'), { flags: ['-r', other] });
  assert.deepStrictEqual(record.cases[0].execArgv, ['-r', other]);
});

test('a slow reader receives all of a record larger than a pipe', async () => {
  const { record } = await probe(fixture('api/many.js'), { delay_ms: 300 });
  assert.strictEqual(record.cases.length, 2000);
  assert.strictEqual(record.config.queueLength, 2000);
  assert.ok(record.cases.at(-1).args[1].startsWith('text=39-xxx'));
});

test('a filter that rejects everything is distinguished from a file without a benchmark', async () => {
  const none = (await probe(fixture('zz/filternone.js'))).record;
  assert.deepStrictEqual([none.cases, none.config, none.needs_parent], [[], null, false]);
  const nothing = (await probe(fixture('api/nothing.js'))).record;
  assert.deepStrictEqual([nothing.cases, nothing.needs_parent], [[], true]);
  assert.strictEqual(nothing.reason, 'the file did not call createBenchmark in this process');
});

const failures = {
  throwtop: ['Error', 'top'],
  typecfg: ['TypeError', 'configuration "n" had type object'],
  mixed: ['TypeError', 'configuration "n" has mixed types'],
  filternb: ['TypeError', 'Combination filter must always return a boolean'],
};
for (const [name, [className, message]] of Object.entries(failures)) {
  test(`${name}: the error is recorded and the process dies of it as usual`, async () => {
    const { code, stderr, record } = await probe(fixture(`zz/${name}.js`));
    assert.deepStrictEqual([record.error.class, record.error.message, record.exit_code, code],
                           [className, message, 1, 1]);
    assert.ok(record.error.stack.includes(`zz/${name}.js`));
    assert.ok(stderr.includes(message));
  });
}

test('a bad argument ends the file with its message', async () => {
  const { code, stderr, record } = await probe(fixture('zz/kill.js'), { args: ['--foo'] });
  assert.deepStrictEqual([code, stderr, record.exit_code], [1, 'bad argument: --foo\n', 1]);
});

test('a file with a set-up step needs its parent role', async () => {
  const { record } = await probe(fixture('api/setup.js'));
  assert.deepStrictEqual([record.cases.length, record.needs_parent, record.reason],
                         [2, true, 'the file declares a setup step']);
});

test('a file that starts another program is abandoned soon and needs its parent role', async () => {
  const { code, record } = await probe(fixture('api/forks.js'));
  assert.deepStrictEqual([code, record.cases.length, record.needs_parent], [0, 0, true]);
  assert.match(record.reason, /nothing\.js' itself$/);
});

test('without its descriptor the preload does nothing', async () => {
  const { stdout, code } = await runNode(['-r', PROBE, fixture('zz/scalar.js'), 'q=a']);
  assert.match(stdout, /^zz\/scalar\.js q="a" s="x y" n=5: /);
  assert.strictEqual(code, 0);
});
