//! `speedwell load`: turns options into loads, shows their progress, and reports the results.
//!
//! Start at [`run`]. This module also decides which options conflict with a search, and which loads
//! must meet the limits of `--fail-on`. `rounds.rs` sends the loads, and
//! `engine/execution/load/mod.rs` fills in defaults.

mod live;
mod output;
pub mod rounds;

use crate::options::{ComparisonArgs, Concurrency, LoadArgs, load_mode};
use crate::{CommandStatus, serve, status};
use anyhow::{Context, bail, ensure};
use live::{LivePublisher, LiveView};
use output::report_loads;
use rounds::{LoadEvent, LoadMode, LoadRequest, plan_turns, run_rounds, run_visits};
use serde_json::{Map, Value as Json, json};
use speedwell_analysis as analysis;
use speedwell_analysis::load::LoadFindings;
use speedwell_engine::execution::load::{
    LoadNotice, LoadRun, ProbeFacts, TargetUrl, load_with_tool, run_load,
};
use speedwell_engine::{SessionRequest, draw_seed};
use speedwell_formats::load_session;
use speedwell_machine::process::resolve_program;
use speedwell_machine::{environment, process};
use speedwell_model::load::spec::{LoadClient, LoadSpec};
use speedwell_model::{Run, Session, SessionState, parse_duration};
use speedwell_remote::load::LoadGenerators;
use speedwell_report::session::{StudyChoice, report_requested};
use speedwell_report::{self as report, ReportSubject};
use std::path::Path;

/// Runs the loads and reports the results.
///
/// # Errors
/// Fails if an option is invalid, or the server cannot be started or does not respond successfully.
pub fn run(args: &LoadArgs) -> anyhow::Result<CommandStatus> {
    process::adopt_orphans();
    process::install_handlers()?;
    let seed = args.seed.unwrap_or_else(draw_seed);
    if args.benchmarker {
        return run_as_benchmarker(args, seed);
    }
    check_options(args)?;
    let request = args.load_request(seed)?;
    if args.spec.client != LoadClient::Builtin {
        return load_with_client(args, &request);
    }
    let dashboard = args.dashboard.then(|| args.store.database.database_path()).transpose()?;
    serve::with_dashboard(dashboard.as_deref(), || run_and_report(args, &request))
}

/// Runs the loads, stores them and reports.
fn run_and_report(args: &LoadArgs, request: &LoadRequest) -> anyhow::Result<CommandStatus> {
    let mut runs = Vec::new();
    let sent = {
        let mut reporter = LoadReporter::new(args);
        send_loads(request, &mut runs, &mut |event| reporter.handle_event(event))
    };
    let interrupted = if process::is_interrupt_requested() {
        CommandStatus::INTERRUPTED
    } else {
        CommandStatus::DONE
    };
    let status = match &sent {
        Ok(()) => interrupted,
        Err(error) => {
            status::print_error(error);
            interrupted.worse_of(CommandStatus::FAILED)
        }
    };
    if runs.is_empty() {
        Ok(status)
    } else {
        Ok(status.combine_with_gate(finish_loads(args, request, &runs)?))
    }
}

/// Sends the requested loads, until all are sent or the user interrupts. Adds them to `runs`, in
/// order.
///
/// # Errors
/// Fails if a load cannot be started. Then no further loads are sent.
fn send_loads(
    request: &LoadRequest,
    runs: &mut Vec<LoadRun>,
    emit: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<()> {
    let fleet = request.generators.as_ref();
    let mut generators =
        fleet.map(|fleet| LoadGenerators::new(fleet, &request.specs)).transpose()?;
    match request.mode {
        LoadMode::AsSpecified => run_rounds(request, &mut generators, runs, emit),
        _ => run_visits(request, &mut generators, runs, emit),
    }
}

/// Rejects a body that looks like a duration, because `-d` sets the duration in other load
/// generators. Accepts such a body if the method is given.
fn check_body(args: &LoadArgs) -> anyhow::Result<()> {
    match &args.spec.data {
        Some(body) if args.spec.request.is_none() && parse_duration(body).is_some() => bail!(
            "'-d {body}' would send '{body}' as the body of each request, as in curl\nhint: use -t {body} for the \
             duration of the load, or -X POST to send it as a body"
        ),
        _ => Ok(()),
    }
}

/// Checks the options that apply to all URLs.
///
/// # Errors
/// Fails on options that conflict.
fn check_options(args: &LoadArgs) -> anyhow::Result<()> {
    let (servers, urls) = (args.serve.len(), args.urls.len());
    if servers > 1 && servers != urls {
        bail!(
            "--serve is given {servers} times for {urls} {}\nhint: give it once for all, or once for \
             each",
            if urls == 1 { "URL" } else { "URLs" }
        );
    }
    check_body(args)?;
    let client = args.spec.client;
    let builtin_options = [
        ("generators", args.fleet.generators.is_some()),
        ("hdr", args.hdr.is_some()),
        ("fail-on", !args.fail_on.is_empty()),
    ];
    if let Some((name, _)) = builtin_options.iter().find(|(_, is_given)| *is_given)
        && client != LoadClient::Builtin
    {
        bail!(
            "{} does not support --{name}\nhint: leave it out, or leave out --client",
            client.name()
        );
    }
    for url in &args.urls {
        TargetUrl::parse(url)?;
    }
    check_conditions(args)?;
    if args.fleet.generators.is_none()
        && let Some(pin) = &args.pin
    {
        pin.check_usable().context("in --pin")?;
    }
    args.output.check_report(report_subject(args))?;
    for file in [&args.hdr, &args.log_requests].into_iter().flatten() {
        report::check_writable(file)?;
    }
    let is_repeated = args.runs.is_some_and(|runs| runs > 1);
    ensure!(
        args.output.chart.is_none() || is_repeated || client != LoadClient::Builtin,
        "--chart needs several runs, but this is a single load\nhint: --runs 5 repeats it, or leave out --chart"
    );
    check_search(args)
}

/// Rejects conditions on percentiles that need more requests than the load sends.
fn check_conditions(args: &LoadArgs) -> anyhow::Result<()> {
    let Some(count) = args.spec.count else {
        return Ok(());
    };
    for condition in &args.fail_on {
        let min_requests = condition.fewest_requests();
        ensure!(
            count >= min_requests,
            "--fail-on '{condition}' cannot be evaluated: {count} requests are too few for that \
             percentile\nhint: use -n {min_requests} or more"
        );
    }
    Ok(())
}

/// Runs the load with another tool, stores its results, and shows them.
fn load_with_client(args: &LoadArgs, request: &LoadRequest) -> anyhow::Result<CommandStatus> {
    let mut reporter = LoadReporter { args, live: None, publisher: None };
    let session =
        load_with_tools(request, &args.store.session_request(&args.origin), &mut |event| {
            reporter.handle_event(event)
        })?;
    // Show the results even if they cannot be stored.
    let stored = args.store.open_store().and_then(|mut store| store.insert_session(&session));
    let settings = ComparisonArgs::default().analysis_settings(&["all".to_owned()], None);
    let findings = analysis::analyze_session(&session, &settings);
    let output = args.output.report_settings();
    let study = StudyChoice::default();
    let document = report_requested(&session, &findings, &study, &settings, &output)?;
    args.output.print_document(&document)?;
    stored.map(|_| match session.state {
        SessionState::Interrupted => CommandStatus::INTERRUPTED,
        _ => CommandStatus::DONE,
    })
}

/// Sends loads with the requested external tool.
///
/// # Errors
/// Fails if the tool is missing, cannot send this load, or does not report its results.
fn load_with_tools(
    request: &LoadRequest,
    session_request: &SessionRequest,
    emit: &mut dyn FnMut(LoadEvent<'_>),
) -> anyhow::Result<Session> {
    let mut sessions = Vec::new();
    for turn in plan_turns(request.specs.len(), request.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let result = load_with_tool(None, spec, request.seed, &mut |notice| {
            emit(LoadEvent::Notice(notice));
        });
        match result? {
            Some(session) => sessions.push((session, None)),
            None => break,
        }
    }
    let state = if process::is_interrupt_requested() {
        SessionState::Interrupted
    } else {
        SessionState::Complete
    };
    process::clear_interrupt();
    if sessions.is_empty() {
        return Err(process::InterruptedEarly.into());
    }
    let tool = request.specs[0].client.name();
    let program = resolve_program(Path::new(tool)).ok();
    let programs: Vec<_> = program
        .map(|path| {
            let version = environment::program_version(&path).text;
            (tool.to_owned(), path, version)
        })
        .into_iter()
        .collect();
    Ok(Session {
        state,
        tags: session_request.tags.clone(),
        command: session_request.command.clone(),
        environment: session_request.capture_environment(&programs),
        origin: session_request.find_origin(),
        ..speedwell_formats::merge_sessions(tool, sessions)?
    })
}

/// Shows the progress of loads.
struct LoadReporter<'a> {
    args: &'a LoadArgs,
    live: Option<LiveView>,
    publisher: Option<LivePublisher>,
}

impl<'a> LoadReporter<'a> {
    /// Creates a reporter. Without `--no-save`, the reporter also publishes the progress for
    /// browsers.
    fn new(args: &'a LoadArgs) -> LoadReporter<'a> {
        let path = args.store.database.database_path().ok().filter(|_| !args.store.no_save);
        LoadReporter {
            args,
            live: None,
            publisher: path
                .map(|path| LivePublisher::start_publishing(path, std::env::args().collect())),
        }
    }

    fn handle_event(&mut self, event: LoadEvent<'_>) {
        let args = self.args;
        match event {
            LoadEvent::Started(stop) => {
                if let Some(publisher) = &mut self.publisher {
                    publisher.next(&stop);
                }
                self.live = Some(LiveView::new(args.output.shows_progress(), stop));
            }
            LoadEvent::Notice(LoadNotice::Served) => {}
            LoadEvent::Notice(LoadNotice::Standing(snapshot)) => {
                if let Some(live) = &mut self.live {
                    live.show_snapshot(snapshot);
                }
                if let Some(publisher) = &mut self.publisher {
                    publisher.add_snapshot(snapshot);
                }
            }
            LoadEvent::Notice(LoadNotice::Probed(url, facts, protocol)) => {
                print_probe(args, url, facts, protocol);
            }
            LoadEvent::Notice(LoadNotice::Warning(warning)) => status::print_warning(warning),
            LoadEvent::Ended => self.live = None,
            LoadEvent::Visited(level, throughput) => print_level(args, level, throughput),
        }
    }
}

fn print_level(args: &LoadArgs, level: f64, throughput: Option<f64>) {
    if args.output.shows_progress() {
        let displayed = throughput.map_or("nothing".to_owned(), report::format_rate);
        status::print_note(&match args.rate {
            Some(_) => format!("rate {}: {displayed}", report::format_rate(level)),
            None => format!("concurrency {level}: {displayed}"),
        });
    }
}

fn print_probe(args: &LoadArgs, url: &TargetUrl, facts: &ProbeFacts, protocol: &str) {
    if args.output.quiet {
        return;
    }
    for redirect in &facts.redirected_from {
        status::print_note(&format!("'{redirect}' redirects"));
    }
    let server =
        (facts.server.as_ref()).map(|name| format!(", server '{name}'")).unwrap_or_default();
    let tls = (facts.tls.as_ref())
        .map(|tls| format!(", {} {}", tls.version, tls.cipher))
        .unwrap_or_default();
    status::print_note(&format!(
        "'{url}' answers {} with {} bytes of body ({protocol}{server}{tls})",
        facts.status, facts.body_bytes
    ));
}

/// Stores and reports the results.
fn finish_loads(
    args: &LoadArgs,
    request: &LoadRequest,
    runs: &[LoadRun],
) -> anyhow::Result<CommandStatus> {
    if request.mode != LoadMode::AsSpecified {
        return finish_search(args, request, runs);
    }
    let gate = report_loads(args, request, runs, |_, _| true)?;
    let outcomes = runs.iter().map(load_status);
    Ok(outcomes.fold(CommandStatus::DONE, CommandStatus::worse_of).combine_with_gate(gate))
}

/// Returns the exit status of one load. Warns if no request succeeded.
fn load_status(run: &LoadRun) -> CommandStatus {
    let has_no_success = run.measured.totals.outcomes.succeeded() == 0;
    if run.measured.is_interrupted {
        return CommandStatus::INTERRUPTED;
    }
    if has_no_success {
        status::print_warning(&format!("No request to '{}' succeeded.", run.url));
    }
    if has_no_success || run.is_partial { CommandStatus::FAILED } else { CommandStatus::DONE }
}

/// Implements `speedwell load --benchmarker`, a replacement for wrk in programs that start a load
/// generator. Sends the load and prints one line of JSON with the metrics that HTTP tools have in
/// common.
///
/// Sends no probe request, because the calling program does not expect one. Stores nothing, because
/// the calling program does.
///
/// # Errors
/// Fails if the load cannot be started, or no request succeeded.
fn run_as_benchmarker(args: &LoadArgs, seed: u64) -> anyhow::Result<CommandStatus> {
    if args.urls.len() != 1 {
        bail!("expected exactly one URL");
    }
    let spec = LoadSpec { no_verify: true, serve: None, ..args.load_spec(0) };
    let load = run_load(&spec, seed, &mut |_| ())?;
    if process::is_interrupt_requested() {
        return Ok(CommandStatus::INTERRUPTED);
    }
    let session = load_session::load_session("load", &[load], &mut Vec::new())?;
    status::write_stdout(format!("{}\n", result_line(only_run(&session)?)))?;
    Ok(CommandStatus::DONE)
}

/// Returns the run of a session with a single load.
///
/// # Errors
/// Fails if the load failed.
fn only_run(session: &Session) -> anyhow::Result<&Run> {
    if let Some(failure) = session.failures.first() {
        bail!("{}", failure.cause);
    }
    session.runs.first().context("nothing was measured")
}

/// Formats the metrics of one run under the names that HTTP tools share.
fn result_line(run: &Run) -> Json {
    let value = |name: &str| {
        let sample = run.samples.iter().find(|sample| &*sample.metric == name);
        sample.map(|sample| sample.value)
    };
    let main_sample = run.samples.first();
    let latency = run.samples.iter().filter_map(|sample| {
        let name = sample.metric.strip_prefix("latency_")?;
        Some((name.to_owned(), json!(sample.value / 1e6)))
    });
    json!({
        "tool": "speedwell",
        "version": env!("CARGO_PKG_VERSION"),
        "requests": main_sample.and_then(|sample| sample.iterations),
        "seconds": main_sample.and_then(|sample| sample.elapsed_ns).map(|ns| ns as f64 / 1e9),
        "rate": value("throughput"),
        "errors": value("http_errors"),
        "non2xx": value("http_non2xx"),
        "bytes_per_second": value("bytes_per_second"),
        "latency_ms": latency.collect::<Map<String, Json>>(),
    })
}

fn report_subject(args: &LoadArgs) -> ReportSubject {
    match load_mode(args) {
        LoadMode::Rate => ReportSubject::LoadRates,
        LoadMode::Concurrency(_) | LoadMode::Levels(_) => ReportSubject::LoadLevels,
        LoadMode::AsSpecified => ReportSubject::Loads,
    }
}

/// Rejects options that conflict with a search, or with several levels of concurrency.
///
/// # Errors
/// Fails if there are such options.
fn check_search(args: &LoadArgs) -> anyhow::Result<()> {
    let mode = load_mode(args);
    let options = &args.search;
    ensure!(
        matches!(mode, LoadMode::Concurrency(_))
            || (options.step, options.patience, options.concurrency_limit) == (None, None, None),
        "--step, --patience and --concurrency-limit apply only to a search for the best \
         concurrency\nhint: add -c max"
    );
    if mode == LoadMode::AsSpecified {
        return Ok(());
    }
    let is_open = args.rate.is_some() || !args.spec.ramp.is_empty();
    if mode != LoadMode::Rate && is_open {
        bail!(
            "--rate and --ramp send requests on a schedule, so they cannot be combined with -c max \
             or several levels of concurrency\nhint: with a single number, -c sets the initial \
             connections"
        );
    }
    if mode == LoadMode::Rate {
        let is_single =
            !matches!(&args.concurrency, Some(Concurrency::Levels(levels)) if levels.len() > 1);
        ensure!(
            is_single && args.concurrency != Some(Concurrency::Max),
            "--rate max cannot be combined with several levels of concurrency"
        );
        ensure!(
            args.spec.ramp.is_empty(),
            "--rate max tries constant rates and cannot be combined with --ramp"
        );
        ensure!(
            args.runs.is_none(),
            "--rate max determines how often each rate is tried, so --runs has no effect"
        );
    }
    ensure!(
        args.spec.count.is_none(),
        "every level or rate is measured for the same time, so --count has no effect\nhint: -t 2s sets this time"
    );
    ensure!(
        args.spec.client == LoadClient::Builtin,
        "several levels or rates can be measured only with the builtin client: other tools do \
         not report whether they reached the level"
    );
    Ok(())
}

/// Stores and reports a search, or loads at several levels. The function `limits_apply` decides to
/// which loads the limits of `--fail-on` apply.
fn finish_search(
    args: &LoadArgs,
    request: &LoadRequest,
    runs: &[LoadRun],
) -> anyhow::Result<CommandStatus> {
    let mode = &request.mode;
    let applies_limits =
        |findings: &[LoadFindings], load: &LoadFindings| limits_apply(mode, findings, load);
    let status = report_loads(args, request, runs, applies_limits)?;
    let has_no_success = runs.iter().all(|run| run.measured.totals.outcomes.succeeded() == 0);
    let is_any_partial = runs.iter().any(|run| run.is_partial);
    let is_generator_limited = *mode == LoadMode::Rate && is_limited_by_generator(args, runs);
    let outcome = if has_no_success || is_any_partial || is_generator_limited {
        CommandStatus::FAILED
    } else {
        CommandStatus::DONE
    };
    Ok(outcome.combine_with_gate(status))
}

/// Whether the search has no answer because the load generator was the bottleneck.
fn is_limited_by_generator(args: &LoadArgs, runs: &[LoadRun]) -> bool {
    let loads: Vec<LoadFindings> = runs.iter().map(analysis::load::analyze_load).collect();
    let rates = analysis::load::group_by_rate(&loads, &args.fail_on);
    rates.iter().any(|rates| rates.refused_at.is_some())
}

/// Whether the limits of `--fail-on` apply to this load. Without a search, they apply to all loads.
/// A search for the highest rate uses them itself, so they apply to none of its loads. In a search
/// for the best concurrency, they apply to the loads at the best concurrency, or to all loads if
/// the search found none.
fn limits_apply(mode: &LoadMode, findings: &[LoadFindings<'_>], load: &LoadFindings<'_>) -> bool {
    if !matches!(mode, LoadMode::Concurrency(_)) {
        return *mode != LoadMode::Rate;
    }
    let levels = analysis::load::group_by_level(findings);
    let matching = levels.iter().find(|levels| levels.label == load.run.label);
    let scaling = matching.and_then(|levels| levels.scaling.as_ref());
    let knee = scaling.map(|scaling| scaling.answer.at_knee().concurrency);
    knee.is_none() || load.run.requested.concurrency() == knee
}
