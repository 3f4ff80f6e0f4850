'use strict';

// No framework: the reference for the others.

const http = require('node:http');
const { closed, HOST, port, untilSignal } = require('./lifecycle.js');

const server = http.createServer((request, response) => {
  if (request.url !== '/') {
    response.writeHead(404).end();
    return;
  }
  const body = JSON.stringify({ hello: 'world' });
  response.writeHead(200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
});

server.listen(port(), HOST);
untilSignal(server, () => closed(server));
