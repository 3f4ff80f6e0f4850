'use strict';

// A benchmark file as its user sees it: run directly, over node's channel, as parent and as child, with all its
// failure modes.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { CHILD, fixture, runNode, runOverChannel } = require('./running/node.js');

/** Figures differ from run to run; everything else must not. */
function masked(raw) {
  return raw.replace(/"rate":[\d.e+]+/g, '"rate":R').replace(/"time":"\d+\.\d{9}"/g, '"time":"T"');
}

function golden(name) {
  return fs.readFileSync(path.join(__dirname, 'golden', name), 'utf8');
}

test('run directly, a file prints one line per case', async () => {
  const { stdout, stderr, code } = await runNode([fixture('zz/scalar.js'), 's=a', 'q=b', 'q=c', 'n=7']);
  assert.match(stdout, /^zz\/scalar\.js q="b" s="a" n=7: [\d,.]+\nzz\/scalar\.js q="c" s="a" n=7: [\d,.]+\n$/);
  assert.deepStrictEqual([stderr, code], ['', 0]);
});

test('over the channel, a file sends the bytes that Node core sends', async () => {
  const { raw, stdout, code } = await runOverChannel([fixture('zz/scalar.js')]);
  assert.strictEqual(masked(raw), masked(golden('ipc-messages-quoting.jsonl')));
  assert.deepStrictEqual([stdout, code], ['', 0]);
});

test('a child measures its one case and sends no announcement', async () => {
  const { messages } = await runOverChannel([fixture('zz/scalar.js'), 'q=x', 's=y', 'n=3'], { env: CHILD });
  assert.deepStrictEqual(messages.map(({ type }) => type), ['report']);
  assert.deepStrictEqual(Object.keys(messages[0]), ['name', 'conf', 'rate', 'time', 'type']);
  assert.deepStrictEqual(messages[0].conf, { q: 'x', s: 'y', n: 3 });
  assert.ok(Math.abs(messages[0].rate - 1 / Number(messages[0].time)) < 1e-6 * messages[0].rate);
});

const misuses = {
  endnostart: 'called end without start',
  starttwice: 'Called start more than once in a single benchmark',
  endtwice: 'called end multiple times',
  noops: 'called end() without specifying operation count',
  zero: 'called end() with operation count <= 0',
  typecfg: 'configuration "n" had type object',
  mixed: 'configuration "n" has mixed types',
  filternb: 'Combination filter must always return a boolean',
  throwtop: 'top',
};
for (const [name, message] of Object.entries(misuses)) {
  test(`${name} ends with status 1 and '${message}'`, async () => {
    const { code, stderr, stdout } = await runNode([fixture(`zz/${name}.js`)]);
    assert.strictEqual(code, 1);
    assert.ok(stderr.includes(`Error: ${message}\n`), stderr);
    // A report made before the error stands.
    assert.strictEqual(stdout !== '', name === 'endtwice');
  });
}

test('the environment can allow zero iterations', async () => {
  const env = { NODEJS_BENCHMARK_ZERO_ALLOWED: '1' };
  const { stdout, code } = await runNode([fixture('zz/zero.js')], { env });
  assert.deepStrictEqual([stdout, code], ['zz/zero.js n=1000: 0\n', 0]);
});

test('a boolean is a legal value', async () => {
  const { stdout } = await runNode([fixture('zz/boolcfg.js'), 'n=false']);
  assert.match(stdout, /^zz\/boolcfg\.js n=false: /);
});

test('a filter that rejects everything prints nothing', async () => {
  const { code, raw, stdout, stderr } = await runOverChannel([fixture('zz/filternone.js')]);
  assert.deepStrictEqual([code, raw, stdout, stderr], [0, '', '', '']);
});

test('the error names a bad argument', async () => {
  const { code, stdout, stderr } = await runNode([fixture('zz/scalar.js'), '--foo']);
  assert.deepStrictEqual([code, stdout, stderr], [1, '', 'bad argument: --foo\n']);
});

test('a status of a child ends the file with that status', async () => {
  const { code, messages } = await runOverChannel([fixture('zz/exit3.js')]);
  assert.strictEqual(code, 3);
  assert.deepStrictEqual(messages, [{ type: 'config', name: 'zz/exit3.js', queueLength: 2 }]);
});

test('after a child dies by a signal, the other cases run and the exit status tells', async () => {
  const { code, messages, stderr } = await runOverChannel([fixture('zz/kill.js')]);
  assert.deepStrictEqual(messages.slice(1).map(({ conf }) => conf.a), [0, 2]);
  assert.strictEqual(code, 128 + 9);
  assert.match(stderr, /^zz\/kill\.js n=1000 a=1: killed by SIGKILL\n$/);
});

test('a child that keeps its event loop alive ends itself five seconds after its report', async () => {
  const begin = performance.now();
  const { code, messages, stdout, stderr } = await runOverChannel([fixture('zz/noise.js'), 'n=1'], { env: CHILD });
  const seconds = (performance.now() - begin) / 1000;
  assert.deepStrictEqual([code, messages.length, stdout, stderr], [0, 1, 'noise "x"\n', 'err noise\n']);
  assert.ok(seconds > 4.9 && seconds < 9, `${seconds} s`);
});

test('flags come from the environment, then from the file, then from the command line', async () => {
  const { stdout } = await runNode(['--no-deprecation', fixture('api/flags.js')],
                                   { env: { NODE_BENCHMARK_FLAGS: '--trace-warnings  --no-warnings' } });
  assert.match(stdout, /^flags --trace-warnings --no-warnings --expose-gc --no-deprecation\napi\/flags\.js n=1: /);
});

test('extra keys reach the children and are not part of results', async () => {
  const { stdout } = await runNode([fixture('api/extra.js'), 'colour=blue']);
  assert.match(stdout, /^\["n=1","colour=blue"\]\napi\/extra\.js n=1: /);
});

test('start and end work as methods called with the benchmark as this', async () => {
  const { stdout, code } = await runNode([fixture('api/detached.js')]);
  assert.strictEqual(code, 0);
  assert.match(stdout, /^api\/detached\.js n=10: /);
});

test('metrics and answers are sent with the report', async () => {
  const { messages } = await runOverChannel([fixture('api/metrics.js'), 'n=4'], { env: CHILD });
  assert.deepStrictEqual(messages.map(({ type }) => type), ['metric', 'report', 'check']);
  assert.deepStrictEqual(messages[0].metric, { name: 'bytes', value: 256, unit: 'B', better: 'lower' });
  assert.strictEqual(messages[2].text, 'sum 6');
});

test('metrics are not printed: the output of a file run directly is one line per case', async () => {
  const { stdout } = await runNode([fixture('api/metrics.js')]);
  assert.match(stdout, /^api\/metrics\.js n=4: [\d,.]+\n$/);
});

test('the set-up of a file runs once, before its children, and sees all cases', async () => {
  const { stdout } = await runNode([fixture('api/setup.js')]);
  assert.match(stdout, /^setup 2\napi\/setup\.js n=1: [\d,.]+\napi\/setup\.js n=2: [\d,.]+\n$/);
});

test('groups have separate products and are selected by the environment or by an argument', async () => {
  const conf = ({ messages }) => messages.filter(({ type }) => type === 'report').map((message) => message.conf);
  const all = await runOverChannel([fixture('api/groups.js')]);
  assert.deepStrictEqual(conf(all), [
    { n: 1, size: 'small', group: 'texts' }, { n: 1, size: 'large', group: 'texts' }, { depth: 3, n: 1, group: 'trees' },
  ]);
  const one = await runOverChannel([fixture('api/groups.js')], { env: { NODE_RUN_BENCHMARK_GROUPS: 'trees' } });
  assert.deepStrictEqual(conf(one), [{ depth: 3, n: 1, group: 'trees' }]);
  const given = await runOverChannel([fixture('api/groups.js'), 'group=texts', 'size=tiny', 'n=2']);
  assert.deepStrictEqual(conf(given), [{ n: 2, size: 'tiny', group: 'texts' }]);
  const wrong = await runNode([fixture('api/groups.js')], { env: { NODE_RUN_BENCHMARK_GROUPS: 'stones' } });
  assert.match(wrong.stderr, /benchmark group "stones" is not declared/);
  assert.strictEqual(wrong.code, 1);
});
