//! Reports snippets: the figures of each snippet and, if there are several, their comparison. After
//! a search, reports where throughput stops growing as workers are added.
//!
//! This module chooses wording and order; `analysis` interprets the figures. Start at
//! [`report_snippets`].

use crate::charts::point_series;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::failures::report_failures_of;
use crate::figure::{
    Uncertainty, decimal_place, format_change_interval, format_count, format_ns, format_number,
    format_quantity, format_rate, format_share, uncertainty_of,
};
use crate::output::{OutputOptions, Verbosity};
use crate::report_failures;
use crate::table::{ColumnSet, ReportCell, ReportTable, column_set};
use crate::unit::{FigureScale, UnitChoice};
use anyhow::bail;
use serde_json::{Value, json};
use speedwell_analysis::scaling::{
    LevelState, LevelStatus, MIN_LEVELS, MIN_R_SQUARED, SaturationAnswer, ScalingFindings,
    UslError, UslParameter,
};
use speedwell_analysis::snippet::{MAX_DISTURBANCE, SnippetFigures, SnippetLevels};
use speedwell_analysis::{AnalysisFindings, CandidateComparison, LayoutSpread};
use speedwell_model::{IntervalEstimate, Metric};
use speedwell_plot as plot;

/// The note below the table of figures.
const FIGURES_NOTE: &str = "median, p5: time that one worker needs for an iteration, in the median \
    batch and in the batch at the 5th percentile; mean: the average of this time over the whole \
    measurement; disturbance: mean divided by median.";

/// The note below the table of figures of commands.
const COMMANDS_NOTE: &str = "median, p5: time of an execution, the median and the 5th percentile; \
    mean: the average over the whole measurement; disturbance: mean divided by median.";

/// The sentence after [`COMMANDS_NOTE`] if commands were run by a shell.
const SHELL_NOTE: &str = " shell: time of a shell that does nothing; all other times except own \
    cpu include it; own cpu: user and system time minus the shell's, shown where it is more than \
    noise.";

/// The note below a search.
const SEARCH_NOTE: &str = "The answer is the lowest concurrency whose throughput is statistically \
    indistinguishable from the highest. ± and [ ] are 95% intervals, computed from the \
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
    let with_workers = figures.iter().any(|figures| figures.concurrency.is_some());
    let with_cpu = figures.iter().any(is_command);
    let table = snippet_columns(with_workers, with_cpu, output.unit).build_table("codes", figures);
    let mut figures_blocks = vec![ReportBlock::Table(table)];
    if has_times {
        let in_shell = figures.iter().any(|figures| figures.shell_ns.is_some());
        let meanings = if with_cpu { COMMANDS_NOTE } else { FIGURES_NOTE };
        let note = [meanings, if in_shell { SHELL_NOTE } else { "" }].concat();
        let mut explained = Document::default();
        output.add_detail(&mut explained, |_, document| document.push_note(note));
        figures_blocks.extend(explained.blocks);
    }
    match compared {
        Some(mut compared) => {
            let is_warning = |block: &mut ReportBlock| matches!(block, ReportBlock::Warning(_));
            warning_blocks.extend(compared.blocks.extract_if(.., is_warning));
            document.blocks = quiet_appendix(warning_blocks, is_quiet);
            document.append_document(compared);
            if has_times {
                document.extend(by_itself(figures, figures_blocks, findings, is_quiet));
            }
        }
        None => {
            warning_blocks.extend(findings.warnings.iter().cloned().map(ReportBlock::Warning));
            document.blocks = quiet_appendix(warning_blocks, is_quiet);
            let sentence = |snippet| ReportBlock::Headline(snippet_sentence(snippet, output.unit));
            document.extend(figures.iter().map(sentence));
            let layout = findings.layout.iter().map(LayoutSpread::to_sentence);
            document.extend(quiet_appendix(layout.map(ReportBlock::Note).collect(), is_quiet));
            document.extend(quiet_appendix(figures_blocks, is_quiet));
        }
    }
    if findings.comparisons.is_empty() {
        let (failures, is_measured) = (&findings.failures, !figures.is_empty());
        document.append_document(report_failures_of(failures, is_measured, output.verbosity));
    }
    document
}

/// Gives the figures of compared snippets a title. They are an appendix unless the comparison lacks
/// some of them.
fn by_itself(
    figures: &[SnippetFigures],
    mut figures_blocks: Vec<ReportBlock>,
    findings: &AnalysisFindings,
    is_quiet: bool,
) -> Vec<ReportBlock> {
    let are_commands = figures.iter().any(is_command);
    let title = format!("Each {} by itself", if are_commands { "command" } else { "snippet" });
    let is_complete = |comparison: &CandidateComparison| {
        let unmatched = [&comparison.only_baseline, &comparison.only_candidate];
        !comparison.rows.is_empty() && unmatched.iter().all(|ids| ids.is_empty())
    };
    if findings.comparisons.iter().all(is_complete) {
        return vec![ReportBlock::appendix(title, figures_blocks)];
    }
    figures_blocks.insert(0, ReportBlock::Heading { level: 2, text: title });
    quiet_appendix(figures_blocks, is_quiet)
}

/// In quiet mode, moves `blocks`, which are not part of the answer, into an appendix. Terminals
/// omit the appendix, but files contain it.
fn quiet_appendix(blocks: Vec<ReportBlock>, is_quiet: bool) -> Vec<ReportBlock> {
    if is_quiet && !blocks.is_empty() {
        vec![ReportBlock::appendix("Figures and warnings", blocks)]
    } else {
        blocks
    }
}

/// Reports snippets at several numbers of workers.
pub fn report_search(
    levels: &[SnippetLevels],
    findings: &AnalysisFindings,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("code");
    let scaled = || levels.iter().filter_map(|level| Some((&level.label, level.scaling.as_ref()?)));
    let noise = scaled().filter_map(|(label, scaling)| noise_warning(label, scaling, "visits"));
    document.extend(noise.map(ReportBlock::Warning));
    document.push_warnings(&findings.warnings);
    for level_series in levels {
        let SnippetLevels { label, language, scaling, .. } = level_series;
        if let Some(scaling) = scaling {
            document.push_headline(scaling_headline(label, scaling, None));
        }
        document.push_table(levels_table(level_series));
        output.add_detail(&mut document, |_, document| {
            if let Some(scaling) = scaling {
                document.push_note(law_sentence(scaling));
                document.push_notes(hindrance_note(language, scaling));
            }
        });
    }
    output.add_detail(&mut document, |_, document| document.push_note(SEARCH_NOTE));
    document.append_document(report_failures(&findings.failures, output.verbosity));
    let y = "iterations per second";
    document.push_charts(scaled().map(|(label, scaling)| throughput_chart(label, scaling, y)));
    let data = levels.iter().map(|one| scaling_data("code", &one.label, one.scaling.as_ref()));
    document.attach_data("scaling", data.collect());
    document
}

/// Describes the tool that finds contended locks in Erlang.
pub const ERLANG_LOCKS: &str = "lcnt names the lock that they wait for (with a lock-counting \
    emulator: erl -emu_type lcnt, then lcnt:collect() and lcnt:conflicts())";

/// Says that workers hinder each other, and which tool finds the cause. Returns `None` if the
/// workers do not hinder each other.
pub fn hindrance_note(language: &str, scaling: &ScalingFindings) -> Option<String> {
    let tool = match language {
        "erlang" | "elixir" => ERLANG_LOCKS,
        _ => {
            "'perf lock contention' names the lock that they wait for, and 'perf c2c' the cache line that they share"
        }
    };
    Some(format!(
        "Workers hinder each other: {} of them achieve less throughput than one alone. {tool}.",
        scaling.hindered_level()?.concurrency
    ))
}

/// Returns the answer for one snippet: `sum(range(10)): 231 ns [228, 236] an iteration (6 runs).`
/// The time is a median. It is not the inverse of the throughput in the table, which is computed
/// from the mean.
fn snippet_sentence(snippet: &SnippetFigures, unit: Option<UnitChoice>) -> String {
    let label = shown_label(snippet);
    let iteration = if is_command(snippet) { "execution" } else { "iteration" };
    let runs = format_count(snippet.runs, "run", "runs");
    let workers = match snippet.concurrency {
        Some(count) if count > 1 => format!(" with {count} workers"),
        _ => String::new(),
    };
    if let Some(time) = snippet.time_median_ns {
        let scale = FigureScale::fit_scale("ns", &[time.value], unit);
        let place = scale.rounding_place(time.value, uncertainty_of(&time));
        let time = scale.format_estimate(&time, place);
        return format!("{label}: {time} an {iteration}{workers} ({runs}).");
    }
    let rate = snippet.per_s.map_or(String::new(), |rate| format!(", {}", format_rate(rate)));
    format!("{label}: too few {iteration}s for a median{rate} ({runs}).")
}

/// Whether the snippet is a shell command: only these report user and system time.
fn is_command(snippet: &SnippetFigures) -> bool {
    snippet.cpu_ns.is_some()
}

/// Returns the label. In a command, the values of parameters replace their placeholders:
/// `sleep {n} n=1` becomes `sleep 1`.
fn shown_label(snippet: &SnippetFigures) -> String {
    let mut shown = snippet.label.clone();
    while let Some((command, parameter)) = shown.rsplit_once(' ')
        && let Some((name, value)) = parameter.split_once('=')
        && is_command(snippet)
        && command.contains(&format!("{{{name}}}"))
    {
        shown = command.replace(&format!("{{{name}}}"), value);
    }
    shown
}

/// The columns of the table. Times are shown in `unit`, if one was requested.
pub(crate) fn snippet_columns(
    with_workers: bool,
    with_cpu: bool,
    unit: Option<UnitChoice>,
) -> ColumnSet<SnippetFigures> {
    column_set! { figures: SnippetFigures;
        label("code", if with_cpu { "command" } else { "code" }) =>
            ReportCell::words(figures.label.as_str()).with_text(shown_label(figures)),
        figure("concurrency", "workers") if with_workers => figures.concurrency.unwrap_or(1),
        figure("time_median_ns", "median") => median_cell(figures.time_median_ns, unit),
        machine("time_median_low_ns") => figures.time_median_ns.map(|time| time.low),
        machine("time_median_high_ns") => figures.time_median_ns.map(|time| time.high),
        figure("time_p5_ns", "p5").expendable(2) => time_cell(figures.time_p5_ns, unit),
        figure("time_ns", "mean") => time_cell(figures.time_ns, unit),
        figure("throughput", "throughput") => ReportCell::quantity(figures.per_s, "1/s"),
        figure("disturbance", "disturbance").expendable(1) => disturbance_cell(figures.disturbance),
        figure("runs", "runs").expendable(3) => figures.runs,
        figure("user_ns", "user").expendable(4) if with_cpu =>
            time_cell(figures.cpu_ns.map(|(user, _)| user), unit),
        figure("system_ns", "system").expendable(4) if with_cpu =>
            time_cell(figures.cpu_ns.map(|(_, system)| system), unit),
        figure("own_cpu_ns", "own cpu").expendable(4) if with_cpu =>
            time_cell(figures.own_cpu_ns, unit),
        figure("shell_ns", "shell").expendable(4) if with_cpu => time_cell(figures.shell_ns, unit),
        words("is_folded", "") =>
            ReportCell::value(figures.is_folded)
                .with_text(if figures.is_folded { "optimized away?" } else { "" }),
    }
}

/// Creates a cell with the median time, whose interval decides how many digits are shown.
fn median_cell(time: Option<IntervalEstimate>, unit: Option<UnitChoice>) -> ReportCell {
    let Some(estimate) = time.filter(|_| unit.is_some()) else {
        return ReportCell::estimate(time, "ns");
    };
    let scale = FigureScale::fit_scale("ns", &[estimate.value], unit);
    let text = scale.format_rounded(estimate.value, uncertainty_of(&estimate));
    ReportCell::from(estimate.value).with_text(text)
}

/// Creates a cell with a time of unknown uncertainty.
fn time_cell(time_ns: Option<f64>, unit: Option<UnitChoice>) -> ReportCell {
    ReportCell::shown_figure(time_ns, |ns| match unit {
        Some(_) => {
            FigureScale::fit_scale("ns", &[ns], unit).format_rounded(ns, Uncertainty::Unknown)
        }
        None => format_ns(ns),
    })
}

/// Checks whether the metrics of snippets can be shown in the requested unit. By default, that is
/// the time of an iteration. `is_compared` says whether there are several sides.
///
/// # Errors
/// Fails if the unit fits none of the metrics. The error suggests a metric that it fits.
pub fn check_snippet_unit(
    unit: Option<UnitChoice>,
    metrics: &[String],
    is_compared: bool,
) -> anyhow::Result<()> {
    let Some(unit) = unit else { return Ok(()) };
    // A single side shows the time per iteration next to its throughput.
    let fits = |name: &String| match name.as_str() {
        Metric::THROUGHPUT => unit.fits("1/s") || (unit.fits("ns") && !is_compared),
        "max_rss" => unit.fits("B"),
        name if name.starts_with("time") || name.ends_with("time") => unit.fits("ns"),
        _ => true,
    };
    if metrics.iter().any(fits) || (metrics.is_empty() && unit.fits("ns")) {
        return Ok(());
    }
    let shown = if metrics.is_empty() { Metric::TIME.to_owned() } else { metrics.join(", ") };
    let hint = match unit {
        _ if unit.fits("1/s") => format!("\nhint: --metric throughput --unit {unit}"),
        _ if unit.fits("B") => format!("\nhint: --metric max_rss --unit {unit}, for commands"),
        _ => String::new(),
    };
    bail!("cannot show {shown} in '{unit}'{hint}")
}

fn disturbance_cell(disturbance: Option<f64>) -> ReportCell {
    ReportCell::shown_figure(disturbance, |ratio| {
        let mark = if ratio > MAX_DISTURBANCE { " !" } else { "" };
        format!("{ratio:.2}x{mark}")
    })
}

/// A level of a search.
pub(crate) struct SnippetLevelRow<'a> {
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
    level_columns().build_table("levels", rows)
}

pub(crate) fn level_columns<'a>() -> ColumnSet<SnippetLevelRow<'a>> {
    column_set! { row: SnippetLevelRow<'a>;
        figure("concurrency", "workers") => row.figures.concurrency.unwrap_or(1),
        figure("visits", "visits").expendable(2) => row.figures.runs,
        figure("throughput", "throughput") =>
            ReportCell::from(row.figures.per_s)
                .with_text(row.standing.map(format_throughput_error).unwrap_or_default()),
        figure("change", "vs. best so far") => change_cell(row.standing),
        figure("time_ns", "mean").expendable(1) => ReportCell::time(row.figures.time_ns),
        figure("time_median_ns", "median") =>
            ReportCell::time(row.figures.time_median_ns.map(|time| time.value)),
        words("verdict", "") => standing_cell(row.standing, row.is_knee),
    }
}

// Reports at which concurrency throughput stops growing: the answer in words, the figures of each
// level, the fitted law, and the chart. A visit is one measurement at a level. Load tests and
// snippets share the code below, so it knows nothing about the work of a worker.

/// Maximum relative standard deviation of the visits to a level. Larger differences hide where
/// throughput stops growing: in the simulations of crates/stats/DERIVATIONS.md, this point is then
/// found less than nine times in ten.
const MAX_NOISE: f64 = 0.15;

/// Formats a throughput with as many digits as its interval supports.
fn format_throughput(standing: &LevelState) -> String {
    let interval = standing.interval.filter(|interval| interval.low >= 0.0);
    let half_width = interval.map_or(Uncertainty::Unknown, |i| Uncertainty::Half(i.half_width()));
    format_quantity(standing.throughput, "1/s", half_width)
}

/// Formats a throughput with its relative uncertainty, as in `91.2 k/s ± 1.1%`.
pub fn format_throughput_error(standing: &LevelState) -> String {
    let throughput = format_throughput(standing);
    match standing.interval.filter(|_| standing.throughput > 0.0) {
        // Throughput cannot be negative. An interval of a mean that includes negative values does
        // not tell how exact the mean is.
        Some(interval) if interval.low < 0.0 => format!("{throughput} (uncertainty unknown)"),
        Some(interval) => {
            let error = format_share(interval.half_width() / standing.throughput);
            format!("{throughput} ± {error}")
        }
        None => throughput,
    }
}

/// Returns the answer in a sentence. `spoilt` is the concurrency at which the work failed, if there
/// is one.
pub fn scaling_headline(label: &str, scaling: &ScalingFindings, spoilt: Option<u32>) -> String {
    let SaturationAnswer { standings, is_open, .. } = &scaling.answer;
    let (knee, best) = (scaling.answer.at_knee(), scaling.answer.at_best());
    let figure = format_throughput_error(knee);
    let concurrency = knee.concurrency;
    match (is_open, spoilt) {
        (true, Some(spoilt)) => format!(
            "{label}: throughput grows up to {concurrency}: {figure}; at {spoilt}, requests \
             fail."
        ),
        (true, None) => format!(
            "{label}: throughput still grows at {concurrency}, the highest level measured: \
             {figure}."
        ),
        (false, _) => {
            // The sentence mentions the next level up, unless the best level is more informative.
            let above = standings.iter().find(|standing| standing.concurrency > knee.concurrency);
            let is_best = best.concurrency == knee.concurrency;
            let next_levels = above.map_or(String::new(), |above| match above.status {
                LevelStatus::Lower => format!("; {} gives less", above.concurrency),
                _ if is_best => format!("; {} gives no more", above.concurrency),
                _ => format!(
                    "; {} ({}) is statistically indistinguishable from it",
                    best.concurrency,
                    format_throughput(best)
                ),
            });
            let is_noisy = is_too_noisy(scaling);
            let verb =
                if is_noisy { "does not measurably grow beyond" } else { "stops growing at" };
            format!("{label}: throughput {verb} {concurrency}: {figure}{next_levels}.")
        }
    }
}

/// Whether visits differ so much that the answer is probably too low.
fn is_too_noisy(scaling: &ScalingFindings) -> bool {
    scaling.answer.noise.spread > MAX_NOISE
}

/// Warns if visits differ too much to trust the answer. `visits` is the word for visits in the
/// report.
pub fn noise_warning(label: &str, scaling: &ScalingFindings, visits: &str) -> Option<String> {
    is_too_noisy(scaling).then(|| {
        format!(
            "{label}: {visits} of the same level differ by {} (standard deviation), so further \
             growth of throughput may be hidden: the answer is probably too low. A quieter \
             machine or a longer --time helps.",
            format_share(scaling.answer.noise.spread)
        )
    })
}

/// Returns a cell with the change of throughput from the best of the lower levels to this level.
pub fn change_cell(standing: Option<&LevelState>) -> ReportCell {
    ReportCell::from(standing.and_then(|standing| standing.change).map(|change| {
        let (value, interval) = (change.ratio - 1.0, change.interval());
        let (low, high) = (interval.low.max(0.0) - 1.0, interval.high - 1.0);
        let text = format_change_interval(&IntervalEstimate { value, low, high });
        ReportCell::from(value).with_text(text)
    }))
}

/// Returns a cell with the status of a level. A mark replaces the status of the level that is the
/// answer. If `standing` is `None`, the level failed.
pub fn standing_cell(standing: Option<&LevelState>, is_knee: bool) -> ReportCell {
    let name = match standing.map(|standing| standing.status) {
        None => "failed",
        Some(LevelStatus::Best) => "best",
        Some(LevelStatus::Lower) => "lower",
        Some(LevelStatus::AsGood) => "as good",
        Some(LevelStatus::Unclear) => "unclear",
    };
    ReportCell::value(name).with_text(if is_knee { "◀ here" } else { name })
}

/// Returns all figures with every digit, as a JSON object for programs. Its first member, `key`,
/// holds `label`, the name of what was measured.
pub fn scaling_data(key: &str, label: &str, scaling: Option<&ScalingFindings>) -> Value {
    let answer = scaling.map(|scaling| &scaling.answer);
    json!({
        key: label,
        "concurrency": answer.map(|answer| answer.at_knee().concurrency),
        "throughput": answer.map(|answer| answer.at_knee().throughput),
        "interval": answer.and_then(|answer| answer.at_knee().interval).map(|i| [i.low.max(0.0), i.high]),
        "best_concurrency": answer.map(|answer| answer.at_best().concurrency),
        "still_grows": answer.map(|answer| answer.is_open),
        "noise": answer.map(|answer| answer.noise.spread),
        "usl": scaling.map(law_data),
    })
}

/// Describes how the law fits the levels.
pub fn law_sentence(scaling: &ScalingFindings) -> String {
    let usl = match &scaling.curve {
        Ok(usl) => usl,
        Err(error) => {
            return format!("No fit of the Universal Scalability Law: {}.", refusal_text(error));
        }
    };
    let lambda = format_quantity(usl.lambda.value, "1/s", half_width(usl.lambda.error));
    let highest = scaling.answer.standings.last();
    let peak = match scaling.peak {
        // Beyond the measured levels, the curve says little.
        Some(peak) if highest.is_some_and(|highest| peak > f64::from(highest.concurrency)) => {
            format!("its greatest throughput is at {peak:.0}, beyond the measured levels")
        }
        Some(peak) => format!("its greatest throughput is at {peak:.0}"),
        None if usl.kappa.error.is_none() => "it has no peak (kappa is 0)".to_owned(),
        None => "its peak is unknown: kappa is indistinguishable from 0".to_owned(),
    };
    format!(
        "Universal Scalability Law: one worker alone {lambda} (lambda), sigma {}, kappa {}, R² {}; {peak}{}.",
        format_parameter(&usl.sigma),
        format_parameter(&usl.kappa),
        format_number(usl.r_squared, 3),
        misfit_note(scaling)
    )
}

/// Warns if the curve is outside the intervals of more than a quarter of the levels, even if the
/// curve explains much of the variance. By chance alone, a curve is outside the 95% interval at
/// one level in twenty.
fn misfit_note(scaling: &ScalingFindings) -> String {
    let standings = &scaling.answer.standings;
    let is_missed = |standing: &&LevelState| match (standing.interval, &scaling.curve) {
        (Some(interval), Ok(usl)) => {
            !interval.contains(usl.throughput_at(f64::from(standing.concurrency)))
        }
        _ => false,
    };
    let (missed, levels) = (standings.iter().filter(is_missed).count(), standings.len());
    if 4 * missed <= levels {
        return String::new();
    }
    format!(
        "; the curve is outside the intervals of {missed} of {levels} levels, so it is a rough description"
    )
}

fn refusal_text(error: &UslError) -> String {
    match error {
        UslError::TooFewLevels { levels } => format!(
            "{levels} levels are too few for its three parameters; it needs at least {MIN_LEVELS}"
        ),
        UslError::NotPositive => "throughput was 0 at one of the levels".to_owned(),
        UslError::NoFit => "no curve of this form fits the levels".to_owned(),
        UslError::Poor { r_squared } if r_squared.is_nan() || *r_squared <= 0.0 => {
            "throughput hardly depends on the concurrency, so there is nothing to explain"
                .to_owned()
        }
        UslError::Poor { r_squared } => format!(
            "its best curve explains {} of the differences between levels, less than {}; something \
             other than contention and coherency dominates here",
            format_share(*r_squared),
            format_share(MIN_R_SQUARED)
        ),
    }
}

fn half_width(error: Option<f64>) -> Uncertainty {
    error.map_or(Uncertainty::Unknown, Uncertainty::Half)
}

/// Formats a parameter with its standard error, as in `0.0268 ± 0.0033`. A parameter without an
/// error is at its lower bound, 0.
fn format_parameter(parameter: &UslParameter) -> String {
    parameter.error.map_or("0".to_owned(), |error| {
        let place = decimal_place(parameter.value, half_width(parameter.error)).min(7);
        format!("{} ± {}", format_number(parameter.value, place), format_number(error, place))
    })
}

/// Returns the fitted law with every digit, for programs.
fn law_data(scaling: &ScalingFindings) -> Value {
    let with_error =
        |parameter: &UslParameter| json!({"value": parameter.value, "error": parameter.error});
    match &scaling.curve {
        Ok(usl) => json!({
            "lambda": with_error(&usl.lambda),
            "sigma": with_error(&usl.sigma),
            "kappa": with_error(&usl.kappa),
            "r_squared": usl.r_squared,
            "peak": scaling.peak,
        }),
        Err(error) => json!({"refused": refusal_text(error)}),
    }
}

/// Number of points of the fitted curve, enough for a smooth look.
const CURVE_POINTS: u32 = 96;

/// Draws throughput over concurrency for `label`. `y` is the title of the vertical axis.
pub fn throughput_chart(label: &str, scaling: &ScalingFindings, y: &str) -> ReportChart {
    let standings = &scaling.answer.standings;
    let measured = standings.iter().map(|standing| plot::ChartPoint {
        x: f64::from(standing.concurrency),
        y: standing.throughput,
        low: standing.interval.map(|interval| interval.low.max(0.0)),
        high: standing.interval.map(|interval| interval.high),
    });
    let mut series = vec![point_series("mean with 95% interval", measured)];
    let ends = standings.first().zip(standings.last());
    if let (Ok(usl), Some((first, last))) = (&scaling.curve, ends) {
        let (low, high) = (f64::from(first.concurrency), f64::from(last.concurrency));
        let concurrency_at =
            |point: u32| low * (high / low).powf(f64::from(point) / f64::from(CURVE_POINTS));
        let points = (0..=CURVE_POINTS).map(|point| {
            plot::ChartPoint::new(concurrency_at(point), usl.throughput_at(concurrency_at(point)))
        });
        series.push(point_series("Universal Scalability Law", points));
    }
    let visit = |&(concurrency, throughput): &(u32, f64)| {
        plot::ChartPoint::new(f64::from(concurrency), throughput)
    };
    ReportChart::from_picture(plot::AnyChart::Line(plot::LineChart {
        title: "Throughput over concurrency".into(),
        subtitle: Some(label.to_owned()),
        x: plot::ChartAxis::log2("concurrency"),
        y: plot::ChartAxis::linear(y),
        observations: vec![scaling.visits.iter().map(visit).collect()],
        curves: series.len() - 1,
        series,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_analysis::scaling::{ConcurrencyLevel, evaluate_scaling};

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
        assert_eq!(snippet_sentence(&one, None), expected);
        let label = "sort -S {size} {n}.txt n=1 size=2M x=3".to_owned();
        let mut command = SnippetFigures { label, cpu_ns: Some((1.0, 1.0)), ..one.clone() };
        assert!(snippet_sentence(&command, None).contains(" an execution with"));
        assert_eq!(shown_label(&command), command.label, "'x' is not in the command");
        command.label.truncate(command.label.len() - " x=3".len());
        assert_eq!(shown_label(&command), "sort -S 2M 1.txt");
        let in_us = snippet_sentence(&one, Some("us".parse().unwrap()));
        assert!(in_us.starts_with("f(x): 0.00540 µs ["), "{in_us}");
        one.time_median_ns = None;
        let expected = "f(x): too few iterations for a median, 242 M/s (6 runs).";
        assert_eq!(snippet_sentence(&one, None), expected);
    }

    #[test]
    fn a_unit_that_no_metric_has_is_refused_with_the_metric_that_has_it() {
        let check = |unit: &str, metrics: &[&str], is_compared| {
            let metrics: Vec<String> = metrics.iter().map(|name| (*name).to_owned()).collect();
            let unit = unit.parse().unwrap();
            check_snippet_unit(Some(unit), &metrics, is_compared).map_err(|error| error.to_string())
        };
        let hint = "cannot show time in 'k/s'\nhint: --metric throughput --unit k/s";
        assert_eq!(check("k/s", &[], false), Err(hint.to_owned()));
        assert!(check("MB/s", &["max_rss"], true).is_err());
        assert!(check("ms", &["throughput"], true).is_err());
        for (unit, metrics) in [
            ("ms", &[][..]),
            ("1/s", &["throughput"]),
            ("ms", &["throughput"]),
            ("MiB", &["time", "max_rss"]),
            ("k/s", &["all"]),
            ("k/s", &["items"]),
        ] {
            assert_eq!(check(unit, metrics, false), Ok(()), "{unit} {metrics:?}");
        }
    }

    /// Returns two levels whose visits are so far apart that the interval of the mean reaches below
    /// zero.
    fn wild() -> ScalingFindings {
        let level = |concurrency, throughputs: [f64; 2]| ConcurrencyLevel {
            concurrency,
            throughputs: throughputs.to_vec(),
            is_spoilt: false,
        };
        evaluate_scaling(&[level(1, [10.0, 590.0]), level(2, [20.0, 700.0])]).unwrap()
    }

    #[test]
    fn no_interval_of_a_throughput_reaches_below_zero() {
        let wild = wild();
        let knee = wild.answer.at_knee();
        assert!(knee.interval.unwrap().low < 0.0, "{knee:?}");
        assert!(format_throughput_error(knee).ends_with("/s (uncertainty unknown)"));

        let machines = scaling_data("code", "f()", Some(&wild));
        assert_eq!(machines["interval"][0], 0.0);

        let chart = throughput_chart("f()", &wild, "iterations per second");
        let plot::AnyChart::Line(line) = chart.picture else { panic!("{:?}", chart.title) };
        let lows: Vec<Option<f64>> = line.series[0].points.iter().map(|point| point.low).collect();
        assert_eq!(lows, [Some(0.0); 2]);
    }
}
