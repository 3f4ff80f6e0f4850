'use strict';

const restify = require('restify');
const { closed, HOST, port, untilSignal } = require('./lifecycle.js');

const server = restify.createServer();

server.get('/', (request, response, next) => {
  response.send({ hello: 'world' });
  return next();
});

server.listen(port(), HOST);
untilSignal(server.server, () => closed(server));
