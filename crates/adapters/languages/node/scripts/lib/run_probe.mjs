// Runs the probe on one benchmark, as a driver must: a separate pipe for the result, and a timeout.

import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROBE = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'probe.cjs');
const ABSENT = [
  'NODE_RUN_BENCHMARK_FN', 'NODE_BENCHMARK_FLAGS', 'NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE',
  'SPEEDWELL_FDS', 'NODE_TEST_CONTEXT',
];

function environment() {
  const env = { ...process.env, SPEEDWELL_PROBE_FD: '3' };
  for (const name of ABSENT) delete env[name];
  return env;
}

/** Returns the probe's document plus `outcome`, a short text on how the process ended, and `stderr`. */
export async function probe({ node, folder, script, args = [], flags = [], timeout_s }) {
  const child = spawn(node, [...flags, '-r', PROBE, join(folder, script), ...args], {
    cwd: dirname(folder), env: environment(), stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  let text = '';
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (chunk) => { stderr += chunk; });
  child.stdio[3].setEncoding('utf8').on('data', (chunk) => { text += chunk; });
  let timedOut = false;
  const limit = setTimeout(() => {
    timedOut = true;
    child.kill('SIGKILL');
  }, timeout_s * 1000);
  const [code, signal] = await new Promise((resolve) => { child.on('close', (...end) => resolve(end)); });
  clearTimeout(limit);
  const outcome = timedOut ? 'timed out' : signal ? `killed by ${signal}` : `exit ${code}`;
  const document = text === '' ? { cases: [], needs_parent: true, reason: 'no record' } : JSON.parse(text);
  return { ...document, outcome: `${outcome} ${document.reason || document.error?.message || ''}`.trim(), code, stderr };
}
