'use strict';

const express = require('express');
const { closed, HOST, port, untilSignal } = require('./lifecycle.js');

const app = express();
app.disable('etag');
app.disable('x-powered-by');

app.get('/', (request, response) => {
  response.json({ hello: 'world' });
});

const server = app.listen(port(), HOST);
untilSignal(server, () => closed(server));
