//! `speedwell report`: shows stored or exported results as tables, studies, charts or data.

use crate::gate::{CommandGate, every_metric};
use crate::operand::{SourceOperand, option_name};
use crate::options::{
    ComparisonArgs, FailOn, OutputArgs, SelectionArgs, StoreArgs, StudyArgs, VariantArgs,
    hide_unused,
};
use crate::run::own_gate;
use crate::source::ResultSource;
use crate::stored_session::SessionSelection;
use crate::{CommandStatus, operand, source, status, stored_session};
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use speedwell_adapters::TrialMode;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_analysis::{self as analysis, AnalysisFindings};
use speedwell_config::experiment::Experiment;
use speedwell_formats::json_lines;
use speedwell_formats::load_session::{load_session, merge_load_parts};
use speedwell_formats::node_csv::{CsvLayout, sessions};
use speedwell_model::Session;
use speedwell_model::load::measurement::stored_loads;
use speedwell_report::load::report_load_session;
use speedwell_report::{Document, ReportFormat, StudyChoice, report_findings, session};
use speedwell_store::{SessionByCases, Store};
use std::io::Write;

/// Show stored or exported results: summary, comparison, parameter study, charts, data
#[derive(Debug, Args)]
#[command(
    mut_arg("by", |arg| arg.requires("x_axis")),
    mut_args(|arg| hide_unused(arg, "variant old new build build_timeout tag no_save")),
    after_help = "Examples:
  speedwell report
  speedwell report @latest -o results.md -o chart.png
  speedwell report scatter.csv --x-axis len --by encoding --log -o study.svg
  speedwell report @12 --export jsonl > session.jsonl"
)]
pub struct ReportArgs {
    /// Files or stored sessions; '-' is stdin
    #[arg(value_name = "SOURCE", default_value = "@latest")]
    sources: Vec<String>,
    /// Export the raw data to stdout instead of a report
    #[arg(long, value_name = "KIND", conflicts_with_all = ["x_axis", "format", "json", "output"])]
    export: Option<ReportExport>,
    /// Merge the results of load generators that ran at the same time
    ///
    /// For example, loads from several machines (JSON of 'speedwell load'). Histograms are merged exactly.
    #[arg(long, conflicts_with_all = ["export", "x_axis"])]
    merge: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    variants: VariantArgs,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    study: StudyArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Forms of raw data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportExport {
    /// One JSON object per line; lossless, and can be imported again.
    Jsonl,
    /// CSV as written by Node core's compare.js or, for a single variant, by its run.js.
    NodeCsv,
}

/// Reports the sources.
///
/// # Errors
/// Fails if a source cannot be read, or a parameter or metric does not exist.
pub fn run(args: ReportArgs) -> anyhow::Result<CommandStatus> {
    let selection = args.selection.build_selection(&args.study.given_values(), TrialMode::No)?;
    check_combination(&args)?;
    let operands = operand::parse_all(&args.sources)?;
    if let Some(status) = large_session(&args, &operands, &selection)? {
        return Ok(status);
    }
    source::check_outputs(&operands, &args.output)?;
    let sources = source::read_sources(&operands, &selection, &args.store)?;
    if args.merge {
        return report_merged(&args, &sources);
    }
    let baseline = args.variants.baseline.as_deref();
    let settings = args.comparison.analysis_settings(&args.selection.metric.names, baseline);
    let output = args.output.report_settings();
    let mut document = Document::default();
    let mut status = CommandStatus::DONE;
    for source in &sources {
        let session = &*source.compared_session();
        if let Some(kind) = args.export {
            status::ignore_closed_pipe(export_session(session, kind))?;
            continue;
        }
        stored_session::check_metrics([session], &settings)?;
        stored_session::check_variant(session, baseline).context("in --baseline")?;
        let study = study_of(&args, session);
        let own_gate = || own_gate(session, &settings, args.comparison.fail_on);
        let experiment_gate = if study.x_axis.is_none() { own_gate()? } else { None };
        let has_experiment_gate = experiment_gate.is_some();
        let mut gate = experiment_gate.unwrap_or_default();
        let mark = |findings: &mut AnalysisFindings| {
            args.store.mark_findings(findings, &[session]);
            if !has_experiment_gate {
                gate = report_gate(findings, args.comparison.fail_on, || {
                    every_metric(&settings)
                        .map(|all_settings| analysis::analyze_session(session, &all_settings))
                });
            }
        };
        let name = (sources.len() > 1).then_some(source.label.as_str());
        let experiment = Experiment::of_session(session)?;
        let measured = (name, session, experiment.as_deref());
        let mut part = session::report_session(measured, &study, &settings, &output, mark)?;
        let measured_lines = part.gate_lines.clone();
        gate.add_to(&mut part, &args.output);
        if args.comparison.fail_on == FailOn::Never && !measured_lines.is_empty() {
            // The gates of an experiment, too, are shown as they were judged at measuring.
            part.gate_lines = measured_lines;
        }
        document.report = part.report;
        document.append_document(part);
        status = status.combine_with_gate(gate.exit_status());
    }
    if args.export.is_none() {
        args.output.print_document(&document)?;
    }
    Ok(status)
}

/// Refuses options that have no effect together.
fn check_combination(args: &ReportArgs) -> anyhow::Result<()> {
    ensure!(
        !args.variants.is_any() && args.variants.build.build.is_none(),
        "a report shows what has been measured, so --variant, --old, --new and --build have no effect\n\
         hint: 'speedwell compare' measures variants; --baseline chooses among measured ones"
    );
    ensure!(
        args.comparison.fail_on == FailOn::Never || (args.export.is_none() && !args.merge),
        "--fail-on cannot be combined with --export or --merge"
    );
    Ok(())
}

/// Returns the requested study. If people request no particular report, returns the study for
/// which the session was measured, if there was one.
fn study_of(args: &ReportArgs, session: &Session) -> StudyChoice {
    let requested = args.study.study_choice();
    let asks_for_another = requested.x_axis.is_some()
        || args.output.chart.is_some()
        || args.output.sort.is_some()
        || matches!(args.output.output_format(), Some(ReportFormat::Json | ReportFormat::Csv))
        || args.comparison.fail_on != FailOn::Never;
    let end = session.command.iter().position(|word| word == "--");
    let words = &session.command[..end.unwrap_or(session.command.len())];
    let value_of = |option: &str| {
        let with_value = words.iter().find_map(|word| word.strip_prefix(&format!("{option}=")));
        let position = words.iter().position(|word| word == option);
        with_value.or_else(|| Some(words.get(position? + 1)?.as_str()))
    };
    let has_parameter = |name: &&str| session.runs.iter().any(|run| run.case.value(name).is_some());
    match value_of("--x-axis").filter(has_parameter) {
        Some(x_axis) if !asks_for_another => StudyChoice {
            x_axis: Some(x_axis.to_owned()),
            by: value_of("--by").map(|by| option_name(by).to_owned()),
            log: words.iter().any(|word| word == "--log"),
        },
        _ => requested,
    }
}

/// Evaluates the gate of a report. Without a gate, the command succeeds if the report can be shown.
fn report_gate(
    findings: &AnalysisFindings,
    fail_on: FailOn,
    analyze_every_metric: impl FnOnce() -> Option<AnalysisFindings>,
) -> CommandGate {
    if fail_on == FailOn::Never {
        return CommandGate::default();
    }
    CommandGate::new(findings, fail_on, analyze_every_metric)
}

/// Reports or exports a stored session that is too large to load as a whole. Returns `None` for
/// other sources, and for requests that cannot be handled in parts.
fn large_session(
    args: &ReportArgs,
    operands: &[SourceOperand],
    selection: &BenchmarkSelection,
) -> anyhow::Result<Option<CommandStatus>> {
    let [operand] = operands else { return Ok(None) };
    let [location] = &operand.locations[..] else { return Ok(None) };
    let is_dividable = !args.merge && args.study.x_axis.is_none();
    if !is_dividable || operand.variant.is_some() || !location.starts_with('@') {
        return Ok(None);
    }
    // Ignore errors: the caller then loads the session, and reports the error.
    let Ok(store) = args.store.open_with(Store::open_to_read) else { return Ok(None) };
    let Ok(resolved) = stored_session::find_session(&store, location) else { return Ok(None) };
    let selected = SessionSelection { selection: Some(selection), part: operand.part.as_ref() };
    let stored = (&store, resolved.number);
    let context = || format!("in source '{}'", operand.label);
    let mut gate = CommandGate::default();
    let is_done = match args.export {
        Some(kind) => {
            let exported = stored_session::in_parts(stored, &selected, |stored| {
                status::ignore_closed_pipe(export_by_runs(stored, kind))
            });
            exported.with_context(context)?.is_some()
        }
        None => {
            let baseline = args.variants.baseline.as_deref();
            let settings =
                args.comparison.analysis_settings(&args.selection.metric.names, baseline);
            let mut mark = |findings: &mut AnalysisFindings, header: &Session| {
                args.store.mark_findings(findings, &[header]);
                gate = report_gate(findings, args.comparison.fail_on, || None);
            };
            let output = args.output.report_settings();
            let document =
                stored_session::large_document(stored, &selected, &settings, &output, &mut mark)
                    .with_context(context)?;
            let is_done = document.is_some();
            if let Some(document) = document {
                gate.print_report(document, &args.output)?;
            }
            is_done
        }
    };
    if let Some(note) = resolved.note.filter(|_| is_done) {
        status::print_note(&note);
    }
    Ok(is_done.then(|| gate.exit_status()))
}

/// Merges the sources, which are parts of one load, and reports that load.
fn report_merged(args: &ReportArgs, sources: &[ResultSource]) -> anyhow::Result<CommandStatus> {
    let mut all_loads = Vec::new();
    for source in sources {
        let loads = stored_loads(&source.session)?;
        ensure!(
            !loads.is_empty(),
            "'{}' contains no results of a load test\nhint: speedwell load -o part.json writes one",
            source.label
        );
        all_loads.extend(loads);
    }
    let load = merge_load_parts(all_loads)?;
    let findings = [analysis::load::analyze_load(&load)];
    let merged_session = load_session("merged", std::slice::from_ref(&load), &mut Vec::new())?;
    let settings = args.comparison.analysis_settings(&args.selection.metric.names, None);
    let output = args.output.report_settings();
    let document = report_load_session(&merged_session, &findings, &output, || {
        report_findings(&analysis::analyze_session(&merged_session, &settings), &output)
    })?;
    args.output.print_document(&document)?;
    Ok(CommandStatus::DONE)
}

fn export_session(session: &Session, kind: ReportExport) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match kind {
        ReportExport::Jsonl => json_lines::write(session, &mut out)?,
        ReportExport::NodeCsv => sessions::write(session, &csv_layout(session), &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// Exports a session run by run, without holding all runs in memory.
fn export_by_runs(stored: &SessionByCases<'_>, kind: ReportExport) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match kind {
        ReportExport::Jsonl => stored.write_lines(&mut out)?,
        ReportExport::NodeCsv => {
            let layout = csv_layout(stored.header());
            let mut rows = sessions::RowWriter::new(&layout, &mut out);
            stored.for_each_run(&mut |run| rows.add_run(run))?;
            rows.finish()?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Returns the CSV layout for a session.
fn csv_layout(session: &Session) -> CsvLayout {
    if session.variants.len() == 1 { CsvLayout::Run } else { CsvLayout::Compare }
}
