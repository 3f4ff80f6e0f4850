'use strict';

// The promise tests print one line that the definition file can parse, and check their own
// answers.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const { ROOT, run } = require('./loaded.js');
const { measure } = require('../promises/measure.js');

const FOLDER = path.join(ROOT, 'promises');
const files = fs.readdirSync(FOLDER).filter((file) => file.endsWith('-native.js'));

for (const definition of ['overhead.toml', 'instructions.toml']) {
  test(`there are six, and ${definition} names them`, () => {
    const text = fs.readFileSync(path.join(ROOT, definition), 'utf8');
    assert.strictEqual(files.length, 6);
    for (const file of files) assert.ok(text.includes(`"${path.basename(file, '.js')}"`), file);
  });
}

for (const file of files) {
  test(`${file} prints its name and its time`, async () => {
    const { status, stdout, stderr } = await run(undefined, [path.join(FOLDER, file), '1']);
    assert.deepStrictEqual([status, stderr], [0, '']);
    const [, name, value] = /^Time\(([^)]+)\): (\d+\.\d\d) ms\n$/.exec(stdout) ?? [];
    assert.strictEqual(`${name}.js`, file);
    assert.ok(Number(value) > 0, value);
  });
}

test('every second promise of the rejections is rejected, and the hooks see them', async () => {
  const file = path.join(FOLDER, 'rejections-async-es2017-native.js');
  const { status, stderr } = spawnSync(process.execPath, ['--require', path.join(ROOT, 'hooks.js'), file, '1'],
                                       { encoding: 'utf8' });
  assert.strictEqual(status, 0, stderr);
  // A warm-up and a round of 1000 calls, each of two async functions.
  assert.ok(JSON.parse(stderr).hooks.promises >= 2 * 1000 * 2, stderr);
});

const valgrind = spawnSync('valgrind', ['--version']);

test('the instructions of a round are counted', { skip: valgrind.error && 'valgrind is not installed' }, () => {
  const words = ['./counted.sh', 'fibonacci-async-es2017-native'];
  const { status, stdout, stderr } = spawnSync('sh', words, { cwd: FOLDER, encoding: 'utf8' });
  assert.strictEqual(status, 0, stderr);
  const [, value] = /^Instructions\(fibonacci-async-es2017-native\): (\d+)\n$/.exec(stdout) ?? [];
  // fibonacci(20) is 21,891 calls, each of which is at least a hundred instructions.
  assert.ok(Number(value) > 2e6 && Number(value) < 1e9, value);
});

test('a wrong answer is an error, not a time', async () => {
  const wrong = measure(__filename, async () => 1, { expected: 2, warmup: 1, rounds: 1 });
  await assert.rejects(wrong, /the answer is 1, expected 2/);
});
