'use strict';

// Preload that lists the cases of a benchmark file without measuring any: `node -r probe.cjs FILE k=v ...` with a
// descriptor in SPEEDWELL_PROBE_FD. The file and its own library run unchanged, but starting a process per case
// only records it. When the process ends, one JSON document is written to the descriptor. Start reading at
// lib/probe/recorder.js.

const { Recorder } = require('./lib/probe/recorder.js');

const descriptor = Number.parseInt(process.env.SPEEDWELL_PROBE_FD, 10);
if (Number.isInteger(descriptor)) {
  // Child processes of the file must not inherit the variable and use the descriptor.
  delete process.env.SPEEDWELL_PROBE_FD;
  new Recorder(descriptor, __filename).install();
}
