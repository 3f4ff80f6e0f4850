'use strict';

// Changing the encoding of a text: by node's transcode, or through a string.

const { transcode } = require('buffer');
const { createBenchmark } = require('speedwell');

const bench = createBenchmark(main, {
  direction: ['utf8-utf16le', 'utf16le-utf8', 'latin1-utf8'],
  method: ['transcode', 'string'],
  characters: [16, 256],
  n: [30e3],
});

function main({ direction, method, characters, n }) {
  const [from, to] = direction.split('-');
  const source = Buffer.from('é'.repeat(characters), from);
  let bytes = 0;
  bench.start();
  if (method === 'transcode') {
    for (let i = 0; i < n; i++) bytes += transcode(source, from, to).length;
  } else {
    for (let i = 0; i < n; i++) bytes += Buffer.from(source.toString(from), to).length;
  }
  bench.end(n);
  bench.check(`${bytes} bytes`);
}
