'use strict';

// Six topologies, one behavior: the same answers, a graceful end, no leftovers.

const test = require('node:test');
const assert = require('node:assert');
const net = require('node:net');
const { once } = require('node:events');
const { leftovers, Started } = require('./started.js');

const SHAPES = {
  red: { path: '/fib/randomfib', words: ['--fib=2'], children: 3 },
  green: { path: '/fib/randomfib', words: ['--http=2', '--fib=2'], children: 5 },
  blue: { path: '/fib/randomfib2', words: ['--fib=2'], children: 3 },
  purple: { path: '/fib/randomfib2', words: ['--http=2', '--fib=2'], children: 5 },
  brown: { path: '/fib/randomfib3', words: ['--fib=2'], children: 3 },
  cyan: { path: '/fib/randomfib3', words: ['--http=2', '--fib=2'], children: 5 },
};

// 1, 2, 3, 5, 8 ... : the numbers for n from 1 to 30, with fib(0) = fib(1) = 1.
const FIBONACCI = [1, 2];
while (FIBONACCI.length < 30) FIBONACCI.push(FIBONACCI.at(-1) + FIBONACCI.at(-2));

async function answers(server, count, path) {
  const texts = [];
  for (let i = 0; i < count; i++) texts.push((await server.get(path)).text);
  return texts.join(' ');
}

test('all topologies get the same numbers in the same order', { concurrency: true }, async (t) => {
  const sequences = new Map();
  await Promise.all(Object.entries(SHAPES).map(([name, { path, words, children }]) => t.test(name, async () => {
    const server = await Started.listening('--seed=7', ...words);
    try {
      assert.strictEqual(server.children().length, children);
      assert.strictEqual((await server.get('/elsewhere')).status, 404);
      assert.strictEqual((await server.get('/fib/fib')).status, 404);
      assert.strictEqual((await server.get(path, 'POST')).status, 404);
      sequences.set(name, await answers(server, 30, path));
    } finally {
      await server.remove();
    }
  })));
  const red = sequences.get('red');
  for (const [name, sequence] of sequences) assert.strictEqual(sequence, red, name);
  assert.strictEqual(sequences.size, 6);
  for (const text of red.split(' ')) assert.ok(FIBONACCI.includes(Number(text)), text);
  assert.ok(new Set(red.split(' ')).size > 10, red);
});

for (const words of [['--fib=1'], ['--http=1', '--fib=1']]) {
  test(`POST /fib requests a specific number (${words[0]})`, async () => {
    const server = await Started.listening(...words);
    try {
      for (const [url, body] of [['/fib?number=10', ''], ['/fib', 'number=10'], ['/fib', '{"number": 10}']]) {
        assert.deepStrictEqual(await server.get(url, 'POST', body), { status: 200, text: '89' });
      }
      for (const number of ['0', '41', '-1', '1.5', 'x', '']) {
        const { status, text } = await server.get('/fib', 'POST', `number=${number}`);
        assert.deepStrictEqual([status, text], [400, 'n must be between 1 and 40'], number);
      }
      assert.strictEqual((await server.get('/fib')).status, 404);
    } finally {
      await server.remove();
    }
  });
}

test('concurrent requests get the same numbers as sequential ones', async () => {
  const [one, many] = await Promise.all([Started.listening('--seed=3', '--fib=1'),
                                         Started.listening('--seed=3', '--http=2', '--fib=2')]);
  try {
    const wanted = (await answers(one, 60)).split(' ');
    const given = await Promise.all(Array.from({ length: 60 }, () => many.get('/fib/randomfib3')));
    assert.deepStrictEqual(given.map(({ text }) => text).sort(), wanted.sort());
  } finally {
    await Promise.all([one.remove(), many.remove()]);
  }
});

for (const name of ['red', 'green', 'brown', 'cyan']) {
  test(`${name} answers received requests when stopped, and leaves no processes`, async () => {
    const server = await Started.listening(...SHAPES[name].words);
    const children = server.children();
    const socket = net.connect(server.port, '127.0.0.1');
    let text = '';
    socket.on('data', (part) => { text += part; });
    // In one write: when the first is answered, all have arrived.
    socket.write(`GET ${SHAPES[name].path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(100));
    await once(socket, 'data');
    server.process.kill('SIGTERM');
    await once(socket, 'close');
    assert.strictEqual(text.split('HTTP/1.1 200 OK').length - 1, 100);
    assert.strictEqual(await server.ended, 0, server.stderr);
    assert.strictEqual(server.stderr, '');
    assert.deepStrictEqual(await leftovers(children), []);
  });
}

test('a client that keeps sending requests is disconnected', async () => {
  const server = await Started.listening('--fib=1');
  await server.get();
  server.process.kill('SIGTERM');
  const asking = (async () => {
    for (;;) await server.get('/fib/randomfib2');
  })();
  await assert.rejects(asking);
  assert.strictEqual(await server.ended, 0, server.stderr);
});

test('an open connection without a request does not delay the exit', async () => {
  const server = await Started.listening('--http=1');
  const socket = net.connect(server.port, '127.0.0.1');
  await once(socket, 'connect');
  await server.get();
  server.process.kill('SIGTERM');
  assert.strictEqual(await server.ended, 0, server.stderr);
  socket.destroy();
});

for (const name of ['green', 'brown']) {
  test(`no process of ${name} survives when its main process is killed`, async () => {
    const server = await Started.listening(...SHAPES[name].words);
    const children = server.children();
    assert.strictEqual(children.length, SHAPES[name].children);
    await server.remove();
    assert.deepStrictEqual(await leftovers(children), []);
  });

  test(`${name} reports a worker's death and exits with status 1`, async () => {
    const server = await Started.listening(...SHAPES[name].words);
    const children = server.children();
    process.kill(children[0], 'SIGKILL');
    assert.strictEqual(await server.ended, 1);
    assert.match(server.stderr, /^server\.js: (HTTP|calculation) worker 1 ended with signal SIGKILL\n$/);
    assert.deepStrictEqual(await leftovers(children), []);
  });
}

test('a port in use is an error, with and without HTTP workers', async () => {
  const holder = await Started.listening();
  try {
    for (const words of [[], ['--http=2']]) {
      const server = new Started(`--port=${holder.port}`, ...words);
      assert.strictEqual(await server.ended, 1);
      assert.match(server.stderr, /EADDRINUSE/);
    }
  } finally {
    await holder.remove();
  }
});

test('an unknown argument is a usage error', async () => {
  for (const word of ['--fib=0', '--https=2', '--fib=two', '--port=70000']) {
    const server = new Started(word);
    assert.strictEqual(await server.ended, 2);
    assert.match(server.stderr, /usage: node server\.js/);
  }
});
