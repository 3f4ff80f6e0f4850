'use strict';

// The server that uses promises most: its whole request lifecycle is awaited step by step.

const Hapi = require('@hapi/hapi');
const { HOST, port, untilSignal } = require('./lifecycle.js');

const server = Hapi.server({ port: port(), host: HOST, debug: false });

server.route({
  method: 'GET',
  path: '/',
  options: { cache: false },
  handler: async () => ({ hello: 'world' }),
});

server.start();
untilSignal(server.listener, () => server.stop({ timeout: 1000 }));
