//! Reports snippets: the figures of each snippet and, if there are several, their comparison. After
//! a search, reports where throughput stops growing as workers are added.
//!
//! This module chooses wording and order; `analysis` interprets the figures. Start at
//! [`report_snippets`].

use super::output::{OutputOptions, Verbosity};
use super::report_failures;
use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::{format_rate, uncertainty_of};
use crate::scaling;
use crate::table::{ReportCell, ReportTable};
use crate::unit::FigureScale;
use speedwell_analysis::scaling::{LevelState, ScalingFindings};
use speedwell_analysis::snippet::{MAX_DISTURBANCE, SnippetFigures, SnippetLevels};
use speedwell_analysis::{AnalysisFindings, LayoutSpread};
use speedwell_model::IntervalEstimate;

/// The note below the table of figures.
const FIGURES_NOTE: &str = "median, p5: time that one worker needs for an iteration, in the median \
    batch and in the batch at the 5th percentile; mean: the average of this time over the whole \
    measurement; disturbance: mean divided by median.";

/// The sentence after [`FIGURES_NOTE`] if commands were run by a shell.
const SHELL_NOTE: &str = " shell: time of a shell that does nothing; all other times except own \
    cpu include it; own cpu: user and system time minus the shell's, shown where it is more than \
    noise.";

/// The note below a search.
const SEARCH_NOTE: &str = "The answer is the lowest concurrency whose throughput is statistically \
    indistinguishable from the highest. ± and [ ] are 95 % intervals, computed from the \
    measurements (visits) at all levels together. All measurements were made in one process.";

/// Reports snippets that were measured individually or compared. `compared` is the document of the
/// comparison, if there is one.
pub fn report_snippets(
    figures: &[SnippetFigures],
    warnings: &[String],
    findings: &AnalysisFindings,
    compared: Option<Document>,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("code");
    let is_quiet = output.verbosity == Verbosity::Quiet;
    let mut warning_blocks: Vec<ReportBlock> =
        warnings.iter().cloned().map(ReportBlock::Warning).collect();
    // Snippets measured in pairs, two at once on one processor, have no times of their own.
    let has_times = figures.iter().any(|figures| figures.time_ns.is_some());
    let mut figures_blocks = vec![ReportBlock::Table(figures_table(figures))];
    match compared {
        Some(mut compared) => {
            let is_warning = |block: &ReportBlock| matches!(block, ReportBlock::Warning(_));
            warning_blocks.extend(compared.blocks.extract_if(.., |block| is_warning(block)));
            document.blocks = quiet_appendix(warning_blocks, is_quiet);
            document.append_document(compared);
            figures_blocks.insert(0, heading_block("Each snippet by itself"));
        }
        None => {
            warning_blocks.extend(findings.warnings.iter().cloned().map(ReportBlock::Warning));
            document.blocks = quiet_appendix(warning_blocks, is_quiet);
            let sentences = figures.iter().map(snippet_sentence).map(ReportBlock::Headline);
            document.extend(sentences);
            let layout = findings.layout.iter().map(LayoutSpread::to_sentence);
            document.extend(quiet_appendix(layout.map(ReportBlock::Note).collect(), is_quiet));
        }
    }
    if has_times || findings.comparisons.is_empty() {
        document.extend(quiet_appendix(figures_blocks, is_quiet));
    }
    if has_times {
        output.add_detail(&mut document, |_, document| {
            document.push(ReportBlock::Note(figures_note(figures)));
        });
    }
    if findings.comparisons.is_empty() {
        document.append_document(report_failures(&findings.failures, output.verbosity));
    }
    document
}

/// In quiet mode, moves `blocks`, which are not part of the answer, into an appendix. Terminals
/// omit the appendix, but files contain it.
fn quiet_appendix(blocks: Vec<ReportBlock>, is_quiet: bool) -> Vec<ReportBlock> {
    if is_quiet && !blocks.is_empty() {
        vec![ReportBlock::Appendix { title: "Figures and warnings".into(), instead: None, blocks }]
    } else {
        blocks
    }
}

fn heading_block(text: &str) -> ReportBlock {
    ReportBlock::Heading { level: 2, text: text.into() }
}

fn figures_note(figures: &[SnippetFigures]) -> String {
    let in_shell = figures.iter().any(|figures| figures.shell_ns.is_some());
    let shell = if in_shell { SHELL_NOTE } else { "" };
    format!("{FIGURES_NOTE}{shell}")
}

/// Reports snippets at several numbers of workers.
pub fn report_search(
    levels: &[SnippetLevels],
    findings: &AnalysisFindings,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("code");
    for level_series in levels {
        let noise = level_series
            .scaling
            .as_ref()
            .and_then(|scaling| scaling::noise_warning(&level_series.label, scaling, "visits"));
        document.extend(noise.map(ReportBlock::Warning));
    }
    document.push_warnings(&findings.warnings);
    for level_series in levels {
        if let Some(scaling) = &level_series.scaling {
            document.push(ReportBlock::Headline(scaling::scaling_headline(
                &level_series.label,
                scaling,
                None,
            )));
        }
        document.push(ReportBlock::Table(levels_table(level_series)));
        output.add_detail(&mut document, |_, document| {
            let law = level_series.scaling.as_ref().map(scaling::law_sentence);
            document.extend(law.map(ReportBlock::Note));
            let scaling = level_series.scaling.as_ref();
            let hindrance =
                scaling.and_then(|scaling| hindrance_note(&level_series.language, scaling));
            document.extend(hindrance.map(ReportBlock::Note));
        });
    }
    output.add_detail(&mut document, |_, document| {
        document.push(ReportBlock::Note(SEARCH_NOTE.into()));
    });
    document.append_document(report_failures(&findings.failures, output.verbosity));
    for level_series in levels {
        if let Some(scaling) = &level_series.scaling {
            let chart =
                scaling::throughput_chart(&level_series.label, scaling, "iterations per second");
            document.push_charts([chart]);
        }
    }
    let machines = levels.iter().map(|level_series| {
        scaling::scaling_data("code", &level_series.label, level_series.scaling.as_ref())
    });
    document.attach_data("scaling", machines.collect());
    document
}

/// Describes the tool that finds contended locks in Erlang.
pub const ERLANG_LOCKS: &str = "lcnt names the lock that they wait for (with a lock-counting \
    emulator: erl -emu_type lcnt, then lcnt:collect() and lcnt:conflicts())";

/// Says that workers hinder each other, and which tool finds the cause. Returns `None` if they do
/// not.
pub fn hindrance_note(language: &str, scaling: &ScalingFindings) -> Option<String> {
    let hindered = scaling.hindered_level()?;
    let tool = match language {
        "erlang" | "elixir" => ERLANG_LOCKS,
        _ => {
            "'perf lock contention' names the lock that they wait for, and 'perf c2c' the cache line that they share"
        }
    };
    Some(format!(
        "Workers hinder each other: {} of them achieve less throughput than one alone. {tool}.",
        hindered.concurrency
    ))
}

/// Returns the answer for one snippet: `sum(range(10)): 231 ns [228, 236] an iteration (6 runs).`
/// The time is a median. It is not the inverse of the throughput in the table, which is computed
/// from the mean.
fn snippet_sentence(snippet: &SnippetFigures) -> String {
    let label = &snippet.label;
    let runs = crate::figure::format_count(snippet.runs, "run", "runs");
    let workers = match snippet.concurrency {
        Some(count) if count > 1 => format!(" with {count} workers"),
        _ => String::new(),
    };
    if let Some(time) = snippet.time_median_ns {
        let time = format_with_interval(&time);
        return format!("{label}: {time} an iteration{workers} ({runs}).");
    }
    let rate = snippet.per_s.map_or(String::new(), |rate| format!(", {}", format_rate(rate)));
    format!("{label}: too few iterations for a median{rate} ({runs}).")
}

/// Formats a time with its interval, as in `231 ns [228, 236]`. An empty interval is omitted.
fn format_with_interval(time_ns: &IntervalEstimate) -> String {
    let scale = FigureScale::fit_scale("ns", &[time_ns.value], None);
    let place = scale.rounding_place(time_ns.value, uncertainty_of(time_ns));
    let value = scale.format_full(time_ns.value, place);
    if time_ns.low >= time_ns.high {
        return value;
    }
    let [low, high] = [time_ns.low, time_ns.high].map(|end| scale.format_bare(end, place));
    format!("{value} [{low}, {high}]")
}

fn figures_table(figures: &[SnippetFigures]) -> ReportTable {
    let with_workers = figures.iter().any(|figures| figures.concurrency.is_some());
    let with_cpu = figures.iter().any(|figures| figures.cpu_ns.is_some());
    snippet_columns(with_workers, with_cpu).build_table("codes", figures)
}

/// The sort keys of the tables.
pub fn sort_keys() -> Vec<&'static str> {
    snippet_columns(true, true).sort_keys()
}

fn snippet_columns(with_workers: bool, with_cpu: bool) -> ColumnSet<SnippetFigures> {
    column_set! { figures: SnippetFigures;
        label("code", "code") => &figures.label,
        figure("concurrency", "workers") if with_workers => figures.concurrency.unwrap_or(1),
        figure("time_median_ns", "median") => ReportCell::estimate(figures.time_median_ns, "ns"),
        machine("time_median_low_ns") => figures.time_median_ns.map(|time| time.low),
        machine("time_median_high_ns") => figures.time_median_ns.map(|time| time.high),
        figure("time_p5_ns", "p5").expendable(2) => ReportCell::time(figures.time_p5_ns),
        figure("time_ns", "mean") => ReportCell::time(figures.time_ns),
        figure("throughput", "throughput") => ReportCell::quantity(figures.per_s, "1/s"),
        figure("disturbance", "disturbance").expendable(1) => disturbance_cell(figures.disturbance),
        figure("runs", "runs").expendable(3) => figures.runs,
        figure("user_ns", "user").expendable(4) if with_cpu =>
            ReportCell::time(figures.cpu_ns.map(|(user, _)| user)),
        figure("system_ns", "system").expendable(4) if with_cpu =>
            ReportCell::time(figures.cpu_ns.map(|(_, system)| system)),
        figure("own_cpu_ns", "own cpu").expendable(4) if with_cpu =>
            ReportCell::time(figures.own_cpu_ns),
        figure("shell_ns", "shell").expendable(4) if with_cpu => ReportCell::time(figures.shell_ns),
        words("is_folded", "") =>
            ReportCell::value(figures.is_folded)
                .with_text(if figures.is_folded { "optimized away?" } else { "" }),
    }
}

fn disturbance_cell(disturbance: Option<f64>) -> ReportCell {
    ReportCell::shown_figure(disturbance, |ratio| {
        let mark = if ratio > MAX_DISTURBANCE { " !" } else { "" };
        format!("{ratio:.2}x{mark}")
    })
}

/// A level of a search.
struct SnippetLevelRow<'a> {
    figures: &'a SnippetFigures,
    /// How the level compares with the best one.
    standing: Option<&'a LevelState>,
    /// Whether the level is the answer.
    is_knee: bool,
}

fn levels_table(levels: &SnippetLevels) -> ReportTable {
    let answer = levels.scaling.as_ref().map(|scaling| &scaling.answer);
    let knee = answer.map(|answer| answer.at_knee().concurrency);
    let rows = levels.figures.iter().map(|figures| {
        let is_same_level =
            |standing: &&LevelState| Some(standing.concurrency) == figures.concurrency;
        let standing = answer.and_then(|answer| answer.standings.iter().find(is_same_level));
        SnippetLevelRow { figures, standing, is_knee: figures.concurrency == knee }
    });
    level_columns().build_table("levels", &rows.collect::<Vec<_>>())
}

/// The sort keys of the table of a search.
pub fn search_sort_keys() -> Vec<&'static str> {
    level_columns().sort_keys()
}

fn level_columns<'a>() -> ColumnSet<SnippetLevelRow<'a>> {
    column_set! { row: SnippetLevelRow<'a>;
        figure("concurrency", "workers") => row.figures.concurrency.unwrap_or(1),
        figure("visits", "visits").expendable(2) => row.figures.runs,
        figure("throughput", "throughput") =>
            ReportCell::from(row.figures.per_s)
                .with_text(row.standing.map(scaling::format_throughput_error).unwrap_or_default()),
        figure("change", "vs. best so far") => scaling::change_cell(row.standing),
        figure("time_ns", "mean").expendable(1) => ReportCell::time(row.figures.time_ns),
        figure("time_median_ns", "median") =>
            ReportCell::time(row.figures.time_median_ns.map(|time| time.value)),
        words("verdict", "") => scaling::standing_cell(row.standing, row.is_knee),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_has_one_estimate_with_its_interval() {
        let mut one = SnippetFigures {
            label: "f(x)".into(),
            concurrency: Some(2),
            runs: 6,
            time_median_ns: Some(IntervalEstimate { value: 5.4, low: 5.31, high: 5.52 }),
            time_p5_ns: None,
            // The mean, 8.26 ns or 121 M/s per worker, is a different estimate.
            time_ns: Some(8.26),
            per_s: Some(242e6),
            disturbance: Some(1.53),
            cpu_ns: None,
            own_cpu_ns: None,
            shell_ns: None,
            is_folded: false,
        };
        let expected = "f(x): 5.40 ns [5.31, 5.52] an iteration with 2 workers (6 runs).";
        assert_eq!(snippet_sentence(&one), expected);
        one.time_median_ns = None;
        let expected = "f(x): too few iterations for a median, 242 M/s (6 runs).";
        assert_eq!(snippet_sentence(&one), expected);
    }
}
