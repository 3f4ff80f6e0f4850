//! `[group.load]`: what is sent to a server.
//!
//! Most of it becomes options of `speedwell load`, so that a load means the same wherever it is asked
//! for.

use super::service::check_path;
use crate::definition::keys::Keys;
use crate::definition::load;
use crate::definition::tree::Content;
use crate::model::assignment::{Traffic, Warmup};
use crate::model::milliseconds;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// What can send a load.
const CLIENTS: [&str; 5] = ["builtin", "ab", "wrk", "oha", "autocannon"];

/// How long a warm-up waits for steadiness where nothing is said.
const STEADY: Duration = Duration::from_secs(30);

/// Reads a load, whose files are below `root`. Blanks other than `{port}` are filled.
pub fn read(keys: &Keys, root: &Path) -> Result<Traffic> {
    let client = keys.choice("client", &CLIENTS)?;
    let (duration, requests) = (keys.duration("duration")?, keys.whole("requests", 1)?);
    let mut words = Vec::new();
    match (&duration, requests) {
        (Some(duration), None) => words.push(format!("--time={duration}")),
        (None, Some(requests)) => words.push(format!("--count={requests}")),
        (Some(_), Some(_)) => {
            return Err(keys.error(
                "duration",
                format!(
                    "{} has either 'requests' or 'duration', not both",
                    keys.place
                ),
            ));
        }
        (None, None) => {
            return Err(keys.wrong_table(
                "does not say when it ends\nhint: requests = 8000, or duration = \"10s\"",
            ));
        }
    }
    if let Some(rate) = keys.number("rate")? {
        if rate <= 0.0 {
            return Err(keys.error("rate", "a rate is a number of requests a second above 0"));
        }
        words.push(format!("--rate={rate}"));
    }
    words.extend(load::request_words(keys, root)?);
    Ok(Traffic {
        client: client.unwrap_or_else(|| "builtin".to_owned()),
        url: address(keys)?,
        connections: keys.count("connections")?.unwrap_or(load::CONCURRENCY),
        pipelining: keys.count("pipelining")?.unwrap_or(1),
        words,
        warmup: warmup(keys)?,
        requests,
    })
}

/// `url`, or `path` on the target itself.
fn address(keys: &Keys) -> Result<String> {
    let (url, path) = (keys.text("url")?, keys.text("path")?);
    if let Some(path) = &path {
        check_path(keys, "path", path)?;
    }
    match (url, path) {
        (Some(_), Some(_)) => {
            let message = format!("{} has either 'url' or 'path', not both", keys.place);
            Err(keys.error("path", message))
        }
        (Some(url), None) if path_of(&url).is_none() => {
            let message = format!("the key 'url' of {}: '{url}' is not an address", keys.place);
            let hint = "http://127.0.0.1:{port}/";
            Err(keys.error("url", format!("{message}\nhint: {hint}")))
        }
        (Some(url), None) => Ok(url),
        (None, path) => Ok(format!(
            "http://127.0.0.1:{{port}}{}",
            path.as_deref().unwrap_or("/")
        )),
    }
}

/// The path of an address, with what follows it.
pub fn path_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_known = ["http", "https"].contains(&scheme) && !rest.is_empty();
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    is_known.then_some(path)
}

/// A number of requests, a time, or a wait for steadiness.
fn warmup(keys: &Keys) -> Result<Warmup> {
    let Some(node) = keys.node("warmup") else {
        return Ok(Warmup::None);
    };
    if let Content::Text(_) = node.content {
        let time = keys.time("warmup")?.unwrap_or_default();
        return Ok(Warmup::DurationMs(milliseconds(time)));
    }
    let Some(inner) = keys.table("warmup")? else {
        return Ok(Warmup::None);
    };
    let requests = inner.whole("requests", 1)?.map(Warmup::Requests);
    let time = inner
        .time("duration")?
        .map(milliseconds)
        .map(Warmup::DurationMs);
    let at_most = inner.time("at_most")?;
    let steady = inner.choice("until", &["steady"])?;
    let steady = steady.map(|_| Warmup::SteadyMs(milliseconds(at_most.unwrap_or(STEADY))));
    inner.finish()?;
    let is_steady = steady.is_some();
    let mut found: Vec<Warmup> = requests.into_iter().chain(time).chain(steady).collect();
    if at_most.is_some() && !is_steady {
        return Err(inner.error("at_most", "'at_most' belongs to until = \"steady\""));
    }
    match (found.pop(), found.is_empty()) {
        (Some(warmup), true) => Ok(warmup),
        _ => Err(keys.error(
            "warmup",
            "a warm-up has exactly one end\n\
             hint: { requests = 5000 }, { duration = \"2s\" } or { until = \"steady\", at_most = \"30s\" }",
        )),
    }
}
