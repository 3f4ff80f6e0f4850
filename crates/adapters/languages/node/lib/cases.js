'use strict';

// Decides which cases a file has: how its command line changes the declared parameters (`name=value` pairs and
// `--test`), and how their values are combined and filtered. Independent of processes and measurement. Groups of
// parameters are in groups.js.

/** `name=value`; the name ends at the first `=` that leaves it non-empty, the value may contain anything. */
const PAIR = /^(.+?)=([^]*)$/;

/** Duration in seconds in test mode. */
const TEST_SECONDS = 0.05;

/** An invalid command line. The file exits with status 1 and only this message. */
class BadArgument extends Error {
  constructor(argument) {
    super(`bad argument: ${argument}`);
    this.name = 'BadArgument';
  }
}

/**
 * Splits `argv` into `options` (declared parameters, each a list of values) and `extra` (other names, text).
 *
 * Given values replace those of a declared parameter, in order and with repeats; its type is that of the first
 * declared value. As in Node core, single values in the caller's `parameters` are replaced by lists of one outside
 * test mode, for callers who use that object later.
 */
function parseArguments(argv, parameters, options) {
  const pairs = argv.filter((argument) => argument !== '--test');
  if (pairs.length + 1 < argv.length) throw new BadArgument('--test');
  const testing = pairs.length < argv.length;
  const given = testing ? testValues(parameters, options.test) : {};
  if (!testing) listify(parameters);

  const extra = {};
  for (const argument of pairs) {
    const match = PAIR.exec(argument);
    if (!match) throw new BadArgument(argument);
    const [, name, text] = match;
    if (!Object.hasOwn(parameters, name)) {
      extra[name] = text;
      continue;
    }
    if (!Object.hasOwn(given, name)) given[name] = [];
    given[name].push(typed(text, parameters[name][0], argument));
  }
  return { options: { ...parameters, ...given }, extra };
}

/** Parses `text` as a value of a parameter whose first declared value is `sample`. */
function typed(text, sample, argument) {
  if (typeof sample === 'number') {
    const number = Number(text);
    // A benchmark that gets NaN loops zero times and reports a rate of NaN, so only an explicit NaN is accepted.
    if (Number.isNaN(number) && text !== 'NaN') throw new BadArgument(argument);
    return number;
  }
  if (typeof sample === 'boolean') {
    if (text !== 'true' && text !== 'false') throw new BadArgument(argument);
    return text === 'true';
  }
  return text;
}

function listify(parameters) {
  for (const name of Object.keys(parameters)) {
    if (!Array.isArray(parameters[name])) parameters[name] = [parameters[name]];
  }
}

/** One quick value per parameter: the first one, made small, unless the file provides test values. */
function testValues(parameters, overrides) {
  const values = {};
  for (const [name, declared] of Object.entries(parameters)) {
    values[name] = [quick(name, Array.isArray(declared) ? declared[0] : declared)];
  }
  for (const [name, value] of Object.entries(overrides || {})) {
    values[name] = Array.isArray(value) ? value : [value];
  }
  return values;
}

/** The quick substitute of one value: counts become 1, durations become short, everything else stays. */
function quick(name, value) {
  if (typeof value !== 'number') return value;
  if (name === 'dur' || name === 'duration') return TEST_SECONDS;
  return value > 1 ? 1 : value;
}

const LEGAL_TYPES = new Set(['number', 'string', 'boolean']);

/**
 * All allowed combinations of `options` (name -> list of values). The first name varies slowest. Inside each case,
 * names are in reverse order of declaration, because results have always been printed that way and existing
 * results are joined by that text. Throws TypeError for values that a command line cannot express.
 */
function combinations(options, filter) {
  const names = Object.keys(options);
  const cases = [];

  function extend(position, chosen) {
    if (position === names.length) {
      if (allowed(filter, chosen)) cases.push(chosen);
      return;
    }
    const name = names[position];
    const values = options[name];
    for (const value of values) {
      checkType(name, value, values[0]);
      extend(position + 1, { [name]: value, ...chosen });
    }
  }

  if (names.length === 0) return [{}];
  extend(0, {});
  return cases;
}

function checkType(name, value, first) {
  if (!LEGAL_TYPES.has(typeof value)) {
    throw new TypeError(`configuration "${name}" had type ${typeof value}`);
  }
  if (typeof value !== typeof first) {
    throw new TypeError(`configuration "${name}" has mixed types`);
  }
}

/** The filter gets a copy, so that it cannot change the case. */
function allowed(filter, chosen) {
  const verdict = filter({ ...chosen });
  if (typeof verdict !== 'boolean') {
    throw new TypeError('Combination filter must always return a boolean');
  }
  return verdict;
}

Object.assign(exports, { BadArgument, parseArguments, quick, combinations });
