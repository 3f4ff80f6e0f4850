'use strict';
// Reads the same orders again and again. With --check every line is checked first: an extra cost to be found.

const lines = Array.from({ length: 2000 }, (_, at) => `order-${at},${at % 7},${(at * 37) % 1000}.50`);

function checkLine(line) {
  if (!/^order-\d+,\d+,\d+\.\d\d$/.test(line)) throw new Error(`no order: ${line}`);
  const digits = [...line].filter((letter) => letter >= '0' && letter <= '9');
  if (digits.length < 4) throw new Error(`too short: ${line}`);
}

function readLine(line) {
  const [name, count, price] = line.split(',');
  return { name, cost: Number(count) * Number(price) };
}

function readOrders(check) {
  let sum = 0;
  for (const line of lines) {
    if (check) checkLine(line);
    sum += readLine(line).cost;
  }
  return sum;
}

let sum = 0;
for (let round = 0; round < 300; round++) sum += readOrders(process.argv.includes('--check'));
console.log(sum);
