'use strict';
// A PostgreSQL server for this process: in a temporary folder, on a socket there or at a port, stopped with the
// process.
//   node database.js --host=127.0.0.1 --port=5432           serves until SIGTERM
//   node database.js --host=127.0.0.1 --port=5432 --ask     succeeds once that server accepts connections

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { Connection } = require('./client.js');

const USER = 'speedwell';
// PostgreSQL refuses to run as root.
const NOBODY = process.getuid() === 0 ? { uid: 65534, gid: 65534 } : {};

/** The folder of the programs, which Debian does not add to PATH. */
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

/** Starts a database; returns its socket and a function that stops it. With a port, it also serves its machine's
 * networks. */
async function start(place) {
  const bin = programs();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'database-'));
  const data = path.join(folder, 'data');
  if (NOBODY.uid !== undefined) fs.chownSync(folder, NOBODY.uid, NOBODY.gid);
  run(path.join(bin, 'initdb'), ['-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '-D', data]);
  if (place) fs.appendFileSync(path.join(data, 'pg_hba.conf'), 'host all all samenet trust\n');
  const listen = place ? ['-p', place.port, '-c', `listen_addresses=${place.host}`] : ['-c', 'listen_addresses='];
  const options = ['-D', data, '-k', folder, ...listen];
  const server = spawn(path.join(bin, 'postgres'), options, { cwd: '/', ...NOBODY, stdio: 'ignore' });
  const ended = new Promise((resolve) => { server.once('exit', resolve); });
  const socket = path.join(folder, `.s.PGSQL.${place ? place.port : 5432}`);
  for (;;) {
    if (server.exitCode !== null) throw new Error('PostgreSQL exited before it accepted connections');
    try {
      // It listens before it accepts logins.
      (await Connection.open(socket, USER)).close();
      break;
    } catch {
      await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
  }
  const stop = async () => {
    // A fast shutdown: closes connections, keeps committed data (postgres(1)).
    server.kill('SIGINT');
    await ended;
    fs.rmSync(folder, { recursive: true });
  };
  return { socket, user: USER, stop };
}

async function main() {
  const { values: options } = parseArgs({
    options: { host: { type: 'string' }, port: { type: 'string' }, ask: { type: 'boolean', default: false } },
  });
  const place = { host: options.host, port: options.port };
  if (options.ask) {
    (await Connection.open(place, USER)).close();
    return;
  }
  const database = await start(place);
  process.once('SIGTERM', database.stop);
}

if (require.main === module) {
  main().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}

module.exports = { start, USER };
