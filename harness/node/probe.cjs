'use strict';

// Preload that lists the cases of a benchmark file without measuring one: `node -r probe.cjs FILE k=v ...` with
// SPEEDWELL_PROBE_FD naming a descriptor. The file and its own library run unchanged; only the start of a process
// per case is replaced by a note. When the process ends, one JSON document is written to the descriptor. Start
// reading at lib/probe/recorder.js.

const { Recorder } = require('./lib/probe/recorder.js');

const descriptor = Number.parseInt(process.env.SPEEDWELL_PROBE_FD, 10);
if (Number.isInteger(descriptor)) {
  // Processes that the file starts must not believe that the descriptor is theirs.
  delete process.env.SPEEDWELL_PROBE_FD;
  new Recorder(descriptor, __filename).install();
}
