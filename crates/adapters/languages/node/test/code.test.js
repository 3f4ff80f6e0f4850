'use strict';

// Code given as text: how a text is parsed, and what the conformance suite for all languages does
// not cover.

const test = require('node:test');
const assert = require('node:assert');
const { converse, startHarness } = require('./running/harness.js');
const { read, compileHook, compileLoop } = require('../lib/code/compile.js');
const { Histogram } = require('../lib/code/histogram.js');
const { Windows } = require('../lib/code/batches.js');

const of = (events, verb) => events.filter((event) => event.verb === verb);
const value = (text) => compileHook(read(text, 'init_runner'))(require, 20);
const RUN = ['run', { id: 9, jobs: 'a', mode: 'continuous', interval_ns: 5e6, samples: 2, warmup_ns: 0 }];
const load = (runner, more) => ['load', { id: 1, job: 'a', form: 'text', lang: 'node', runner, ...more }];

test('the value of the last expression is the result, whatever precedes it', () => {
  assert.strictEqual(value('1 + 1;'), 2);
  assert.deepStrictEqual(value('{ a: 1 }'), { a: 1 });
  assert.strictEqual(value('let a = 1; a + 1'), 2);
  assert.strictEqual(value('let a = 1\na + 2 // a comment; with a semicolon'), 3);
  assert.strictEqual(value('function f(a) { return a }\nf(4)'), 4);
  assert.strictEqual(value('shared + 1'), 21);
  assert.strictEqual(value('(shared) => shared + 2'), 22);
  assert.strictEqual(value('let a = 1\n+ 1'), undefined);
  assert.strictEqual(value('if (shared) 5'), undefined);
});

test('a function is distinguished from an expression, and its parameters are counted', () => {
  const forms = ['() => 1', 'async (state) => state', 'function f(state, previous) { return previous }', '// why\nx => x;',
                 '(a = ")", b) => a', '(a).b = 3', 'Math.sqrt', 'x => x, 5', '(() => 1)()'];
  const told = forms.map((text) => { const { kind, arity, async } = read(text, 'runner'); return [kind, arity, async]; });
  assert.deepStrictEqual(told.slice(0, 4), [['function', 0, false], ['function', 1, true], ['function', 2, false],
                                            ['function', 1, false]]);
  assert.deepStrictEqual(told[4][0], 'function');
  for (const [kind] of [told[5], told[6], told[8]]) assert.strictEqual(kind, 'expression');
});

test('only an await outside of nested functions makes code awaited', () => {
  const awaited = (text) => read(text, 'runner').async;
  assert.deepStrictEqual(['await f()', 'const a = await f(); a', 'for await (const a of b) c(a)', 'await [1]'].map(awaited),
                         [true, true, true, true]);
  assert.deepStrictEqual(['(async () => { await 1 })()', '"await"', 'f()'].map(awaited), [false, false, false]);
});

test('statements that would leave the loop are rejected', () => {
  for (const text of ['return 5', 'break', 'if (await f()) continue']) {
    assert.throws(() => read(text, 'runner'), (error) => error.stage === 'parse' && error.thrown instanceof SyntaxError, text);
  }
  assert.throws(() => read('(a, b, c) => a', 'runner'), { stage: 'compile', name: 'Arity' });
  assert.throws(() => read(' ', 'runner'), { stage: 'parse' });
});

test('the result of an iteration reaches the next one across batches, and assigned state stays', () => {
  const chained = compileLoop(read('(state, previous) => previous + state', 'runner'))(require, undefined, 3);
  chained.loop(2);
  chained.loop(2);
  assert.strictEqual(chained.last(), 15);
  const assigned = compileLoop(read('state += 1', 'runner'))(require, undefined, 0);
  assigned.loop(3);
  assigned.loop(4);
  assert.strictEqual(assigned.last(), 7);
});

test('quantiles are within one percent', () => {
  const histogram = new Histogram();
  for (let index = 1; index <= 1000; index++) histogram.add(index * 1000);
  const expected = [1000, 50000, 250000, 500000];
  histogram.quantiles_ps().forEach((found, index) => assert.ok(Math.abs(found / expected[index] - 1) < 0.01, `${found}`));
  assert.deepStrictEqual(new Histogram().quantiles_ps(), []);
});

test('a window ends at the first batch after its deadline, and missed deadlines are omitted', () => {
  const windows = new Windows({ warmup_ns: 0, interval_ns: 100, samples: 3 });
  for (const [took, now] of [[90, 90], [20, 110], [250, 360], [10, 370], [60, 430]]) windows.batch(1, took, now);
  assert.deepStrictEqual([windows.t_ns, windows.counts, windows.late_ns], [[0, 110, 360, 430], [0, 2, 3, 5], 160]);
});

test('a returned promise is awaited even if the text has no await', async () => {
  const { events } = await converse([load('new Promise((resolve) => setTimeout(resolve, 20))'), RUN, ['quit']]);
  const [worker] = of(events, 'worker');
  const [, first, second] = worker.t_ns.split(',').map(Number);
  assert.strictEqual(worker.count, '0,1,2');
  assert.ok(first > 19e6 && second - first > 19e6, worker.t_ns);
});

test('a value that cannot be copied to threads is an error', async () => {
  const commands = [load('shared.x', { init: '({ f: () => 1 })' }), ['workers', { id: 2, job: 'a', n: 2 }], ['quit']];
  const { events, code } = await converse(commands);
  const [error] = of(events, 'error');
  assert.deepStrictEqual([error.stage, error.class, code], ['init_runner', 'DataCloneError', 0]);
  assert.match(error.msg, /cannot be copied to worker threads/);
});

/** Returns what three awaited workers that never wait have counted until the stop. */
async function countedUntilStop(afterMs) {
  const harness = startHarness();
  const done = harness.done();
  harness.send(load('await null'), ['workers', { id: 2, job: 'a', n: 3 }],
               ['run', { id: 3, jobs: 'a', mode: 'continuous', interval_ns: 3e7, samples: 100000, warmup_ns: 0 }]);
  await harness.saw('workers');
  setTimeout(() => harness.send(['stop', { id: 4, job: 'a' }], ['quit']), afterMs);
  const { events, code } = await done;
  const counts = of(events, 'worker').map(({ count }) => Number(count.split(',').pop()));
  assert.strictEqual(code, 0);
  assert.strictEqual(counts.length, 3);
  return counts;
}

test('awaited workers that never wait take turns and obey a stop', async () => {
  let counts = await countedUntilStop(200);
  // On a busy machine it may be stopped before it had a processor for a whole window.
  for (const afterMs of [1000, 5000]) if (Math.max(...counts) === 0) counts = await countedUntilStop(afterMs);
  assert.ok(Math.min(...counts) > Math.max(...counts) / 4, `${counts}`);
});

test('import() finds modules of node and of the current folder', async () => {
  const { events } = await converse([load('shared.sep', { init: "await import('node:path')" }), RUN, ['quit']]);
  assert.deepStrictEqual(of(events, 'error'), []);
  assert.strictEqual(of(events, 'worker').length, 1);
});

test('code that exits the process is reported', async () => {
  const { events, code } = await converse([load('process.exit(3)'), RUN]);
  assert.deepStrictEqual([of(events, 'error')[0].class, code], ['ProcessExit', 3]);
});
