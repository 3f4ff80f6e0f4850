'use strict';

// The sample data that URL benchmarks request.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const querystring = require('node:querystring');
const { PACKAGE, runNode } = require('./running/node.js');
const { bakeUrlData, searchParams, urlDataTypes, urls } = require('../index.js');

test('every sample is a URL of its kind', () => {
  assert.deepStrictEqual(Object.keys(urls),
                         ['long', 'short', 'idn', 'auth', 'file', 'ws', 'javascript', 'percent', 'dot']);
  assert.deepStrictEqual(urlDataTypes, [...Object.keys(urls), 'wpt']);
  const parsed = Object.fromEntries(Object.entries(urls).map(([kind, url]) => [kind, new URL(url)]));
  assert.ok(parsed.long.href.length > 200);
  assert.ok(parsed.idn.hostname.startsWith('xn--'));
  assert.ok(parsed.auth.username !== '' && parsed.auth.password !== '');
  assert.deepStrictEqual([parsed.file.protocol, parsed.ws.protocol, parsed.javascript.protocol],
                         ['file:', 'ws:', 'javascript:']);
  assert.ok(parsed.percent.hostname.startsWith('xn--'));
  assert.strictEqual(parsed.dot.pathname, '/paths/gate');
});

test('a sample comes 200 times, doubled as often as asked, with a base or as URL objects', () => {
  assert.deepStrictEqual(bakeUrlData('short'), new Array(200).fill(urls.short));
  assert.strictEqual(bakeUrlData('auth', 3).length, 1600);
  assert.deepStrictEqual(bakeUrlData('dot', 0, true)[199], [urls.dot, 'about:blank']);
  assert.ok(bakeUrlData('ws', 0, false, true).every((url) => url instanceof URL && url.href === urls.ws));
  assert.ok(bakeUrlData('long', 1, true, true).every((url) => url.pathname === new URL(urls.long).pathname));
});

test('unknown kinds and exponents are rejected', () => {
  assert.throws(() => bakeUrlData('none'), { message: 'Unknown url data type none' });
  assert.throws(() => bakeUrlData('short', '1'), { message: 'e must be a number, received 1' });
});

test('web platform tests are searched in folders above the benchmark file', async (t) => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'speedwell-wpt-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  const index = JSON.stringify(path.join(PACKAGE, 'index.js'));
  fs.mkdirSync(path.join(root, 'benchmark', 'url'), { recursive: true });
  fs.writeFileSync(path.join(root, 'benchmark', 'url', 'a.js'),
                   `const { bakeUrlData } = require(${index});
                    console.log(JSON.stringify([bakeUrlData('wpt', 1), bakeUrlData('wpt', 0, true)]));`);
  const missing = await runNode([path.join(root, 'benchmark', 'url', 'a.js')]);
  assert.match(missing.stderr, /URL data of type 'wpt' needs 'test\/fixtures\/wpt\/url\/resources\/urltestdata\.json'/);

  const data = ['a comment', { input: 'x:1', base: null }, { input: '/b', base: 'http://h/' },
                { input: 'bad', base: 'x:', failure: true }, { input: '', base: 'y:' }];
  const resources = path.join(root, 'test', 'fixtures', 'wpt', 'url', 'resources');
  fs.mkdirSync(resources, { recursive: true });
  fs.writeFileSync(path.join(resources, 'urltestdata.json'), JSON.stringify(data));
  const { stdout } = await runNode([path.join(root, 'benchmark', 'url', 'a.js')]);
  assert.deepStrictEqual(JSON.parse(stdout), [['http://h/', 'http://h/'], [['x:1', null], ['/b', 'http://h/']]]);
});

test('query strings match their names', () => {
  const parsed = Object.fromEntries(Object.entries(searchParams).map(([kind, text]) => [kind, querystring.parse(text)]));
  assert.strictEqual(Object.keys(parsed.noencode).length, 3);
  assert.match(searchParams.multicharsep, /&{10}/);
  assert.ok(!/%[0-9a-f]{2}/i.test(searchParams.encodefake) && searchParams.encodefake.includes('%'));
  assert.ok((searchParams.encodemany.match(/%[0-9A-F]{2}/g)).length > 5);
  assert.match(searchParams.encodelast, /^[^%]+%[0-9a-f]{2}$/i);
  assert.deepStrictEqual([parsed.multivalue.leaf.length, parsed.multivaluemany.leaf.length], [3, 11]);
  assert.strictEqual(Object.keys(parsed.manypairs).length, 26);
  assert.match(searchParams.manyblankpairs, /^&{24}$/);
  assert.match(searchParams.altspaces, /\+/);
});
