'use strict';

// Decides the cases of a file that declares groups: `parameters` is then `{ groupName: parameters }` and every
// group has its own product. The group is an ordinary parameter named `group`, declared before all others, so that
// cases of two groups always differ and a command line can select one case.

const { combinations, parseArguments } = require('./cases.js');

const GROUP = 'group';

/**
 * Cases of all selected groups, in the order of declaration. Groups are selected by `group=NAME` arguments, else by
 * the comma-separated environment variable NODE_RUN_BENCHMARK_GROUPS; by default all are.
 */
function groupedCases(argv, groups, options, filter) {
  const wanted = selection(argv, Object.keys(groups));
  const otherArguments = argv.filter((argument) => !argument.startsWith(`${GROUP}=`));
  const declared = {};
  const cases = [];
  let extra = {};
  for (const name of wanted) {
    const parameters = { ...groups[name] };
    const parsed = parseArguments(ownArguments(otherArguments, parameters, groups), { [GROUP]: [name], ...parameters }, options);
    cases.push(...combinations({ ...parsed.options, [GROUP]: [name] }, filter));
    merge(declared, parsed.options);
    extra = { ...extra, ...parsed.extra };
  }
  return { options: declared, extra, cases };
}

/** Omits values of parameters that only other groups declare: they are not extra keys of this one. */
function ownArguments(argv, parameters, groups) {
  const foreign = new Set(Object.values(groups).flatMap((group) => Object.keys(group)));
  return argv.filter((argument) => {
    const name = argument.slice(0, argument.indexOf('=', 1));
    return Object.hasOwn(parameters, name) || !foreign.has(name);
  });
}

function selection(argv, declared) {
  const given = argv.filter((argument) => argument.startsWith(`${GROUP}=`))
    .map((argument) => argument.slice(GROUP.length + 1));
  const fromEnvironment = process.env.NODE_RUN_BENCHMARK_GROUPS;
  const wanted = given.length > 0 ? given : fromEnvironment ? fromEnvironment.split(',') : declared;
  for (const name of wanted) {
    if (!declared.includes(name)) throw new TypeError(`benchmark group "${name}" is not declared`);
  }
  return wanted;
}

/** Union of the values seen per parameter, for the description of the file. */
function merge(declared, options) {
  for (const [name, values] of Object.entries(options)) {
    declared[name] = [...new Set([...(declared[name] || []), ...values])];
  }
}

exports.groupedCases = groupedCases;
