//! `speedwell load`: from options to loads, their progress on the terminal, and the results.
//!
//! Decides what is printed meanwhile. Start at [`run`]; `measure/load/` decides which loads run in
//! which order, and `runner/load/build.rs` fills in defaults.

mod benchmarker;
mod live;
mod search;
mod watched;
mod written;

use super::options::{ComparisonArgs, LoadArgs};
use super::{Status, serve, status};
use anyhow::{Context, bail, ensure};
use live::LiveView;
use speedwell_analysis::{self as analysis};
use speedwell_measure::draw_seed;
use speedwell_measure::load::{LoadEvent, LoadRequest, Wish, load, load_with_tools, machines};
use speedwell_model::load_spec::Client;
use speedwell_model::{State, parse_duration};
use speedwell_process as process;
use speedwell_report::session::{StudyChoice, document_of};
use speedwell_report::{self as report, Uncertainty};
use speedwell_runner as runner;
use speedwell_runner::load::{LoadRun, Notice, ProbeFacts, Url};
use watched::Watched;
use written::conclude;

/// Runs the loads and reports the results.
///
/// # Errors
/// Fails on invalid options, and on a server that cannot be started or does not respond
/// successfully.
pub fn run(args: &LoadArgs) -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    let seed = args.pace.seed.unwrap_or_else(draw_seed);
    if args.benchmarker {
        return benchmarker::run(args, seed);
    }
    check(args)?;
    let request = args.request(seed)?;
    if args.generator.client != Client::Builtin {
        return with_tool(args, &request);
    }
    let dashboard = args
        .dashboard
        .then(|| args.store.database.path())
        .transpose()?;
    serve::beside(dashboard.as_deref(), || carry_out(args, &request))
}

/// Runs the loads, stores them and reports.
fn carry_out(args: &LoadArgs, request: &LoadRequest) -> anyhow::Result<Status> {
    let loaded = {
        let mut teller = Teller::new(args);
        load(request, &mut |event| teller.hear(event))
    };
    let interrupted = if process::interrupted() {
        Status::INTERRUPTED
    } else {
        Status::DONE
    };
    let status = match &loaded.ended {
        Ok(()) => interrupted,
        Err(error) => {
            status::tell(error);
            interrupted.or(Status::COULD_NOT)
        }
    };
    if loaded.runs.is_empty() {
        Ok(status)
    } else {
        Ok(status.of_gate(finish(args, request, &loaded.runs)?))
    }
}

/// Generates a part of a load for another process of this program.
///
/// # Errors
/// Fails if no load was requested, or if it could not be started.
pub fn work() -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    runner::load::work().map(|()| Status::DONE)
}

/// Sends this machine's share of a load, which is described on standard input.
///
/// # Errors
/// Fails if the connection is lost, or if the load cannot be sent from here.
pub fn perform() -> anyhow::Result<Status> {
    process::adopt_orphans();
    process::on_interrupt()?;
    machines::worker::perform().map(|()| Status::DONE)
}

/// Rejects a body that looks like a duration: `-d` is the duration in other load generators, and
/// the body in curl.
fn check_body(args: &LoadArgs) -> anyhow::Result<()> {
    let traffic = &args.traffic;
    match &traffic.data {
        Some(body) if traffic.method.is_none() && parse_duration(body).is_some() => bail!(
            "'-d {body}' would send '{body}' as the body of each request, as curl does\nhint: -t {body} is the \
             duration of the load; with -X POST it is sent as a body"
        ),
        _ => Ok(()),
    }
}

/// Checks the options that concern all addresses together.
///
/// # Errors
/// Fails on options that conflict.
fn check(args: &LoadArgs) -> anyhow::Result<()> {
    let (servers, urls) = (args.serving.serve.len(), args.urls.len());
    if servers > 1 && servers != urls {
        bail!(
            "--serve was given {servers} times for {urls} {}\nhint: give it once for all, or once for \
             each",
            if urls == 1 { "address" } else { "addresses" }
        );
    }
    check_body(args)?;
    let client = args.generator.client;
    let ours = [
        ("from", args.fleet.from.is_some()),
        ("hdr", args.hdr.is_some()),
        ("fail-on", !args.fail_on.is_empty()),
    ];
    if let Some((name, _)) = ours.iter().find(|(_, is_given)| *is_given)
        && client != Client::Builtin
    {
        bail!(
            "{} cannot do --{name}\nhint: leave it out, or leave out --client",
            client.name()
        );
    }
    for url in &args.urls {
        Url::parse(url)?;
    }
    check_conditions(args)?;
    if args.fleet.from.is_none()
        && let Some(pin) = &args.generator.pin
    {
        pin.check_usable().context("in --pin")?;
    }
    args.output.check(search::subject(args))?;
    for file in [&args.hdr, &args.log_requests].into_iter().flatten() {
        report::check_writable(file)?;
    }
    let is_repeated = args.runs.is_some_and(|runs| runs > 1);
    ensure!(
        args.output.chart.is_none() || is_repeated || client != Client::Builtin,
        "a single load is drawn as what it is, and --chart shows runs\nhint: --runs 5 repeats it, or leave out --chart"
    );
    search::check(args)
}

/// Rejects a condition on a percentile that needs more requests than the load has.
fn check_conditions(args: &LoadArgs) -> anyhow::Result<()> {
    let Some(count) = args.pace.count.map(u64::from) else {
        return Ok(());
    };
    for condition in &args.fail_on {
        let fewest = condition.fewest_requests();
        ensure!(
            count >= fewest,
            "--fail-on '{condition}' cannot be judged by {count} requests: none of them may be beyond that \
             percentile\nhint: -n {fewest} or more"
        );
    }
    Ok(())
}

/// Runs the load with another tool, stores its results, and shows them.
fn with_tool(args: &LoadArgs, request: &LoadRequest) -> anyhow::Result<Status> {
    let mut teller = Teller {
        args,
        live: None,
        watched: None,
    };
    let session = load_with_tools(request, &args.store.session(&args.origin), &mut |event| {
        teller.hear(event)
    })?;
    // Show the results even if they cannot be stored.
    let kept = args
        .store
        .open()
        .and_then(|mut store| store.insert(&session));
    let settings = ComparisonArgs::default().settings(&["all".to_owned()], None);
    let findings = analysis::analyse(&session, &settings);
    let output = args.output.settings();
    let study = StudyChoice::default();
    let document = document_of(&session, &findings, &study, &settings, &output)?;
    args.output.print(&document)?;
    kept.map(|_| match session.state {
        State::Interrupted => Status::INTERRUPTED,
        _ => Status::DONE,
    })
}

/// Shows the progress of loads.
struct Teller<'a> {
    args: &'a LoadArgs,
    live: Option<LiveView>,
    watched: Option<Watched>,
}

impl<'a> Teller<'a> {
    /// Creates a reporter whose loads also appear in browsers that watch the store, unless nothing
    /// is stored.
    fn new(args: &'a LoadArgs) -> Teller<'a> {
        let path = args
            .store
            .database
            .path()
            .ok()
            .filter(|_| !args.store.no_save);
        Teller {
            args,
            live: None,
            watched: path.map(|path| Watched::begin(path, std::env::args().collect())),
        }
    }
}

impl Teller<'_> {
    fn hear(&mut self, event: LoadEvent<'_>) {
        let args = self.args;
        match event {
            LoadEvent::Begins(stop) => {
                if let Some(watched) = &mut self.watched {
                    watched.next(&stop);
                }
                self.live = Some(LiveView::new(args.output.progress(), stop));
            }
            LoadEvent::Notice(Notice::Served) => {}
            LoadEvent::Notice(Notice::Standing(snapshot)) => {
                if let Some(live) = &mut self.live {
                    live.show(snapshot);
                }
                if let Some(watched) = &mut self.watched {
                    watched.look(snapshot);
                }
            }
            LoadEvent::Notice(Notice::Probed(url, seen, protocol)) => {
                tell_seen(args, url, seen, protocol);
            }
            LoadEvent::Notice(Notice::Warning(warning)) => status::warn(warning),
            LoadEvent::Ended => self.live = None,
            LoadEvent::Visited(level, throughput) => tell_visit(args, level, throughput),
        }
    }
}

fn tell_visit(args: &LoadArgs, level: f64, throughput: Option<f64>) {
    if args.output.progress() {
        let figure = |value: f64| report::quantity(value, "1/s", Uncertainty::Unknown);
        let given = throughput.map_or("nothing".to_owned(), figure);
        status::note(&match args.pace.rate {
            Some(_) => format!("rate {}: {given}", figure(level)),
            None => format!("concurrency {level}: {given}"),
        });
    }
}

fn tell_seen(args: &LoadArgs, url: &Url, seen: &ProbeFacts, protocol: &str) {
    if args.output.quiet {
        return;
    }
    for from in &seen.redirected_from {
        status::note(&format!("'{from}' redirects"));
    }
    let server = seen.server.as_ref();
    let server = server.map_or(String::new(), |name| format!(", server '{name}'"));
    let tls = seen.tls.as_ref();
    let tls = tls.map_or(String::new(), |tls| {
        format!(", {} {}", tls.version, tls.cipher)
    });
    status::note(&format!(
        "'{url}' answers {} with {} bytes of body ({protocol}{server}{tls})",
        seen.status, seen.body_bytes
    ));
}

/// Stores and reports the results.
fn finish(args: &LoadArgs, request: &LoadRequest, runs: &[LoadRun]) -> anyhow::Result<Status> {
    if request.wish != Wish::Loads {
        return search::finish(args, request, runs);
    }
    let gate = conclude(args, request, runs, |_, _| true)?;
    let outcomes = runs.iter().map(outcome);
    Ok(outcomes.fold(Status::DONE, Status::or).of_gate(gate))
}

/// Returns the exit status of one load.
fn outcome(run: &LoadRun) -> Status {
    let nothing = run.measured.totals.outcomes.succeeded() == 0;
    if run.measured.is_interrupted {
        return Status::INTERRUPTED;
    }
    if nothing {
        status::warn(&format!("No request to '{}' was answered well.", run.url));
    }
    if nothing || run.is_partial {
        Status::COULD_NOT
    } else {
        Status::DONE
    }
}
