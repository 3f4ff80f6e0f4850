'use strict';

// The package `speedwell`: everything a benchmark file needs from one import, with the names of Node core's
// benchmark library, so that a file runs under either. This file decides only what is public and when it is loaded:
// a measuring process must start fast, so tables and HTTP tools load at first use. Start reading at
// lib/benchmark.js.

const { Benchmark } = require('./lib/benchmark.js');

/** Describes a benchmark file: `main(values)` is called in a fresh process for every case. */
function createBenchmark(main, parameters, options) {
  return new Benchmark(main, parameters, options);
}

exports.createBenchmark = createBenchmark;
exports.Benchmark = Benchmark;

/** Port for servers and HTTP tools: the driver assigns one to every concurrent process through `PORT`. */
exports.PORT = Number(process.env.PORT) || 12346;

/** How node itself was built: results of a `Debug` build are meaningless. */
exports.buildType = process.features.debug ? 'Debug' : 'Release';

function lazily(name, load) {
  Object.defineProperty(exports, name, { enumerable: true, configurable: true, get: load });
}

lazily('sendResult', () => require('./lib/report.js').sendResult);
lazily('binding', () => require('./lib/binding.js').binding);
lazily('bakeUrlData', () => require('./lib/url_data.js').bakeUrlData);
lazily('urls', () => require('./lib/url_data.js').urls);
lazily('urlDataTypes', () => require('./lib/url_data.js').urlDataTypes);
lazily('searchParams', () => require('./lib/search_params.js').searchParams);
lazily('default_http_benchmarker', () => require('./lib/http/tools.js').defaultTool());

// Never executed: tells node's scanner of CommonJS exports which names `import { ... } from 'speedwell'` may use.
0 && (module.exports = {
  createBenchmark, Benchmark, sendResult, PORT, buildType, binding, bakeUrlData, urls, urlDataTypes, searchParams,
  default_http_benchmarker,
});
