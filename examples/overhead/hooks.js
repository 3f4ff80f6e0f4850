'use strict';

// Enables PromiseHooks and nothing else, as async_hooks does for whoever follows asynchronous work: V8 then takes the
// slow path of promises that an enabled debugger takes as well. Loaded with `node --require=.../hooks.js`. At exit one
// line on stderr says how many promises were seen: a run without it was not measured with the hooks.

const fs = require('node:fs');
const { createHook } = require('node:async_hooks');

let promises = 0;

createHook({
  init(id, type) {
    if (type === 'PROMISE') promises += 1;
  },
}).enable();

process.on('exit', () => {
  fs.writeSync(2, `${JSON.stringify({ hooks: { promises } })}\n`);
});
