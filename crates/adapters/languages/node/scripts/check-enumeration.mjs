// Lists the cases of every benchmark of a Node core `benchmark/` folder with the probe and compares them, line by
// line and in order, with recorded lists.
//
//   node check-enumeration.mjs --folder DIR/benchmark [--node NODE] [--golden FILE.tsv ...] [--write FILE.tsv]
//
// A list has one line per case: script, flags as JSON, arguments as JSON. Several lists are concatenated. The
// exit status is 1 if anything differs.

import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { benchmarksOf } from './lib/benchmark_folder.mjs';
import { probe } from './lib/run_probe.mjs';

const { values: options } = parseArgs({
  options: {
    folder: { type: 'string' },
    node: { type: 'string', default: process.execPath },
    golden: { type: 'string', multiple: true, default: [] },
    write: { type: 'string' },
    timeout: { type: 'string', default: '20' },
  },
});
if (!options.folder) {
  console.error('usage: check-enumeration.mjs --folder DIR/benchmark [--node NODE] [--golden FILE.tsv ...]');
  process.exit(2);
}
const folder = resolve(options.folder);

/** One line per case, in the format of the recorded lists. */
function linesOf(script, { cases }) {
  return cases.map(({ args, execArgv }) => [script, JSON.stringify(execArgv), JSON.stringify(args)].join('\t'));
}

/** JSON has several spellings of one text; parsing and printing again removes the difference. */
function normal(line) {
  const [script, flags, args] = line.split('\t');
  return [script, JSON.stringify(JSON.parse(flags)), JSON.stringify(JSON.parse(args))].join('\t');
}

function recorded(files) {
  return files.flatMap((file) => readFileSync(file, 'utf8').trimEnd().split('\n').slice(1).map(normal));
}

/** Lines per script, so that separately recorded lists can be compared as one. */
function byScript(lines) {
  const groups = new Map();
  for (const line of lines) {
    const script = line.slice(0, line.indexOf('\t'));
    groups.set(script, [...(groups.get(script) ?? []), line]);
  }
  return groups;
}

function differences(expected, found) {
  const scripts = new Set([...expected.keys(), ...found.keys()]);
  return [...scripts].filter((script) => {
    return (expected.get(script) ?? []).join('\n') !== (found.get(script) ?? []).join('\n');
  });
}

const begin = performance.now();
const scripts = benchmarksOf(folder);
const found = [];
const without = [];
for (const script of scripts) {
  const result = await probe({ node: options.node, folder, script, timeout_s: Number(options.timeout) });
  const lines = linesOf(script, result);
  if (lines.length === 0) without.push(`${script}: ${result.outcome}`);
  if (lines.length > 0 && result.needs_parent) without.push(`${script}: way (a) because ${result.reason}`);
  found.push(...lines);
}
const seconds = ((performance.now() - begin) / 1000).toFixed(1);
console.log(`${scripts.length} benchmarks, ${byScript(found).size} with cases, ${found.length} cases, ${seconds} s`);
for (const line of without) console.log(`  ${line}`);
if (options.write) writeFileSync(options.write, `script\tflags\targs\n${found.join('\n')}\n`);
if (options.golden.length > 0) {
  const expected = recorded(options.golden);
  const wrong = differences(byScript(expected), byScript(found));
  const sameOrder = options.golden.length > 1 || expected.join('\n') === found.join('\n');
  console.log(`expected ${expected.length} cases; ${wrong.length} scripts differ${sameOrder ? '' : '; order differs'}`);
  for (const script of wrong) console.log(`  differs: ${script}`);
  process.exitCode = wrong.length > 0 || !sameOrder ? 1 : 0;
}
