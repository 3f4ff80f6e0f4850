import { existsSync } from 'node:fs';
import { bench, describe } from 'vitest';

while (existsSync(process.env.HOLD ?? '')) {
  await new Promise((resolve) => setTimeout(resolve, 10));
}

const WORK = Number(process.env.WORK ?? 1);
const options = { time: 20, warmupTime: 5 };

function total(n: number): number {
  let sum = 0;
  for (let i = 0; i < n * WORK; i++) sum += i ^ (sum << 1);
  return sum;
}

describe('sums (of all)', () => {
  bench('large', () => { total(20000); }, options);
  bench('small', () => { total(10); }, options);
});

bench('fails', () => { throw new Error('bad luck'); }, options);
