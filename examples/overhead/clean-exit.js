'use strict';

// The same work without the crash: the normal cost of ending a process. `mark:throw` is where crash.js throws.

const fs = require('node:fs');

function charge(order) {
  const total = order.items.reduce((sum, item) => sum + item.price * item.count, 0);
  fs.writeSync(2, 'mark:throw\n');
  return total;
}

function checkout(id) {
  const order = { id, items: [{ price: 5, count: 2 }, { price: 7, count: 1 }] };
  return charge(order);
}

checkout(42);
