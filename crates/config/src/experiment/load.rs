//! Reads loads: `[group.load]`, which defines the load on a server, the short form
//! `[benchmark.NAME]`, and the checks of responses.
//!
//! The tables are converted to a [`LoadSpec`], and so are the options of `speedwell load`. The same
//! settings thus define the same load in all three. Start at [`LoadKeys::resolve_load`] and
//! [`resolve_benchmark`].

use super::parameters::{
    FileContext, ValueTable, combine_cases, group_parameters, reserved_name_error,
};
use crate::file_part::{FilePart, NodeContent, NodeTable, TreeNode};
use crate::value::{
    DeferredValue, DurationValue, NumberValue, OneOrMany, PlainValue, PositiveCount, RegexPattern,
    TextOrTable, UrlPath, WholeNumber, checked, choice_name, or_placeholder,
};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use speedwell_model::assignment::{
    BodyRule, LoadWarmup, ProofSource, ResponseCheck, ServerLoad, VariantProof,
};
use speedwell_model::experiment::{BenchmarkGroup, GroupKind, SeedSource};
use speedwell_model::load::spec::{LoadClient, LoadSpec, parse_statuses};
use speedwell_model::{ParameterValue, as_milliseconds};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Default number of concurrent requests, as for `speedwell load`.
const DEFAULT_CONCURRENCY: u32 = 10;

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
enum ClientName {
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
    struct InlineBody(String) from String as { "type": "string", "pattern": "^[^@]|^$" },
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
            header: (self.headers.iter())
                .map(|(name, value)| format!("{name}: {}", value.program_text()))
                .collect(),
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

// Rewrites `[benchmark.NAME]` with `kind = "load"`, the short form of a group that is an HTTP load.
//
// One table replaces the several tables of a `[[group]]`. Each key that is part of case names
// becomes a parameter of the group, and a placeholder replaces its value in the table:
// `rate = [100, 200]` becomes the parameter `rate` and `rate = "{rate}"`. The other keys are read
// once per case, after their placeholders are filled (`assignment.rs`). Keys about the server are
// read here; all others are read like the keys of `[group.load]`. The server is started by a shell
// command or is already running. The result is the [`LoadSpec`] that `speedwell load` executes.

/// Keys about the server, which `[group.load]` does not have.
const SERVER_KEYS: [&str; 3] = ["serve", "ready", "expect"];

/// A benchmark that is an HTTP load, named `GROUP/NAME`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BenchmarkKeys {
    /// Kind of benchmark.
    #[schemars(required)]
    kind: Option<KindName>,
    /// Values or lists of values: one case for every combination.
    parameters: ValueTable,
    /// Concurrent requests, or a list: one case for each. Default: 10.
    concurrency: Option<OneOrMany<NumberValue>>,
    /// Requests per second, however fast the server responds, or a list of rates. By default, as
    /// fast as responses arrive.
    rate: Option<OneOrMany<NumberValue>>,
    /// Load generator. If it is not the built-in one, its name becomes part of the case name.
    client: ClientName,
    /// URL to request. A variant may replace it.
    url: Option<DeferredValue<String>>,
    /// Shell command that starts the server. It must stay in the foreground.
    serve: Option<DeferredValue<String>>,
    /// Time limit for the server to accept connections. Default: "30s".
    ready: Option<DeferredValue<DurationValue>>,
    /// Duration of the load. Default: "10s", unless there is a number of requests.
    duration: Option<DeferredValue<DurationValue>>,
    /// Number of requests after which the load ends.
    requests: Option<DeferredValue<WholeNumber<1>>>,
    /// Warm-up time; its requests are excluded from the results.
    warmup: Option<DeferredValue<DurationValue>>,
    /// HTTP method. Default: "GET", or "POST" with a body.
    method: Option<DeferredValue<String>>,
    /// Header fields.
    headers: Option<DeferredValue<IndexMap<String, PlainValue>>>,
    /// Body of every request.
    body: Option<DeferredValue<InlineBody>>,
    /// File next to this one that contains the body.
    body_file: Option<DeferredValue<String>>,
    /// Whether to use HTTP/2. Default: false.
    http2: Option<DeferredValue<bool>>,
    /// Whether connections stay open. Default: true.
    keepalive: Option<DeferredValue<bool>>,
    /// Time limit for a request. Default: "30s".
    timeout: Option<DeferredValue<DurationValue>>,
    /// Expected responses.
    expect: Option<DeferredValue<ExpectKeys>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum KindName {
    /// An HTTP load.
    Load,
}

/// The [`SERVER_KEYS`] of a case; all other keys are ignored here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerKeys {
    serve: Option<String>,
    ready: Option<DurationValue>,
    expect: ExpectKeys,
}

/// Expected responses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ExpectKeys {
    /// 200, "2xx", "200-204" or a list of them. Default: "2xx".
    status: OneOrMany<StatusRange>,
    /// Text that the body must contain.
    body: Option<String>,
    /// Length of the body in bytes.
    length: Option<PositiveCount>,
}

/// Converts the benchmark at `part` to a group and the table of its load.
pub fn resolve_benchmark(
    part: &FilePart,
    file: &FileContext,
) -> Result<(BenchmarkGroup, NodeTable)> {
    let keys: BenchmarkKeys = part.read_part()?;
    if keys.kind.is_none() {
        return Err(part.missing_key("kind", "kind = \"load\""));
    }
    let name = part.place.last_key();
    let (declared, sections) = rewrite_keys(keys, part)?;
    let parameters = group_parameters(&declared, part, file)?;
    let group = BenchmarkGroup {
        name: name.to_owned(),
        kind: GroupKind::Load,
        cases: combine_cases(&[], part, name, &parameters, file)?,
        parameters,
        expected_loads: Vec::new(),
        metrics: Vec::new(),
        target_metrics: Vec::new(),
        also: Vec::new(),
        seed: SeedSource::PerRun,
        files: Vec::new(),
    };
    Ok((group, sections))
}

/// Returns the parameters of the group, the declared ones first, and the table of its load. In this
/// table, placeholders replace the values that became parameters.
fn rewrite_keys(keys: BenchmarkKeys, part: &FilePart) -> Result<(ValueTable, NodeTable)> {
    let single = |value| OneOrMany(vec![PlainValue(value)]);
    let numbers = |OneOrMany(numbers): OneOrMany<NumberValue>| {
        let values = numbers.into_iter().map(|number| ParameterValue::Number(number.0));
        OneOrMany(values.map(PlainValue).collect())
    };
    let rate = keys.rate.map(numbers);
    let default = || {
        let concurrency = ParameterValue::Number(f64::from(DEFAULT_CONCURRENCY));
        rate.is_none().then(|| single(concurrency))
    };
    let concurrency = keys.concurrency.map(numbers).or_else(default);
    // Figures of different clients are not comparable, so the client is part of the case.
    let client = (keys.client != ClientName::Builtin)
        .then(|| single(ParameterValue::Text(choice_name(&keys.client))));
    let mut parameters = keys.parameters;
    let mut table = part.entries();
    table.retain(|key, _| !["kind", "parameters"].contains(&key.as_str()));
    for (name, values) in [("rate", rate), ("concurrency", concurrency), ("client", client)] {
        if parameters.contains_key(name) {
            let declared = part.part("parameters").unwrap_or_else(|| part.clone());
            return Err(reserved_name_error(&declared, name));
        }
        let Some(values) = values else { continue };
        let line = part.get(name).and_then(|node| node.line);
        let placeholder = NodeContent::Text(format!("{{{name}}}"));
        parameters.insert(name.to_owned(), values);
        table.insert(name.to_owned(), TreeNode { line, content: placeholder });
    }
    Ok((parameters, table))
}

/// Resolves the load of one case of `[benchmark.NAME]`. The body file is relative to `root`. The
/// placeholders of `part` must already be filled. The URL is empty if only variants have a URL.
pub fn resolve_benchmark_load(part: &FilePart, root: &Path) -> Result<LoadSpec> {
    let server: ServerKeys = part.read_part()?;
    let mut table = part.entries();
    table.retain(|key, _| !SERVER_KEYS.contains(&key.as_str()));
    let node = TreeNode { line: part.node.line, content: NodeContent::Table(table) };
    let load = FilePart::new(&part.place, &node);
    let keys: LoadKeys = load.read_part()?;
    if let Some(TextOrTable::Table(_)) = keys.warmup {
        return Err(load.value_error("warmup", "must be a duration such as \"2s\""));
    }
    let warmup = match &keys.warmup {
        Some(TextOrTable::Text(time)) => Some(time.0),
        _ => None,
    };
    Ok(LoadSpec {
        url: keys.url.clone().unwrap_or_default(),
        warmup,
        serve: server.serve,
        serve_timeout: server.ready.map(|time| time.0),
        expect_status: server.expect.status.0.into_iter().map(|status| status.0).collect(),
        expect_body: server.expect.body,
        expect_length: server.expect.length.map(|length| u64::from(length.0)),
        ..keys.resolve_spec(&load, root)?
    })
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
    struct StatusRange(RangeInclusive<u16>) from PlainValue as {
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
    let Some(keys) = keys else { return verify };
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

#[cfg(test)]
mod tests {
    use crate::experiment::tests::{assignment_of, case_ids, message_of, read_experiment};
    use speedwell_model::assignment::TargetWork;

    const GOOD: &str = r#"
        name = "servers"
        program = "node"
        [variant.plain]
        [variant.slow]
        env = { SLOW = "1" }
        [benchmark.hello]
        kind = "load"
        serve = "{program} server.js --port={port} --size={size}"
        url = "http://127.0.0.1:{port}/?size={size}"
        concurrency = [1, 10]
        duration = "500ms"
        headers = { accept = "text/plain" }
        expect = { status = 200, body = "hello" }
        parameters = { size = [1, 1000] }
    "#;

    #[test]
    fn a_benchmark_is_a_group_with_parameters_and_variants() {
        let found = read_experiment(GOOD).unwrap();
        let cases = [
            "servers/hello concurrency=1 size=1",
            "servers/hello concurrency=10 size=1",
            "servers/hello concurrency=1 size=1000",
            "servers/hello concurrency=10 size=1000",
        ];
        assert_eq!(case_ids(&found, "hello"), cases);
        let slow = assignment_of(&found, "hello", 1, "slow");
        let TargetWork::Load(spec) = &slow.work else {
            panic!("{slow:?}");
        };
        assert_eq!(
            spec.to_args(),
            [
                "http://127.0.0.1:{port}/?size=1",
                "--concurrency=10",
                "--time=500ms",
                "--header=accept: text/plain",
                "--expect-status=200",
                "--expect-body=hello",
                "--serve=node server.js --port={port} --size=1"
            ]
        );
        let variables = slow.target.plain_environment();
        assert_eq!(variables, [("SLOW".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn benchmarks_and_groups_can_be_combined_with_claims() {
        let found = read_experiment(&format!(
            "{GOOD}\n[[claim]]\nexpr = \"throughput(slow) < throughput(plain)\"
             [[group]]\nname = \"tool\"\nkind = \"command\"\ntarget = {{ command = [\"true\"] }}"
        ));
        assert_eq!(found.unwrap().groups.len(), 2);
    }

    #[test]
    fn an_unknown_key_is_an_error_with_the_nearest_known_one() {
        let wrong = GOOD.replace("concurrency", "concurency");
        assert_eq!(
            message_of(&wrong),
            "line 11: [benchmark.hello] has an unknown key 'concurency'\nhint: did you mean 'concurrency'?"
        );
        assert!(
            message_of(&GOOD.replace("env =", "environ ="))
                .contains("[variant.slow] has an unknown key")
        );
        assert!(
            message_of(&format!("colour = 1\n{GOOD}"))
                .contains("the file has an unknown key 'colour'")
        );
        let inner = GOOD.replace("body =", "bodi =");
        assert!(message_of(&inner).contains("[benchmark.hello.expect]"));
    }

    #[test]
    fn a_placeholder_that_nobody_fills_is_an_error() {
        let message = message_of(&GOOD.replace("?size={size}", "?size={siez}"));
        assert!(message.starts_with("line 10: ") && message.contains("'{siez}'"), "{message}");
        assert!(message.contains("did you mean 'size'?"), "{message}");
        assert!(read_experiment(&GOOD.replace("{program} ", "PORT=${PORT} {program} ")).is_ok());
    }

    #[test]
    fn invalid_or_conflicting_values_are_refused() {
        let message_with =
            |replacement: &str| message_of(&GOOD.replace("duration = \"500ms\"", replacement));
        assert!(
            message_with("duration = \"5 parsecs\"").contains("cannot parse duration '5 parsecs'")
        );
        assert!(message_with("duration = \"1s\"\nrequests = 5").contains("cannot have both"));
        assert!(message_with("rate = true").contains("'rate'"));
        let warmup = message_with("warmup = { requests = 5 }");
        assert!(warmup.contains("'warmup' of [benchmark.hello] must be a duration"), "{warmup}");
        let reserved = message_of(&GOOD.replace("{ size =", "{ rate ="));
        assert!(reserved.contains("[benchmark.hello.parameters] cannot have 'rate'"), "{reserved}");
        assert!(message_of(&GOOD.replace("\"load\"", "\"laod\"")).contains("did you mean 'load'?"));
        assert!(
            message_of(&GOOD.replace("[1, 10]", "2.5")).contains("a whole number of at least 1")
        );
        assert!(message_of("name = \"x\"").contains("[benchmark.NAME]"));
        assert!(message_of("[benchmark.a]\nkind = \"load\"").contains("no key 'url'"));
        let unserved = GOOD.replace("serve =", "# serve =");
        assert!(
            message_of(&unserved)
                .contains("changes the server, but [benchmark.hello] does not start one")
        );
        let named = GOOD.replace("env = { SLOW = \"1\" }", "args = [\"--slow\"]");
        let named = named.replace("{program} server", "node server");
        assert!(message_of(&named).contains("does not use '{program}'"));
        let proven = GOOD.replace("env = {", "assert = { stderr = \"slow\" }\n        env = {");
        assert!(message_of(&proven).contains("no group checks the 'assert' of the variant 'slow'"));
    }
}
