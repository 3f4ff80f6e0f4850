'use strict';

// The suite is run by its own benchmark.js, here by a stand-in with the same
// behavior.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const { ROOT } = require('./loaded.js');

const FIXTURE = path.join(__dirname, 'fixtures', 'fastify-benchmarks');

function copied(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'fastify-benchmarks-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  fs.cpSync(FIXTURE, folder, { recursive: true });
  return folder;
}

function run(folder, env = {}) {
  return spawnSync(process.execPath, [path.join(ROOT, 'fastify-benchmarks.js'), folder, '7', '2', '1'],
                   { encoding: 'utf8', env: { ...process.env, ...env } });
}

test('its questions are answered and its results are printed by server', (t) => {
  const folder = copied(t);
  fs.mkdirSync(path.join(folder, 'results'));
  fs.writeFileSync(path.join(folder, 'results', 'older.json'), '{}');
  const { status, stdout, stderr } = run(folder);
  assert.deepStrictEqual([status, stderr], [0, '']);
  const found = JSON.parse(stdout);
  assert.deepStrictEqual(Object.keys(found), ['express', 'fastify']);
  for (const figures of Object.values(found)) {
    assert.ok(figures.requests > 0 && figures.latency_ms > 0 && figures.throughput === 5, stdout);
  }
  const kept = JSON.parse(fs.readFileSync(path.join(folder, 'results', 'fastify.json'), 'utf8'));
  assert.deepStrictEqual(kept.options, { connections: 7, pipelining: 2, duration: 1 });
});

test('NODE_OPTIONS loads the module into the servers', (t) => {
  const env = { NODE_OPTIONS: `--require "${path.join(ROOT, 'collector.js')}"` };
  const { status, stderr } = run(copied(t), env);
  assert.strictEqual(status, 0, stderr);
  // The wrapper, benchmark.js, and two servers.
  assert.strictEqual(stderr.match(/"mode":"uncaught"/g).length, 4, stderr);
});

test('a failing suite is an error', (t) => {
  const folder = copied(t);
  fs.writeFileSync(path.join(folder, 'benchmark.js'), 'process.exit(3)');
  const { status, stdout, stderr } = run(folder);
  assert.deepStrictEqual([status, stdout], [1, '']);
  assert.match(stderr, /benchmark\.js ended with 3 after 0 of 4 questions/);
});
