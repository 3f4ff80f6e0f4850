'use strict';
// Parses the same orders repeatedly. With --check every line is validated first: an extra cost for the
// profile to find.

const lines = Array.from({ length: 2000 }, (_, i) => `order-${i},${i % 7},${(i * 37) % 1000}.50`);

function checkLine(line) {
  if (!/^order-\d+,\d+,\d+\.\d\d$/.test(line)) throw new Error(`cannot parse order '${line}'`);
  const digits = [...line].filter((letter) => letter >= '0' && letter <= '9');
  if (digits.length < 4) throw new Error(`order '${line}' is too short`);
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
