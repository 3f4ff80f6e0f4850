'use strict';

// Many concurrent queries, without async functions.

const { measure } = require('./measure.js');
const { begin, commit, insert, promised } = require('./storage.js');

const QUERIES = 10_000;

function query(transaction, at) {
  return promised(insert, transaction, { at }).then(({ row }) => row);
}

function work() {
  return promised(begin, { name: 'someone' }).then((transaction) => {
    const queries = [];
    for (let at = 0; at < QUERIES; at++) {
      queries.push(query(transaction, at));
    }
    return Promise.all(queries).then((rows) => promised(commit, transaction)
      .then((steps) => (steps === rows[rows.length - 1] ? steps : -1)));
  });
}

measure(__filename, work, { expected: QUERIES, warmup: 5, rounds: 25 });
