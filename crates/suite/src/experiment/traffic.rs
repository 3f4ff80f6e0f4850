//! `[group.load]`: what is sent to a server.
//!
//! It becomes the same [`LoadSpec`] as the options of `speedwell load`, so that a load means the same everywhere.

use super::benchmark::CONCURRENCY;
use super::service::check_path;
use crate::keys::Keys;
use crate::tree::Content;
use anyhow::Result;
use speedwell_model::assignment::{Traffic, Warmup};
use speedwell_model::load_spec::{Client, LoadSpec};
use speedwell_model::milliseconds;
use std::path::Path;
use std::time::Duration;

/// How long a warm-up waits for steadiness where nothing is said.
const STEADY: Duration = Duration::from_secs(30);

/// Reads a load, whose files are below `root`. Blanks other than `{port}` are filled.
pub fn read(keys: &Keys, root: &Path) -> Result<Traffic> {
    let (time, count) = end(keys)?;
    if time.is_none() && count.is_none() {
        return Err(keys.wrong_table(
            "does not say when it ends\nhint: requests = 8000, or duration = \"10s\"",
        ));
    }
    let rate = keys.number("rate")?;
    if rate.is_some_and(|rate| rate <= 0.0) {
        return Err(keys.error("rate", "a rate is a number of requests a second above 0"));
    }
    let pipelining = keys.count("pipelining")?.unwrap_or(1);
    let request = request(keys, root)?;
    Ok(Traffic {
        spec: LoadSpec {
            client: client(keys)?,
            url: address(keys)?,
            concurrency: Some(concurrency(keys, pipelining)?),
            pipeline: (pipelining > 1).then_some(pipelining),
            time,
            count,
            rate,
            ..request
        },
        warmup: warmup(keys)?,
    })
}

/// Requests in flight on all connections together; earlier files say how many connections there are.
fn concurrency(keys: &Keys, pipelining: u32) -> Result<u32> {
    let (requests, connections) = (keys.count("concurrency")?, keys.count("connections")?);
    if requests.is_some() && connections.is_some() {
        let message = format!(
            "{} has either 'concurrency' or 'connections', not both",
            keys.place
        );
        return Err(keys.error("connections", message));
    }
    let of_connections = || {
        connections
            .unwrap_or(CONCURRENCY)
            .saturating_mul(pipelining)
    };
    Ok(requests.unwrap_or_else(of_connections))
}

/// When it ends: after a time or a number of requests, if either is given.
pub fn end(keys: &Keys) -> Result<(Option<Duration>, Option<u64>)> {
    let (time, count) = (keys.time("duration")?, keys.whole("requests", 1)?);
    if time.is_some() && count.is_some() {
        let message = format!(
            "{} has either 'requests' or 'duration', not both",
            keys.place
        );
        return Err(keys.error("duration", message));
    }
    Ok((time, count))
}

/// What sends it.
pub fn client(keys: &Keys) -> Result<Client> {
    let name = keys.choice("client", &Client::NAMES.map(|(name, _)| name))?;
    let known = name.and_then(|name| name.parse().ok());
    Ok(known.unwrap_or_default())
}

/// What is sent: method, header, body, protocol, and how long an answer may take. Files are below the folder.
pub fn request(keys: &Keys, folder: &Path) -> Result<LoadSpec> {
    let mut header = Vec::new();
    if let Some(headers) = keys.table("headers")? {
        for name in headers.names() {
            let value = headers.value(&name)?.map(|value| value.plain());
            header.push(format!("{name}: {}", value.unwrap_or_default()));
        }
    }
    let data = keys.text("body")?;
    if data.as_ref().is_some_and(|body| body.starts_with('@')) {
        let message = format!("the key 'body' of {} begins with '@'", keys.place);
        return Err(keys.error("body", format!("{message}\nhint: body_file names a file")));
    }
    Ok(LoadSpec {
        timeout: keys.time("timeout")?,
        request: keys.text("method")?,
        header,
        data,
        body_file: keys.text("body_file")?.map(|file| folder.join(file)),
        http2: keys.truth("http2")? == Some(true),
        no_keepalive: keys.truth("keepalive")? == Some(false),
        ..LoadSpec::default()
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
