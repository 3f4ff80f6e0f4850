//! `[benchmark.NAME]` with `kind = "load"`: an HTTP load.
//!
//! It decides which keys there are and what they mean in a [`LoadSpec`]. Values that differ between cases are
//! parameters; the specification is what all cases have in common.

use super::blanks;
use super::keys::{Keys, nearest_of};
use crate::model::Value;
use crate::model::load_spec::{Client, LoadSpec, parse_statuses};
use anyhow::{Result, bail};
use std::path::Path;

/// Requests under way where nothing is said, as for `speedwell load`.
pub(super) const CONCURRENCY: u32 = 10;

/// Blanks that every benchmark has besides its parameters.
const USUAL: [&str; 2] = ["port", "program"];

/// A benchmark.
#[derive(Debug, Clone)]
pub struct LoadBenchmark {
    /// `group/name`.
    pub name: String,
    /// The name without the group.
    pub short: String,
    /// Parameters with their values, in the order of a case's id.
    pub parameters: Vec<(String, Vec<Value>)>,
    /// What all cases have in common, with placeholders. The address is empty where only the variants have one.
    pub spec: LoadSpec,
}

impl LoadBenchmark {
    /// Refuses blanks that nobody fills.
    pub(super) fn check_blanks(&self, text: &str, place: &str) -> Result<()> {
        let own = self.parameters.iter().map(|(name, _)| name.clone());
        let known: Vec<String> = own.chain(USUAL.map(str::to_owned)).collect();
        let names = blanks::names(text);
        let Some(unknown) = names.iter().find(|name| !known.contains(name)) else {
            return Ok(());
        };
        let hint = nearest_of(unknown, &known);
        bail!("nothing fills '{{{unknown}}}' in {place}\nhint: {hint}")
    }
}

/// Reads one benchmark of the group.
pub(super) fn read(keys: &Keys, group: &str, folder: &Path) -> Result<LoadBenchmark> {
    check_kind(keys)?;
    let load = LoadBenchmark {
        name: format!("{group}/{}", keys.name),
        short: keys.name.clone(),
        parameters: parameters(keys)?,
        spec: LoadSpec {
            client: client(keys)?,
            serve: keys.text("serve")?,
            url: keys.text("url")?.unwrap_or_default(),
            ..common(keys, folder)?
        },
    };
    keys.finish()?;
    for text in load.spec.to_args() {
        load.check_blanks(&text, &keys.place)?;
    }
    Ok(load)
}

/// What sends the load.
pub(super) fn client(keys: &Keys) -> Result<Client> {
    let name = keys.choice("client", &Client::NAMES.map(|(name, _)| name))?;
    let known = name.and_then(|name| name.parse().ok());
    Ok(known.unwrap_or_default())
}

fn check_kind(keys: &Keys) -> Result<()> {
    match keys.choice("kind", &["load"])? {
        Some(_) => Ok(()),
        None => Err(keys.wrong_table("does not say of which kind it is\nhint: kind = \"load\"")),
    }
}

/// Declared ones first, then what every load has.
fn parameters(keys: &Keys) -> Result<Vec<(String, Vec<Value>)>> {
    let mut found = Vec::new();
    if let Some(own) = keys.table("parameters")? {
        for name in own.names() {
            let reserved = ["concurrency", "rate", "port", "program"];
            if reserved.contains(&name.as_str()) {
                let message = format!("{} cannot have a parameter '{name}'", own.place);
                let why = "that name has a meaning of its own";
                return Err(own.error(&name, format!("{message}: {why}")));
            }
            if let Some(values) = own.values(&name)? {
                found.push((name, values));
            }
        }
    }
    let rate = numbers(keys, "rate")?;
    let concurrency = numbers(keys, "concurrency")?;
    let usual = || {
        rate.is_none()
            .then(|| vec![Value::Number(f64::from(CONCURRENCY))])
    };
    let concurrency = concurrency.or_else(usual);
    found.extend(rate.map(|values| ("rate".to_owned(), values)));
    found.extend(concurrency.map(|values| ("concurrency".to_owned(), values)));
    Ok(found)
}

fn numbers(keys: &Keys, key: &str) -> Result<Option<Vec<Value>>> {
    let values = keys.values(key)?;
    let is_number = |value: &Value| matches!(value, Value::Number(n) if *n > 0.0);
    if values.iter().flatten().any(|value| !is_number(value)) {
        let place = &keys.place;
        let message =
            format!("the key '{key}' of {place} is not a number above 0 or a list of such");
        return Err(keys.error(key, format!("{message} numbers")));
    }
    Ok(values)
}

/// What all cases have in common.
fn common(keys: &Keys, folder: &Path) -> Result<LoadSpec> {
    let (time, count) = (keys.time("duration")?, keys.count("requests")?);
    if time.is_some() && count.is_some() {
        let message = format!(
            "{} has either 'duration' or 'requests', not both",
            keys.place
        );
        return Err(keys.error("requests", message));
    }
    let mut spec = LoadSpec {
        time,
        count: count.map(u64::from),
        warmup: keys.time("warmup")?,
        serve_timeout: keys.time("ready")?,
        ..request(keys, folder)?
    };
    if let Some(expect) = keys.table("expect")? {
        for status in expect.values("status")?.unwrap_or_default() {
            let statuses = parse_statuses(&status.plain());
            let statuses = statuses.map_err(|why| expect.error("status", why))?;
            spec.expect_status.push(statuses);
        }
        spec.expect_body = expect.text("body")?;
        spec.expect_length = expect.count("length")?.map(u64::from);
        expect.finish()?;
    }
    Ok(spec)
}

/// What is sent: method, header, body, protocol, and how long an answer may take. Files are below the folder.
pub(super) fn request(keys: &Keys, folder: &Path) -> Result<LoadSpec> {
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
