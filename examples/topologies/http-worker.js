'use strict';

// An HTTP worker: receives connections from node:cluster, asks the main process for each number, and sends the
// response. It does not compute or draw numbers.
//
//     main -> worker   { listen: PORT }, { index, number }, { stop: true }
//     worker -> main   { ready: true }, { listening: PORT }, { index, question } (a request), { failed: MESSAGE }

const { Front } = require('./front.js');
const { obeyMain, say } = require('./obedience.js');

const waiting = new Map();
let asked = 0;

const front = new Front((question, give) => {
  asked += 1;
  waiting.set(asked, give);
  say({ index: asked, question });
});

process.on('message', (message) => {
  if (message.listen !== undefined) {
    front.listen(message.listen).then((port) => say({ listening: port }), (error) => say({ failed: error.message }));
  } else if (message.stop) {
    front.stop().then(() => process.disconnect());
  } else {
    const give = waiting.get(message.index);
    waiting.delete(message.index);
    give(message.number);
  }
});

obeyMain();
