//! Translates a load into the command line of another tool, as far as the tool supports it.
//!
//! Decides which options a tool supports; unsupported options are rejected by name, never ignored.
//! Start at [`load_with_tool`]. Supported versions are ab 2.3, wrk 4, h2load 1.5x, and autocannon 7
//! and 8.

use super::{DEFAULT_DURATION, LoadJob, LoadNotice, PreparedLoad, build_job};
use crate::execution::server::UNLIMITED;
use anyhow::{Context, Result, bail, ensure};
use speedwell_load::http1::ConnectionOption;
use speedwell_load::load::{LoadShare, RequestKind};
use speedwell_load::pace::PacingModel;
use speedwell_machine::process::{
    self as process, ProcessEnd, ProcessSpec, ScratchFolder, resolve_program,
};
use speedwell_model::load::spec::LoadClient::{self, Ab, Autocannon, H2load, Wrk};
use speedwell_model::load::spec::{LoadSpec, format_statuses};
use speedwell_model::{Case, Sample, Session};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Options that every tool supports, because they set header fields or the concurrency, and options
/// that Speedwell handles itself. Some of those concern the probe request, which the built-in
/// generator sends and checks.
const COMMON_OPTIONS: [&str; 14] = [
    "header",
    "user",
    "cookie",
    "user-agent",
    "client",
    "serve",
    "serve-timeout",
    "location",
    "no-verify",
    "insecure",
    "concurrency",
    "expect-status",
    "expect-body",
    "expect-length",
];

/// Statuses that the built-in generator counts as success.
const SUCCESS_STATUSES: RangeInclusive<u16> = 200..=299;

/// Requests per second to assume for ab if the load has a duration but no count: ab needs a count,
/// for which it reserves memory. No single thread sends more requests per second.
const MAX_AB_RATE: u64 = 250_000;

/// Options that some tools support, besides [`COMMON_OPTIONS`].
const TOOL_OPTIONS: [(&str, &[LoadClient]); 15] = [
    ("count", &[Ab, H2load, Autocannon]),
    ("time", &[Ab, Wrk, H2load, Autocannon]),
    ("threads", &[Wrk, H2load, Autocannon]),
    ("no-keepalive", &[Ab, Wrk, Autocannon]),
    ("request", &[Ab, Autocannon]),
    ("data", &[Ab, H2load, Autocannon]),
    ("body-file", &[Ab, H2load, Autocannon]),
    ("timeout", &[Ab, Wrk, H2load, Autocannon]),
    ("http1.0", &[Ab]),
    ("bind", &[Ab]),
    ("http2", &[H2load]),
    ("streams", &[H2load]),
    ("pipeline", &[H2load, Autocannon]),
    ("warmup", &[H2load]),
    ("unix-socket", &[H2load, Autocannon]),
];

/// Why a tool does not support an option.
const REASONS: [(LoadClient, &str, &str); 6] = [
    (Ab, "threads", "it has one thread"),
    (Wrk, "count", "it stops after a given time, not after a number of requests"),
    (Wrk, "request", "it needs a script for that"),
    (Wrk, "data", "it needs a script for that"),
    (H2load, "rate", "its rate is per connection"),
    (Autocannon, "rate", "it sends the requests of each second in one burst"),
];

/// How a tool counts responses.
struct ToolSupport {
    client: LoadClient,
    /// Statuses that the tool counts as success. The tool does not tell them apart.
    success_statuses: RangeInclusive<u16>,
    /// Whether the tool counts responses with other statuses separately from errors.
    counts_others: bool,
}

fn tool_support(client: LoadClient) -> Result<ToolSupport> {
    let (success_statuses, counts_others) = match client {
        Ab | Autocannon => (SUCCESS_STATUSES, true),
        Wrk => (200..=399, true),
        H2load => (SUCCESS_STATUSES, false),
        LoadClient::Builtin => bail!("our own generator needs no command"),
    };
    Ok(ToolSupport { client, success_statuses, counts_others })
}

/// One of the two counts of responses that a tool reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedCount {
    /// Responses that the tool counts as success.
    Good,
    /// The other responses.
    Others,
}

/// Decides which of a tool's two counts is the number of expected responses. Fails if the expected
/// statuses belong to both counts.
fn select_expected(tool: &ToolSupport, statuses: &[RangeInclusive<u16>]) -> Result<ExpectedCount> {
    let is_inside = |range: &RangeInclusive<u16>| {
        tool.success_statuses.contains(range.start()) && tool.success_statuses.contains(range.end())
    };
    let is_outside = |range: &RangeInclusive<u16>| {
        range.end() < tool.success_statuses.start() || range.start() > tool.success_statuses.end()
    };
    if statuses.iter().all(is_inside) {
        return Ok(ExpectedCount::Good);
    }
    if tool.counts_others && statuses.iter().all(is_outside) {
        return Ok(ExpectedCount::Others);
    }
    let formatted: Vec<String> = statuses.iter().map(format_statuses).collect();
    let (first, last) = (tool.success_statuses.start(), tool.success_statuses.end());
    let counts = if tool.counts_others {
        format!("distinguishes only {first}-{last} from all other statuses")
    } else {
        format!("counts every status but {first}-{last} as a failure")
    };
    bail!(
        "{} cannot count {} as success: it {counts}\n\
         hint: Speedwell's own generator can: leave out --client (or the key 'client' of a file)",
        tool.client.name(),
        formatted.join(", ")
    )
}

/// Makes `http_non2xx` the number of unexpected responses. The tool reports the number of responses
/// that it does not count as success. If these are the expected responses, their number is replaced
/// by the number of all other responses.
fn count_unexpected(samples: &mut [Sample], expected: ExpectedCount) {
    if expected == ExpectedCount::Good {
        return;
    }
    let responses = samples.first().and_then(|sample| sample.iterations);
    let others = samples.iter_mut().filter(|sample| &*sample.metric == "http_non2xx");
    for sample in others {
        sample.value = (responses.unwrap_or(0.0) - sample.value).max(0.0);
    }
}

/// Builds the arguments of a tool for a load. Writes the request body, if any, to the file `body`.
///
/// # Errors
/// Fails if the tool does not support an option.
fn build_arguments(job: &LoadJob, body: &Path) -> Result<Vec<String>> {
    let spec = &job.spec;
    let tool = tool_support(spec.client)?;
    check_supported(&tool, &spec.option_names())?;
    select_expected(&tool, &spec.expect_status)?;
    let request = ToolRequest::from_job(job, body)?;
    let mut arguments = match spec.client {
        Ab => ab_arguments(spec, &request)?,
        Wrk => wrk_arguments(spec, &request)?,
        H2load => h2load_arguments(spec, &request),
        _ => autocannon_arguments(spec, &request)?,
    };
    arguments.push(job.url.to_string());
    Ok(arguments)
}

fn check_supported(tool: &ToolSupport, given: &[String]) -> Result<()> {
    let tool_options = TOOL_OPTIONS.iter().filter(|(_, tools)| tools.contains(&tool.client));
    let tool_options: Vec<&str> = tool_options.map(|(option, _)| *option).collect();
    let is_supported = |name: &str| COMMON_OPTIONS.contains(&name) || tool_options.contains(&name);
    let unsupported: Vec<&String> = given.iter().filter(|name| !is_supported(name)).collect();
    let Some(first) = unsupported.first() else { return Ok(()) };
    let names: Vec<String> = unsupported.iter().map(|name| format!("--{name}")).collect();
    let mut reasons = REASONS.iter().filter(|(client, ..)| *client == tool.client);
    let known = reasons.find(|(_, option, _)| option == first);
    let reason = known.map_or(String::new(), |(_, _, reason)| format!(": {reason}"));
    bail!(
        "{} does not support {}{reason}\nhint: leave it out, or leave out --client",
        tool.client.name(),
        names.join(", ")
    )
}

/// The request of a load, prepared for the command line of a tool.
struct ToolRequest<'a> {
    kind: &'a RequestKind,
    concurrency: u32,
    /// Path of the file with the body.
    body: Option<String>,
}

impl<'a> ToolRequest<'a> {
    fn from_job(job: &'a LoadJob, body: &Path) -> Result<ToolRequest<'a>> {
        let [kind] = job.load.kinds.kinds() else {
            bail!("other tools cannot send several kinds of requests");
        };
        let PacingModel::Closed(closed) = &job.load.pace else {
            bail!("other tools cannot send requests on a schedule");
        };
        let has_method = matches!(job.spec.client, Ab | Autocannon);
        let default_method = if kind.body.is_some() { "POST" } else { "GET" };
        ensure!(
            has_method || kind.method == default_method,
            "the method {} is not supported",
            kind.method
        );
        if let Some(bytes) = &kind.body {
            std::fs::write(body, bytes)?;
        }
        let body = kind.body.as_ref().map(|_| body.display().to_string());
        Ok(ToolRequest { kind, concurrency: closed.concurrency, body })
    }

    /// Returns the header fields as name and value. Includes `Connection: close` if the connection
    /// is to be closed after the response.
    fn header_pairs(&self) -> Vec<(String, String)> {
        let headers = self.kind.headers.iter();
        let mut fields: Vec<(String, String)> = headers
            .map(|(name, value)| (name.clone(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        if self.closes_connection() {
            fields.push(("Connection".to_owned(), "close".to_owned()));
        }
        fields
    }

    fn closes_connection(&self) -> bool {
        self.kind.connection == ConnectionOption::Close
    }
}

/// Converts a duration for tools that accept whole seconds only.
fn whole_seconds(tool: &str, option: &str, time: Option<Duration>) -> Result<Option<u64>> {
    ensure!(
        time.is_none_or(|time| time.subsec_nanos() == 0 && time.as_secs() > 0),
        "{tool} supports only whole seconds for --{option}"
    );
    Ok(time.map(|time| time.as_secs()))
}

fn duration_seconds(spec: &LoadSpec, tool: &str) -> Result<Option<u64>> {
    let default_time = spec.count.is_none().then_some(DEFAULT_DURATION);
    whole_seconds(tool, "time", spec.time.or(default_time))
}

fn timeout_seconds(spec: &LoadSpec, tool: &str) -> Result<Option<u64>> {
    whole_seconds(tool, "timeout", spec.timeout)
}

fn push_option(arguments: &mut Vec<String>, option: &str, value: impl ToString) {
    push_given(arguments, option, Some(value));
}

/// Appends an option if it has a value.
fn push_given(arguments: &mut Vec<String>, option: &str, value: Option<impl ToString>) {
    arguments.extend(value.iter().flat_map(|value| [option.to_owned(), value.to_string()]));
}

fn ab_arguments(spec: &LoadSpec, request: &ToolRequest) -> Result<Vec<String>> {
    // Without -r, ab gives up after an error. Without -l, it counts responses as failed if their
    // lengths differ.
    let mut arguments: Vec<String> = ["-q", "-r", "-l"].map(str::to_owned).to_vec();
    if !request.closes_connection() {
        arguments.push("-k".to_owned());
    }
    push_option(&mut arguments, "-c", request.concurrency);
    let seconds = duration_seconds(spec, "ab")?;
    // -t sets a count of its own, which a later -n replaces.
    push_given(&mut arguments, "-t", seconds);
    let max_requests = seconds.unwrap_or(0).saturating_mul(MAX_AB_RATE);
    push_option(&mut arguments, "-n", spec.count.unwrap_or(max_requests));
    push_given(&mut arguments, "-s", timeout_seconds(spec, "ab")?);
    push_given(&mut arguments, "-B", spec.bind);
    for (name, value) in request.header_pairs() {
        match name.to_ascii_lowercase().as_str() {
            "connection" => {}
            "content-type" if request.body.is_some() => push_option(&mut arguments, "-T", value),
            _ => push_option(&mut arguments, "-H", format!("{name}: {value}")),
        }
    }
    push_given(&mut arguments, "-p", request.body.as_ref());
    if request.kind.method != "GET" {
        push_option(&mut arguments, "-m", &request.kind.method);
    }
    Ok(arguments)
}

fn wrk_arguments(spec: &LoadSpec, request: &ToolRequest) -> Result<Vec<String>> {
    let mut arguments = vec!["--latency".to_owned()];
    push_option(&mut arguments, "-c", request.concurrency);
    push_option(&mut arguments, "-t", spec.threads.unwrap_or(1));
    let with_unit = |seconds: u64| format!("{seconds}s");
    push_given(&mut arguments, "-d", duration_seconds(spec, "wrk")?.map(with_unit));
    push_given(&mut arguments, "--timeout", timeout_seconds(spec, "wrk")?.map(with_unit));
    for (name, value) in request.header_pairs() {
        push_option(&mut arguments, "-H", format!("{name}: {value}"));
    }
    Ok(arguments)
}

fn h2load_arguments(spec: &LoadSpec, request: &ToolRequest) -> Vec<String> {
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    let mut arguments = Vec::new();
    if !spec.http2 {
        arguments.push("--h1".to_owned());
    }
    let streams = spec.streams_per_connection();
    push_option(&mut arguments, "-c", request.concurrency.div_ceil(streams));
    push_option(&mut arguments, "-m", streams);
    push_option(&mut arguments, "-t", spec.threads.unwrap_or(1));
    match (spec.count, spec.time) {
        (Some(count), None) => push_option(&mut arguments, "-n", count),
        (_, time) => {
            push_option(&mut arguments, "-D", milliseconds(time.unwrap_or(DEFAULT_DURATION)));
            push_given(&mut arguments, "--warm-up-time", spec.warmup.map(milliseconds));
        }
    }
    let limit = spec.timeout.filter(|limit| !limit.is_zero());
    push_given(&mut arguments, "-N", limit.map(milliseconds));
    for (name, value) in request.header_pairs() {
        push_option(&mut arguments, "-H", format!("{}: {value}", name.to_ascii_lowercase()));
    }
    push_given(&mut arguments, "-d", request.body.as_ref());
    let socket = spec.unix_socket.as_ref().map(|path| format!("unix:{}", path.display()));
    push_given(&mut arguments, "-B", socket);
    arguments
}

fn autocannon_arguments(spec: &LoadSpec, request: &ToolRequest) -> Result<Vec<String>> {
    let mut arguments: Vec<String> = ["-j", "-n"].map(str::to_owned).to_vec();
    push_option(&mut arguments, "-c", request.concurrency);
    match spec.count {
        Some(count) => push_option(&mut arguments, "-a", count),
        None => push_given(&mut arguments, "-d", duration_seconds(spec, "autocannon")?),
    }
    push_given(&mut arguments, "-w", spec.threads);
    push_given(&mut arguments, "-p", spec.pipeline);
    push_given(&mut arguments, "-t", timeout_seconds(spec, "autocannon")?);
    push_option(&mut arguments, "-m", &request.kind.method);
    for (name, value) in request.header_pairs() {
        push_option(&mut arguments, "-H", format!("{name}={value}"));
    }
    push_given(&mut arguments, "-i", request.body.as_ref());
    push_given(&mut arguments, "-S", spec.unix_socket.as_ref().map(|path| path.display()));
    Ok(arguments)
}

/// Sends one load with the tool that the specification names. `other_server` replaces the command
/// of the load's server. Returns `None` if the load was interrupted.
///
/// # Errors
/// Fails if the tool is missing, does not support the specification, or does not report its
/// results.
pub fn load_with_tool(
    other_server: Option<ProcessSpec>,
    spec: &LoadSpec,
    seed: u64,
    notify: &mut dyn FnMut(LoadNotice),
) -> Result<Option<Session>> {
    let scratch = ScratchFolder::new()?;
    let body = scratch.path("body");
    let job = build_job(spec, seed, LoadShare::ONLY)?;
    let url = job.url.to_string();
    // Build the arguments here, too, so that unsupported options are rejected before a server is
    // started.
    build_arguments(&job, &body)?;
    let tool = spec.client.name();
    resolve_program(Path::new(tool))
        .with_context(|| format!("cannot send the load with {tool}"))?;
    let prepared = PreparedLoad::prepare(job, other_server, notify)?;
    if spec.expect_body.is_some() || spec.expect_length.is_some() {
        notify(LoadNotice::Warning(&format!(
            "{tool} does not check bodies: only the response before the load was checked."
        )));
    }
    prepared.warnings.iter().for_each(|warning| notify(LoadNotice::Warning(warning)));
    let arguments = build_arguments(&prepared.job, &body)?;
    let process_spec = ProcessSpec { limit: UNLIMITED, ..ProcessSpec::new(tool).args(arguments) };
    let outcome = process::run_child(&process_spec, &mut ())
        .with_context(|| format!("cannot start {tool}"))?;
    if let Some(server) = prepared.stop_server()?
        && let Some(died) = &server.died
    {
        bail!("the server {died} during the load; it wrote:\n{}", server.stderr_tail);
    }
    if outcome.ended == ProcessEnd::Interrupted {
        return Ok(None);
    }
    let text = outcome.stdout.text();
    let error_context = || {
        let stderr = outcome.stderr.last_lines(5);
        format!("{tool} reported no results: {stderr}")
    };
    let label = format!("{tool} {url}");
    let mut warnings = Vec::new();
    let sessions = speedwell_formats::read_with_warnings(&label, text.as_bytes(), &mut warnings)
        .with_context(error_context)?;
    warnings.iter().for_each(|warning| notify(LoadNotice::Warning(warning)));
    let mut session = sessions.into_iter().next().with_context(error_context)?;
    let expected = select_expected(&tool_support(spec.client)?, &spec.expect_status)?;
    for run in &mut session.runs {
        count_unexpected(&mut run.samples, expected);
        // Set the URL here, because some tools do not print it.
        run.case = Case::new(url.clone(), run.case.values.clone()).into();
    }
    for failure in &mut session.failures {
        let case = failure.case.as_deref().map(Case::parse);
        if let Some(Ok(case)) = case {
            failure.case = Some(Case::new(url.clone(), case.values).id());
        }
        failure.benchmark.clone_from(&url);
    }
    Ok(Some(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation_of(
        client: LoadClient,
        statuses: &[RangeInclusive<u16>],
    ) -> Result<ExpectedCount, String> {
        let tool = tool_support(client).unwrap();
        select_expected(&tool, statuses).map_err(|error| error.to_string())
    }

    #[test]
    fn expected_statuses_must_match_a_count_of_the_tool() {
        for client in [Ab, Wrk, H2load, Autocannon] {
            assert_eq!(expectation_of(client, &[]), Ok(ExpectedCount::Good));
            assert_eq!(expectation_of(client, &[200..=200]), Ok(ExpectedCount::Good));
            assert_eq!(expectation_of(client, &[200..=204, 206..=206]), Ok(ExpectedCount::Good));
        }
        assert_eq!(expectation_of(Ab, &[404..=404]), Ok(ExpectedCount::Others));
        assert_eq!(expectation_of(Autocannon, &[304..=304]), Ok(ExpectedCount::Others));
        assert_eq!(expectation_of(Wrk, &[304..=304]), Ok(ExpectedCount::Good));
        assert_eq!(expectation_of(Wrk, &[500..=599]), Ok(ExpectedCount::Others));
        for (client, statuses) in [
            (Ab, vec![200..=200, 404..=404]),
            (Ab, vec![200..=399]),
            (Wrk, vec![200..=200, 404..=404]),
            (H2load, vec![404..=404]),
        ] {
            let told = expectation_of(client, &statuses).unwrap_err();
            assert!(told.contains("as success") && told.contains("hint: "), "{told}");
        }
    }

    #[test]
    fn statuses_that_are_expected_are_not_counted_as_unexpected() {
        let sample = |metric: &str, value: f64, iterations: Option<f64>| Sample {
            metric: metric.into(),
            value,
            elapsed_ns: None,
            iterations,
        };
        for (which, count) in [(ExpectedCount::Good, 97.0), (ExpectedCount::Others, 3.0)] {
            let mut samples =
                [sample("throughput", 50.0, Some(100.0)), sample("http_non2xx", 97.0, None)];
            count_unexpected(&mut samples, which);
            assert_eq!(samples[1].value, count, "{which:?}");
            assert_eq!(samples[0].value, 50.0);
        }
    }
}
