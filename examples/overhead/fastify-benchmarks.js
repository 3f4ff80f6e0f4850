'use strict';

// Runs an unmodified checkout of github.com/fastify/benchmarks: starts its `benchmark.js bench`, answers its questions
// one after the other, and prints the contents of its `results/` as one JSON object, by server.
//
//     node fastify-benchmarks.js FOLDER [CONNECTIONS [PIPELINING [SECONDS]]]
//
// All its processes, servers and load generator alike, inherit NODE_OPTIONS, as in the study that the example
// reproduces. The port is always 3000, so two of these cannot run at the same time.

const fs = require('node:fs');
const path = require('node:path');
const { spawn } = require('node:child_process');

// A part of each question, in order: whether to run all servers, and three numbers.
const QUESTIONS = ['all benchmark tests', 'connections', 'pipelines', 'long'];

// Resolves when it has ended. Writes each answer after its question: earlier input is lost.
function answered(folder, answers) {
  return new Promise((resolve, reject) => {
    const bench = spawn(process.execPath, ['benchmark.js', 'bench'], { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
    let text = '';
    let next = 0;
    bench.stdout.setEncoding('utf8');
    bench.stdout.on('data', (part) => {
      text += part;
      while (next < QUESTIONS.length && text.includes(QUESTIONS[next])) {
        text = text.slice(text.indexOf(QUESTIONS[next]) + QUESTIONS[next].length);
        bench.stdin.write(`${answers[next]}\n`);
        next += 1;
      }
    });
    bench.stdin.on('error', () => {});
    bench.on('error', reject);
    bench.on('close', (status, signal) => {
      if (status === 0 && next === QUESTIONS.length) resolve();
      else reject(new Error(`benchmark.js ended with ${signal ?? status} after ${next} of ${QUESTIONS.length} questions`));
    });
  });
}

function results(folder) {
  const found = {};
  for (const file of fs.readdirSync(folder).filter((name) => name.endsWith('.json')).sort()) {
    const { requests, latency, throughput } = JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8'));
    found[path.basename(file, '.json')] = {
      requests: requests.average, latency_ms: latency.average, throughput: throughput.average,
    };
  }
  return found;
}

async function main([folder, connections = '100', pipelining = '10', seconds = '5']) {
  const results_folder = path.join(folder, 'results');
  // Results of an earlier run would be mistaken for its own.
  fs.rmSync(results_folder, { recursive: true, force: true });
  await answered(folder, ['y', connections, pipelining, seconds]);
  process.stdout.write(`${JSON.stringify(results(results_folder))}\n`);
}

main(process.argv.slice(2)).catch((error) => {
  process.stderr.write(`fastify-benchmarks.js: ${error.message}\n`);
  process.exitCode = 1;
});
