'use strict';

// Express behind the usual middleware that sets security headers.

const express = require('express');
const { closed, HOST, port, untilSignal } = require('./lifecycle.js');

const app = express();
app.disable('etag');
app.disable('x-powered-by');

app.use(require('cors')());
app.use(require('dns-prefetch-control')());
app.use(require('frameguard')());
app.use(require('hide-powered-by')());
app.use(require('hsts')());
app.use(require('ienoopen')());
app.use(require('x-xss-protection')());

app.get('/', (request, response) => {
  response.json({ hello: 'world' });
});

const server = app.listen(port(), HOST);
untilSignal(server, () => closed(server));
