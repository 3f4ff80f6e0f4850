'use strict';

// A calculation worker: receives { index, n }, sends { index, number }.

const { fibonacci } = require('./numbers.js');
const { obeyMain, say } = require('./obedience.js');

process.on('message', ({ index, n }) => say({ index, number: fibonacci(n) }));

obeyMain();
