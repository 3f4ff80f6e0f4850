//! HTTP benchmarks: the tool is found once, its errors count, and its absence is said clearly.

use super::project::{Answer, Project, node};
use std::os::unix::fs::PermissionsExt;

/// A library in the style of Node core's: it runs `wrk` and keeps the rate alone.
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

fn measure(wrk: Option<&str>) -> Option<(Project, Answer)> {
    let node = node()?;
    let project = Project::new()
        .with("bench/common.js", LIBRARY)
        .with("bench/http/load.js", SCRIPT);
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
        std::fs::write(tools.join("wrk"), script).unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(tools.join("wrk"), executable).unwrap();
    }
    let mut command = project.command(&["run", "bench/http", "--runs", "2", "--metric", "all"]);
    let answer = Answer::from(command.env("PATH", &tools).output().unwrap());
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
    answer
        .expect_status(0)
        .expect_stdout(&["throughput", "latency_p99"]);
    let data = project.run(&["report", "--export", "jsonl"]).stdout;
    assert!(
        data.contains(r#""metric":"latency_mean","value":1500000.0"#),
        "{data}"
    );
}

#[test]
fn load_with_failed_requests_is_a_failure_not_a_rate() {
    let bad = format!("{GOOD}\n  Socket errors: connect 0, read 2, write 0, timeout 1\n");
    let Some((_, answer)) = measure(Some(&bad)) else {
        return;
    };
    answer
        .expect_status(2)
        .expect_stdout(&["3 requests failed"]);
}

#[test]
fn a_missing_tool_is_said_clearly() {
    let Some((_, answer)) = measure(None) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&[
        "no HTTP load tool is installed",
        "--set benchmarker=test-double-http",
    ]);
}
