// The benchmarks of a Node core folder: which directories are groups and which entries are benchmarks.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** `group/file.js`, or `group/name` for a folder with an index.js, in alphabetical order. */
export function benchmarksOf(folder) {
  const groups = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'fixtures')
    .map((entry) => entry.name)
    .sort();
  return groups.flatMap((group) => entriesOf(folder, group).map((entry) => `${group}/${entry}`));
}

function entriesOf(folder, group) {
  return readdirSync(join(folder, group), { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.') && !name.startsWith('_'))
    .filter((entry) => entry.name.endsWith('.js') || existsSync(join(folder, group, entry.name, 'index.js')))
    .map((entry) => entry.name)
    .sort();
}
