'use strict';

// What the collector observes, and that it changes nothing else.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { run } = require('./loaded.js');

const MODES = ['none', 'session', 'enable', 'uncaught', 'all'];
const FIXTURES = path.join(__dirname, 'fixtures');
const REJECTIONS = path.join(FIXTURES, 'rejections.js');
const COUNT = 20;

test('each mode reports itself and does not affect a program', { concurrency: 2 }, async (t) => {
  const plain = await run(undefined, ['clean-exit.js']);
  assert.deepStrictEqual([plain.status, plain.stdout, plain.stderr], [0, '', 'mark:throw\n']);
  await Promise.all(MODES.map((mode) => t.test(mode, async () => {
    const loaded = await run(mode, ['clean-exit.js']);
    assert.strictEqual(loaded.stderr, `mark:throw\n{"collector":{"mode":"${mode}","pauses":0}}\n`);
    assert.deepStrictEqual([loaded.status, loaded.stdout], [0, '']);
  })));
});

test('the default mode is the whole module, and an unknown mode is an error', async () => {
  assert.deepStrictEqual((await run('', ['clean-exit.js'])).collector, { mode: 'uncaught', pauses: 0 });
  const wrong = await run('some', ['clean-exit.js']);
  assert.strictEqual(wrong.status, 1);
  assert.match(wrong.stderr, /unknown CC_MODE 'some': expected one of none, session, enable, uncaught, all/);
});

test('a crash does not change, and the modes that pause report it', { concurrency: 2 }, async (t) => {
  const plain = await run(undefined, ['crash.js']);
  assert.strictEqual(plain.status, 1);
  await Promise.all(MODES.map((mode) => t.test(mode, async () => {
    const loaded = await run(mode, ['crash.js']);
    const pausing = mode === 'uncaught' || mode === 'all';
    assert.strictEqual(loaded.status, 1);
    assert.deepStrictEqual(loaded.collector, { mode, pauses: pausing ? 1 : 0 });
    // Node's output about the exception does not change.
    const nodeOutput = loaded.stderr.split('\n').filter((line) => !line.startsWith('{'));
    assert.deepStrictEqual(nodeOutput.slice(0, 8), plain.stderr.split('\n').slice(0, 8));
    assert.strictEqual(Array.isArray(loaded.crash.frames), pausing);
  })));
});

test('the report has the frames with the values of their variables', async () => {
  const { crash } = await run('uncaught', ['crash.js']);
  assert.strictEqual(crash.origin, 'uncaughtException');
  assert.match(crash.thrown, /^Error: cannot charge 17 EUR to order 42\n/);
  const [charge, checkout] = crash.frames;
  assert.strictEqual(charge.function, 'charge');
  // The line of `throw` in crash.js.
  const text = fs.readFileSync(path.join(__dirname, '..', 'crash.js'), 'utf8').split('\n');
  const line = 1 + text.findIndex((words) => words.includes('throw new'));
  assert.ok(charge.place.endsWith(`/crash.js:${line}:3`), charge.place);
  assert.strictEqual(charge.variables.total, '17');
  assert.strictEqual(charge.variables.currency, '"EUR"');
  assert.strictEqual(checkout.function, 'checkout');
  assert.strictEqual(checkout.variables.id, '42');
  assert.strictEqual(checkout.variables.order, 'Object { id: 42, items: Array(2) }');
});

test('the report goes to the given file', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-'));
  try {
    const file = path.join(folder, 'crash.json');
    const { crash } = await run('uncaught', ['crash.js'], { CC_REPORT: file });
    assert.strictEqual(crash, undefined);
    assert.strictEqual(JSON.parse(fs.readFileSync(file)).crash.frames[0].function, 'charge');
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test('of many rejections, the report is about the one that ended the process', async () => {
  const { status, crash } = await run('all', [path.join(FIXTURES, 'rejected.js')]);
  assert.deepStrictEqual([status, crash.origin, crash.reason], [1, 'unhandledRejection', 'promiseRejection']);
  assert.strictEqual(crash.frames[0].variables.reason, '"the last one"');
});

// How often V8 pauses for 20 exceptions that are all handled, if only those that seem uncaught count. Its prediction
// inspects the frames on the stack, and up to some version after 22 treated every rejection without an awaiting frame
// as uncaught. Measured with 18.20.4, 20.20.2, 22.11.0 and 26.10.0.
const WRONGLY_UNCAUGHT = {
  'async throw, awaited in try': { old: 0, new: 0 },
  'Promise.reject().catch()': { old: COUNT, new: 0 },
  'executor reject().catch()': { old: COUNT, new: 0 },
  'async throw, awaited later': { old: COUNT, new: COUNT },
  'sync throw in try': { old: 0, new: 0 },
  'throw in a then-chain': { old: 0, new: 0 },
};

const major = Number(process.versions.node.split('.')[0]);
const behavior = major <= 22 ? 'old' : major >= 26 ? 'new' : undefined;
const skip = behavior === undefined ? `pauses of Node.js ${major} have not been verified` : false;

for (const [way, pauses] of Object.entries(WRONGLY_UNCAUGHT)) {
  test(`${way}: exceptions that seem uncaught`, { skip }, async () => {
    const { status, collector } = await run('uncaught', [REJECTIONS, String(COUNT), way]);
    assert.deepStrictEqual([status, collector.pauses], [0, pauses[behavior]]);
  });
}

test('mode all pauses at every exception', async () => {
  const ways = Object.keys(WRONGLY_UNCAUGHT);
  const { status, collector } = await run('all', [REJECTIONS, String(COUNT), ...ways]);
  assert.deepStrictEqual([status, collector.pauses], [0, COUNT * ways.length]);
});
