'use strict';

// The command line of each HTTP tool, and parsing of its recorded output.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { wrk } = require('../lib/http/wrk.js');
const { autocannon } = require('../lib/http/autocannon.js');
const { h2load } = require('../lib/http/h2load.js');
const { speedwell } = require('../lib/http/speedwell.js');
const { testDouble } = require('../lib/http/test_double.js');

const SETTINGS = { scheme: 'http', host: '127.0.0.1', port: 80, path: '/p', connections: 2, duration: 5 };

function recorded(name) {
  return fs.readFileSync(path.join(__dirname, 'golden', 'http', name), 'utf8');
}

test('wrk: throughput, counts, errors, refusals and latencies are parsed', () => {
  assert.deepStrictEqual(wrk.read(recorded('wrk_latency.out')), {
    rate: 280.37, requests: 308, seconds: 1.1, errors: 0, non2xx: 0,
    latency_ms: { mean: 34.95, p50: 34.78, p99: 49.58 },
  });
  assert.deepStrictEqual(wrk.read(recorded('wrk_errors.out')), {
    rate: 3633.62, requests: 3635, seconds: 1, errors: 3634, non2xx: 0, latency_ms: { mean: 0.40325 },
  });
  assert.strictEqual(wrk.read(recorded('wrk_non2xx.out')).non2xx, 9589);
});

test('wrk: whole seconds, no more threads than connections, headers after the address', () => {
  const { args } = wrk.command({ ...SETTINGS, connections: 1, duration: 0.05, headers: { a: 'b c' } });
  assert.deepStrictEqual(args, ['--latency', '-d', '1', '-c', '1', '-t', '1', 'http://127.0.0.1:80/p', '-H', 'a: b c']);
  assert.strictEqual(wrk.command({ ...SETTINGS, duration: 2.5 }).args[2], '3');
});

test('autocannon: its JSON is parsed, and the mean of its samples is the rate', () => {
  assert.deepStrictEqual(autocannon.read(recorded('autocannon.json')), {
    rate: 275, requests: 275, seconds: 1.02, errors: 0, non2xx: 0, latency_ms: { mean: 35.14, p50: 35, p99: 62 },
  });
  assert.strictEqual(autocannon.read(recorded('autocannon_err.json')).non2xx, 5857);
  assert.deepStrictEqual(autocannon.command({ ...SETTINGS, headers: { a: 'b' } }).args,
                         ['-d', '5', '-c', '2', '-j', '-n', '-H', 'a=b', 'http://127.0.0.1:80/p']);
});

test('h2load: the rate is a number, and the duration limits the measurement', () => {
  assert.deepStrictEqual(h2load.read(recorded('h2load_h1.out')), {
    rate: 12260.16, seconds: 0.01631, requests: 200, errors: 0, non2xx: 0, latency_ms: { mean: 0.651 },
  });
  const settings = { ...SETTINGS, requests: 100, clients: 2, maxConcurrentStreams: 10, threads: 'many' };
  assert.deepStrictEqual(h2load.command(settings).args,
                         ['-D', '5000ms', '-c', '2', '-m', '10', 'http://127.0.0.1:80/p']);
  assert.deepStrictEqual(h2load.command({ ...settings, rate: 3, ratePeriod: 2 }).args,
                         ['-n', '100', '-c', '2', '-m', '10', '-r', '3', '--rate-period=2', 'http://127.0.0.1:80/p']);
});

test('speedwell\'s generator: its line is parsed', () => {
  const line = '{"requests":500,"seconds":2.5,"errors":1,"non2xx":2,"latency_ms":{"mean":1,"p50":0.9,"p99":3}}\n';
  assert.deepStrictEqual(speedwell.read(line), {
    rate: 200, requests: 500, seconds: 2.5, errors: 1, non2xx: 2, latency_ms: { mean: 1, p50: 0.9, p99: 3 },
  });
  assert.deepStrictEqual(speedwell.command({ ...SETTINGS, headers: { a: 'b' } }).args,
                         ['load', '--benchmarker', '-c', '2', '-t', '5s', '-H', 'a: b', 'http://127.0.0.1:80/p']);
});

test('speedwell\'s generator: HTTP/2 has connections, streams and a number of requests', () => {
  const streams = { ...SETTINGS, clients: 3, maxConcurrentStreams: 20, requests: 1000 };
  assert.deepStrictEqual(speedwell.command(streams).args.slice(2, 11),
                         ['--http2', '-c', '60', '--streams', '20', '-n', '1000', '-t', '5s']);
  assert.deepStrictEqual(speedwell.command({ ...SETTINGS, http2: true }).args.slice(2, 5), ['--http2', '-c', '2']);
  assert.deepStrictEqual(speedwell.command({ ...streams, http2: false }).args.slice(2, 4), ['-c', '2']);
});

test('without a duration a load lasts 10 s', () => {
  const { defaults } = require('../lib/http/measure.js');
  assert.strictEqual(defaults().duration, 10);
  assert.strictEqual(defaults().connections, 100);
});

test('the test double counts', () => {
  assert.strictEqual(testDouble('http').read('{"throughput":42,"seconds":2}').rate, 42);
});

test('output without results is not a result', () => {
  const tools = [wrk, autocannon, h2load, speedwell, testDouble('http')];
  const outputs = ['', 'garbage', '{}', 'null', '12', '[]', '{"requests":{}}', '{"requests":{"average":0}}',
                   'Requests/sec:    .', 'finished in 1s', '{"requests":5,"seconds":0}', '{"throughput":null}'];
  for (const tool of tools) {
    for (const output of outputs) assert.strictEqual(tool.read(output), undefined, `${tool.name}: ${output}`);
  }
});
