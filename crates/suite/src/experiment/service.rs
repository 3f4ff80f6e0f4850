//! What a target needs that is a server: port, readiness, end, processes.

use super::traffic;
use super::verify;
use crate::keys::Keys;
use crate::tree::Content;
use anyhow::Result;
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
    ("TERM", libc::SIGTERM),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("HUP", libc::SIGHUP),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("KILL", libc::SIGKILL),
];

/// Reads the server, whose files are below `root`. Blanks are filled.
pub fn read(target: &Keys, load: &Keys, verify: Option<&Keys>, root: &Path) -> Result<Service> {
    let network = target.choice("network", &["private", "host"])?;
    let children = target.whole("expect_processes", 0)?;
    Ok(Service {
        port: port(target)?,
        private_network: network.as_deref() == Some("private"),
        ready: ready(target)?,
        stop: stop(target)?,
        children: children.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        load: traffic::read(load, root)?,
        verify: verify::read(verify)?,
    })
}

fn port(target: &Keys) -> Result<Option<u16>> {
    let is_auto = target
        .node("port")
        .is_none_or(|node| node.text() == Some("auto"));
    if is_auto {
        return Ok(None);
    }
    let port = target.whole("port", 1)?.map(u16::try_from);
    let wrong = |_| target.error("port", "a port is a number from 1 to 65535, or \"auto\"");
    port.transpose().map_err(wrong)
}

fn ready(target: &Keys) -> Result<Ready> {
    let usual = Ready {
        path: None,
        status: 200,
        within_ms: milliseconds(READY),
    };
    let Some(node) = target.node("ready") else {
        return Ok(usual);
    };
    if let Content::Text(_) = node.content {
        let within = target.time("ready")?.unwrap_or(READY);
        return Ok(Ready {
            within_ms: milliseconds(within),
            ..usual
        });
    }
    let Some(keys) = target.table("ready")? else {
        return Ok(usual);
    };
    let status = keys.whole("status", 0)?.unwrap_or(200);
    if !(100..600).contains(&status) {
        return Err(keys.error("status", "a status of HTTP is a number from 100 to 599"));
    }
    let found = Ready {
        path: keys.text("http")?,
        status: status as u16,
        within_ms: milliseconds(keys.time("within")?.unwrap_or(READY)),
    };
    if let Some(path) = &found.path {
        check_path(&keys, "http", path)?;
    }
    keys.finish()?;
    Ok(found)
}

/// Refuses what cannot be the path of a request.
pub fn check_path(keys: &Keys, key: &str, path: &str) -> Result<()> {
    if path.starts_with('/') && !path.contains(char::is_whitespace) {
        return Ok(());
    }
    let place = &keys.place;
    let message = format!("the key '{key}' of {place}: '{path}' is not a path such as \"/\"");
    Err(keys.error(key, message))
}

fn stop(target: &Keys) -> Result<Stop> {
    let mut stop = Stop {
        signal: libc::SIGTERM,
        grace_ms: milliseconds(GRACE),
    };
    let Some(keys) = target.table("stop")? else {
        return Ok(stop);
    };
    if let Some(name) = keys.text("signal")? {
        let short = name.strip_prefix("SIG").unwrap_or(&name);
        let known = SIGNALS.iter().find(|(known, _)| *known == short);
        let names = || SIGNALS.map(|(known, _)| format!("SIG{known}"));
        let (_, signal) = known.ok_or_else(|| keys.unknown("signal", &name, &names()))?;
        stop.signal = *signal;
    }
    if let Some(grace) = keys.time("grace")? {
        stop.grace_ms = milliseconds(grace);
    }
    keys.finish()?;
    Ok(stop)
}
