'use strict';

// The cost of creating a decoder.

const { StringDecoder } = require('string_decoder');
const { createBenchmark } = require('speedwell');

const bench = createBenchmark(main, {
  encoding: ['ascii', 'utf8', 'utf-8', 'base64', 'UTF-16LE'],
  n: [300e3],
});

function main({ encoding, n }) {
  let last;
  bench.start();
  for (let i = 0; i < n; i++) last = new StringDecoder(encoding);
  bench.end(n);
  bench.check(last.encoding);
}
