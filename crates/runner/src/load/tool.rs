//! The same load in the words of another tool, as far as it can be said in them.
//!
//! It decides which options a tool can do; what it cannot do is refused by name, never left out.
//! Start at [`load_with_tool`]. The options are those of ab 2.3, wrk 4, h2load 1.5x and autocannon 7 and 8.

use super::build::TIME;
use super::carry_out::{Ready, server_of};
use super::{LoadJob, Notice, UNLIMITED, build};
use anyhow::{Context, bail, ensure};
use speedwell_load::http1::Connection;
use speedwell_load::load::{Kind, Part};
use speedwell_load::pace::Pace;
use speedwell_model::load_spec::{Client, LoadSpec};
use speedwell_model::{Case, Session};
use speedwell_process::{self as process, Ended, Outcome, Scratch, Spec, resolve};
use speedwell_results::formats;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options that concern us and not the tool.
const OURS: [&str; 7] = [
    "client",
    "serve",
    "serve-timeout",
    "location",
    "no-verify",
    "insecure",
    "concurrency",
];

/// Header fields are part of every HTTP.
const HEADERS: [&str; 4] = ["header", "user", "cookie", "user-agent"];

/// Requests that ab reserves memory for each second of a load without a number: it needs a number,
/// and no single thread sends more than this.
const MOST_PER_SECOND: u64 = 250_000;

/// A tool: its name, and the options beside [`OURS`] and [`HEADERS`] that it can do.
struct Tool {
    name: &'static str,
    can: &'static [&'static str],
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
    why_not: &[("threads", "it has one thread")],
};

const WRK: Tool = Tool {
    name: "wrk",
    can: &["time", "threads", "no-keepalive", "timeout"],
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
    why_not: &[(
        "rate",
        "it sends each second's requests at once, at its beginning",
    )],
};

/// How a tool is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolCommand {
    /// Its name, which is also that of its program.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// The command of a tool for a load. A body is written to the file `body`.
///
/// # Errors
/// The tool cannot do what is asked for.
pub(super) fn command(job: &LoadJob, body: &Path) -> anyhow::Result<ToolCommand> {
    let spec = &job.spec;
    let tool = match spec.client {
        Client::Ab => AB,
        Client::Wrk => WRK,
        Client::H2load => H2LOAD,
        Client::Autocannon => AUTOCANNON,
        Client::Builtin => bail!("our own generator needs no command"),
    };
    refuse_what_it_cannot(&tool, &spec.option_names())?;
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

/// What is sent, ready for a command line.
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

    /// Header fields as `Name: value`; a connection that ends is asked for by one of them.
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

/// Seconds of a length of time, for tools that know no fractions.
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
    // -r goes on after errors, and -l takes bodies of any length: without them ab gives up, or
    // counts good answers as failed.
    let mut words: Vec<String> = ["-q", "-r", "-l"].map(str::to_owned).to_vec();
    if !request.is_closing() {
        words.push("-k".to_owned());
    }
    push(&mut words, "-c", request.concurrency);
    let seconds = seconds(spec, "ab")?;
    if let Some(seconds) = seconds {
        // It sets a number of its own, which -n after it replaces.
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

/// Sends one load with the tool that the specification names; `None` if it was interrupted.
///
/// # Errors
/// The tool is missing, cannot do what the specification says, or does not report what it measured.
pub fn load_with_tool(
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Option<Session>> {
    load_with_tool_beside(server_of(spec), spec, seed, tell)
}

/// Sends it beside a server that is started for it, if there is one.
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
    // Refused before a server is started in vain.
    let command = command(&job, &body)?;
    resolve(Path::new(command.name))
        .with_context(|| format!("cannot load with {}", command.name))?;
    let ready = Ready::make(job, server, tell)?;
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
    for run in &mut session.runs {
        // Not every tool prints where it sent its requests.
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
