//! Reads `[benchmark.NAME]` with `kind = "load"`, the short form of a group that is an HTTP load.
//!
//! One table replaces the several tables of a `[[group]]`. The server is started by a shell command
//! or is already running. The table becomes the [`LoadSpec`] that `speedwell load` executes. The
//! keys that define the cases are read only once, by [`resolve_benchmark`]; all other keys are read
//! once per case, with the placeholders filled for that case (`assignment.rs`). Variants have the
//! form that harnesses use, because the command line may replace them. If the file gives a variant
//! its own server or URL, a variant of the same name on the command line uses it, too.

use super::group::{BenchmarkGroup, SeedSource};
use super::load::{ClientName, DEFAULT_CONCURRENCY, InlineBody, header_lines, load_end};
use super::parameters::{GroupParameters, SetValues, ValueTable};
use super::target::GroupKind;
use super::verify::StatusRange;
use crate::file_part::FilePart;
use crate::value::{
    DurationValue, OneOrMany, PlainValue, PositiveCount, WholeNumber, checked, choice_name,
};
use anyhow::Result;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::{Case, ParameterValue};
use std::path::Path;

/// Names that parameters cannot have.
const RESERVED_PARAMETERS: [&str; 4] = ["concurrency", "rate", "port", "program"];

/// Keys that define which cases there are, and not how a case behaves.
pub(super) const CASE_KEYS: [&str; 4] = ["kind", "parameters", "concurrency", "rate"];

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
    concurrency: Option<OneOrMany<PositiveRate>>,
    /// Requests per second, independent of the server, or a list. By default, as fast as responses
    /// arrive.
    rate: Option<OneOrMany<PositiveRate>>,
    /// Load generator. If it is not the built-in one, its name becomes part of the case name.
    client: ClientName,
    /// URL to request. Every variant may have its own instead.
    url: Option<String>,
    /// Shell command that starts the server. It must stay in the foreground.
    serve: Option<String>,
    /// Time limit for the server to accept connections. Default: "30s".
    ready: Option<DurationValue>,
    /// Duration of the load. Default: "10s", unless there is a number of requests.
    duration: Option<DurationValue>,
    /// Number of requests after which the load ends.
    requests: Option<WholeNumber<1>>,
    /// Warm-up time; its requests are excluded from the results.
    warmup: Option<DurationValue>,
    /// HTTP method. Default: "GET", or "POST" with a body.
    method: Option<String>,
    /// Header fields.
    headers: IndexMap<String, PlainValue>,
    /// Body of every request.
    body: Option<InlineBody>,
    /// File next to this one that contains the body.
    body_file: Option<String>,
    /// Whether to use HTTP/2. Default: false.
    http2: Option<bool>,
    /// Whether connections stay open. Default: true.
    keepalive: Option<bool>,
    /// Time limit for a request. Default: "30s".
    timeout: Option<DurationValue>,
    /// Expected responses.
    expect: ExpectKeys,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum KindName {
    /// An HTTP load.
    Load,
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

/// Keys that determine the cases of a benchmark; all others are ignored here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CaseKeys {
    kind: Option<KindName>,
    client: ClientName,
    parameters: ValueTable,
    rate: Option<OneOrMany<PositiveRate>>,
    concurrency: Option<OneOrMany<PositiveRate>>,
}

checked! {
    /// A number above 0.
    #[derive(Copy)]
    struct PositiveRate(f64) from PlainValue as { "type": "number", "exclusiveMinimum": 0 },
    |value| {
        let number = value.0.as_number().filter(|number| *number > 0.0);
        number.ok_or("must be a number above 0 or a list of such numbers".to_owned())
    }
}

/// Returns the group that a benchmark of the experiment `experiment` forms.
pub fn resolve_benchmark(
    part: &FilePart,
    experiment: &str,
    settings: &SetValues,
) -> Result<BenchmarkGroup> {
    let keys: CaseKeys = part.read_part()?;
    if keys.kind.is_none() {
        return Err(part.wrong_table("is missing 'kind'\nhint: kind = \"load\""));
    }
    let client = keys.client;
    let parameters = load_parameters(keys, part, settings)?;
    let rows = Case::cartesian_product(&parameters)
        .map_err(|error| part.error_at_key("parameters", error))?;
    let name = part.place.last_key();
    let cases = rows.into_iter().map(|mut values| {
        // Figures of different clients are not comparable, so the client is part of the case.
        if client != ClientName::Builtin {
            values.push(("client".to_owned(), ParameterValue::Text(choice_name(&client))));
        }
        Case::new(format!("{experiment}/{name}"), values)
    });
    Ok(BenchmarkGroup {
        cases: cases.collect(),
        parameters,
        ..BenchmarkGroup::new(name, GroupKind::Load, SeedSource::PerRun, part)
    })
}

/// Returns the declared parameters, followed by the standard parameters of a load: `rate` and
/// `concurrency`.
fn load_parameters(
    keys: CaseKeys,
    part: &FilePart,
    settings: &SetValues,
) -> Result<GroupParameters> {
    let mut found: GroupParameters = Vec::new();
    for (name, OneOrMany(values)) in keys.parameters {
        if RESERVED_PARAMETERS.contains(&name.as_str()) {
            let table = part.part("parameters").unwrap_or_else(|| part.clone());
            let message = format!("{} cannot have a parameter '{name}'", table.heading());
            let reason = "that name is reserved";
            return Err(table.error_at_key(&name, format!("{message}: {reason}")));
        }
        found.push((name, values.into_iter().map(|value| value.0).collect()));
    }
    let numbers = |OneOrMany(rates): OneOrMany<PositiveRate>| {
        rates.iter().map(|rate| ParameterValue::Number(rate.0)).collect()
    };
    let rate: Option<Vec<ParameterValue>> = keys.rate.map(numbers);
    let default =
        || rate.is_none().then(|| vec![ParameterValue::Number(f64::from(DEFAULT_CONCURRENCY))]);
    let concurrency = keys.concurrency.map(numbers).or_else(default);
    found.extend(rate.map(|values| ("rate".to_owned(), values)));
    found.extend(concurrency.map(|values| ("concurrency".to_owned(), values)));
    for (name, values) in &mut found {
        *values = settings.replace_values(name, std::mem::take(values));
    }
    Ok(found)
}

impl BenchmarkKeys {
    /// Returns the load of a case, with files relative to `root`. The URL is empty if only variants
    /// have a URL.
    pub(super) fn load_spec(self, part: &FilePart, case: &Case, root: &Path) -> Result<LoadSpec> {
        let (time, count) = load_end(self.duration, self.requests, part)?;
        let number = |name| case.value(name).and_then(ParameterValue::as_number);
        let concurrency = number("concurrency");
        let is_whole =
            |number: f64| number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number);
        if let Some(number) = concurrency.filter(|number| !is_whole(*number)) {
            let message =
                format!("the concurrency must be a whole number of at least 1, not {number}");
            return Err(part.error_at_key("concurrency", message));
        }
        let statuses = self.expect.status.0.into_iter();
        Ok(LoadSpec {
            client: self.client.into(),
            serve: self.serve,
            url: self.url.unwrap_or_default(),
            concurrency: concurrency.map(|number| number as u32),
            rate: number("rate"),
            time,
            count,
            warmup: self.warmup.map(|time| time.0),
            serve_timeout: self.ready.map(|time| time.0),
            timeout: self.timeout.map(|time| time.0),
            request: self.method,
            header: header_lines(&self.headers),
            data: self.body.map(|body| body.0),
            body_file: self.body_file.map(|file| root.join(file)),
            http2: self.http2 == Some(true),
            no_keepalive: self.keepalive == Some(false),
            expect_status: statuses.map(|status| status.0).collect(),
            expect_body: self.expect.body,
            expect_length: self.expect.length.map(|length| u64::from(length.0)),
            ..LoadSpec::default()
        })
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
    fn a_benchmark_may_stand_beside_groups_and_be_judged_as_they_are() {
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
    fn what_has_no_meaning_is_refused() {
        let message_with =
            |replacement: &str| message_of(&GOOD.replace("duration = \"500ms\"", replacement));
        assert!(
            message_with("duration = \"5 parsecs\"").contains("cannot parse duration '5 parsecs'")
        );
        assert!(message_with("duration = \"1s\"\nrequests = 5").contains("cannot have both"));
        assert!(message_with("rate = true").contains("'rate'"));
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
