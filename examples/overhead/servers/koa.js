'use strict';

const Koa = require('koa');
const { closed, HOST, port, untilSignal } = require('./lifecycle.js');

const app = new Koa();

app.use((context) => {
  if (context.path === '/') context.body = { hello: 'world' };
});

const server = app.listen(port(), HOST);
untilSignal(server, () => closed(server));
