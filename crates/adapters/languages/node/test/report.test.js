'use strict';

// The text of results: names, times, and the printed line, compared with lines printed by Node core's own tools.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { benchmarkName } = require('../lib/benchmark.js');
const { reportLine, secondsText } = require('../lib/report.js');

function golden(name) {
  return fs.readFileSync(path.join(__dirname, 'golden', name), 'utf8');
}

/** Parses a printed line without the code under test. */
function takeApart(line) {
  const [, name, values, rate] = /^(\S+)((?: \w+=(?:"(?:[^"\\]|\\.)*"|[-\d.e+]+))*): (\S+)$/.exec(line);
  const pairs = [...values.matchAll(/ (\w+)=("(?:[^"\\]|\\.)*"|[-\d.e+]+)/g)];
  const conf = Object.fromEntries(pairs.map(([, key, text]) => [key, JSON.parse(text)]));
  return { name, conf, rate: Number(rate.replaceAll(',', '')) };
}

for (const name of ['run-simple.txt', 'standalone.txt', 'standalone-inspect.txt', 'http-wrk.txt',
                    'http-autocannon.txt', 'http-test-double-http.txt', 'http2-h2load.txt']) {
  test(`lines of ${name} are printed byte for byte`, () => {
    const lines = golden(name).split('\n').filter((line) => line.includes(': '));
    assert.ok(lines.length > 0);
    for (const line of lines) assert.strictEqual(reportLine(takeApart(line)), `${line}\n`);
  });
}

test('numbers are JavaScript\'s own with a comma before every three digits of the integer part', () => {
  const texts = [[0, '0'], [999, '999'], [1000, '1,000'], [1234567.1234567, '1,234,567.1234567'], [1e21, '1e+21'],
                 [Number.MAX_VALUE, '1.7976931348623157e+308'], [0.001, '0.001'], [-1234.5, '-1,234.5']];
  for (const [rate, text] of texts) assert.strictEqual(reportLine({ name: 'g/f.js', conf: {}, rate }), `g/f.js: ${text}\n`);
});

test('times are seconds with nine decimals, exact to the nanosecond', () => {
  const texts = [[0n, '0.000000000'], [1n, '0.000000001'], [880068n, '0.000880068'], [999999999n, '0.999999999'],
                 [1000000000n, '1.000000000'], [123456789012345678901n, '123456789012.345678901']];
  for (const [elapsed_ns, text] of texts) assert.strictEqual(secondsText(elapsed_ns), text);
});

test('a benchmark is named by its group and file, a folder by its index file, or below a given root', () => {
  assert.strictEqual(benchmarkName('/anywhere/url/parse.js'), 'url/parse.js');
  assert.strictEqual(benchmarkName('/x/napi/string/index.js'), 'napi/string/index.js');
  assert.strictEqual(benchmarkName('/parse.js'), 'parse.js');
  assert.strictEqual(benchmarkName('/x/bench/a/b/c.js', '/x/bench'), 'a/b/c.js');
  assert.strictEqual(benchmarkName('/y/a/c.js', '/x/bench'), 'a/c.js');
});
