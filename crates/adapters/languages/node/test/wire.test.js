'use strict';

// The framing of the harness protocol: which texts survive it, and how long lists are
// split.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { decode, decodeList, decodeText, encode, writeAll } = require('../lib/wire.js');

const AWKWARD = ['', 'plain', 'a\tb', 'a\nb', '100%', '%41', 'a=b', '\x7f\x00\x1f', 'é😀', 'a,b', '%%%', '\u2028'];

function onlyLine(verb, fields) {
  const lines = encode(verb, fields);
  assert.strictEqual(lines.length, 1);
  return lines[0];
}

test('any text survives as a value', () => {
  for (const value of AWKWARD) {
    const line = onlyLine('log', { id: 1, text: value });
    assert.ok(!/[\x00-\x08\x0a-\x1f\x7f]/.test(line), JSON.stringify(line));
    const { verb, fields } = decode(line);
    assert.deepStrictEqual([verb, fields.id, decodeText(fields.text)], ['log', '1', value]);
  }
});

test('any texts survive as a list', () => {
  const { fields } = decode(onlyLine('benchmark', { list: AWKWARD }));
  assert.deepStrictEqual(decodeList(fields.list), AWKWARD);
  assert.deepStrictEqual(decodeList(decode(onlyLine('benchmark', { list: [] })).fields.list), []);
});

test('the escapes are those of the protocol', () => {
  assert.strictEqual(onlyLine('x', { a: 'T\tL\nP%D\x7fE=é,' }), 'x\ta=T%09L%0AP%25D%7FE=é,');
  assert.strictEqual(onlyLine('x', { a: ['p,q', 'r'] }), 'x\ta=p%2Cq,r');
});

test('escapes of several bytes and invalid escapes are decoded', () => {
  assert.strictEqual(decodeText('%c3%A9 %zz 5% %4'), 'é %zz 5% %4');
});

test('undefined values are omitted, numbers and big integers are decimal', () => {
  assert.strictEqual(onlyLine('end', { a: undefined, b: 12, c: 12345678901234567890n }), 'end\tb=12\tc=12345678901234567890');
});

test('a list of 100 000 points is split into lines below 1 MiB and keeps its order', () => {
  const points = Array.from({ length: 100000 }, (_, index) => String(index * 1000003));
  const lines = encode('worker', { id: 7, t_ns: points, count: points });
  assert.ok(lines.length > 1);
  const joined = { t_ns: [], count: [] };
  lines.forEach((line, index) => {
    assert.ok(Buffer.byteLength(line) < 2 ** 20);
    const { fields } = decode(line);
    assert.strictEqual(fields.id, '7');
    assert.strictEqual(fields.more, index < lines.length - 1 ? '1' : undefined);
    for (const key of ['t_ns', 'count']) if (key in fields) joined[key].push(...decodeList(fields[key]));
  });
  assert.deepStrictEqual(joined, { t_ns: points, count: points });
});

test('a huge text is cut, so that its line stays below 1 MiB', () => {
  const { fields } = decode(onlyLine('error', { msg: '😀'.repeat(1e6) }));
  assert.ok(Buffer.byteLength(fields.msg) < 2 ** 19);
  assert.ok('😀'.repeat(1e6).startsWith(fields.msg));
});

test('a text is written whole to a file', () => {
  const file = path.join(os.tmpdir(), `speedwell-wire-${process.pid}`);
  const text = 'é\n'.repeat(300000);
  const descriptor = fs.openSync(file, 'w');
  writeAll(descriptor, text);
  fs.closeSync(descriptor);
  assert.strictEqual(fs.readFileSync(file, 'utf8'), text);
  fs.unlinkSync(file);
});
