//! What a target needs that is a server: port, readiness, end, processes.

use super::load::LoadKeys;
use super::target::{Network, TargetKeys};
use super::verify::{self, VerifyKeys};
use crate::part::Part;
use crate::reader::unknown_name;
use crate::value::{Plain, Time, UrlPath, Whole, checked};
use anyhow::Result;
use rustix::process;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{Ready, Service, Stop};
use speedwell_model::milliseconds;
use std::path::Path;
use std::time::Duration;

/// How long a server may take to be ready where nothing is said, as for `speedwell load --serve`.
const READY: Duration = Duration::from_secs(30);

/// How long its end may take where nothing is said.
const GRACE: Duration = Duration::from_secs(3);

/// Signals that can end a server, by their names without `SIG`.
const SIGNALS: [(&str, i32); 7] = [
    ("TERM", process::Signal::TERM.as_raw()),
    ("INT", process::Signal::INT.as_raw()),
    ("QUIT", process::Signal::QUIT.as_raw()),
    ("HUP", process::Signal::HUP.as_raw()),
    ("USR1", process::Signal::USR1.as_raw()),
    ("USR2", process::Signal::USR2.as_raw()),
    ("KILL", process::Signal::KILL.as_raw()),
];

checked! {
    /// `"auto"`, or the number of a port.
    #[derive(Copy, Default)]
    pub struct PortKey(Option<u16>) from Plain as {
        "type": ["integer", "string"], "minimum": 1, "maximum": 65535
    },
    |value| {
        if value.text() == "auto" {
            return Ok(None);
        }
        let port = value.whole(1).and_then(|port| u16::try_from(port).ok());
        port.map(Some).ok_or(": a port is a number from 1 to 65535, or \"auto\"".to_owned())
    }
}

/// A time, or a request that is repeated until it is answered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum ReadyKeys {
    #[serde(rename = "a text")]
    Within(Time),
    #[serde(rename = "a table")]
    Answer(AnswerKeys),
}

impl Default for ReadyKeys {
    fn default() -> ReadyKeys {
        ReadyKeys::Within(Time(READY))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerKeys {
    /// The path of the request. Without one it is enough that it listens.
    http: Option<UrlPath>,
    /// The status of the answer. Usually 200.
    status: Option<HttpStatus>,
    /// How long it may take. Usually "30s".
    within: Option<Time>,
}

checked! {
    #[derive(Copy)]
    struct HttpStatus(u16) from Whole<0> as {
        "type": ["integer", "string"], "minimum": 100, "maximum": 599
    },
    |status| {
        let status = u16::try_from(status.0).ok();
        let status = status.filter(|status| (100..600).contains(status));
        status.ok_or(": a status of HTTP is a number from 100 to 599".to_owned())
    }
}

/// How a server is ended.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopKeys {
    /// The signal. Usually "SIGTERM".
    signal: Option<Signal>,
    /// How long the end may take. Usually "3s".
    grace: Option<Time>,
}

checked! {
    #[derive(Copy)]
    struct Signal(i32) from String as {
        "type": "string", "pattern": r"^(SIG)?(TERM|INT|QUIT|HUP|USR1|USR2|KILL)$|\{[A-Za-z_]"
    },
    |name| {
        let short = name.strip_prefix("SIG").unwrap_or(&name);
        let found = SIGNALS.iter().find(|(known, _)| *known == short);
        let names = SIGNALS.map(|(known, _)| format!("SIG{known}"));
        found.map(|(_, signal)| *signal).ok_or_else(|| unknown_name(&name, &names))
    }
}

/// The server, whose files are below `root`. The placeholders of the group are filled.
pub fn resolve(target: &TargetKeys, group: &Part, root: &Path) -> Result<Service> {
    let Some(load) = group.part("load") else {
        return Err(group.missing("load", "[group.load] with requests or duration"));
    };
    let keys: LoadKeys = load.read()?;
    let verify: Option<VerifyKeys> = group.part("verify").map(|part| part.read()).transpose()?;
    let children = target.expect_processes;
    Ok(Service {
        port: target.port.0,
        private_network: target.network == Some(Network::Private),
        ready: ready(&target.ready),
        stop: Stop {
            signal: target
                .stop
                .signal
                .map_or(process::Signal::TERM.as_raw(), |signal| signal.0),
            grace_ms: milliseconds(target.stop.grace.map_or(GRACE, |grace| grace.0)),
        },
        children: children.map(|count| u32::try_from(count.0).unwrap_or(u32::MAX)),
        load: keys.resolve(&load, root)?,
        verify: verify::resolve(verify),
    })
}

fn ready(keys: &ReadyKeys) -> Ready {
    match keys {
        ReadyKeys::Within(time) => Ready {
            path: None,
            status: 200,
            within_ms: milliseconds(time.0),
        },
        ReadyKeys::Answer(answer) => Ready {
            path: answer.http.as_ref().map(|path| path.0.clone()),
            status: answer.status.map_or(200, |status| status.0),
            within_ms: milliseconds(answer.within.map_or(READY, |time| time.0)),
        },
    }
}
