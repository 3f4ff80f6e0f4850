'use strict';

// Every case of every example is listed, and one of each is measured briefly.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { PACKAGE } = require('./running/node.js');
const { converse, list, measureCase } = require('./running/harness.js');

const EXAMPLES = path.join(PACKAGE, '..', '..', 'examples', 'node');
const skip = fs.existsSync(EXAMPLES) ? false : 'the examples are not part of an installed package';
const files = skip ? [] : fs.readdirSync(EXAMPLES, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .flatMap(({ name: group }) => fs.readdirSync(path.join(EXAMPLES, group)).map((file) => `${group}/${file}`));

test('there are examples', { skip }, () => {
  assert.deepStrictEqual(files.sort(), ['arrays/sort.js', 'buffers/compare.js', 'buffers/copy.js',
                                        'buffers/transcode.js', 'http/simple.js', 'string_decoder/create.js',
                                        'string_decoder/decode.js']);
});

for (const name of files) {
  test(`${name} describes its cases and measures one`, async () => {
    const file = path.join(EXAMPLES, name);
    const whole = (await converse([['describe', { path: file }], ['quit']])).events;
    assert.deepStrictEqual([whole[0].name, whole.at(-1).verb], [name, 'described']);
    assert.ok(Number(whole.at(-1).cases) >= 2);

    const quick = (await converse([['describe', { path: file, test: 1 }], ['quit']])).events;
    const values = Object.fromEntries(list(quick[1].args).map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
    const http = name.startsWith('http/') ? { benchmarker: 'test-double-http', duration: '0.1' } : {};
    const { events } = await measureCase(file, { ...values, ...http }, { env: { PORT: '12371' } });
    const seen = events.map(({ verb }) => verb);
    assert.deepStrictEqual([seen.includes('once'), seen.includes('error'), seen.at(-1)], [true, false, 'end'],
                           JSON.stringify(events));
  });
}
