'use strict';

// Answers `describe`: executes a file without measuring and returns its parameters and cases.

const { caseArguments } = require('../case_arguments.js');
const { decodeList } = require('../wire.js');
const { quick } = require('../cases.js');
const { Outside } = require('../probe/outside.js');
const { HarnessError } = require('./error.js');
const { open } = require('./open.js');

async function describe(session, command) {
  const file = command.text('path');
  if (!file) throw new HarnessError('protocol', 'MissingKey', "describe needs 'path'");
  const argv = decodeList(command.fields.args || '');
  const fields = { id: command.id };
  const outside = new Outside();
  const { bench, options } = await open(session, { file, argv, root: command.text('root'), hooks: {}, fields, outside });
  const parameters = declared(bench);
  const cases = command.text('test') === '1' ? testCases(bench, options) : bench.queue.map((values) => ({ values }));
  session.channel.send('benchmark', {
    ...fields,
    name: bench.name,
    modes: ['once'],
    flags: bench.flags,
    setup: typeof options.setup === 'function' ? 1 : undefined,
    ...parameters,
  });
  for (const { values, measured } of cases) {
    session.channel.send('case', {
      ...fields, benchmark: bench.name, args: caseArguments(values), measured: measured && caseArguments(measured),
    });
  }
  session.channel.send('described', {
    ...fields, count: 1, cases: cases.length, program: process.execPath, versions: versions(), ...outside.summary(),
  });
}

/** Versions of node and its components, as `NAME=VERSION`. */
function versions() {
  return Object.entries(process.versions).map(([name, version]) => `${name}=${version}`);
}

/** `param.NAME` and `type.NAME` for every parameter. Integer-like names keep JavaScript's order. */
function declared(bench) {
  const fields = {};
  for (const [name, values] of Object.entries(bench.options)) {
    fields[`param.${name}`] = values;
    fields[`type.${name}`] = typeOf(values);
  }
  return fields;
}

function typeOf(values) {
  const [first] = values;
  if (typeof first === 'number') return values.every(Number.isInteger) ? 'int' : 'float';
  return typeof first === 'boolean' ? 'bool' : 'text';
}

/**
 * Every allowed case made quick, without duplicates, with the first case that it derives from: a quick value may
 * contradict another parameter. Node core tests only the first value of every parameter, so broken cases remain
 * undetected until they are measured.
 */
function testCases(bench, options) {
  const seen = new Map();
  for (const values of bench.queue) {
    for (const made of quickCases(values, options.test || {})) {
      const key = JSON.stringify(made);
      if (!seen.has(key)) seen.set(key, { values: made, measured: key === JSON.stringify(values) ? undefined : values });
    }
  }
  return [...seen.values()];
}

function quickCases(values, overrides) {
  let made = [{}];
  for (const [name, value] of Object.entries(values)) {
    const choices = Object.hasOwn(overrides, name) ? [].concat(overrides[name]) : [quick(name, value)];
    made = made.flatMap((chosen) => choices.map((choice) => ({ ...chosen, [name]: choice })));
  }
  return made;
}

exports.describe = describe;
