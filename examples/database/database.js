'use strict';
// A PostgreSQL server of this process: in a folder of its own, on a socket there, gone with the process.

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Connection } = require('./client.js');

const USER = 'speedwell';
// PostgreSQL refuses to be started by root.
const NOBODY = process.getuid() === 0 ? { uid: 65534, gid: 65534 } : {};

/** The folder of the programs, which Debian leaves out of the search path. */
function programs() {
  const debian = '/usr/lib/postgresql';
  const versions = fs.existsSync(debian) ? fs.readdirSync(debian).sort((a, b) => b - a) : [];
  const folders = [
    ...process.env.PATH.split(path.delimiter),
    ...versions.map((version) => path.join(debian, version, 'bin')),
  ];
  const found = folders.find((folder) => fs.existsSync(path.join(folder, 'initdb')));
  if (found === undefined) throw new Error('PostgreSQL is not installed');
  return found;
}

function run(program, args) {
  const done = spawnSync(program, args, { cwd: '/', ...NOBODY, encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`${program}: ${done.stderr || done.error}`);
}

/** Starts a database, and gives its socket and a function that ends it. */
async function start() {
  const bin = programs();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'database-'));
  const data = path.join(folder, 'data');
  if (NOBODY.uid !== undefined) fs.chownSync(folder, NOBODY.uid, NOBODY.gid);
  run(path.join(bin, 'initdb'), ['-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '-D', data]);
  const options = ['-D', data, '-k', folder, '-c', 'listen_addresses='];
  const server = spawn(path.join(bin, 'postgres'), options, { cwd: '/', ...NOBODY, stdio: 'ignore' });
  const ended = new Promise((resolve) => { server.once('exit', resolve); });
  const socket = path.join(folder, '.s.PGSQL.5432');
  for (;;) {
    if (server.exitCode !== null) throw new Error('PostgreSQL ended before it could be asked');
    try {
      // It listens before it lets anybody in.
      (await Connection.open(socket, USER)).close();
      break;
    } catch {
      await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
  }
  const stop = async () => {
    // A fast shutdown: connections are closed, what was written is kept (postgres(1)).
    server.kill('SIGINT');
    await ended;
    fs.rmSync(folder, { recursive: true });
  };
  return { socket, user: USER, stop };
}

module.exports = { start };
