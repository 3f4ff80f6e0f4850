'use strict';

// Ends with an uncaught exception, a few calls deep and with local variables: the state of a crash to collect. Prints
// `mark:throw` right before, so that the time from there to the end of the process can be measured.

const fs = require('node:fs');

function charge(order) {
  const total = order.items.reduce((sum, item) => sum + item.price * item.count, 0);
  const currency = 'EUR';
  fs.writeSync(2, 'mark:throw\n');
  throw new Error(`cannot charge ${total} ${currency} to order ${order.id}`);
}

function checkout(id) {
  const order = { id, items: [{ price: 5, count: 2 }, { price: 7, count: 1 }] };
  charge(order);
}

checkout(42);
