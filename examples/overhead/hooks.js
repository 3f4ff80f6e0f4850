'use strict';

// Enables PromiseHooks and nothing else, as async_hooks does to track asynchronous work: V8 then takes the same slow
// path for promises as with an enabled debugger. Loaded with `node --require=.../hooks.js`. At exit, one line on
// stderr reports the number of promises seen: a run without it was not measured with the hooks.

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
