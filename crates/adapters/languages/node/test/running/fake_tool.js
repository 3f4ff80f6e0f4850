'use strict';

// Fake HTTP tools: programs with a real tool's name that behave as a test requests and record their arguments.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

/**
 * A folder for PATH with a program `name` in it that prints `stdout` and ends with `status` or by `signal`. The rest
 * of PATH contains no tool, so that none installed on this machine is found.
 */
function fakeTool(t, name, { stdout = '', status = 0, signal = '' } = {}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'speedwell-tool-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  fs.writeFileSync(path.join(folder, 'stdout'), stdout);
  const program = path.join(folder, name);
  fs.writeFileSync(program, `#!/bin/sh
echo "$@" >> '${folder}/called'
/bin/cat '${folder}/stdout'
${signal ? `kill -${signal} $$` : `exit ${status}`}
`);
  fs.chmodSync(program, 0o755);
  return {
    env: { PATH: folder },
    program,
    calls: () => {
      const file = path.join(folder, 'called');
      return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trimEnd().split('\n') : [];
    },
  };
}

module.exports = { fakeTool };
