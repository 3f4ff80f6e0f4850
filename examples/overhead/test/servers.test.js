'use strict';

// Each server gives the answer that the definition file expects, with the collector loaded, and stops on a
// signal.

const test = require('node:test');
const assert = require('node:assert');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { once } = require('node:events');
const { spawn } = require('node:child_process');
const { setTimeout: wait } = require('node:timers/promises');
const { ROOT } = require('./loaded.js');
const { freePort } = require('../../../crates/adapters/languages/node/test/running/port.js');

const FOLDER = path.join(ROOT, 'servers');
const HELLO = '{"hello":"world"}';

const SERVERS = {
  'node-http': {},
  'fastify': {},
  'express': {},
  'hapi': {},
  'koa': {},
  'restify': {},
  'express-route-prefix': { path: '/greet/hello', nothing: '/' },
  'express-with-middlewares': {},
  'fastify-big-json': { entries: 200 },
};

const major = Number(process.versions.node.split('.')[0]);

function reasonToSkip(name) {
  if (name !== 'node-http' && !fs.existsSync(path.join(FOLDER, 'node_modules', '.package-lock.json'))) {
    return 'not installed: npm ci --ignore-scripts --prefix examples/overhead/servers';
  }
  // Its spdy package needs a binding that Node has removed.
  return name === 'restify' && major >= 24 ? 'restify 11 does not start with this version of Node.js' : false;
}

async function get(port, url, agent) {
  const request = http.get({ host: '127.0.0.1', port, path: url, agent });
  const [response] = await once(request, 'response');
  let text = '';
  for await (const part of response) text += part;
  return { status: response.statusCode, text };
}

// The first response of a starting server.
async function firstAnswer(child, port, url, agent) {
  while (child.exitCode === null) {
    try {
      return await get(port, url, agent);
    } catch {
      await wait(50);
    }
  }
  throw new Error(`it ended with status ${child.exitCode}`);
}

async function answersAndStops(name, { path: url = '/', nothing = '/nothing', entries }) {
  const port = await freePort();
  const words = ['--no-warnings', '--require=../collector.js', `${name}.js`, `--port=${port}`];
  const child = spawn(process.execPath, words, { cwd: FOLDER, env: { ...process.env, CC_MODE: 'uncaught' } });
  let stderr = '';
  child.stderr.on('data', (text) => { stderr += text; });
  const agent = new http.Agent({ keepAlive: true });
  try {
    const { status, text } = await firstAnswer(child, port, url, agent);
    assert.strictEqual(status, 200);
    if (entries === undefined) assert.strictEqual(text, HELLO);
    else assert.strictEqual(JSON.parse(text).length, entries);
    assert.strictEqual((await get(port, nothing, agent)).status, 404);
    // The agent keeps a connection open, which must not delay the exit.
    child.kill('SIGINT');
    const [exit] = await once(child, 'close');
    assert.strictEqual(exit, 0, stderr);
    assert.match(stderr, /\{"collector":\{"mode":"uncaught","pauses":\d+\}\}\n$/);
  } finally {
    agent.destroy();
    child.kill('SIGKILL');
  }
}

for (const [name, expected] of Object.entries(SERVERS)) {
  test(name, { skip: reasonToSkip(name) }, () => answersAndStops(name, expected));
}

test('the definition file measures all of them', () => {
  const text = fs.readFileSync(path.join(ROOT, 'overhead.toml'), 'utf8');
  for (const name of Object.keys(SERVERS)) assert.ok(text.includes(`"${name}"`), name);
});
