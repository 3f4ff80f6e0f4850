'use strict';

// A conversation with the harness, checked against the protocol's guarantees for mode once.

const test = require('node:test');
const assert = require('node:assert');
const path = require('node:path');
const { converse, list, measureCase, startHarness, text } = require('./running/harness.js');
const { fixture } = require('./running/node.js');

const of = (events, verb) => events.filter((event) => event.verb === verb);
const verbs = (events) => events.map(({ verb }) => verb);

test('hello is answered with a description of the runtime', async () => {
  const { events, code } = await converse([['hello', { id: 'x%1', proto: 1, future: 'ignored' }], ['quit']]);
  const [ready] = events;
  assert.strictEqual(code, 0);
  assert.deepStrictEqual([ready.verb, text(ready.id), ready.proto, ready.lang, ready.version, ready.caps],
                         ['ready', 'x%1', '1', 'node', process.versions.node,
                          'once,continuous,timed,series,workers,async,monitor,parallel']);
  assert.deepStrictEqual([ready.flavor, ready.build, ready.clock], ['jit', 'opt', 'process.hrtime']);
  assert.ok(Number(ready.cpus) >= 1 && Number(ready.clock_res_ns) > 0);
});

test('settings that distort results are warnings', async () => {
  const { events } = await converse([['hello', { proto: 1 }], ['quit']],
                                    { flags: ['--jitless'], env: { NODE_DEBUG: 'nothing', NODE_OPTIONS: '--no-warnings' } });
  assert.strictEqual(events[0].flavor, 'interp');
  assert.deepStrictEqual([events[0].warn0, events[0].warn1],
                         ["NODE_OPTIONS is set: '--no-warnings'", "NODE_DEBUG is set: 'nothing'"]);
});

test('another protocol version is rejected and the harness exits', async () => {
  const { events, code } = await converse([['hello', { id: 1, proto: 2 }], ['hello', { id: 2, proto: 1 }]]);
  assert.deepStrictEqual(verbs(events), ['error']);
  assert.deepStrictEqual([events[0].stage, events[0].fatal, code], ['protocol', '1', 0]);
});

test('unknown verbs and verbs at the wrong time are protocol errors', async () => {
  const { events, code } = await converse([
    ['dance', { id: 1 }],
    ['run', { id: 2, jobs: 'a', mode: 'once' }],
    ['run', { id: 3, jobs: 'a', mode: 'continuous' }],
    ['load', { id: 4, job: 'a', form: 'text', path: 'x' }],
    ['load', { id: 5 }],
    ['unload', { id: 6, job: 'a' }],
    ['describe', { id: 7 }],
    ['quit'],
  ]);
  assert.deepStrictEqual(events.map(({ verb, id, stage }) => [verb, id, stage]),
                         [1, 2, 3, 4, 5, 6, 7].map((id) => ['error', String(id), 'protocol']));
  assert.strictEqual(code, 0);
});

test('describe reports parameters, types, flags and all cases in order, without measuring', async () => {
  const { events, stdout } = await converse([['describe', { id: 3, path: fixture('zz/scalar.js') }], ['quit']]);
  const [benchmark, ...rest] = events;
  assert.deepStrictEqual([benchmark.verb, benchmark.name, benchmark.modes, benchmark.flags],
                         ['benchmark', 'zz/scalar.js', 'once', '']);
  assert.deepStrictEqual([benchmark['type.n'], benchmark['type.q'], benchmark['param.n']], ['int', 'text', '5']);
  assert.deepStrictEqual(list(benchmark['param.q']), ['a"b', 'c,d', "e'f", 'g\nh', 'é😀']);
  assert.deepStrictEqual(of(rest, 'case').map(({ args }) => list(args)),
                         ['a"b', 'c,d', "e'f", 'g\nh', 'é😀'].map((q) => [`q=${q}`, 's=x y', 'n=5']));
  const { verb, id, count, cases, program, versions, env, volatile } = rest.at(-1);
  assert.deepStrictEqual([verb, id, count, cases], ['described', '3', '1', '5']);
  assert.deepStrictEqual([program, list(versions)[0], volatile],
                         [process.execPath, `node=${process.versions.node}`, undefined]);
  assert.ok(list(env).includes('NODE_BENCHMARK_FLAGS'), env);
  assert.strictEqual(stdout, '');
});

test('describe applies the filter and given values', async () => {
  const none = await converse([['describe', { path: fixture('zz/filternone.js') }], ['quit']]);
  assert.deepStrictEqual(verbs(none.events), ['benchmark', 'described']);
  assert.strictEqual(none.events[1].cases, '0');
  const some = await converse([['describe', { path: fixture('zz/kill.js'), args: 'a=1,a=7' }], ['quit']]);
  assert.deepStrictEqual(of(some.events, 'case').map(({ args }) => args), ['n=1000,a=1', 'n=1000,a=7']);
});

test('describe in test mode keeps every text, makes numbers quick, and repeats nothing', async () => {
  const { events } = await converse([['describe', { path: fixture('api/kinds.js'), test: 1 }], ['quit']]);
  assert.deepStrictEqual(of(events, 'case').map(({ args }) => args), [
    'n=1,share=0.5,flag=true,kind=a', 'n=1,share=0.5,flag=false,kind=a',
    'n=1,share=0.5,flag=true,kind=b', 'n=1,share=0.5,flag=false,kind=b',
  ]);
  const types = Object.entries(events[0]).filter(([key]) => key.startsWith('type.')).map(([, value]) => value);
  assert.deepStrictEqual(types, ['text', 'bool', 'float', 'int']);
});

test('describe names flags, set-up, groups, and paths below a root', async () => {
  const about = async (name, extra = {}) => {
    return (await converse([['describe', { path: fixture(name), ...extra }], ['quit']])).events[0];
  };
  assert.strictEqual((await about('api/flags.js')).flags, '--expose-gc');
  assert.strictEqual((await about('api/setup.js')).setup, '1');
  assert.strictEqual((await about('api/setup.js', { root: path.dirname(fixture('')) })).name, 'fixtures/api/setup.js');
  const groups = await about('api/groups.js');
  assert.deepStrictEqual([groups['param.group'], groups['param.n'], groups['param.depth']], ['texts,trees', '1', '3']);
});

test('one case is loaded, run once and reported', async () => {
  const { events, code, stdout } = await measureCase(fixture('api/metrics.js'), { n: 1000 });
  assert.deepStrictEqual(verbs(events), ['ready', 'loaded', 'metric', 'once', 'check', 'end']);
  const [, loaded, metric, once, check, end] = events;
  assert.deepStrictEqual([loaded.job, loaded.form], ['a', 'case']);
  assert.deepStrictEqual([metric.name, metric.value, metric.unit, metric.better], ['bytes', '64000', 'B', 'lower']);
  assert.deepStrictEqual([once.job, once.id, once.iterations], ['a', '3', '1000']);
  assert.strictEqual(Number(once.rate), 1000 / (Number(once.elapsed_ns) / 1e9));
  assert.strictEqual(check.text, 'sum 499500');
  assert.ok(Number(end.elapsed_ns) >= Number(once.elapsed_ns));
  assert.deepStrictEqual([end.jobs, code, stdout], ['a', 0, '']);
});

test('the file sees itself as the main program of a measuring process', async () => {
  const { stdout } = await measureCase(fixture('api/identity.js'), { n: 2, colour: 'blue' });
  assert.deepStrictEqual(JSON.parse(stdout), {
    main: true, file: fixture('api/identity.js'), args: ['n=2', 'colour=blue'], child: '', harness: false,
  });
});

test('an asynchronous benchmark is awaited, and may report from any callback', async () => {
  const { events } = await measureCase(fixture('api/later.js'), { n: 3 });
  assert.deepStrictEqual(verbs(events).slice(2), ['once', 'end']);
  assert.ok(Number(events[2].elapsed_ns) >= 29e6, events[2].elapsed_ns);
});

test('a long answer is compared by its digest', async () => {
  const { events } = await measureCase(fixture('api/answer.js'), { n: 100000 });
  assert.match(of(events, 'check')[0].text, /^sha256:[0-9a-f]{64} of 100000 characters$/);
});

test('set-up runs before the measurement, and its failure has its own stage', async () => {
  const good = await measureCase(fixture('api/setup.js'), { n: 2 });
  assert.strictEqual(good.stdout, 'setup 1\n');
  const bad = await measureCase(fixture('api/setup_fails.js'), { n: 2 });
  assert.deepStrictEqual(verbs(bad.events).slice(2), ['error', 'end']);
  assert.deepStrictEqual([bad.events[2].stage, bad.events[2].msg], ['init', 'no room']);
});

test('several cases can run in one process: the file is executed again for each', async () => {
  const load = (job, n) => ['load', { job, form: 'case', path: fixture('api/metrics.js'), 'value.n': n }];
  const { events } = await converse([load('a', 2), load('b', 3), ['run', { jobs: 'a,b', mode: 'once' }],
                                     ['run', { jobs: 'a', mode: 'once' }], ['unload', { job: 'b' }], ['quit']]);
  assert.deepStrictEqual(of(events, 'once').map(({ job, iterations }) => [job, iterations]), [['a', '2'], ['b', '3']]);
  assert.strictEqual(of(events, 'end')[0].jobs, 'a,b');
  assert.deepStrictEqual(of(events, 'error').map(({ class: name }) => name), ['SecondRun']);
  assert.strictEqual(of(events, 'unloaded')[0].job, 'b');
});

test('the end of the command channel ends an idle harness', async () => {
  const harness = startHarness();
  const done = harness.done();
  harness.send(['hello', { proto: 1 }]);
  await harness.saw('ready');
  harness.close();
  assert.strictEqual((await done).code, 0);
});

test('the end of the command channel ends a run that would never end', async () => {
  const harness = startHarness();
  const done = harness.done();
  harness.send(['load', { job: 'a', form: 'case', path: fixture('zz/hang.js'), 'value.n': 1 }],
               ['run', { jobs: 'a', mode: 'once' }]);
  await harness.saw('loaded');
  harness.close();
  const { code, events } = await done;
  assert.deepStrictEqual([code, verbs(events)], [0, ['loaded']]);
});

test('the end of the command channel ends a file that would never create a benchmark', async () => {
  const harness = startHarness();
  const done = harness.done();
  harness.send(['hello', { proto: 1 }], ['describe', { path: fixture('api/never.js') }]);
  await harness.saw('ready');
  harness.close();
  const { code, events } = await done;
  assert.deepStrictEqual([code, verbs(events)], [0, ['ready']]);
});

test('a run that would never end can be stopped', async () => {
  const harness = startHarness();
  const done = harness.done();
  harness.send(['load', { job: 'a', form: 'case', path: fixture('zz/hang.js'), 'value.n': 1 }],
               ['run', { id: 2, jobs: 'a', mode: 'once' }]);
  await harness.saw('loaded');
  harness.send(['stop', { id: 3, job: 'a' }], ['quit']);
  const { code, events } = await done;
  assert.deepStrictEqual(verbs(events), ['loaded', 'stopped', 'end']);
  assert.deepStrictEqual([events[1].id, events[2].id, code], ['3', '2', 0]);
});

test('a harness killed from outside reports nothing but its signal', async () => {
  const { events, signal } = await measureCase(fixture('zz/kill.js'), { n: 10, a: 1 });
  assert.deepStrictEqual([verbs(events), signal], [['ready', 'loaded'], 'SIGKILL']);
});
