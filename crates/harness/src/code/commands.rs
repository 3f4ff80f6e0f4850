//! The commands by which code is loaded and measured (docs/reference/protocol.md, "Measuring code").

use super::super::Message;
use speedwell_model::{Code, Length, Nodes, Samples};

/// For how long the empty runner is measured: some batches, a hundredth of an ordinary run.
const EMPTY_NS: u64 = 5_000_000;

/// `load` of `code` as `job`.
pub fn load(job: &str, code: &Code) -> Message {
    let message = Message::new("load").with("id", 2).with("job", job);
    if code.language.is_compiled() {
        return message.with("form", "built");
    }
    let mut message = message
        .with("form", "text")
        .with("lang", code.language)
        .with("runner", &code.runner);
    let hooks = [
        ("init", &code.init),
        ("init_runner", &code.init_worker),
        ("prepare", &code.prepare),
        ("done", &code.done),
    ];
    for (key, hook) in hooks {
        if let Some(text) = hook {
            message = message.with(key, text);
        }
    }
    if code.in_shell {
        message = message.with("in_shell", 1);
    }
    match &code.nodes {
        None => {}
        Some(Nodes::Local(count)) => message = message.with("nodes", count),
        Some(Nodes::Remote { name, cookie }) => {
            message = message.with("node", name);
            if let Some(cookie) = cookie {
                message = message.with("cookie", cookie);
            }
        }
    }
    for (at, path) in code.paths.iter().enumerate() {
        message = message.with(format!("path{at}"), path.display());
    }
    message
}

/// `workers`: from now on `job` has `count`.
pub fn workers(job: &str, count: u32) -> Message {
    Message::new("workers")
        .with("id", 3)
        .with("job", job)
        .with("n", count)
}

/// `calibrate`: what an empty iteration costs.
pub fn calibrate(job: &str) -> Message {
    Message::new("calibrate")
        .with("id", 4)
        .with("job", job)
        .with("target_ns", EMPTY_NS)
}

/// `run` of `jobs`, divided as `samples` says.
pub fn run(jobs: &[String], samples: &Samples) -> Message {
    let run = Message::new("run").with("id", 5).with_list("jobs", jobs);
    let run = match samples.length {
        Length::TimeNs(ns) => run.with("mode", "continuous").with("interval_ns", ns),
        Length::Iterations(count) => run.with("mode", "timed").with("loop", count),
    };
    run.with("samples", samples.count)
        .with("warmup_ns", samples.warmup_ns)
}
