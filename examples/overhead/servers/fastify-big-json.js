'use strict';

// A large response: serializing it is most of the work.

const fastify = require('fastify')();
const { HOST, port, untilSignal } = require('./lifecycle.js');

const ENTRIES = 200;

const schema = {
  response: {
    200: {
      type: 'array',
      items: {
        type: 'object',
        properties: { id: { type: 'integer' }, title: { type: 'string' }, employer: { type: 'string' } },
      },
    },
  },
};

// The response is built for each request: a reused object would be serialized from warm caches only.
fastify.get('/', { schema }, (request, reply) => {
  const entries = [];
  for (let id = 0; id < ENTRIES; id++) {
    entries.push({ id, title: 'software engineer', employer: 'fastify' });
  }
  reply.send(entries);
});

fastify.listen({ port: port(), host: HOST });
untilSignal(fastify.server, () => fastify.close());
