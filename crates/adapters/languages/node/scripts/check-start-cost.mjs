// Measures the cost of one sample beyond the start of node itself: alternates `node -e 0` with the ways in which a
// driver measures one sample. Prints medians of the wall time and means of the CPU time as ratios to `node -e 0`.
//
//   node check-start-cost.mjs [--node NODE] [--rounds 30] [--folder DIR/benchmark] [--limit]
//
// With --folder, the library of that Node core folder is measured as well. With --limit, the exit status is 1 if a
// harness sample costs more than 1.3 times the wall time or 1.4 times the CPU time. NODE_EXTRA_CA_CERTS slows every
// start of node 18 and 20 and so shrinks all ratios: unset it for a strict measurement. Linux only: the CPU time of
// exited children is read from /proc.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const fixture = join(here, '..', 'test', 'fixtures', 'api', 'least.js');
const { values: options } = parseArgs({
  options: {
    node: { type: 'string', default: process.execPath },
    rounds: { type: 'string', default: '30' },
    folder: { type: 'string' },
    limit: { type: 'boolean', default: false },
  },
});
const LIMIT = { wall: 1.3, cpu: 1.4 };
/** The kernel reports CPU time to programs in hundredths of a second. */
const TICK_MS = 10;

function childrenCpu_ms() {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
  return (Number(fields[13]) + Number(fields[14])) * TICK_MS;
}

/** Starts node, sends `commands` if there are any, and waits until it has exited. */
async function start(args, { commands, env = {}, channel = false }) {
  const stdio = ['ignore', 'ignore', 'ignore', channel ? 'ipc' : 'pipe', 'pipe'];
  const child = spawn(options.node, args, { stdio, env: { ...process.env, ...env } });
  let answers = '';
  if (!channel) child.stdio[3].write(commands ?? '');
  child.on('message', () => { answers += 'report'; });
  child.stdio[4].on('data', (chunk) => { answers += chunk; });
  await new Promise((resolve) => { child.on('close', resolve); });
  return answers;
}

function commandsFor(file, values) {
  const list = values.map(([name, value]) => `\tvalue.${name}=${value}`).join('');
  return `hello\tid=1\tproto=1\nload\tid=2\tjob=a\tform=case\tpath=${file}${list}\n` +
    'run\tid=3\tjobs=a\tmode=once\nquit\tid=4\n';
}

function ways() {
  const child = { env: { NODE_RUN_BENCHMARK_FN: '' }, channel: true };
  const list = {
    'node -e 0': () => start(['-e', '0'], {}),
    'harness': () => start([join(here, '..', 'harness.cjs')], {
      env: { SPEEDWELL_FDS: '3,4' }, commands: commandsFor(fixture, [['n', 1]]),
    }),
    'sample over the channel, this package': () => start([fixture, 'n=1'], child),
  };
  if (options.folder) {
    const script = join(options.folder, 'string_decoder', 'string-decoder-create.js');
    list['sample over the channel, library of the folder'] = () => start([script, 'n=1', 'encoding=ascii'], child);
  }
  return list;
}

async function measure(way) {
  const cpu_ms = childrenCpu_ms();
  const begin = performance.now();
  await way();
  return { wall_ms: performance.now() - begin, cpu_ms: childrenCpu_ms() - cpu_ms };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.ceil((sorted.length - 1) / 2)]) / 2;
}

const all = ways();
const seen = Object.fromEntries(Object.keys(all).map((name) => [name, { wall: [], cpu: 0 }]));
for (let round = 0; round < Number(options.rounds); round++) {
  for (const [name, way] of Object.entries(all)) {
    const { wall_ms, cpu_ms } = await measure(way);
    seen[name].wall.push(wall_ms);
    seen[name].cpu += cpu_ms / Number(options.rounds);
  }
}
const base = { wall: median(seen['node -e 0'].wall), cpu: seen['node -e 0'].cpu };
console.log(`node -e 0: ${base.wall.toFixed(1)} ms wall, ${base.cpu.toFixed(1)} ms CPU, ${options.rounds} rounds`);
for (const [name, { wall, cpu }] of Object.entries(seen)) {
  const ratio = { wall: median(wall) / base.wall, cpu: cpu / base.cpu };
  console.log(`${ratio.wall.toFixed(2)} x wall  ${ratio.cpu.toFixed(2)} x CPU  ${name}`);
  if (options.limit && name === 'harness' && (ratio.wall > LIMIT.wall || ratio.cpu > LIMIT.cpu)) process.exitCode = 1;
}
