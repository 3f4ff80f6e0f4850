'use strict';

// The harness program: `node FLAGS harness.cjs` with SPEEDWELL_FDS=3,4 in its environment. It measures benchmark
// files that use this package, as Speedwell's harness protocol says. Start-up time is paid for every sample, so this
// program loads only what the commands at hand need. Start reading at lib/harness/session.js.

const { Channel } = require('./lib/harness/channel.js');
const { Session } = require('./lib/harness/session.js');

const descriptors = /^(\d+),(\d+)$/.exec(process.env.SPEEDWELL_FDS || '');
if (!descriptors) {
  console.error("SPEEDWELL_FDS must name two descriptors, such as '3,4'");
  process.exit(2);
}
// Processes that a benchmark starts must not believe that the descriptors are theirs.
delete process.env.SPEEDWELL_FDS;

new Session(new Channel(Number(descriptors[1]), Number(descriptors[2]))).serve();
