'use strict';

// The same upload with chains of then(): variables around them keep what later links need.

const { measure } = require('./measure.js');
const { account, begin, commit, find, insert, promised, put } = require('./storage.js');

const UPLOADS = 1000;

function upload(name, size) {
  let transaction;
  let blob;
  let existing;
  let version;
  return promised(account, 'someone')
    .then((owner) => promised(begin, owner))
    .then((begun) => {
      transaction = begun;
      return promised(put, size);
    })
    .then((stored) => {
      blob = stored;
      return promised(find, name);
    })
    .then((found) => {
      existing = found;
      return promised(insert, transaction, { blob: blob.id, size: blob.size });
    })
    .then((inserted) => {
      version = inserted;
      return existing ?? promised(insert, transaction, { name, versions: 0 });
    })
    .then((file) => promised(insert, transaction, { file: file.name, version: version.row }))
    .then(() => promised(commit, transaction));
}

function work() {
  let steps = 0;
  const next = (at) => (at === UPLOADS ? steps : upload(`file${at}`, at).then((taken) => {
    steps += taken;
    return next(at + 1);
  }));
  return Promise.resolve(0).then(next);
}

// file10 to file99 are new and need a third step.
measure(__filename, work, { expected: UPLOADS * 2 + 90, warmup: 10, rounds: 50 });
