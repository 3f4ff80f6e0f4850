'use strict';
// A web server in front of PostgreSQL: GET /N answers with the name of article N. It starts and stops its own database
// unless it gets the address of one.
//   node server.js --port=8080 --query=simple|prepared --connections=4 --rows=10000
//   node server.js --port=8080 --host=10.0.0.5 --database=10.0.0.6:5432

const http = require('node:http');
const { parseArgs } = require('node:util');
const { Connection } = require('./client.js');
const { start, USER } = require('./database.js');

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '8080' },
    query: { type: 'string', default: 'prepared' },
    connections: { type: 'string', default: '4' },
    rows: { type: 'string', default: '10000' },
    host: { type: 'string' },
    database: { type: 'string' },
  },
});

const STATEMENT = `SELECT a.name || ' by ' || w.name FROM article a JOIN writer w ON w.id = a.writer WHERE a.id = `;

const queries = {
  simple: (connection, id) => connection.simple(`${STATEMENT}${id}`),
  prepared: (connection, id) => connection.prepared('article', `${STATEMENT}$1`, [id]),
};

/** Creates deterministic tables. */
async function fill(connection, rows) {
  await connection.simple(`
    CREATE TABLE writer (id int PRIMARY KEY, name text NOT NULL);
    CREATE TABLE article (id int PRIMARY KEY, writer int NOT NULL REFERENCES writer, name text NOT NULL);
    INSERT INTO writer SELECT n, 'writer ' || n FROM generate_series(0, 99) n;
    INSERT INTO article SELECT n, n % 100, 'article ' || n FROM generate_series(0, ${rows - 1}) n;
    ANALYZE`);
}

/** A running database, which is not stopped. */
function running(place) {
  const colon = place.lastIndexOf(':');
  const socket = { host: place.slice(0, colon), port: Number(place.slice(colon + 1)) };
  return { socket, user: USER, stop: async () => {} };
}

/** Listens at once, so that no other process takes the port, and answers 503 until the database is ready. */
async function main() {
  const query = queries[options.query];
  const rows = Number(options.rows);
  if (query === undefined || !(rows > 0)) throw new Error('missing --query or --rows');
  const opened = [];
  let isReady = false;
  let turn = 0;
  const server = http.createServer(async (request, response) => {
    if (!isReady) {
      response.statusCode = 503;
      response.end();
      return;
    }
    // Requests go through the articles in turn, so that all variants get the same ones.
    const id = request.url === '/' ? turn % rows : Number(request.url.slice(1));
    turn += 1;
    try {
      if (!Number.isSafeInteger(id)) throw new Error('not a number');
      const found = await query(opened[turn % opened.length], id);
      response.statusCode = found.length === 1 ? 200 : 404;
      response.end(found.length === 1 ? found[0][0] : '');
    } catch (error) {
      response.statusCode = 500;
      response.end(error.message);
    }
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: Number(options.port), host: options.host }, resolve);
  });
  const database = options.database ? running(options.database) : await start();
  const stop = async () => {
    server.close();
    server.closeAllConnections();
    opened.forEach((connection) => connection.close());
    await database.stop();
  };
  process.once('SIGTERM', stop);
  try {
    for (let left = Number(options.connections); left > 0; left -= 1) {
      opened.push(await Connection.open(database.socket, database.user));
    }
    await fill(opened[0], rows);
    isReady = true;
  } catch (error) {
    await stop();
    throw error;
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
