//! `[group.load]`: what is sent to a server.
//!
//! It becomes the same [`LoadSpec`] as the options of `speedwell load`, so that a load means the same everywhere.

use super::service::check_path;
use crate::definition::keys::Keys;
use crate::definition::load;
use crate::definition::tree::Content;
use crate::model::assignment::{Traffic, Warmup};
use crate::model::load_spec::LoadSpec;
use crate::model::milliseconds;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// How long a warm-up waits for steadiness where nothing is said.
const STEADY: Duration = Duration::from_secs(30);

/// Reads a load, whose files are below `root`. Blanks other than `{port}` are filled.
pub fn read(keys: &Keys, root: &Path) -> Result<Traffic> {
    let (duration, requests) = (keys.time("duration")?, keys.whole("requests", 1)?);
    if duration.is_some() && requests.is_some() {
        let message = format!(
            "{} has either 'requests' or 'duration', not both",
            keys.place
        );
        return Err(keys.error("duration", message));
    }
    if duration.is_none() && requests.is_none() {
        return Err(keys.wrong_table(
            "does not say when it ends\nhint: requests = 8000, or duration = \"10s\"",
        ));
    }
    let rate = keys.number("rate")?;
    if rate.is_some_and(|rate| rate <= 0.0) {
        return Err(keys.error("rate", "a rate is a number of requests a second above 0"));
    }
    let connections = keys.count("connections")?.unwrap_or(load::CONCURRENCY);
    let pipelining = keys.count("pipelining")?.unwrap_or(1);
    let request = load::request(keys, root)?;
    Ok(Traffic {
        spec: LoadSpec {
            client: load::client(keys)?,
            url: address(keys)?,
            concurrency: Some(connections.saturating_mul(pipelining)),
            pipeline: (pipelining > 1).then_some(pipelining),
            time: duration,
            count: requests,
            rate,
            ..request
        },
        warmup: warmup(keys)?,
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
