//! HTTP benchmarks: the tool is looked up once, its errors count, and its absence is reported
//! clearly.

use super::project::{CommandResult, TempProject, node};

/// A library in the style of Node core's: it runs `wrk` and keeps only the rate.
const LIBRARY: &str = r#"
const { fork, spawnSync } = require('child_process');
exports.createBenchmark = (main) => {
  const name = 'http/load.js';
  const bench = {
    http(options, done) {
      const { stdout, error } = spawnSync('wrk', ['-c', '1', 'http://127.0.0.1/']);
      done();
      if (error) throw error;
      const rate = +/Requests\/sec:\s+([\d.]+)/.exec(stdout)[1];
      const conf = { n: 1, benchmarker: 'wrk' };
      process.send({ name, conf, rate, time: '1.000000000', type: 'report' });
    },
  };
  process.nextTick(() => {
    if (process.env.NODE_RUN_BENCHMARK_FN !== undefined) return main({ n: 1 });
    if (process.send) process.send({ type: 'config', name, queueLength: 1 });
    fork(require.main.filename, ['n=1']);
  });
  return bench;
};
"#;

const SCRIPT: &str = "const common = require('../common.js');
const bench = common.createBenchmark(main, { n: [1] });
function main() { bench.http({ path: '/' }, () => {}); }
";

/// Measures with `wrk`, requested by name, since our own generator is the default.
fn measure(wrk: Option<&str>) -> Option<(TempProject, CommandResult)> {
    let node = node()?;
    let mut project =
        TempProject::new().with("bench/common.js", LIBRARY).with("bench/http/load.js", SCRIPT);
    let tools = project.path("tools");
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink(&node, tools.join("node")).unwrap();
    for name in ["sh", "tee"] {
        let found = ["/bin", "/usr/bin"].map(|folder| std::path::Path::new(folder).join(name));
        let program = found.iter().find(|file| file.exists()).unwrap();
        std::os::unix::fs::symlink(program, tools.join(name)).unwrap();
    }
    if let Some(output) = wrk {
        let script = format!("#!/bin/sh\nprintf '%s\\n' '{output}'\n");
        project = project.with_program("tools/wrk", &script);
    }
    let words = ["run", "bench/http", "--runs", "2", "--metric", "all"];
    let mut command = project.command(&words);
    command.args(["--set", "benchmarker=wrk"]);
    let answer = CommandResult::from(command.env("PATH", &tools).output().unwrap());
    Some((project, answer))
}

const GOOD: &str = "    Latency     1.50ms  100.00us   9.00ms   90.00%
     99%    4.00ms
Requests/sec:   1000.00";

#[test]
fn latency_is_kept_although_the_library_throws_it_away() {
    let Some((project, answer)) = measure(Some(GOOD)) else {
        return;
    };
    answer.expect_status(0).expect_stdout(&["throughput", "latency_p99"]);
    let data = project.run(&["report", "--export", "jsonl"]).stdout;
    assert!(data.contains(r#""metric":"latency_mean","value":1500000.0"#), "{data}");
}

#[test]
fn load_with_failed_requests_is_a_failure_not_a_rate() {
    let bad = format!("{GOOD}\n  Socket errors: connect 0, read 2, write 0, timeout 1\n");
    let Some((_, answer)) = measure(Some(&bad)) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&["3 requests failed"]);
}

#[test]
fn a_missing_load_tool_is_named() {
    let Some((_, answer)) = measure(None) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&["the HTTP load tool 'wrk' is not installed"]);
}

/// A library in the style of Node core's, with the arguments that it passes to its tools. Server
/// and tool run in the same process, so it must not block on the tool.
const SERVING_LIBRARY: &str = r#"
const { fork, spawn } = require('child_process');
exports.createBenchmark = (main) => {
  const name = 'http/load.js';
  exports.PORT = +process.env.PORT;
  const tool = (process.argv.slice(2).join(' ').match(/benchmarker=(\S+)/) || [])[1];
  const bench = {
    http(options, done) {
      const words = ['-d', '1', '-c', '4', '-t', '1', `http://127.0.0.1:${exports.PORT}/`, '-H', 'x-a: 1'];
      const child = spawn(tool, words, { stdio: ['ignore', 'pipe', 'inherit'] });
      let stdout = '';
      child.stdout.on('data', (chunk) => { stdout += chunk; });
      child.on('close', (code) => {
        done();
        if (code) return process.exit(code);
        const rate = +/Requests\/sec:[ \t]+([0-9.]+)/.exec(stdout)[1];
        process.send({ name, conf: { n: 1, benchmarker: tool }, rate, time: '1.000000000', type: 'report' });
      });
    },
  };
  process.nextTick(() => {
    if (process.env.NODE_RUN_BENCHMARK_FN !== undefined) return main({ n: 1 });
    if (process.send) process.send({ type: 'config', name, queueLength: 1 });
    fork(require.main.filename, ['n=1']);
  });
  return bench;
};
"#;

const SERVING_SCRIPT: &str = "const common = require('../common.js');
const http = require('http');
const bench = common.createBenchmark(main, { n: [1] });
function main() {
  const server = http.createServer((request, response) => {
    response.statusCode = request.headers['x-a'] === '1' ? STATUS : 500;
    response.end('hello');
  });
  server.listen(common.PORT, '127.0.0.1', () => bench.http({ path: '/' }, () => server.close()));
}
";

fn measure_with_ours(status: &str) -> Option<(TempProject, CommandResult)> {
    node()?;
    let project = TempProject::new()
        .with("bench/common.js", SERVING_LIBRARY)
        .with("bench/http/load.js", &SERVING_SCRIPT.replace("STATUS", status));
    let answer = project.run(&["run", "bench/http", "--runs", "1", "--metric", "all"]);
    Some((project, answer))
}

#[test]
fn results_of_an_unmodified_library_name_our_generator() {
    let Some((project, answer)) = measure_with_ours("200") else {
        return;
    };
    answer.expect_status(0).expect_stdout(&[
        "benchmarker=speedwell",
        "throughput",
        "latency_p50",
        "latency_p99",
        "http_errors",
    ]);
    let data = project.run(&["report", "--export", "jsonl"]).stdout;
    assert!(!data.contains("wrk"), "nothing was measured with wrk: {data}");
}

#[test]
fn our_generator_tells_an_unmodified_library_when_no_request_succeeds() {
    let Some((_, answer)) = measure_with_ours("404") else {
        return;
    };
    let answer = answer.expect_status(2);
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert!(said.contains("no request succeeded"), "{said}");
}

const PACKAGE_SCRIPT: &str = "const { createBenchmark } = require('speedwell');
const http = require('http');
const bench = createBenchmark(main, { size: [8] });
function main({ size }) {
  const server = http.createServer((request, response) => response.end('x'.repeat(size)));
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    bench.http({ port, path: '/', connections: 4, duration: 0.3 }, () => server.close());
  });
}
";

#[test]
fn the_package_uses_our_generator_unless_told_otherwise() {
    if node().is_none() {
        return;
    }
    let project = TempProject::new().with("web/reply.js", PACKAGE_SCRIPT);
    let words = ["run", "web/reply.js", "--runs", "1", "--metric", "all"];
    project.run(&words).expect_status(0).expect_stdout(&[
        "benchmarker=speedwell",
        "throughput",
        "latency_p99",
        "http_non2xx",
    ]);
    let mut other = words.to_vec();
    other.extend(["--set", "benchmarker=test-double-http"]);
    project.run(&other).expect_status(0).expect_stdout(&["benchmarker=test-double-http"]);
}
