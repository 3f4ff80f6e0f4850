'use strict';

// bench.http as a whole: which tool is used, what is reported, and every way in which a tool can fail. The tools are
// fakes, except the test double, which is real and uses 127.0.0.1 only.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { CHILD, fixture, runNode, runOverChannel } = require('./running/node.js');
const { fakeTool } = require('./running/fake_tool.js');
const { measureCase } = require('./running/harness.js');
const { freePort } = require('./running/port.js');

const CASE = [fixture('api/server.js'), 'duration=0.2', 'c=2', 'path=/'];

function recorded(name) {
  return fs.readFileSync(path.join(__dirname, 'golden', 'http', name), 'utf8');
}

async function measure(extra, env = {}) {
  return runOverChannel([...CASE, ...extra], { env: { ...CHILD, PORT: await freePort(), ...env } });
}

test('a report has the tool as its last key, and the tool\'s results', async (t) => {
  const { env, calls } = fakeTool(t, 'wrk', { stdout: recorded('wrk_latency.out') });
  const { messages, stdout, code } = await measure([], { ...env, PORT: '12399' });
  const [report] = messages;
  assert.deepStrictEqual([code, stdout, messages.length], [0, 'done 0\n', 1]);
  assert.deepStrictEqual(Object.keys(report), ['name', 'conf', 'rate', 'time', 'type', 'http']);
  assert.strictEqual(JSON.stringify(report.conf), '{"duration":0.2,"c":2,"path":"/","benchmarker":"wrk"}');
  assert.strictEqual(report.rate, 280.37);
  assert.deepStrictEqual(report.http, {
    tool: 'wrk', seconds: 1.1, requests: 308, errors: 0, non2xx: 0, latency_ms: { mean: 34.95, p50: 34.78, p99: 49.58 },
  });
  const [call] = calls();
  assert.match(call, /^--latency -d 1 -c 2 -t [12] http:\/\/127\.0\.0\.1:12399\/ -H x-colour: blue$/);
  assert.strictEqual(calls().length, 1, 'a tool is not run to see whether it is there');
});

test('a printed line shows the tool as its last key', async (t) => {
  const { env } = fakeTool(t, 'autocannon', { stdout: recorded('autocannon.json') });
  const { stdout } = await runNode(CASE, { env: { ...env, ...CHILD, PORT: await freePort() } });
  assert.strictEqual(stdout, 'done 0\napi/server.js duration=0.2 c=2 path="/" benchmarker="autocannon": 275\n');
});

test('the harness reports a tool\'s own count and time, and the details as metrics', async (t) => {
  const { env } = fakeTool(t, 'wrk', { stdout: recorded('wrk_non2xx.out') });
  const { events } = await measureCase(fixture('api/server.js'), { path: '/', c: 2, duration: 1, benchmarker: 'wrk' },
                                       { env: { ...env, PORT: await freePort() } });
  const once = events.find(({ verb }) => verb === 'once');
  assert.deepStrictEqual([once.iterations, once.elapsed_ns, once.rate, once.tool], ['19178', '1100000000', '17462.68', 'wrk']);
  const metrics = events.filter(({ verb }) => verb === 'metric')
    .map(({ name, value, unit, better }) => [name, value, unit, better]);
  assert.deepStrictEqual(metrics, [
    ['http_errors', '0', 'requests', 'lower'], ['http_non2xx', '9589', 'requests', 'lower'],
    ['latency_mean', '0.40857', 'ms', 'lower'],
  ]);
});

test('the test double needs no tool and reports a count', async () => {
  for (const [file, tool] of [['api/server.js', 'test-double-http'], ['api/server_http2.js', 'test-double-http2']]) {
    const { messages: [report] } = await runOverChannel(
      [fixture(file), 'duration=0.2', 'c=2', 'path=/', `benchmarker=${tool}`],
      { env: { ...CHILD, PORT: await freePort(), PATH: '/nonexistent' } });
    assert.strictEqual(report.conf.benchmarker, tool);
    assert.ok(Number.isInteger(report.rate) && report.rate > 0);
    assert.deepStrictEqual([report.http.requests, report.http.non2xx], [report.rate, 0]);
    assert.ok(report.http.seconds >= 0.2 && report.http.seconds < Number(report.time));
    assert.ok(report.http.latency_ms.p50 <= report.http.latency_ms.p99);
  }
});

test('the test double honors the environment and detects refusals', async () => {
  const missing = [fixture('api/server.js'), 'duration=9', 'c=1', 'path=/missing', 'benchmarker=test-double-http'];
  const env = { ...CHILD, PORT: await freePort(), duration: '0.1' };
  const { messages: [report] } = await runOverChannel(missing, { env });
  assert.ok(report.http.seconds < 5);
  assert.strictEqual(report.http.non2xx, report.http.requests);
});

test('the driver passes its own generator', async (t) => {
  const { program, calls } = fakeTool(t, 'driver', { stdout: '{"requests":50,"seconds":0.5}' });
  const { messages: [report] } = await measure(['benchmarker=speedwell'], { SPEEDWELL_PROGRAM: program });
  assert.deepStrictEqual([report.rate, report.http], [100, { tool: 'speedwell', seconds: 0.5, requests: 50 }]);
  assert.match(calls()[0], /^load --benchmarker -c 2 -t 0\.2s -H x-colour: blue http:\/\/127\.0\.0\.1:\d+\/$/);
});

test('Speedwell\'s generator uses HTTP/2 if the file requires no other HTTP module', async (t) => {
  const { program, calls } = fakeTool(t, 'driver', { stdout: '{"requests":50,"seconds":0.5}' });
  const words = [fixture('api/server_http2.js'), ...CASE.slice(1), 'benchmarker=speedwell'];
  const env = { ...CHILD, PORT: await freePort(), SPEEDWELL_PROGRAM: program };
  const { messages: [report] } = await runOverChannel(words, { env });
  assert.strictEqual(report.rate, 100);
  assert.match(calls()[0], /^load --benchmarker --http2 -c 2 -t 0\.2s -H x-colour: blue http:/);
});

test('an unknown tool and a missing tool have different errors', async () => {
  const failures = [
    ['benchmarker=siege', "Requested benchmarker 'siege' is  not supported"],
    ['benchmarker=toString', "Requested benchmarker 'toString' is  not supported"],
    ['benchmarker=h2load', "Requested benchmarker 'h2load' is  not installed"],
  ];
  for (const [argument, message] of failures) {
    const { code, stderr, messages, stdout } = await measure([argument], { PATH: '/nonexistent' });
    assert.deepStrictEqual([code, messages, stdout], [1, [], 'done undefined\n']);
    assert.ok(stderr.includes(`: ${message}\n`), stderr);
  }
});

const broken = [
  ['prints nothing', {}, 1, 'wrk produced strange output: \n'],
  ['prints garbage', { stdout: 'unable to connect\n' }, 1, 'wrk produced strange output: unable to connect\n'],
  ['ends with a status', { status: 7 }, 7, 'wrk failed with 7.\n'],
  ['ends with a status and a word', { stdout: 'oops\n', status: 7 }, 7, 'wrk failed with 7. Output: oops\n'],
  ['dies by a signal', { stdout: recorded('wrk_latency.out'), signal: 'KILL' }, 137, 'wrk failed with SIGKILL. Output: Running'],
];
for (const [what, behaviour, status, message] of broken) {
  test(`a tool that ${what} fails the benchmark`, async (t) => {
    const { env } = fakeTool(t, 'wrk', behaviour);
    const { code, stderr, messages, stdout } = await measure(['benchmarker=wrk'], env);
    assert.deepStrictEqual([code, messages, stdout], [status, [], `done ${behaviour.signal ? 137 : behaviour.status || 0}\n`]);
    assert.ok(stderr.includes(`: ${message}`), stderr);
  });
}

test('a program that cannot be started fails the benchmark', async (t) => {
  const { env, program } = fakeTool(t, 'wrk');
  fs.writeFileSync(program, '#!/nonexistent/interpreter\n');
  const { code, stderr } = await measure(['benchmarker=wrk'], env);
  assert.strictEqual(code, 1);
  assert.ok(stderr.includes(': wrk failed with ENOENT.\n'), stderr);
});

test('the harness reports the failure of a tool as an error of the run', async (t) => {
  const { env } = fakeTool(t, 'wrk', { status: 7 });
  const { events, code } = await measureCase(fixture('api/server.js'), { path: '/', c: 2, duration: 1 },
                                             { env: { ...env, PORT: await freePort() } });
  assert.deepStrictEqual(events.slice(2).map(({ verb, stage, msg }) => [verb, stage, msg]),
                         [['error', 'run', 'wrk failed with 7.'], ['end', undefined, undefined]]);
  assert.strictEqual(code, 0);
});
