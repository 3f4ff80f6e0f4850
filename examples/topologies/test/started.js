'use strict';

// A started server.js: its output, its children, its end.

const http = require('node:http');
const path = require('node:path');
const { once } = require('node:events');
const { execFileSync, spawn } = require('node:child_process');
const { setTimeout: wait } = require('node:timers/promises');

const SERVER = path.join(__dirname, '..', 'server.js');

class Started {
  stdout = '';
  stderr = '';

  constructor(...words) {
    this.process = spawn(process.execPath, [SERVER, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.process.stdout.on('data', (text) => { this.stdout += text; });
    this.process.stderr.on('data', (text) => { this.stderr += text; });
    this.ended = once(this.process, 'close').then(([status, signal]) => signal ?? status);
  }

  // A listening server, on a free port.
  static async listening(...words) {
    const server = new Started('--port=0', ...words);
    while (!server.stdout.includes('\n')) {
      const more = await Promise.race([once(server.process.stdout, 'data'), server.ended]);
      if (!Array.isArray(more)) throw new Error(`it ended with ${more}: ${server.stderr}`);
    }
    server.port = Number(/:(\d+)\n/.exec(server.stdout)[1]);
    server.agent = new http.Agent({ keepAlive: true });
    return server;
  }

  // Status and text of one response.
  async get(url = '/fib/randomfib', method = 'GET', body = undefined) {
    const request = http.request({ host: '127.0.0.1', port: this.port, path: url, method, agent: this.agent });
    request.end(body);
    const [response] = await once(request, 'response');
    let text = '';
    for await (const part of response) text += part;
    return { status: response.statusCode, text };
  }

  children() {
    return processes().filter(({ parent }) => parent === this.process.pid).map(({ pid }) => pid);
  }

  // Kills it; for the end of a test.
  async remove() {
    this.agent?.destroy();
    this.process.kill('SIGKILL');
    await this.ended;
  }
}

// All running processes, without zombies.
function processes() {
  return execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' }).trim().split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , state]) => !state.startsWith('Z'))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }));
}

// Those that are still running after enough time to notice a closed channel.
async function leftovers(pids) {
  let left = pids;
  for (let look = 0; look < 600 && left.length > 0; look++) {
    const running = new Set(processes().map(({ pid }) => pid));
    left = left.filter((pid) => running.has(pid));
    if (left.length > 0) await wait(100);
  }
  return left;
}

module.exports = { leftovers, Started };
