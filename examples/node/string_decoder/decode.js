'use strict';

// Decoding a text that arrives in chunks: how much do the encoding and the size of the chunks matter?

const { StringDecoder } = require('string_decoder');
const { createBenchmark } = require('speedwell');

const bench = createBenchmark(main, {
  encoding: ['ascii', 'utf8', 'utf16le', 'base64'],
  chunkLen: [16, 64, 256],
  n: [200e3],
});

const PATTERNS = { utf8: 'Ehrenpreis blüht blau, €3. ', utf16le: 'Ehrenpreis blüht blau, €3. ' };
const TEXT_BYTES = 65536;

/** A long text, split without regard to characters: the decoder has to join the parts. */
function chunksOf(encoding, chunkLen) {
  const pattern = PATTERNS[encoding] || 'speedwell blooms blue. ';
  const bytes = Buffer.alloc(TEXT_BYTES, pattern, encoding === 'base64' ? 'latin1' : encoding);
  const chunks = [];
  for (let offset = 0; offset < bytes.length; offset += chunkLen) chunks.push(bytes.subarray(offset, offset + chunkLen));
  return chunks;
}

function main({ encoding, chunkLen, n }) {
  const decoder = new StringDecoder(encoding);
  const chunks = chunksOf(encoding, chunkLen);
  let characters = 0;
  bench.start();
  for (let i = 0; i < n; i++) characters += decoder.write(chunks[i % chunks.length]).length;
  bench.end(n);
  bench.check(`${characters} characters`);
}
