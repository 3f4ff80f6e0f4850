'use strict';

// The HTTP tools that `bench.http` can use, and which one is used. A tool is looked for only when it is needed and
// without running it: starting every known tool in every process cost more than many benchmarks take.

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

/** The tool called `wanted`, or the first present one. Throws if there is none. */
function chooseTool(wanted) {
  const name = wanted || defaultTool();
  if (!name) throw new Error(`Could not locate required http benchmarker. See ${GUIDE} for further instructions.`);
  if (!Object.hasOwn(TOOLS, name)) throw new Error(`Requested benchmarker '${name}' is  not supported`);
  const tool = TOOLS[name]();
  if (!tool.present()) throw new Error(`Requested benchmarker '${name}' is  not installed`);
  return tool;
}

/** Name of the first tool that is present. */
function defaultTool() {
  return Object.keys(TOOLS).find((name) => TOOLS[name]().present());
}

exports.chooseTool = chooseTool;
exports.defaultTool = defaultTool;
