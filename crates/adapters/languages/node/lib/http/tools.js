'use strict';

// The HTTP tools that `bench.http` supports, and how one is chosen. A tool is searched for only when it is needed, and
// without running it: starting every known tool in every process took longer than many benchmarks.

const GUIDE =
  'https://github.com/nodejs/node/blob/HEAD/doc/contributing/writing-and-running-benchmarks.md#http-benchmark-requirements';

/** In order of preference. Each has `name`, `present()`, `command(settings)` and `read(stdout)`. */
const TOOLS = {
  'speedwell': () => require('./speedwell.js').speedwell,
  'wrk': () => require('./wrk.js').wrk,
  'autocannon': () => require('./autocannon.js').autocannon,
  'test-double-http': () => require('./test_double.js').testDouble('http'),
  'test-double-https': () => require('./test_double.js').testDouble('https'),
  'test-double-http2': () => require('./test_double.js').testDouble('http2'),
  'h2load': () => require('./h2load.js').h2load,
};

/** Returns the tool called `wanted`, or the first installed one. Throws if there is none. */
function chooseTool(wanted) {
  const name = wanted || defaultTool();
  if (!name) throw new Error(`Could not locate required http benchmarker. See ${GUIDE} for further instructions.`);
  if (!Object.hasOwn(TOOLS, name)) throw new Error(`Requested benchmarker '${name}' is  not supported`);
  const tool = TOOLS[name]();
  if (!tool.present()) throw new Error(`Requested benchmarker '${name}' is  not installed`);
  return tool;
}

/** Name of the first installed tool. */
function defaultTool() {
  return Object.keys(TOOLS).find((name) => TOOLS[name]().present());
}

exports.chooseTool = chooseTool;
exports.defaultTool = defaultTool;
