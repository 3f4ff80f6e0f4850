//! Reads `[group.load]`, which defines the load on a server, and the checks of its responses.
//!
//! The table is converted to a [`LoadSpec`], and so are the options of `speedwell load`. The same
//! settings thus define the same load in both.

use crate::file_part::FilePart;
use crate::value::{
    DurationValue, NumberValue, OneOrMany, PlainValue, PositiveCount, RegexPattern, TextOrTable,
    UrlPath, WholeNumber, checked, or_placeholder,
};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use speedwell_model::as_milliseconds;
use speedwell_model::assignment::{
    BodyRule, LoadWarmup, ProofSource, ResponseCheck, ServerLoad, VariantProof,
};
use speedwell_model::load::spec::{LoadClient, LoadSpec, parse_statuses};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Default number of concurrent requests, as for `speedwell load`.
pub const DEFAULT_CONCURRENCY: u32 = 10;

/// Default time limit of a warm-up that lasts until the server is steady.
const DEFAULT_STEADY_LIMIT: Duration = Duration::from_secs(30);

/// The load on a server. It ends after `requests` or `duration`, one of which is required.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoadKeys {
    /// Load generator. Default: the built-in one.
    client: ClientName,
    /// URL, if it differs from the target's.
    url: Option<String>,
    /// Path on the target. Default: "/".
    path: Option<UrlPath>,
    /// Concurrent requests. Default: 10 times `pipelining`.
    concurrency: Option<ConcurrencyCount>,
    /// Requests in flight on one connection. Default: 1.
    pipelining: Option<PositiveCount>,
    /// Number of requests after which the load ends.
    requests: Option<WholeNumber<1>>,
    /// Duration of the load.
    duration: Option<DurationValue>,
    /// Requests per second, however fast the server responds. By default, as fast as responses
    /// arrive.
    rate: Option<NumberValue>,
    /// Requests excluded from the results: { requests = 5000 }, { duration = "2s" } or { until =
    /// "steady", at_most = "30s" }.
    warmup: Option<TextOrTable<DurationValue, WarmupEnd>>,
    /// HTTP method. Default: "GET", or "POST" with a body.
    method: Option<String>,
    /// Header fields.
    headers: IndexMap<String, PlainValue>,
    /// Body of every request.
    body: Option<InlineBody>,
    /// File that contains the body, in or below the folder of this file.
    body_file: Option<String>,
    /// Time limit for a request. Default: "30s".
    timeout: Option<DurationValue>,
    /// Whether connections stay open. Default: true.
    keepalive: Option<bool>,
    /// Whether to use HTTP/2. Default: false.
    http2: Option<bool>,
}

/// Load generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
pub enum ClientName {
    /// The generator that is built into Speedwell.
    #[default]
    Builtin,
    /// ApacheBench.
    Ab,
    /// wrk.
    Wrk,
    /// autocannon.
    Autocannon,
    /// h2load.
    H2load,
}

impl From<ClientName> for LoadClient {
    fn from(name: ClientName) -> LoadClient {
        match name {
            ClientName::Builtin => LoadClient::Builtin,
            ClientName::Ab => LoadClient::Ab,
            ClientName::Wrk => LoadClient::Wrk,
            ClientName::Autocannon => LoadClient::Autocannon,
            ClientName::H2load => LoadClient::H2load,
        }
    }
}

checked! {
    /// A number of concurrent requests.
    #[derive(Copy)]
    struct ConcurrencyCount(u32) from PlainValue as { "type": ["integer", "string"], "minimum": 1 },
    |value| {
        let count = value.as_whole(1).and_then(|count| u32::try_from(count).ok());
        let error = || format!("must be a whole number of at least 1, not {}", value.program_text());
        count.ok_or_else(error)
    }
}

checked! {
    /// A body that is not a file reference.
    pub struct InlineBody(String) from String as { "type": "string", "pattern": "^[^@]|^$" },
    |body| {
        let message = "must not begin with '@'\nhint: for a file, use body_file".to_owned();
        (!body.starts_with('@')).then_some(body).ok_or(message)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "WarmupTable")]
struct WarmupEnd(#[schemars(with = "WarmupTable")] LoadWarmup);

/// End of a warm-up: after `requests`, after `duration`, or once the server responds steadily
/// (`until`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WarmupTable {
    /// Number of requests.
    requests: Option<WholeNumber<1>>,
    /// Length of time.
    duration: Option<DurationValue>,
    /// Until the server responds steadily.
    until: Option<SteadyWord>,
    /// With until: time limit. Default: "30s".
    at_most: Option<DurationValue>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum SteadyWord {
    Steady,
}

impl TryFrom<WarmupTable> for WarmupEnd {
    type Error = String;

    fn try_from(keys: WarmupTable) -> Result<WarmupEnd, String> {
        let at_most = keys.at_most.map(|time| time.0);
        if at_most.is_some() && keys.until.is_none() {
            return Err(": 'at_most' requires until = \"steady\"".to_owned());
        }
        match (keys.requests, keys.duration, keys.until) {
            (Some(count), None, None) => Ok(WarmupEnd(LoadWarmup::Requests(count.0))),
            (None, Some(time), None) => {
                Ok(WarmupEnd(LoadWarmup::DurationMs(as_milliseconds(time.0))))
            }
            (None, None, Some(SteadyWord::Steady)) => {
                let limit = as_milliseconds(at_most.unwrap_or(DEFAULT_STEADY_LIMIT));
                Ok(WarmupEnd(LoadWarmup::SteadyMs(limit)))
            }
            _ => Err(": a warm-up must have exactly one end condition\n\
                      hint: { requests = 5000 }, { duration = \"2s\" } or { until = \"steady\", \
                      at_most = \"30s\" }"
                .to_owned()),
        }
    }
}

impl LoadKeys {
    /// Returns the load on a server that the group starts. The body file is relative to `root`.
    pub fn resolve_load(&self, part: &FilePart, root: &Path) -> Result<ServerLoad> {
        let mut spec = self.resolve_spec(part, root)?;
        if spec.time.is_none() && spec.count.is_none() {
            return Err(part.wrong_table(
                "must have 'requests' or 'duration'\nhint: requests = 8000, or duration = \"10s\"",
            ));
        }
        spec.url = target_url(self.url.as_deref(), self.path.as_ref(), part)?;
        let default = DEFAULT_CONCURRENCY.saturating_mul(spec.pipeline.unwrap_or(1));
        spec.concurrency = spec.concurrency.or(Some(default));
        let warmup = match &self.warmup {
            None => LoadWarmup::None,
            Some(TextOrTable::Text(time)) => LoadWarmup::DurationMs(as_milliseconds(time.0)),
            Some(TextOrTable::Table(end)) => end.0,
        };
        Ok(ServerLoad { spec, warmup })
    }

    /// Returns the load of `[benchmark.NAME]`. The body file is relative to `root`. The URL is
    /// empty if only variants have one.
    pub fn resolve_short_load(&self, part: &FilePart, root: &Path) -> Result<LoadSpec> {
        let warmup = match &self.warmup {
            None => None,
            Some(TextOrTable::Text(time)) => Some(time.0),
            Some(TextOrTable::Table(_)) => {
                return Err(part.value_error("warmup", "must be a duration such as \"2s\""));
            }
        };
        let url = self.url.clone().unwrap_or_default();
        Ok(LoadSpec { url, warmup, ..self.resolve_spec(part, root)? })
    }

    /// Returns the load without its URL and warm-up, which `[group.load]` and `[benchmark.NAME]`
    /// define differently.
    fn resolve_spec(&self, part: &FilePart, root: &Path) -> Result<LoadSpec> {
        if self.duration.is_some() && self.requests.is_some() {
            return Err(not_both(part, "requests", "duration"));
        }
        if self.rate.is_some_and(|rate| rate.0 <= 0.0) {
            return Err(part.error_at_key("rate", "the rate must be above 0 requests per second"));
        }
        Ok(LoadSpec {
            client: self.client.into(),
            concurrency: self.concurrency.map(|count| count.0),
            pipeline: self.pipelining.map(|count| count.0).filter(|count| *count > 1),
            time: self.duration.map(|time| time.0),
            count: self.requests.map(|count| count.0),
            rate: self.rate.map(|rate| rate.0),
            timeout: self.timeout.map(|time| time.0),
            request: self.method.clone(),
            header: header_lines(&self.headers),
            data: self.body.as_ref().map(|body| body.0.clone()),
            body_file: self.body_file.as_ref().map(|file| root.join(file)),
            http2: self.http2 == Some(true),
            no_keepalive: self.keepalive == Some(false),
            ..LoadSpec::default()
        })
    }
}

fn not_both(part: &FilePart, first_key: &str, second_key: &str) -> anyhow::Error {
    let message = format!("{} cannot have both '{first_key}' and '{second_key}'", part.heading());
    part.error_at_key(second_key, message)
}

/// Returns the header lines.
fn header_lines(fields: &IndexMap<String, PlainValue>) -> Vec<String> {
    let lines = fields.iter();
    lines.map(|(name, value)| format!("{name}: {}", value.program_text())).collect()
}

/// Returns `url`, or the URL of `path` on the target itself.
fn target_url(url: Option<&str>, path: Option<&UrlPath>, part: &FilePart) -> Result<String> {
    match (url, path) {
        (Some(_), Some(_)) => Err(not_both(part, "url", "path")),
        (Some(url), None) if path_of(url).is_none() => {
            let hint = "http://127.0.0.1:{port}/";
            let message = format!("is not a valid URL: '{url}'\nhint: {hint}");
            Err(part.value_error("url", message))
        }
        (Some(url), None) => Ok(url.to_owned()),
        (None, path) => {
            let own_path = path.map_or("/", |path| path.0.as_str());
            Ok(format!("http://127.0.0.1:{{port}}{own_path}"))
        }
    }
}

/// Returns the path of an HTTP URL, with everything after it; `None` if the URL is invalid.
pub fn path_of(url: &str) -> Option<&str> {
    let (scheme, after_scheme) = url.split_once("://")?;
    let is_known = ["http", "https"].contains(&scheme) && !after_scheme.is_empty();
    let path = after_scheme.find('/').map_or("/", |index| &after_scheme[index..]);
    is_known.then_some(path)
}

// Reads the checks that a run must pass for its results to be valid: the expected responses of a
// server (`[group.verify]`), and the proof that a variant took effect (`assert`).

/// Expected responses of a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyKeys {
    /// Path requested before and after the load. Default: the load's path.
    path: Option<UrlPath>,
    /// 200, "2xx", "200-204" or a list of them. Default: "2xx".
    status: Option<OneOrMany<StatusRange>>,
    /// Text that the body must contain, or a table with one rule. By default, any body is accepted.
    body: Option<TextOrTable<String, BodyRuleKey>>,
    /// Whether responses must have the same length under all variants. Default: true, but false
    /// with `body.regex`.
    same_bytes_across_variants: Option<bool>,
}

checked! {
    /// HTTP statuses: `200`, `"2xx"`, `"200-204"`.
    pub struct StatusRange(RangeInclusive<u16>) from PlainValue as {
        "type": ["integer", "string"], "minimum": 100, "maximum": 599
    },
    |value| parse_statuses(&value.program_text()).map_err(|error| format!(": {error}"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BodyRuleKey {
    /// A pattern that must match in the body.
    Regex(RegexPattern),
    /// Text that the body must contain.
    Contains(String),
    /// The body must be this JSON value.
    Json(serde_json::Value),
    /// The body must be a JSON list or table of this length.
    JsonLength(WholeNumber<0>),
    /// The body must have this many bytes.
    Bytes(WholeNumber<0>),
}

/// Resolves the expected responses. The default is a status from 200 to 299 and equal lengths.
pub fn resolve_verify(keys: Option<VerifyKeys>) -> ResponseCheck {
    let mut verify =
        ResponseCheck { path: None, statuses: vec![(200, 299)], body: None, same_bytes: true };
    let Some(keys) = keys else {
        return verify;
    };
    verify.path = keys.path.map(|path| path.0);
    if let Some(statuses) = keys.status {
        let range = |status: &StatusRange| (*status.0.start(), *status.0.end());
        verify.statuses = statuses.iter().map(range).collect();
    }
    verify.body = keys.body.map(|body| match body {
        TextOrTable::Text(text) | TextOrTable::Table(BodyRuleKey::Contains(text)) => {
            BodyRule::Contains(text)
        }
        TextOrTable::Table(BodyRuleKey::Regex(pattern)) => BodyRule::Regex(pattern.0),
        TextOrTable::Table(BodyRuleKey::Json(value)) => BodyRule::Json(value),
        TextOrTable::Table(BodyRuleKey::JsonLength(length)) => BodyRule::JsonLength(length.0),
        TextOrTable::Table(BodyRuleKey::Bytes(count)) => BodyRule::Bytes(count.0),
    });
    // A pattern implies that bodies vary, so their lengths may vary too.
    let lengths_vary = matches!(verify.body, Some(BodyRule::Regex(_)));
    verify.same_bytes = keys.same_bytes_across_variants.unwrap_or(!lengths_vary);
    verify
}

/// Proof that the variant took effect: one of `stdout`, `stderr`, `file`, `http`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["stdout"] }, { "required": ["stderr"] }, { "required": ["file"] }, { "required": ["http"] }
]))]
pub struct ProofKeys {
    /// Pattern that must match in the target's stdout.
    stdout: Option<RegexPattern>,
    /// Pattern that must match in its stderr.
    stderr: Option<RegexPattern>,
    /// A file below the target's folder.
    file: Option<String>,
    /// A path to request.
    http: Option<String>,
    /// Pattern that must match in the file or response.
    #[serde(rename = "match")]
    pattern: Option<RegexPattern>,
    /// When to check. By default, when a server is ready, or when a command has exited.
    on: Option<ProofMoment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
enum ProofMoment {
    /// When the server is ready.
    Ready,
    /// After it has exited.
    Exit,
}

/// Resolves the proofs of a variant. Files are relative to the target's working directory. If
/// `server` is true, a proof is checked when the server is ready, unless the proof says otherwise.
pub fn resolve_proofs(
    variant: &FilePart,
    directory: &Path,
    server: bool,
) -> Result<Vec<VariantProof>> {
    let proofs: Option<OneOrMany<ProofKeys>> = variant.read_key("assert")?;
    let keys = proofs.into_iter().flat_map(|proofs| proofs.0);
    let found = keys.zip(variant.list_items("assert"));
    found.map(|(keys, part)| resolve_proof(keys, &part, directory, server)).collect()
}

fn resolve_proof(
    keys: ProofKeys,
    part: &FilePart,
    directory: &Path,
    server: bool,
) -> Result<VariantProof> {
    let has_pattern = keys.pattern.is_some();
    let content_pattern = keys.pattern.map_or_else(String::new, |pattern| pattern.0);
    let file = keys.file.map(|file| ProofSource::File(directory.join(file)));
    let sources = file.into_iter().chain(keys.http.map(ProofSource::Http));
    let mut found: Vec<(ProofSource, String)> =
        sources.map(|place| (place, content_pattern.clone())).collect();
    if has_pattern && found.is_empty() {
        let message = "the key 'match' requires 'file' or 'http'";
        return Err(part.error_at_key("match", message));
    }
    found.extend(keys.stdout.map(|pattern| (ProofSource::Stdout, pattern.0)));
    found.extend(keys.stderr.map(|pattern| (ProofSource::Stderr, pattern.0)));
    match (found.pop(), found.is_empty()) {
        (Some((place, pattern)), true) => Ok(VariantProof {
            at_exit: !server || keys.on == Some(ProofMoment::Exit),
            place,
            pattern,
        }),
        _ => Err(part.wrong_table(
            "must have exactly one of stdout, stderr, file, http\n\
             hint: { stderr = \"loaded\", on = \"exit\" }",
        )),
    }
}
