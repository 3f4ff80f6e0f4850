'use strict';

// An upload of a file as a chain of awaited calls: each needs the results of the
// previous ones.

const { measure } = require('./measure.js');
const { account, begin, commit, find, insert, promised, put } = require('./storage.js');

const UPLOADS = 1000;

async function upload(name, size) {
  const owner = await promised(account, 'someone');
  const transaction = await promised(begin, owner);
  const blob = await promised(put, size);
  const existing = await promised(find, name);
  const version = await promised(insert, transaction, { blob: blob.id, size: blob.size });
  const file = existing ?? await promised(insert, transaction, { name, versions: 0 });
  await promised(insert, transaction, { file: file.name, version: version.row });
  return promised(commit, transaction);
}

async function work() {
  let steps = 0;
  for (let i = 0; i < UPLOADS; i++) {
    steps += await upload(`file${i}`, i);
  }
  return steps;
}

// file10 to file99 are new and need a third step.
measure(__filename, work, { expected: UPLOADS * 2 + 90, warmup: 10, rounds: 50 });
