//! Rewrites `[benchmark.NAME]` with `kind = "load"`, the short form of a group that is an HTTP load.
//!
//! One table replaces the several tables of a `[[group]]`. Each key that is part of case names
//! becomes a parameter of the group, and a placeholder replaces its value in the table:
//! `rate = [100, 200]` becomes the parameter `rate` and `rate = "{rate}"`. The other keys are read
//! once per case, after their placeholders are filled (`assignment.rs`). Keys about the server are
//! read here; all others are read like the keys of `[group.load]`. The server is started by a shell
//! command or is already running. The result is the [`LoadSpec`] that `speedwell load` executes.
//! Start at [`resolve_benchmark`].

use super::group::{FileContext, GroupSource};
use super::load::{ClientName, DEFAULT_CONCURRENCY, InlineBody, LoadKeys, StatusRange};
use super::parameters::{ValueTable, combine_cases, group_parameters, reserved_name_error};
use crate::file_part::{FilePart, NodeContent, NodeTable, TreeNode};
use crate::value::{
    DeferredValue, DurationValue, NumberValue, OneOrMany, PlainValue, PositiveCount, WholeNumber,
    choice_name,
};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::ParameterValue;
use speedwell_model::experiment::{BenchmarkGroup, GroupKind, SeedSource};
use speedwell_model::load::spec::LoadSpec;
use std::path::Path;

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

/// Converts the benchmark at `part` to a group.
pub fn resolve_benchmark(
    part: &FilePart,
    file: &FileContext,
) -> Result<(BenchmarkGroup, GroupSource)> {
    let keys: BenchmarkKeys = part.read_part()?;
    if keys.kind.is_none() {
        return Err(part.missing_key("kind", "kind = \"load\""));
    }
    let name = part.place.last_key();
    let (declared, sections) = rewrite_keys(keys, part)?;
    let parameters = group_parameters(&declared, part, file.known, file.settings)?;
    let benchmark = format!("{}/{name}", file.experiment);
    let group = BenchmarkGroup {
        name: name.to_owned(),
        kind: GroupKind::Load,
        cases: combine_cases(&[], part, &benchmark, &parameters, file.settings)?,
        parameters,
        expected_loads: Vec::new(),
        metrics: Vec::new(),
        target_metrics: Vec::new(),
        also: Vec::new(),
        seed: SeedSource::PerRun,
        files: Vec::new(),
    };
    Ok((group, GroupSource::of_sections(part, sections)))
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
        let Some(values) = values else {
            continue;
        };
        let line = part.get(name).and_then(|node| node.line);
        let placeholder = NodeContent::Text(format!("{{{name}}}"));
        parameters.insert(name.to_owned(), values);
        table.insert(name.to_owned(), TreeNode { line, content: placeholder });
    }
    Ok((parameters, table))
}

/// Resolves the load of one case. The body file is relative to `root`. The placeholders of `part`
/// must already be filled. The URL is empty if only variants have a URL.
pub fn resolve_benchmark_load(part: &FilePart, root: &Path) -> Result<LoadSpec> {
    let server: ServerKeys = part.read_part()?;
    let mut table = part.entries();
    table.retain(|key, _| !SERVER_KEYS.contains(&key.as_str()));
    let node = TreeNode { line: part.node.line, content: NodeContent::Table(table) };
    let load = FilePart::new(&part.place, &node);
    let keys: LoadKeys = load.read_part()?;
    Ok(LoadSpec {
        serve: server.serve,
        serve_timeout: server.ready.map(|time| time.0),
        expect_status: server.expect.status.0.into_iter().map(|status| status.0).collect(),
        expect_body: server.expect.body,
        expect_length: server.expect.length.map(|length| u64::from(length.0)),
        ..keys.resolve_short_load(&load, root)?
    })
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
