//! Exact numbers from a text file, so that tests of the whole program are instant and exact.
//!
//! ```text
//! case len=16 type=utf8
//! old 100 101 102
//! new 110 exit:3 112
//! ```
//!
//! A `case` line starts a case; each line below it gives the values of one variant (`*` for any),
//! one per run, starting over at the end. `exit:N`, `signal:N`, `silent` and `timeout` are
//! failures, `sleep:MS` takes time before reporting 1, and `VALUE@NS` is a value whose sample took so many nanoseconds
//! instead of a million. `110,memory=5` is a run with a second metric, of which less is better. `110~80` is a run of a
//! second whose process was pushed off its processor 80 times, `100~80|101` the same with what its repetition gives.

use super::attempt::{failure, not_described};
use super::job::{Description, Job, Parameter, Request, Setting, Source};
use super::protocol::draft;
use super::report::{Rate, observe};
use super::{Attempt, Harness, Observation};
use serde_json::json;
use speedwell_model::{Better, Case, Cause, Metric, Usage};
use speedwell_process::{Spec, interrupted};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The harness for `.fake` files.
pub struct Fake;

impl Harness for Fake {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let text = match std::fs::read_to_string(&source.file) {
            Ok(text) => text,
            Err(error) => return fault(source, error.to_string()),
        };
        let mut description = Description::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("case")) {
            let case = match Case::with_values(&source.name, line) {
                Ok(case) => case,
                Err(error) => return fault(source, error.to_string()),
            };
            let set = |(name, value): &(String, String)| {
                case.value(name).is_none_or(|known| known.plain() == *value)
            };
            note_parameters(&mut description.parameters, &case);
            if request.sets.iter().all(set) {
                description.jobs.push(Job {
                    label: case.id(),
                    case: Some(case),
                    ..draft(source, request)
                });
            }
        }
        description
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let begin = Instant::now();
        let started_unix_ms = speedwell_process::unix_ms();
        let words = word(job, setting).unwrap_or_else(|| "silent".into());
        let (word, others) = words.split_once(',').unwrap_or((&words, ""));
        let number = |prefix| {
            word.strip_prefix(prefix)
                .and_then(|n| n.parse::<i32>().ok())
        };
        let cause = match word {
            "silent" => Some(Cause::Silent),
            "timeout" => Some(Cause::Timeout {
                limit_ms: setting.limit.as_millis() as u64,
            }),
            _ => number("exit:")
                .map(|code| Cause::Exit { code })
                .or(number("signal:").map(|signal| Cause::Signal { signal })),
        };
        if let Some(ms) = number("sleep:") {
            sleep(begin + Duration::from_millis(ms as u64));
        }
        let (word, switches) = match word.split_once('~') {
            Some((word, switches)) => (word, switches.parse().ok()),
            None => (word, None),
        };
        let (value, elapsed_ns) = word.split_once('@').unwrap_or((word, "1000000"));
        let value: f64 = value.parse().unwrap_or(1.0);
        let rate = Rate {
            rate: json!(value),
            elapsed_ns: elapsed_ns.parse().ok(),
            http: None,
        };
        let case = job
            .case
            .clone()
            .unwrap_or_else(|| Case::new(&job.source.name, Vec::new()));
        let (mut seen, fault) = observe(case, &rate, job.test);
        others
            .split(',')
            .for_each(|other| note_other(other, &mut seen));
        let failed = cause.or(fault);
        Attempt {
            observations: if failed.is_none() {
                vec![seen]
            } else {
                Vec::new()
            },
            failure: failed.map(|cause| {
                let complaint = "a made-up complaint".to_owned();
                failure(cause, complaint, &reading(&job.source), job, setting)
            }),
            interrupted: interrupted(),
            started_unix_ms,
            wall_ns: switches.map_or_else(|| begin.elapsed().as_nanos() as u64, |_| 1_000_000_000),
            usage: switches.map(|switches| Usage {
                involuntary_switches: switches,
                ..Usage::default()
            }),
            stdout: String::new(),
        }
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        PathBuf::from("true")
    }
}

fn sleep(until: Instant) {
    while Instant::now() < until && !interrupted() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn fault(source: &Source, reason: String) -> Description {
    let cause = Cause::Invalid { reason };
    not_described(source, cause, &reading(source), None)
}

/// No process is behind a made-up number; who wants to see it again reads the file.
fn reading(source: &Source) -> Spec {
    Spec::new("cat").args([source.file.to_string_lossy()])
}

fn note_parameters(parameters: &mut Vec<Parameter>, case: &Case) {
    for (name, value) in &case.values {
        match parameters.iter_mut().find(|known| known.name == *name) {
            Some(known) if known.values.contains(value) => {}
            Some(known) => known.values.push(value.clone()),
            None => {
                parameters.push(Parameter {
                    name: name.clone(),
                    values: vec![value.clone()],
                });
            }
        }
    }
}

/// Adds the value of a further metric, `NAME=VALUE`.
fn note_other(text: &str, seen: &mut Observation) {
    let Some((name, Ok(value))) = text.split_once('=').map(|(n, v)| (n, v.parse())) else {
        return;
    };
    seen.add(Metric::new(name, "", Better::Lower), value);
}

/// What the file says about this run.
fn word(job: &Job, setting: &Setting<'_>) -> Option<String> {
    let text = std::fs::read_to_string(&job.source.file).ok()?;
    let mut lines = text.lines().skip_while(|line| {
        let values = line.strip_prefix("case");
        values
            .and_then(|values| Case::with_values(&job.source.name, values).ok())
            .is_none_or(|case| case.id() != job.label)
    });
    lines.next();
    let mut own = lines
        .take_while(|line| !line.starts_with("case"))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            (name == setting.variant.name || name == "*").then(|| words.collect::<Vec<_>>())
        });
    let values = own.next()?;
    let word = values.get(setting.ordinal as usize % values.len().max(1))?;
    let attempts: Vec<&str> = word.split('|').collect();
    let last = attempts.len() - 1;
    Some(attempts[last.min(setting.repeated as usize)].to_owned())
}
