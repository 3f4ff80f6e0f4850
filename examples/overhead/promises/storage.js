'use strict';

// The services of an upload: accounts, a blob store and a database, all simulated. They call back immediately: the
// caller still waits for a turn of the promise queue, so the time is spent on promises, not on timers.
// `promised(call, ...words)` is such a call as a promise.

let blobs = 0;

const account = (name, done) => done(null, { name, quota: 1 << 20 });
const begin = (owner, done) => done(null, { owner: owner.name, steps: 0 });
const put = (size, done) => done(null, { id: blobs++ & 1023, size });
// Every name with an even number of characters is new.
const find = (name, done) => done(null, name.length % 2 === 0 ? null : { name, versions: 3 });
const commit = (transaction, done) => done(null, transaction.steps);

function insert(transaction, record, done) {
  transaction.steps += 1;
  done(null, { ...record, row: transaction.steps });
}

function promised(call, ...words) {
  return new Promise((resolve, reject) => {
    call(...words, (error, answer) => {
      if (error) reject(error);
      else resolve(answer);
    });
  });
}

module.exports = { account, begin, commit, find, insert, promised, put };
