'use strict';

const fastify = require('fastify')();
const { HOST, port, untilSignal } = require('./lifecycle.js');

const schema = {
  response: { 200: { type: 'object', properties: { hello: { type: 'string' } } } },
};

fastify.get('/', { schema }, (request, reply) => {
  reply.send({ hello: 'world' });
});

fastify.listen({ port: port(), host: HOST });
untilSignal(fastify.server, () => fastify.close());
