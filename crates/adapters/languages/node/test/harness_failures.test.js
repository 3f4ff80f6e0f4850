'use strict';

// Every way in which a benchmark file can fail inside the harness: the error has a stage and a text, earlier
// results stand, and the harness itself continues.

const test = require('node:test');
const assert = require('node:assert');
const { measureCase, text } = require('./running/harness.js');
const { fixture } = require('./running/node.js');

const verbs = (events) => events.map(({ verb }) => verb);

/** Events after `ready` and the error among them. */
async function failure(name, values, options) {
  const { events, code, stderr } = await measureCase(fixture(name), values, options);
  return { seen: verbs(events).slice(1), error: events.find(({ verb }) => verb === 'error'), code, stderr, events };
}

const duringRun = {
  endnostart: 'called end without start',
  starttwice: 'Called start more than once in a single benchmark',
  noops: 'called end() without specifying operation count',
  zero: 'called end() with operation count <= 0',
};
for (const [name, message] of Object.entries(duringRun)) {
  test(`${name}: '${message}' at stage run`, async () => {
    const { seen, error, code } = await failure(`zz/${name}.js`, { n: 10 });
    assert.deepStrictEqual(seen, ['loaded', 'error', 'end']);
    assert.deepStrictEqual([error.stage, error.class, error.msg, error.fatal], ['run', 'Error', message, '0']);
    assert.match(text(error.stack), new RegExp(`zz/${name}\\.js:\\d+`));
    assert.ok(Number(error.line) > 5);
    assert.strictEqual(code, 0);
  });
}

test('endtwice: the sample stands and the error is reported', async () => {
  const { seen, error } = await failure('zz/endtwice.js', { n: 10 });
  assert.deepStrictEqual(seen, ['loaded', 'once', 'error', 'end']);
  assert.strictEqual(error.msg, 'called end multiple times');
});

test('noend: an empty event loop without a report is an error', async () => {
  const { seen, error, code } = await failure('zz/noend.js', { n: 10 });
  assert.deepStrictEqual(seen, ['loaded', 'error', 'end']);
  assert.deepStrictEqual([error.class, error.msg, code],
                         ['NothingReported', 'the file ended without reporting a result', 0]);
});

test('noise: output and a busy event loop do not matter', async () => {
  const { seen, code, stderr } = await failure('zz/noise.js', { n: 10 });
  assert.deepStrictEqual([seen, code, stderr], [['loaded', 'once', 'end'], 0, 'err noise\n']);
});

test('exit3: the exit is reported before the process exits with its status', async () => {
  const { seen, error, code } = await failure('zz/exit3.js', { n: 1 });
  assert.deepStrictEqual([seen, error.class, error.fatal, code], [['loaded', 'error'], 'ProcessExit', '1', 3]);
});

const atLoad = [
  ['zz/throwtop.js', 'compile', 'Error', 'top'],
  ['zz/typecfg.js', 'compile', 'TypeError', 'configuration "n" had type object'],
  ['zz/filternb.js', 'compile', 'TypeError', 'Combination filter must always return a boolean'],
  ['zz/filternone.js', 'compile', 'NoCase', "the file's own filter rejects this case"],
  ['api/nothing.js', 'compile', 'NoBenchmark', 'the file did not call createBenchmark'],
  ['api/syntax_error.txt', 'parse', 'SyntaxError', /./],
  ['api/absent.js', 'compile', 'Error', /^Cannot find module /],
  ['api/twice.js', 'compile', 'SecondBenchmark', 'createBenchmark was called twice'],
];
for (const [name, stage, className, message] of atLoad) {
  test(`${name} cannot be loaded: ${className}`, async () => {
    // A given value would replace the invalid declared one.
    const { seen, error, code } = await failure(name, name === 'zz/typecfg.js' ? {} : { n: 1 });
    assert.strictEqual(seen[0], 'error');
    assert.deepStrictEqual([error.stage, error.class, code], [stage, className, 0]);
    assert.match(text(error.msg), message instanceof RegExp ? message : new RegExp(message.replace(/[().]/g, '\\$&')));
  });
}

test('a missing value is rejected, an additional one is not', async () => {
  const { error } = await failure('zz/kill.js', { n: 10 });
  assert.deepStrictEqual([error.stage, error.class, error.msg], ['protocol', 'MissingValue', "no value for 'a'"]);
  const { seen } = await failure('zz/kill.js', { n: 10, a: 0, colour: 'blue' });
  assert.deepStrictEqual(seen, ['loaded', 'once', 'end']);
});

test('a value of the wrong type is rejected', async () => {
  const { error } = await failure('zz/kill.js', { n: 'ten', a: 0 });
  assert.deepStrictEqual([error.stage, error.msg], ['compile', 'bad argument: n=ten']);
});

test('a benchmark other than the requested one is rejected', async () => {
  const { error } = await failure('zz/kill.js', { n: 10, a: 0 }, { load: { benchmark: 'zz/other.js' } });
  assert.strictEqual(error.class, 'UnknownBenchmark');
});

test('an error thrown in a callback, and a rejected promise, belong to the run', async () => {
  for (const how of ['callback', 'promise', 'text']) {
    const { seen, error } = await failure('api/throws_later.js', { n: 1, how });
    assert.deepStrictEqual([seen, error.stage], [['loaded', 'error', 'end'], 'run'], how);
    assert.ok(error.msg.includes('too late'), error.msg);
  }
});
