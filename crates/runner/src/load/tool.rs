//! Translates a load into the command line of another tool, as far as the tool supports it.
//!
//! Decides which options a tool supports; unsupported options are rejected by name, never ignored.
//! Start at [`load_with_tool`]. Supported versions are ab 2.3, wrk 4, h2load 1.5x, and autocannon 7
//! and 8.

use super::build::TIME;
use super::carry_out::{Ready, server_of};
use super::{LoadJob, Notice, UNLIMITED, build};
use anyhow::{Context, bail, ensure};
use speedwell_load::http1::Connection;
use speedwell_load::load::{Kind, Part};
use speedwell_load::pace::Pace;
use speedwell_model::load_spec::{Client, LoadSpec};
use speedwell_model::{Case, Sample, Session};
use speedwell_process::{self as process, Ended, Outcome, Scratch, Spec, resolve};
use speedwell_results::formats;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options handled by Speedwell, not by the tool. The built-in generator sends the probe request
/// and checks its response.
const OURS: [&str; 10] = [
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
const SUCCESS: RangeInclusive<u16> = 200..=299;

/// Every tool can set header fields.
const HEADERS: [&str; 4] = ["header", "user", "cookie", "user-agent"];

/// Requests per second for which ab reserves memory if no count is given: it requires one, and no
/// single thread sends more.
const MOST_PER_SECOND: u64 = 250_000;

/// A tool: its name, and the options it supports besides [`OURS`] and [`HEADERS`].
struct Tool {
    name: &'static str,
    can: &'static [&'static str],
    /// Statuses that the tool counts as success. It makes no finer distinction.
    good: RangeInclusive<u16>,
    /// Whether other statuses are counted separately from errors.
    counts_others: bool,
    why_not: &'static [(&'static str, &'static str)],
}

const AB: Tool = Tool {
    name: "ab",
    can: &[
        "count",
        "time",
        "no-keepalive",
        "request",
        "data",
        "body-file",
        "timeout",
        "http1.0",
        "bind",
    ],
    good: SUCCESS,
    counts_others: true,
    why_not: &[("threads", "it has one thread")],
};

const WRK: Tool = Tool {
    name: "wrk",
    can: &["time", "threads", "no-keepalive", "timeout"],
    good: 200..=399,
    counts_others: true,
    why_not: &[
        ("count", "it ends by time only"),
        ("request", "it needs a script for that"),
        ("data", "it needs a script for that"),
    ],
};

const H2LOAD: Tool = Tool {
    name: "h2load",
    can: &[
        "count",
        "time",
        "threads",
        "http2",
        "streams",
        "pipeline",
        "warmup",
        "data",
        "body-file",
        "timeout",
        "unix-socket",
    ],
    good: SUCCESS,
    counts_others: false,
    why_not: &[("rate", "its rate is one for each connection")],
};

const AUTOCANNON: Tool = Tool {
    name: "autocannon",
    can: &[
        "count",
        "time",
        "threads",
        "request",
        "data",
        "body-file",
        "pipeline",
        "timeout",
        "no-keepalive",
        "unix-socket",
    ],
    good: SUCCESS,
    counts_others: true,
    why_not: &[(
        "rate",
        "it sends each second's requests at once, at its beginning",
    )],
};

/// Command line of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolCommand {
    /// Name of the tool and of its program.
    pub name: &'static str,
    pub arguments: Vec<String>,
}

fn tool_of(client: Client) -> anyhow::Result<Tool> {
    match client {
        Client::Ab => Ok(AB),
        Client::Wrk => Ok(WRK),
        Client::H2load => Ok(H2LOAD),
        Client::Autocannon => Ok(AUTOCANNON),
        Client::Builtin => bail!("our own generator needs no command"),
    }
}

/// Which of a tool's two counts are the expected responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Responses that the tool counts as success.
    Good,
    /// The other responses.
    Others,
}

/// Decides which of the two counts holds the expected responses; the expected statuses must not
/// span both.
fn expected(tool: &Tool, statuses: &[RangeInclusive<u16>]) -> anyhow::Result<Expected> {
    let is_inside = |range: &RangeInclusive<u16>| {
        tool.good.contains(range.start()) && tool.good.contains(range.end())
    };
    let is_outside = |range: &RangeInclusive<u16>| {
        range.end() < tool.good.start() || range.start() > tool.good.end()
    };
    if statuses.iter().all(is_inside) {
        return Ok(Expected::Good);
    }
    if tool.counts_others && statuses.iter().all(is_outside) {
        return Ok(Expected::Others);
    }
    let shown = statuses
        .iter()
        .map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        });
    let shown: Vec<String> = shown.collect();
    let (first, last) = (tool.good.start(), tool.good.end());
    let counts = if tool.counts_others {
        format!("tells {first}-{last} from all other statuses and no more")
    } else {
        format!("counts every status but {first}-{last} as a failure")
    };
    bail!(
        "{} cannot count {} as success: it {counts}\n\
         hint: without --client (the key 'client' of a file) Speedwell's own generator counts it",
        tool.name,
        shown.join(", ")
    )
}

/// Turns the count of other statuses into the count of unexpected ones, if the other statuses are
/// expected.
fn count_unexpected(samples: &mut [Sample], expected: Expected) {
    if expected == Expected::Good {
        return;
    }
    let answers = samples.first().and_then(|sample| sample.iterations);
    let others = samples
        .iter_mut()
        .filter(|sample| &*sample.metric == "http_non2xx");
    for sample in others {
        sample.value = (answers.unwrap_or(0.0) - sample.value).max(0.0);
    }
}

/// Builds the command of a tool for a load. Writes the request body, if any, to the file `body`.
///
/// # Errors
/// The tool does not support an option.
pub(super) fn command(job: &LoadJob, body: &Path) -> anyhow::Result<ToolCommand> {
    let spec = &job.spec;
    let tool = tool_of(spec.client)?;
    refuse_what_it_cannot(&tool, &spec.option_names())?;
    expected(&tool, &spec.expect_status)?;
    let request = Request::from_job(job, body)?;
    let arguments = match spec.client {
        Client::Ab => ab(spec, &request)?,
        Client::Wrk => wrk(spec, &request)?,
        Client::H2load => h2load(spec, &request),
        _ => autocannon(spec, &request)?,
    };
    Ok(ToolCommand {
        name: tool.name,
        arguments,
    })
}

fn refuse_what_it_cannot(tool: &Tool, given: &[String]) -> anyhow::Result<()> {
    let known =
        |name: &str| OURS.contains(&name) || HEADERS.contains(&name) || tool.can.contains(&name);
    let refused: Vec<&String> = given.iter().filter(|name| !known(name)).collect();
    let Some(first) = refused.first() else {
        return Ok(());
    };
    let names: Vec<String> = refused.iter().map(|name| format!("--{name}")).collect();
    let why = tool.why_not.iter().find(|(name, _)| name == first);
    let why = why.map_or(String::new(), |(_, why)| format!(": {why}"));
    bail!(
        "{} cannot do {}{why}\nhint: leave it out, or leave out --client",
        tool.name,
        names.join(", ")
    )
}

/// The request, ready for a command line.
struct Request {
    url: String,
    kind: Kind,
    concurrency: u32,
    body: Option<PathBuf>,
}

impl Request {
    fn from_job(job: &LoadJob, body: &Path) -> anyhow::Result<Request> {
        let [kind] = job.load.kinds.entries() else {
            bail!("other tools send one kind of request");
        };
        let Pace::Closed(closed) = &job.load.pace else {
            bail!("other tools are only started for clients that wait for their answers");
        };
        let client = job.spec.client;
        let has_method = matches!(client, Client::Ab | Client::Autocannon);
        let usual = if kind.body.is_some() { "POST" } else { "GET" };
        ensure!(
            has_method || kind.method == usual,
            "the method {} is not supported",
            kind.method
        );
        let file = match &kind.body {
            None => None,
            Some(bytes) => {
                std::fs::write(body, bytes)?;
                Some(body.to_owned())
            }
        };
        Ok(Request {
            url: job.url.to_string(),
            kind: kind.clone(),
            concurrency: closed.concurrency,
            body: file,
        })
    }

    /// Header fields as name and value. A connection to be closed adds one of its own.
    fn fields(&self) -> Vec<(String, String)> {
        let own = self.kind.headers.iter();
        let mut fields: Vec<(String, String)> = own
            .map(|(name, value)| (name.clone(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        if self.kind.connection == Connection::Close {
            fields.push(("Connection".to_owned(), "close".to_owned()));
        }
        fields
    }

    fn is_closing(&self) -> bool {
        self.kind.connection == Connection::Close
    }
}

/// Converts a duration for tools that accept whole seconds only.
fn whole_seconds(tool: &str, what: &str, time: Duration) -> anyhow::Result<u64> {
    ensure!(
        time.subsec_nanos() == 0 && time.as_secs() > 0,
        "{tool} counts --{what} in whole seconds"
    );
    Ok(time.as_secs())
}

fn seconds(spec: &LoadSpec, tool: &str) -> anyhow::Result<Option<u64>> {
    let usual = spec.count.is_none().then_some(TIME);
    let time = spec.time.or(usual);
    time.map(|time| whole_seconds(tool, "time", time))
        .transpose()
}

fn timeout(spec: &LoadSpec, tool: &str) -> anyhow::Result<Option<u64>> {
    let limit = spec.timeout;
    limit
        .map(|time| whole_seconds(tool, "timeout", time))
        .transpose()
}

fn push(words: &mut Vec<String>, option: &str, value: impl ToString) {
    words.extend([option.to_owned(), value.to_string()]);
}

fn ab(spec: &LoadSpec, request: &Request) -> anyhow::Result<Vec<String>> {
    // -r continues after errors and -l accepts bodies of any length; without them ab gives up, or
    // counts good responses as failed.
    let mut words: Vec<String> = ["-q", "-r", "-l"].map(str::to_owned).to_vec();
    if !request.is_closing() {
        words.push("-k".to_owned());
    }
    push(&mut words, "-c", request.concurrency);
    let seconds = seconds(spec, "ab")?;
    if let Some(seconds) = seconds {
        // -t sets a count of its own, which a later -n replaces.
        push(&mut words, "-t", seconds);
    }
    let most = seconds.unwrap_or(0).saturating_mul(MOST_PER_SECOND);
    push(&mut words, "-n", spec.count.unwrap_or(most));
    if let Some(seconds) = timeout(spec, "ab")? {
        push(&mut words, "-s", seconds);
    }
    if let Some(address) = spec.bind {
        push(&mut words, "-B", address);
    }
    for (name, value) in request.fields() {
        match name.to_ascii_lowercase().as_str() {
            "connection" => {}
            "content-type" if request.body.is_some() => push(&mut words, "-T", value),
            _ => push(&mut words, "-H", format!("{name}: {value}")),
        }
    }
    if let Some(body) = &request.body {
        push(&mut words, "-p", body.display());
    }
    if request.kind.method != "GET" {
        push(&mut words, "-m", &request.kind.method);
    }
    words.push(request.url.clone());
    Ok(words)
}

fn wrk(spec: &LoadSpec, request: &Request) -> anyhow::Result<Vec<String>> {
    let mut words = vec!["--latency".to_owned()];
    push(&mut words, "-c", request.concurrency);
    push(&mut words, "-t", spec.threads.unwrap_or(1));
    if let Some(seconds) = seconds(spec, "wrk")? {
        push(&mut words, "-d", format!("{seconds}s"));
    }
    if let Some(seconds) = timeout(spec, "wrk")? {
        push(&mut words, "--timeout", format!("{seconds}s"));
    }
    for (name, value) in request.fields() {
        push(&mut words, "-H", format!("{name}: {value}"));
    }
    words.push(request.url.clone());
    Ok(words)
}

fn h2load(spec: &LoadSpec, request: &Request) -> Vec<String> {
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    let mut words = Vec::new();
    if !spec.http2 {
        words.push("--h1".to_owned());
    }
    let streams = spec.streams_per_connection();
    push(&mut words, "-c", request.concurrency.div_ceil(streams));
    push(&mut words, "-m", streams);
    push(&mut words, "-t", spec.threads.unwrap_or(1));
    match (spec.count, spec.time) {
        (Some(count), None) => push(&mut words, "-n", count),
        (_, time) => {
            let time = time.unwrap_or(TIME);
            push(&mut words, "-D", milliseconds(time));
            if let Some(warmup) = spec.warmup {
                push(&mut words, "--warm-up-time", milliseconds(warmup));
            }
        }
    }
    if let Some(limit) = spec.timeout.filter(|limit| !limit.is_zero()) {
        push(&mut words, "-N", milliseconds(limit));
    }
    for (name, value) in request.fields() {
        push(
            &mut words,
            "-H",
            format!("{}: {value}", name.to_ascii_lowercase()),
        );
    }
    if let Some(body) = &request.body {
        push(&mut words, "-d", body.display());
    }
    if let Some(path) = &spec.unix_socket {
        push(&mut words, "-B", format!("unix:{}", path.display()));
    }
    words.push(request.url.clone());
    words
}

fn autocannon(spec: &LoadSpec, request: &Request) -> anyhow::Result<Vec<String>> {
    let mut words: Vec<String> = ["-j", "-n"].map(str::to_owned).to_vec();
    push(&mut words, "-c", request.concurrency);
    match spec.count {
        Some(count) => push(&mut words, "-a", count),
        None => {
            if let Some(seconds) = seconds(spec, "autocannon")? {
                push(&mut words, "-d", seconds);
            }
        }
    }
    if let Some(threads) = spec.threads {
        push(&mut words, "-w", threads);
    }
    if let Some(streams) = spec.pipeline {
        push(&mut words, "-p", streams);
    }
    if let Some(seconds) = timeout(spec, "autocannon")? {
        push(&mut words, "-t", seconds);
    }
    push(&mut words, "-m", &request.kind.method);
    for (name, value) in request.fields() {
        push(&mut words, "-H", format!("{name}={value}"));
    }
    if let Some(body) = &request.body {
        push(&mut words, "-i", body.display());
    }
    if let Some(path) = &spec.unix_socket {
        push(&mut words, "-S", path.display());
    }
    words.push(request.url.clone());
    Ok(words)
}

/// Sends one load with the tool of the specification; `None` if it was interrupted.
///
/// # Errors
/// The tool is missing, does not support the specification, or does not report its results.
pub fn load_with_tool(
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Option<Session>> {
    load_with_tool_beside(server_of(spec), spec, seed, tell)
}

/// Sends the load and starts `server` for it, if given.
///
/// # Errors
/// As for [`load_with_tool`].
pub fn load_with_tool_beside(
    server: Option<Spec>,
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Option<Session>> {
    let scratch = Scratch::new()?;
    let body = scratch.path("body");
    let job = build::job(spec, seed, Part::WHOLE)?;
    let url = job.url.to_string();
    // Rejects unsupported options before a server is started.
    let command = command(&job, &body)?;
    resolve(Path::new(command.name))
        .with_context(|| format!("cannot load with {}", command.name))?;
    let ready = Ready::make(job, server, tell)?;
    if spec.expect_body.is_some() || spec.expect_length.is_some() {
        tell(Notice::Warning(&format!(
            "{} does not look at bodies: only the answer before the load was checked.",
            command.name
        )));
    }
    for warning in &ready.warnings {
        tell(Notice::Warning(warning));
    }
    let command = self::command(&ready.job, &body)?;
    let outcome = start(&command)?;
    if let Some(server) = ready.end()?
        && let Some(died) = &server.died
    {
        bail!(
            "the server {died} during the load; it wrote:\n{}",
            server.stderr_tail
        );
    }
    if outcome.ended == Ended::Interrupted {
        return Ok(None);
    }
    let text = outcome.stdout.text();
    let failed = || {
        let wrote = outcome.stderr.last_lines(5);
        format!("{} did not report what it measured: {wrote}", command.name)
    };
    let label = format!("{} {url}", command.name);
    let mut warnings = Vec::new();
    let sessions = formats::read_noting(&label, text.as_bytes(), &mut warnings);
    let sessions = sessions.with_context(failed)?;
    for warning in &warnings {
        tell(Notice::Warning(warning));
    }
    let mut session = sessions.into_iter().next().with_context(failed)?;
    let expected = expected(&tool_of(spec.client)?, &spec.expect_status)?;
    for run in &mut session.runs {
        count_unexpected(&mut run.samples, expected);
        // Some tools do not print the URL.
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

fn start(command: &ToolCommand) -> anyhow::Result<Outcome> {
    let spec = Spec {
        limit: UNLIMITED,
        ..Spec::new(command.name).args(command.arguments.iter().cloned())
    };
    process::run(&spec, &mut ()).with_context(|| format!("cannot start {}", command.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_of(client: Client, statuses: &[RangeInclusive<u16>]) -> Result<Expected, String> {
        let tool = tool_of(client).unwrap();
        expected(&tool, statuses).map_err(|error| error.to_string())
    }

    #[test]
    fn an_expected_status_is_one_that_the_tool_counts() {
        use Client::{Ab, Autocannon, H2load, Wrk};
        for client in [Ab, Wrk, H2load, Autocannon] {
            assert_eq!(expected_of(client, &[]), Ok(Expected::Good));
            assert_eq!(expected_of(client, &[200..=200]), Ok(Expected::Good));
            assert_eq!(
                expected_of(client, &[200..=204, 206..=206]),
                Ok(Expected::Good)
            );
        }
        assert_eq!(expected_of(Ab, &[404..=404]), Ok(Expected::Others));
        assert_eq!(expected_of(Autocannon, &[304..=304]), Ok(Expected::Others));
        assert_eq!(expected_of(Wrk, &[304..=304]), Ok(Expected::Good));
        assert_eq!(expected_of(Wrk, &[500..=599]), Ok(Expected::Others));
        for (client, statuses) in [
            (Ab, vec![200..=200, 404..=404]),
            (Ab, vec![200..=399]),
            (Wrk, vec![200..=200, 404..=404]),
            (H2load, vec![404..=404]),
        ] {
            let told = expected_of(client, &statuses).unwrap_err();
            assert!(
                told.contains("as success") && told.contains("hint: "),
                "{told}"
            );
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
        for (which, count) in [(Expected::Good, 97.0), (Expected::Others, 3.0)] {
            let mut samples = [
                sample("throughput", 50.0, Some(100.0)),
                sample("http_non2xx", 97.0, None),
            ];
            count_unexpected(&mut samples, which);
            assert_eq!(samples[1].value, count, "{which:?}");
            assert_eq!(samples[0].value, 50.0);
        }
    }
}
