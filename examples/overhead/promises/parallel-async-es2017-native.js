'use strict';

// Many concurrent queries: all are started, then all are awaited.

const { measure } = require('./measure.js');
const { begin, commit, insert, promised } = require('./storage.js');

const QUERIES = 10_000;

async function query(transaction, at) {
  const { row } = await promised(insert, transaction, { at });
  return row;
}

async function work() {
  const transaction = await promised(begin, { name: 'someone' });
  const queries = [];
  for (let at = 0; at < QUERIES; at++) {
    queries.push(query(transaction, at));
  }
  const rows = await Promise.all(queries);
  const steps = await promised(commit, transaction);
  return steps === rows.at(-1) ? steps : -1;
}

measure(__filename, work, { expected: QUERIES, warmup: 5, rounds: 25 });
