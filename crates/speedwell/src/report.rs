//! `speedwell report`: stored or exported results as tables, studies, charts, data.

use super::options::{
    ComparisonArgs, OutputArgs, SelectionArgs, StoreArgs, StudyArgs, VariantArgs,
};
use super::source::Source;
use super::{Status, calibrated, operand, source};
use anyhow::ensure;
use clap::{Args, ValueEnum};
use speedwell_analysis::load::LoadFindings;
use speedwell_analysis::load::gate::Condition;
use speedwell_analysis::{self as analysis, Findings, Settings, bisect, snippet};
use speedwell_harness::Trial;
use speedwell_model::load_run::LoadRun;
use speedwell_model::{Purpose, Session, Stopping};
use speedwell_report::{self as report, ChartKind, Document, Output};
use speedwell_results::formats::{self, node_csv::Layout};
use speedwell_suite::experiment::Experiment;
use std::io::Write;

/// Show stored or exported results: summary, comparison, parameter study, charts, data
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell report
  speedwell report @latest -o results.md -o chart.png
  speedwell report scatter.csv --x-axis len --by encoding --log -o study.svg
  speedwell report @12 --export jsonl > session.jsonl")]
pub struct ReportArgs {
    /// Files or stored sessions; '-' is stdin
    #[arg(value_name = "SOURCE", default_value = "@latest")]
    sources: Vec<String>,
    /// Write the raw data to standard output instead of a report
    #[arg(long, value_name = "KIND", conflicts_with_all = ["x_axis", "format", "output"])]
    export: Option<Export>,
    /// Add up loads that several generators sent at the same time, such as on several machines, as parts of
    /// one (JSON of 'speedwell load'); histograms are merged exactly
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

impl ReportArgs {
    /// The same settings with all metrics, for a load test of another tool by itself: its times are asked
    /// for as much as its rate.
    fn widened(&self, settings: &Settings, session: &Session) -> Settings {
        let is_load = session.metric("latency_p50").is_some();
        let is_alone = session.design.stopping == Stopping::Fixed { runs: 1 };
        if self.selection.metric.names.is_empty() && is_load && is_alone {
            Settings {
                metrics: vec!["all".to_owned()],
                ..settings.clone()
            }
        } else {
            settings.clone()
        }
    }

    /// Whether loads are shown as such: where there are some, and nothing about metrics, studies or
    /// certain charts was asked for, which are those of runs.
    fn shows_loads(&self, loads: &[LoadRun]) -> bool {
        let asks_for_runs = self.study.x_axis.is_some()
            || !self.selection.metric.names.is_empty()
            || self.output.settings().chart.is_some();
        !loads.is_empty() && !asks_for_runs
    }
}

/// Forms of raw data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Export {
    /// One JSON object a line; lossless, and what `import` reads back.
    Jsonl,
    /// CSV of Node core's compare.js, or run.js for one variant.
    NodeCsv,
}

/// Reports.
///
/// # Errors
/// Sources that cannot be read, parameters or metrics that they do not have.
pub fn run(args: ReportArgs) -> anyhow::Result<Status> {
    let selection = args.selection.selection(&[], Trial::No)?;
    let operands = operand::parse_all(&args.sources)?;
    let sources = source::read(&operands, &selection, &mut || args.store.open_to_read())?;
    if args.merge {
        return merged(&args, &sources);
    }
    let baseline = args.variants.baseline.as_deref();
    let settings = args
        .comparison
        .settings(&args.selection.metric.names, baseline);
    let output = args.output.settings();
    let mut document = Document::default();
    for source in &sources {
        let session = &*source.taken_part();
        if let Some(kind) = args.export {
            quiet_on_closed_pipe(export(session, kind))?;
            continue;
        }
        let settings = args.widened(&settings, session);
        let mut findings = analysis::analyse(session, &settings);
        calibrated::mark(&mut findings, [session], &args.store);
        let loads = formats::measured::loads_of(session)?;
        let shows_loads = session.design.experiment.is_none() && args.shows_loads(&loads);
        let part = if shows_loads {
            let loads: Vec<_> = loads.iter().map(analysis::load::analyse).collect();
            load_document(session, &loads, &settings, &output)?
        } else {
            document_of(session, &findings, &args.study, &settings, &output)?
        };
        document.report = part.report;
        document.append(part);
        let name = (sources.len() > 1).then_some(source.label.as_str());
        document.append(report::circumstances(&[(name, session)], &findings));
    }
    if args.export.is_none() {
        args.output.print(&document)?;
    }
    Ok(Status::DONE)
}

/// The report of the one load that the loads of all sources are parts of.
fn merged(args: &ReportArgs, sources: &[Source]) -> anyhow::Result<Status> {
    let mut parts = Vec::new();
    for source in sources {
        let loads = formats::measured::loads_of(&source.session)?;
        ensure!(
            !loads.is_empty(),
            "'{}' holds no load of 'speedwell load'\nhint: -o part.json writes one",
            source.label
        );
        parts.extend(loads);
    }
    let whole = formats::measured::merge_parts(parts)?;
    let findings = [analysis::load::analyse(&whole)];
    let session =
        formats::measured::session("merged", std::slice::from_ref(&whole), &mut Vec::new())?;
    let settings = args.comparison.settings(&args.selection.metric.names, None);
    let output = args.output.settings();
    let document = load_document(&session, &findings, &settings, &output)?;
    args.output.print(&document)?;
    Ok(Status::DONE)
}

/// The report that is asked for: a study with `--x-axis`, else what suits the findings.
///
/// # Errors
/// An unknown parameter, or a chart or unit that does not fit.
pub fn document_of(
    session: &Session,
    findings: &Findings,
    study: &StudyArgs,
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Document> {
    let experiment = session.design.experiment.as_ref();
    let is_whole = study.x_axis.is_none() && settings.metrics.is_empty();
    if let Some(written) = experiment.filter(|_| is_whole) {
        let experiment = Experiment::parse(written)?;
        let found = analysis::experiment::analyse(session, &experiment, settings);
        ensure!(
            output.chart != Some(ChartKind::Flame) || !found.profiles.is_empty(),
            "flame graphs are drawn of profiles, and nothing was recorded\nhint: measure with --profile"
        );
        return Ok(report::experiment(&found, &experiment, output));
    }
    if let Some(rule) = session
        .design
        .steady
        .filter(|rule| is_whole && !rule.is_metric)
    {
        let found = analysis::warmup::analyse(session, &rule, settings);
        return Ok(report::warmup(&found, &session.environment, output));
    }
    if let Some(found) = bisect::analyse(session).filter(|_| is_whole) {
        return Ok(report::bisect(&found, &session.failures, output));
    }
    if session.design.purpose == Purpose::Confirm && is_whole {
        return Ok(report::confirm(findings, &|_, _| None, output));
    }
    match &study.x_axis {
        Some(x_axis) => {
            let found = analysis::study(session, x_axis, study.by.as_deref(), settings)?;
            report::study(&found, study.log, output)
        }
        None if settings.metrics.is_empty() && snippet::has_only_snippets(session) => {
            snippets(session, findings, settings, output)
        }
        None => report::findings(findings, output),
    }
}

/// The report of snippets, which have more to tell than one metric.
fn snippets(
    session: &Session,
    findings: &Findings,
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Document> {
    let confidence = settings.confidence.unwrap_or(Settings::DEFAULT_CONFIDENCE);
    let levels = snippet::levels(session, confidence);
    if !levels.is_empty() {
        return Ok(report::snippet::search(&levels, findings, output));
    }
    let figures = snippet::figures(session, confidence);
    let warnings = snippet::warnings(session, &figures, settings);
    let compared = if findings.comparisons.is_empty() {
        None
    } else {
        Some(report::findings(findings, output)?)
    };
    Ok(report::snippet::document(
        &figures, &warnings, findings, compared, output,
    ))
}

fn export(session: &Session, kind: Export) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match kind {
        Export::Jsonl => formats::json_lines::write(session, &mut out)?,
        Export::NodeCsv => {
            let layout = match session.variants.len() {
                1 => Layout::Run,
                _ => Layout::Compare,
            };
            formats::node_csv::sessions::write(session, &layout, &mut out)?
        }
    }
    out.flush()?;
    Ok(())
}

/// A reader that has seen enough (`| head`) is no error.
fn quiet_on_closed_pipe(done: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_closed = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        // What writes JSON wraps the error of the pipe.
        let json = cause.downcast_ref::<serde_json::Error>();
        io.or_else(|| json?.io_error_kind()) == Some(std::io::ErrorKind::BrokenPipe)
    };
    match done {
        Err(error) if error.chain().any(is_closed) => Ok(()),
        done => done,
    }
}

/// The report of a session whose runs were these HTTP loads. A single load speaks for itself: it has more to say than the
/// medians of one value each. Repeated ones are runs like any others, and their details stand behind them.
///
/// # Errors
/// A unit or chart that does not fit.
pub fn load_document(
    session: &Session,
    loads: &[LoadFindings<'_>],
    settings: &Settings,
    output: &Output,
) -> anyhow::Result<Document> {
    let conditions = conditions(session);
    let levels = analysis::load::levels(loads);
    let rates = analysis::load::rates(loads, &conditions);
    if !levels.is_empty() || !rates.is_empty() {
        return Ok(report::load::search(loads, &levels, &rates, output));
    }
    let details = report::load::document(loads, output);
    let is_repeated = loads.iter().any(|load| load.run.round > 0);
    if !is_repeated || session.runs.is_empty() {
        return Ok(details);
    }
    let mut document = report::findings(&analysis::analyse(session, settings), output)?;
    document.append(details);
    Ok(document)
}

/// The limits that were set when the session was measured: the search for a rate was held against them.
fn conditions(session: &Session) -> Vec<Condition> {
    let parsed = |text: &String| text.parse().ok();
    if !session.design.conditions.is_empty() {
        return session
            .design
            .conditions
            .iter()
            .filter_map(parsed)
            .collect();
    }
    // Sessions of earlier versions hold them only among the words typed.
    let mut words = session.command.iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let text = match word.strip_prefix("--fail-on") {
            Some("") => words.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        found.extend(text.and_then(|text| text.parse().ok()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_results::formats;

    #[test]
    fn limits_are_those_of_the_design_or_in_older_sessions_those_typed() {
        let words = [
            "speedwell",
            "load",
            "--fail-on",
            "p99>20ms",
            "--fail-on=errors>1%",
        ];
        let rows = "\"filename\",\"configuration\",\"rate\",\"time\"\n\"a/b.js\",\"n=1\",10,1\n";
        let mut session = formats::read("x", rows.as_bytes()).unwrap().remove(0);
        session.command = words.map(str::to_owned).to_vec();
        let texts = |session: &Session| -> Vec<String> {
            conditions(session)
                .into_iter()
                .map(|limit| limit.text)
                .collect()
        };
        assert_eq!(texts(&session), ["p99>20ms", "errors>1%"]);
        session.design.conditions = vec!["p50>1ms".to_owned()];
        assert_eq!(texts(&session), ["p50>1ms"]);
    }
}
