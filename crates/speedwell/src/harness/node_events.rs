//! What a process of our Node.js package says over the harness protocol.

use super::job::Job;
use super::report::{Rate, observe};
use super::{Message, Observation};
use crate::model::{Better, Case, Cause, Metric, Sample, Value};
use crate::process::{Conversation, Next};
use std::sync::Arc;
use std::time::Duration;

/// How long a process may take to end after its last event.
const LINGER: Duration = Duration::from_secs(6);

/// What the events say about the one case, and what is wrong with it.
pub(super) fn observation(job: &Job, events: &Events) -> (Option<Observation>, Option<Cause>) {
    let mut case = job
        .case
        .clone()
        .unwrap_or_else(|| Case::new(&job.source.name, Vec::new()));
    let Some(once) = events.first("once") else {
        return (None, Some(events.error().unwrap_or(Cause::Silent)));
    };
    if let Some(tool) = once.get("tool").filter(|tool| !tool.is_empty()) {
        case.values.retain(|(name, _)| name != "benchmarker");
        case.values.push(("benchmarker".into(), Value::Text(tool)));
    }
    let rate = Rate {
        rate: once.get("rate").map_or(serde_json::Value::Null, |text| {
            text.parse::<f64>()
                .ok()
                .and_then(serde_json::Number::from_f64)
                .into()
        }),
        elapsed_ns: once.number("elapsed_ns"),
        http: None,
    };
    let (mut seen, fault) = observe(case, &rate, job.test);
    for metric in events.all("metric") {
        add_metric(&mut seen, metric);
    }
    seen.check = events.first("check").and_then(|check| check.get("text"));
    let failed = |name| {
        let found = seen.samples.iter().find(|sample| &*sample.metric == name);
        found.map_or(0.0, |sample| sample.value)
    };
    let requests = failed("http_errors") + failed("http_non2xx");
    let lost = (requests > 0.0).then(|| Cause::Invalid {
        reason: format!("{requests} requests failed: the rate is not that of a working server"),
    });
    (Some(seen), events.error().or(fault).or(lost))
}

fn add_metric(seen: &mut Observation, event: &Message) {
    let (Some(name), Some(value)) = (event.get("name"), event.number::<f64>("value")) else {
        return;
    };
    let higher = event.get("better").as_deref() == Some("higher");
    let better = if higher {
        Better::Higher
    } else {
        Better::Lower
    };
    let metric = Arc::from(name.as_str());
    seen.metrics.push(Metric::new(
        name,
        event.get("unit").unwrap_or_default(),
        better,
    ));
    seen.samples.push(Sample {
        metric,
        value,
        elapsed_ns: None,
        iterations: None,
    });
}

/// Sends its commands at once and keeps every event.
pub(super) struct Events {
    opening: Vec<u8>,
    received: Vec<Message>,
}

impl Events {
    /// Will send `hello`, these commands and `quit`.
    pub fn after<const N: usize>(commands: [Message; N]) -> Events {
        let mut opening = Message::new("hello")
            .with("id", 1)
            .with("proto", 1)
            .to_string();
        for command in commands {
            opening.push_str(&command.to_string());
        }
        opening.push_str(&Message::new("quit").with("id", 9).to_string());
        Events {
            opening: opening.into_bytes(),
            received: Vec::new(),
        }
    }

    /// Every event of that verb.
    pub fn all<'a>(&'a self, verb: &'a str) -> impl Iterator<Item = &'a Message> {
        self.received
            .iter()
            .filter(move |message| message.verb == verb)
    }

    /// The first event of that verb.
    pub fn first(&self, verb: &str) -> Option<&Message> {
        self.received.iter().find(|message| message.verb == verb)
    }

    /// The first error told, as a cause.
    pub fn error(&self) -> Option<Cause> {
        let error = self.first("error")?;
        let message = error.get("msg").unwrap_or_default();
        let first_line = message.lines().next().unwrap_or_default().to_owned();
        match error.get("class").as_deref() {
            Some("NothingReported") => Some(Cause::Silent),
            // The exit status of the process tells this better.
            Some("ProcessExit") => None,
            Some(class) => Some(Cause::Invalid {
                reason: format!("{class}: {first_line}"),
            }),
            None => Some(Cause::Invalid { reason: first_line }),
        }
    }
}

impl Conversation for Events {
    fn opening(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opening)
    }

    fn received(&mut self, line: &[u8]) -> Next {
        let Some(message) = Message::parse(line) else {
            return Next::Wait;
        };
        // A long list comes in several messages; all but the last say that more follows.
        if let Some(begun) = self
            .received
            .last_mut()
            .filter(|begun| begun.is_continued_by(&message))
        {
            begun.join(message);
            return Next::Wait;
        }
        let last = matches!(message.verb.as_str(), "end" | "described");
        self.received.push(message);
        if last {
            Next::Linger(LINGER)
        } else {
            Next::Wait
        }
    }
}
