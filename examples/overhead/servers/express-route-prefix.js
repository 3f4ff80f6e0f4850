'use strict';

// Routes below a prefix: /greet/hello exists, and / returns 404. A load of / would measure how fast an error page
// is created; the definition file sets the path.

const express = require('express');
const { closed, HOST, port, untilSignal } = require('./lifecycle.js');

const app = express();
app.disable('etag');
app.disable('x-powered-by');

const greetings = express.Router();
greetings.get('/hello', (request, response) => {
  response.json({ hello: 'world' });
});
app.use('/greet', greetings);

const server = app.listen(port(), HOST);
untilSignal(server, () => closed(server));
