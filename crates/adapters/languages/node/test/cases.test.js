'use strict';

// The cases of a declaration and a command line: the product, its order, types, filters and test mode.

const test = require('node:test');
const assert = require('node:assert');
const { combinations, parseArguments } = require('../lib/cases.js');

const everything = () => true;

function optionsOf(argv, parameters, options = {}) {
  return parseArguments(argv, parameters, options).options;
}

test('the first parameter varies slowest and is last in every case', () => {
  const cases = combinations({ encoding: ['utf8', 'hex'], len: [1, 2], n: [5] }, everything);
  assert.deepStrictEqual(cases.map((values) => JSON.stringify(values)), [
    '{"n":5,"len":1,"encoding":"utf8"}',
    '{"n":5,"len":2,"encoding":"utf8"}',
    '{"n":5,"len":1,"encoding":"hex"}',
    '{"n":5,"len":2,"encoding":"hex"}',
  ]);
});

test('a file without parameters has one empty case', () => {
  assert.deepStrictEqual(combinations({}, everything), [{}]);
});

test('an empty list of values yields no case', () => {
  assert.deepStrictEqual(combinations({ n: [], s: ['a'] }, everything), []);
});

test('the filter sees values from the command line and cannot change the case', () => {
  const seen = [];
  const filter = (values) => {
    seen.push(values.n);
    values.n = 0;
    return values.s === 'b';
  };
  const options = optionsOf(['n=7'], { s: ['a', 'b'], n: [1, 2] });
  assert.deepStrictEqual(combinations(options, filter), [{ n: 7, s: 'b' }]);
  assert.deepStrictEqual(seen, [7, 7]);
});

test('declarations that a command line cannot express are rejected', () => {
  const refusals = [
    [{ n: [{}] }, 'configuration "n" had type object'],
    [{ n: [undefined] }, 'configuration "n" had type undefined'],
    [{ n: [1n] }, 'configuration "n" had type bigint'],
    [{ n: [1, 'a'] }, 'configuration "n" has mixed types'],
  ];
  for (const [options, message] of refusals) {
    assert.throws(() => combinations(options, everything), { name: 'TypeError', message });
  }
  assert.throws(() => combinations({ n: [1] }, () => 1),
                { name: 'TypeError', message: 'Combination filter must always return a boolean' });
});

test('given values replace the declared ones, keep their order, and may repeat', () => {
  const options = optionsOf(['s=b', 's=a', 's=b'], { s: ['x'], n: [1] });
  assert.deepStrictEqual(options, { s: ['b', 'a', 'b'], n: [1] });
});

test('the first declared value determines the type', () => {
  const declared = { n: [1], s: ['a'], flag: [true, false] };
  const options = optionsOf(['n=1e6', 'n=', 'n=0x10', 's=12', 'flag=false', 'flag=true'], declared);
  assert.deepStrictEqual(options, { n: [1e6, 0, 16], s: ['12'], flag: [false, true] });
});

test('a value may be empty or contain anything, a name ends at the first equals sign after it', () => {
  const { options, extra } = parseArguments(['s=', 's=a=b\nc', '==x', '--foo=1', 'other=2', 'other=3'], { s: ['d'] }, {});
  assert.deepStrictEqual(options, { s: ['', 'a=b\nc'] });
  assert.deepStrictEqual(extra, { '=': 'x', '--foo': '1', 'other': '3' });
});

test('names of JavaScript\'s own object methods are ordinary extra keys', () => {
  assert.deepStrictEqual(parseArguments(['toString=1'], { n: [1] }, {}).extra, { toString: '1' });
});

test('arguments that are not pairs or do not have the declared type are rejected', () => {
  const declared = { n: [1], flag: [true] };
  for (const argument of ['abc', '--foo', '', '=', 'n=abc', 'flag=1']) {
    assert.throws(() => optionsOf([argument], declared), { message: `bad argument: ${argument}` });
  }
  assert.throws(() => optionsOf(['--test', '--test'], declared), { message: 'bad argument: --test' });
});

test('single declared values become lists in the caller\'s own object', () => {
  const declared = { n: 5, s: 'x y' };
  optionsOf([], declared);
  assert.deepStrictEqual(declared, { n: [5], s: ['x y'] });
});

test('test mode takes the first values, makes them quick, and does not change the declaration', () => {
  const declared = { n: [1e6, 2], small: [0.5], dur: [5], duration: 9, s: ['a', 'b'], one: 7 };
  assert.deepStrictEqual(optionsOf(['--test'], declared),
                         { n: [1], small: [0.5], dur: [0.05], duration: [0.05], s: ['a'], one: [1] });
  assert.strictEqual(declared.one, 7);
});

test('the file\'s own test values take precedence, and may add a parameter, which comes last', () => {
  const options = optionsOf(['--test'], { n: [1e6], s: ['a'] }, { test: { n: [2, 3], extra: 'x' } });
  assert.deepStrictEqual(Object.entries(options), [['n', [2, 3]], ['s', ['a']], ['extra', ['x']]]);
});

test('values given in test mode are added to the quick ones', () => {
  assert.deepStrictEqual(optionsOf(['n=9', '--test', 's=z'], { n: [1e6], s: ['a'] }), { n: [1, 9], s: ['a', 'z'] });
});
