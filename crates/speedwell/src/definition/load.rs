//! `[benchmark.NAME]` with `kind = "load"`: an HTTP load.
//!
//! It decides which keys there are and which words of `speedwell load` say the same. Values that
//! differ between cases are parameters; the words are what all cases have in common.

use super::blanks;
use super::keys::{Keys, nearest_of};
use crate::model::Value;
use anyhow::{Result, bail};
use std::path::Path;

/// Requests under way where nothing is said, as for `speedwell load`.
pub(super) const CONCURRENCY: u32 = 10;

/// Blanks that every benchmark has besides its parameters.
const USUAL: [&str; 2] = ["port", "program"];

/// What can send a load.
const CLIENTS: [&str; 5] = ["builtin", "ab", "wrk", "autocannon", "h2load"];

/// A benchmark.
#[derive(Debug, Clone)]
pub struct LoadBenchmark {
    /// `group/name`.
    pub name: String,
    /// The name without the group.
    pub short: String,
    /// The command that starts the server.
    pub serve: Option<String>,
    /// Where requests go.
    pub url: Option<String>,
    /// What sends the load, if not our own generator.
    pub client: Option<String>,
    /// Parameters with their values, in the order of a case's id.
    pub parameters: Vec<(String, Vec<Value>)>,
    /// Options of `speedwell load` in the form `--name=value`, with blanks.
    pub words: Vec<String>,
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
    let client = keys.choice("client", &CLIENTS)?;
    let load = LoadBenchmark {
        name: format!("{group}/{}", keys.name),
        short: keys.name.clone(),
        serve: keys.text("serve")?,
        url: keys.text("url")?,
        parameters: parameters(keys)?,
        words: words(keys, folder)?,
        client: client.filter(|client| client != "builtin"),
    };
    keys.finish()?;
    for text in load.words.iter().chain(&load.serve).chain(&load.url) {
        load.check_blanks(text, &keys.place)?;
    }
    Ok(load)
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
fn words(keys: &Keys, folder: &Path) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut say = |option: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{option}={value}")));
    };
    let (duration, requests) = (keys.duration("duration")?, keys.count("requests")?);
    if duration.is_some() && requests.is_some() {
        let message = format!(
            "{} has either 'duration' or 'requests', not both",
            keys.place
        );
        return Err(keys.error("requests", message));
    }
    say("time", duration);
    say("count", requests.map(|count| count.to_string()));
    say("warmup", keys.duration("warmup")?);
    say("serve-timeout", keys.duration("ready")?);
    if let Some(expect) = keys.table("expect")? {
        let statuses = expect.values("status")?.map(|values| {
            let texts: Vec<String> = values.iter().map(Value::plain).collect();
            texts.join(",")
        });
        say("expect-status", statuses);
        say("expect-body", expect.text("body")?);
        say(
            "expect-length",
            expect.count("length")?.map(|n| n.to_string()),
        );
        expect.finish()?;
    }
    words.extend(request_words(keys, folder)?);
    Ok(words)
}

/// Options that say what is sent: method, header, body, protocol, and how long an answer may take.
/// Files are below the folder.
pub(super) fn request_words(keys: &Keys, folder: &Path) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut say = |option: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{option}={value}")));
    };
    say("timeout", keys.duration("timeout")?);
    say("request", keys.text("method")?);
    if let Some(headers) = keys.table("headers")? {
        for name in headers.names() {
            let value = headers.value(&name)?.map(|value| value.plain());
            say(
                "header",
                Some(format!("{name}: {}", value.unwrap_or_default())),
            );
        }
    }
    let body = keys.text("body")?;
    if body.as_ref().is_some_and(|body| body.starts_with('@')) {
        let message = format!("the key 'body' of {} begins with '@'", keys.place);
        return Err(keys.error("body", format!("{message}\nhint: body_file names a file")));
    }
    say("data", body);
    let file = keys.text("body_file")?.map(|file| folder.join(file));
    say("body-file", file.map(|file| file.display().to_string()));
    if keys.truth("http2")? == Some(true) {
        words.push("--http2".to_owned());
    }
    if keys.truth("keepalive")? == Some(false) {
        words.push("--no-keepalive".to_owned());
    }
    Ok(words)
}
