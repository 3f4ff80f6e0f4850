'use strict';

// Sample query strings for benchmarks of query parsing. The kinds have the names that Node core's
// benchmarks request; the strings are our own, and each shows what its kind's name says.

const letters = 'abcdefghijklmnopqrstuvwxyz'.split('');

exports.searchParams = {
  noencode: 'leaf=oval&bloom=blue&height=low',
  multicharsep: `leaf=oval${'&'.repeat(10)}bloom=blue${'&'.repeat(10)}height=low`,
  encodefake: 'leaf=%üval&bloom=%B¡lue&height=%üow',
  encodemany: '%6C%65%61%66=oval&%62lo%6F%6D=blue&height=%6Co%77',
  encodelast: 'leaf=oval&bloom=blue&height=lo%77',
  multivalue: 'leaf=oval&leaf=round&leaf=narrow&bloom=blue',
  multivaluemany: 'leaf=oval&leaf=round&leaf=narrow&bloom=blue&leaf=toothed&leaf=smooth&leaf=hairy&' +
    'leaf=glossy&leaf=dark&leaf=pale&leaf=paired&leaf=single',
  manypairs: letters.join('&'),
  manyblankpairs: '&'.repeat(24),
  altspaces: 'leaf+shape=long+oval&bloom=blue&full+height=very+low&soil=half+dry',
};
