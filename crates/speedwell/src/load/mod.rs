//! `speedwell load`: turns options into loads, sends them, and reports the results.
//!
//! Start at [`run`]. This module also decides the order of the loads, and checks the options.
//! `live.rs` sends each load and shows it, `search.rs` chooses several levels of concurrency or
//! several rates, and `engine/execution/load/mod.rs` fills in defaults and runs a load.

mod live;
mod search;

use crate::gate::CommandGate;
use crate::options::{ComparisonArgs, LoadArgs, LoadMode, LoadRequest, load_mode, plan_turns};
use crate::serve::{self, MeasuredSubject};
use crate::status::{self, CommandStatus};
use anyhow::{Context, bail, ensure};
use live::{LoadReporter, LoadSender};
use serde_json::{Map, Value as Json, json};
use speedwell_analysis::load::{analyze_load, gate};
use speedwell_analysis::{AnalysisFindings, analyze_session};
use speedwell_engine::execution::load::{
    LoadNotice, LoadRun, TargetUrl, load_with_tool, run_load, stop_condition_with_warmup,
};
use speedwell_engine::{SessionRequest, draw_seed};
use speedwell_formats::load_session::load_session;
use speedwell_machine::process::resolve_program;
use speedwell_machine::{environment, process};
use speedwell_model::load::latency::{HistogramLogRow, LoadLatency, write_log};
use speedwell_model::load::measurement::RequestRecord;
use speedwell_model::load::spec::{LoadClient, LoadSpec};
use speedwell_model::{Run, RunOrder, Session, SessionDesign, SessionState, StoppingDesign};
use speedwell_remote::load::LoadGenerators;
use speedwell_report::load::{add_gate, gate_lines, report_load_session};
use speedwell_report::{self as report, ReportSubject, StudyChoice, report_requested};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Runs the loads and reports the results.
///
/// # Errors
/// Fails if an option is invalid, or the server cannot be started or does not respond successfully.
pub fn run(args: &LoadArgs) -> anyhow::Result<CommandStatus> {
    process::prepare_to_measure()?;
    let seed = args.seed.unwrap_or_else(draw_seed);
    if args.benchmarker {
        return run_as_benchmarker(args, seed);
    }
    check_options(args)?;
    let request = args.load_request(seed)?;
    if args.spec.client != LoadClient::Builtin {
        return load_with_client(&request);
    }
    let dashboard = args.dashboard.then(|| args.store.database.database_path()).transpose()?;
    serve::with_dashboard(dashboard.as_deref(), MeasuredSubject::Loads, || run_and_report(&request))
}

/// Runs the loads, stores them and reports.
fn run_and_report(request: &LoadRequest<'_>) -> anyhow::Result<CommandStatus> {
    let mut runs = Vec::new();
    let sent = send_loads(request, &mut runs, &mut LoadReporter::new(request.args));
    let is_interrupted = process::is_interrupt_requested();
    let mut status = if is_interrupted { CommandStatus::INTERRUPTED } else { CommandStatus::DONE };
    if let Err(error) = &sent {
        status::print_error(error);
        status = status.worse_of(CommandStatus::FAILED);
    }
    if runs.is_empty() {
        return Ok(status);
    }
    Ok(status.combine_with_gate(finish_loads(request, &runs)?))
}

/// Sends the requested loads, until all are sent or the user interrupts. Adds them to `runs`, in
/// order.
///
/// # Errors
/// Fails if a load cannot be started. Then no further loads are sent.
fn send_loads(
    request: &LoadRequest<'_>,
    runs: &mut Vec<LoadRun>,
    reporter: &mut LoadReporter<'_>,
) -> anyhow::Result<()> {
    let fleet = request.generators.as_ref();
    let generators = fleet.map(|fleet| LoadGenerators::new(fleet, &request.specs)).transpose()?;
    let mut sender = LoadSender { seed: request.seed, generators, reporter };
    if request.mode != LoadMode::AsSpecified {
        return search::run_visits(request, runs, &mut sender);
    }
    for turn in plan_turns(request.specs.len(), request.args.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let mut run = sender.send_load(spec, stop_condition_with_warmup(spec), true)?;
        (run.round, run.slot) = (turn.round, turn.slot);
        runs.push(run);
        if process::is_interrupt_requested() {
            break;
        }
    }
    Ok(())
}

/// Stores and reports the results.
fn finish_loads(request: &LoadRequest<'_>, runs: &[LoadRun]) -> anyhow::Result<CommandStatus> {
    let gate = report_loads(request, runs)?;
    let outcome = match request.mode {
        LoadMode::AsSpecified => {
            runs.iter().map(load_status).fold(CommandStatus::DONE, CommandStatus::worse_of)
        }
        _ => search::search_status(request, runs),
    };
    Ok(outcome.combine_with_gate(gate))
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

/// Writes the requested files, and stores and reports the results. Returns the answer of the gate.
fn report_loads(request: &LoadRequest<'_>, runs: &[LoadRun]) -> anyhow::Result<CommandStatus> {
    let args = request.args;
    write_files(args, runs)?;
    let findings: Vec<_> = runs.iter().map(analyze_load).collect();
    let decisive =
        findings.iter().filter(|load| search::limits_apply(&request.mode, &findings, load));
    let decisive: Vec<_> = decisive.cloned().collect();
    let conditions = gate::judge_conditions(&args.fail_on, &decisive);
    let mut session = build_session(request, runs, &args.store.session_request(&args.origin))?;
    // Later reports of the session show the result of the gate, too.
    session.design.gate_lines = gate_lines(&conditions);
    // Show the results even if they cannot be stored.
    let stored = args.store.open_store().and_then(|mut store| store.insert_session(&session));
    let settings = ComparisonArgs::default().analysis_settings(&compared_metrics(&session), None);
    let output = args.output.report_settings();
    let mut document = report_load_session(&session, &findings, &output, || {
        report::report_findings(&analyze_session(&session, &settings), &output)
    })?;
    document.append_details(&session, &AnalysisFindings::default());
    add_gate(&conditions, &mut document);
    let gate = CommandGate::from_outcome(gate::gate_outcome(&conditions), CommandStatus::DONE);
    args.output.print_document(&document)?;
    runs.iter().for_each(print_server_output);
    let number = stored?;
    if output.format.is_none() && !args.output.quiet && !args.store.no_save {
        status::print_note(&format!(
            "stored as @{number}{}; distribution and timeline: speedwell report @{number} -o load.html{}",
            args.store.database.describe_place(),
            args.store.database.db_option()
        ));
    }
    Ok(gate.exit_status())
}

/// Builds a session from the loads.
///
/// # Errors
/// Fails if there are no loads.
fn build_session(
    request: &LoadRequest<'_>,
    runs: &[LoadRun],
    session_request: &SessionRequest,
) -> anyhow::Result<Session> {
    // Drop the warnings, because the report contains them.
    let mut session = load_session("load", runs, &mut Vec::new())?;
    // Rounds are shuffled, but the first address on the command line is the baseline.
    let has_name =
        |url: &str, name: &str| TargetUrl::parse(url).is_ok_and(|url| url.to_string() == name);
    let position = |name: &str| request.specs.iter().position(|spec| has_name(&spec.url, name));
    session.variants.sort_by_key(|variant| position(&variant.name));
    let baseline = session.variants.first().map(|variant| variant.name.clone());
    let rounds = runs.iter().map(|run| run.round + 1).max();
    Ok(Session {
        tags: session_request.tags.clone(),
        command: session_request.command.clone(),
        environment: session_request.capture_environment(&[]),
        origin: session_request.find_origin(),
        design: SessionDesign {
            // Every round has each address once, in random order, so a round is a block.
            order: RunOrder::Blocks,
            stopping: StoppingDesign::Fixed { runs: rounds.unwrap_or(1) },
            seed: request.seed,
            conditions: request.args.fail_on.iter().map(|c| c.text.clone()).collect(),
            steady: None,
            runs_per_block: 1,
            baseline: baseline.unwrap_or_default(),
            ..session.design
        },
        ..session
    })
}

/// Prints the last output of the server.
fn print_server_output(run: &LoadRun) {
    let tail = run.server.as_ref().map(|server| &server.stderr_tail);
    if let Some(tail) = tail.filter(|tail| !tail.is_empty()) {
        status::print_note(&format!("the server of '{}' wrote:\n{tail}", run.url));
    }
}

/// Returns the metrics to compare in repeated loads: throughput, median and 99th percentile.
fn compared_metrics(session: &Session) -> Vec<String> {
    let exists = |name: &&str| session.metric(name).is_some();
    let alternatives = [
        ["throughput", "requests_per_second"],
        ["response_p50", "latency_p50"],
        ["response_p99", "latency_p99"],
    ];
    let metrics =
        alternatives.iter().filter_map(|names| names.iter().copied().find(|name| exists(name)));
    metrics.map(str::to_owned).collect()
}

/// Runs the load with another tool, stores its results, and shows them.
fn load_with_client(request: &LoadRequest<'_>) -> anyhow::Result<CommandStatus> {
    let args = request.args;
    let mut reporter = LoadReporter { args, live: None, publisher: None };
    let session_request = args.store.session_request(&args.origin);
    let session = load_with_tools(request, &session_request, &mut reporter)?;
    // Show the results even if they cannot be stored.
    let stored = args.store.open_store().and_then(|mut store| store.insert_session(&session));
    let settings = ComparisonArgs::default().analysis_settings(&["all".to_owned()], None);
    let findings = analyze_session(&session, &settings);
    let output = args.output.report_settings();
    let study = StudyChoice::default();
    let document = report_requested((&session, None), &findings, &study, &settings, &output)?;
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
    request: &LoadRequest<'_>,
    session_request: &SessionRequest,
    reporter: &mut LoadReporter<'_>,
) -> anyhow::Result<Session> {
    let mut sessions = Vec::new();
    for turn in plan_turns(request.specs.len(), request.args.runs.unwrap_or(1), request.seed) {
        let spec = &request.specs[turn.url];
        let mut notify = |notice: LoadNotice<'_>| reporter.show_notice(notice);
        let Some(session) = load_with_tool(None, spec, request.seed, &mut notify)? else { break };
        sessions.push((session, None));
    }
    let is_interrupted = process::is_interrupt_requested();
    let state = if is_interrupted { SessionState::Interrupted } else { SessionState::Complete };
    process::clear_interrupt();
    if sessions.is_empty() {
        return Err(process::InterruptedEarly.into());
    }
    let tool = request.specs[0].client.name();
    let program = resolve_program(Path::new(tool)).ok().map(|path| {
        let version = environment::program_version(&path).text;
        (tool.to_owned(), path, version)
    });
    Ok(Session {
        state,
        tags: session_request.tags.clone(),
        command: session_request.command.clone(),
        environment: session_request.capture_environment(program.as_slice()),
        origin: session_request.find_origin(),
        ..speedwell_formats::merge_sessions(tool, sessions)?
    })
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
        args.output.chart_kind().is_none() || is_repeated || client != LoadClient::Builtin,
        "--chart needs several runs, but this is a single load\nhint: --runs 5 repeats it, or leave out --chart"
    );
    search::check_search(args)
}

/// Rejects conditions whose operator is the wrong way round, and those on percentiles that need more
/// requests than the load sends.
fn check_conditions(args: &LoadArgs) -> anyhow::Result<()> {
    for condition in &args.fail_on {
        if let Some((failing, mended)) = condition.mend_operator() {
            bail!("'{condition}' fails if {failing}\nhint: --fail-on '{mended}'");
        }
    }
    let Some(count) = args.spec.count else { return Ok(()) };
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

fn report_subject(args: &LoadArgs) -> ReportSubject {
    match load_mode(args) {
        LoadMode::Rate => ReportSubject::LoadRates,
        LoadMode::Concurrency(_) | LoadMode::Levels(_) => ReportSubject::LoadLevels,
        LoadMode::AsSpecified => ReportSubject::Loads,
    }
}

/// Columns of the request log. Times are nanoseconds since the start of the load.
const COLUMNS: &str = "index,kind,intended_ns,begun_ns,sent_ns,first_byte_ns,end_ns,outcome,status,\
                       body_bytes,wire_bytes,is_reused";

/// Writes the request logs and histograms. From the second load on, file names get a number.
///
/// # Errors
/// Fails if a file cannot be written.
fn write_files(args: &LoadArgs, runs: &[LoadRun]) -> anyhow::Result<()> {
    for (index, run) in runs.iter().enumerate() {
        if let Some(file) = &args.log_requests {
            let file = report::numbered_path(file, index);
            write_requests(&file, run)
                .with_context(|| format!("cannot write requests to '{}'", file.display()))?;
        }
        if let Some(file) = &args.hdr {
            let file = report::numbered_path(file, index);
            std::fs::write(&file, histogram_log(run)?)
                .with_context(|| format!("cannot write histograms to '{}'", file.display()))?;
        }
    }
    Ok(())
}

fn write_requests(file: &Path, run: &LoadRun) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::fs::File::create(file)?);
    writeln!(out, "{COLUMNS}")?;
    for row in &run.measured.rows {
        let kind = run.requested.kinds.get(usize::from(row.kind));
        writeln!(out, "{}", request_row(row, kind.map_or("", |kind| &kind.name)))?;
    }
    out.flush()?;
    Ok(())
}

fn request_row(row: &RequestRecord, kind: &str) -> String {
    let or_empty = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
    let fields = [
        row.index.to_string(),
        report::quote_field(kind),
        or_empty(row.intended_ns),
        row.begun_ns.to_string(),
        or_empty(row.sent_ns),
        or_empty(row.first_byte_ns),
        row.end_ns.to_string(),
        row.outcome.name().to_owned(),
        or_empty(Some(u64::from(row.status)).filter(|status| *status > 0)),
        row.body_bytes.to_string(),
        row.wire_bytes.to_string(),
        row.is_reused.to_string(),
    ];
    fields.join(",")
}

/// Formats all histograms of a load. Service times and times to the first byte are separate for
/// each outcome. Only an open load has response times and lags.
fn histogram_log(run: &LoadRun) -> anyhow::Result<String> {
    let measured = &run.measured;
    let (start_ns, length_ns) = (run.requested.warmup_ns, measured.elapsed_ns);
    let latency = &measured.totals.latency;
    let row = |quantity: &str, part: &str, times| {
        let tag = format!("{quantity}/{part}");
        HistogramLogRow { tag, start_ns, length_ns, times }
    };
    let mut rows = Vec::new();
    for (outcome, times) in latency.by_outcome() {
        rows.push(row("service", outcome.name(), &times.service));
        rows.push(row("first-byte", outcome.name(), &times.first_byte));
    }
    rows.push(row("connect", "all", latency.connect_times()));
    if let LoadLatency::Open(open) = latency {
        for (outcome, times) in open.requests.iter() {
            rows.push(row("response", outcome.name(), &times.response));
        }
        rows.push(row("lag", "all", &open.lag));
        rows.push(row("own-lag", "all", &open.own_lag));
    }
    Ok(write_log(measured.began_epoch_ms, &rows)?)
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
    let session = load_session("load", &[load], &mut Vec::new())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::load::latency::RequestOutcome;

    #[test]
    fn later_files_have_numbers() {
        let numbered =
            |index| report::numbered_path(Path::new("out/a.csv"), index).display().to_string();
        assert_eq!((numbered(0), numbered(2)), ("out/a.csv".into(), "out/a-3.csv".into()));
    }

    #[test]
    fn a_row_has_a_field_for_every_column() {
        let row = RequestRecord {
            index: 7,
            kind: 0,
            intended_ns: None,
            begun_ns: 10,
            sent_ns: Some(11),
            first_byte_ns: None,
            end_ns: 30,
            outcome: RequestOutcome::Unsent,
            status: 0,
            body_bytes: 0,
            wire_bytes: 5,
            is_reused: true,
        };
        let line = request_row(&row, "a \"b\", c");
        assert_eq!(line, "7,\"a \"\"b\"\", c\",,10,11,,30,unsent,,0,5,true");
        assert_eq!(COLUMNS.split(',').count(), 12);
    }
}
