//! Shows results: a paragraph for every command, warnings, and the comparison.
//!
//! The paragraphs are the same as in hyperfine, but the comparison is not. hyperfine divides means
//! and propagates standard deviations. Here, a test on the blocks decides which commands differ.
//! With `--strict-compat`, the comparison is also the same as in hyperfine. [`format_export`]
//! writes JSON, CSV, and tables in Markdown, AsciiDoc and Org, byte for byte as hyperfine does.
//! Start at [`format_paragraph`] and [`format_comparison`].

use crate::hyperfine::arguments::{CommandExecutor, ExportKind, HyperfineRequest, ResultOrder};
use crate::hyperfine::figures::{
    CommandFigures, RelativeFigures, RunTiming, TimeUnit, fastest_index, outlier_scores,
    relative_to,
};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use speedwell_machine::process::ProcessEnd;
use speedwell_report::quote_field;
use speedwell_stats::sequential::adjust_holm;
use speedwell_stats::test::stratified::{
    BlockObservation, MINIMUM_PER_SIDE, StratifiedRank, stratified_rank,
};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// A time shorter than this, in seconds, is about as small as the variation of the shell's own
/// time.
const SHORT_TIME_S: f64 = 5e-3;

/// A run with a higher score is an outlier. Corresponds to ten standard deviations of a normal
/// distribution; one standard deviation is 1.4826 median absolute deviations.
const OUTLIER_SCORE: f64 = 1.4826 * 10.0;

/// Maximum probability that the comparison, over all commands together, reports a difference that
/// does not exist.
const ALPHA: f64 = 0.05;

/// Two commands are reported as the same if no value in the confidence interval of their ratio
/// differs from 1 by more than this.
const SAME_RATIO_TOLERANCE: f64 = 0.02;

// Terminal colors and styles, as parameters of an escape sequence (ECMA-48: SGR).
const BOLD: &str = "1";
const BOLD_GREEN: &str = "1;32";
const DIMMED: &str = "2";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BLUE: &str = "34";
const PURPLE: &str = "35";
const CYAN: &str = "36";

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub struct ReportLook {
    pub colours: bool,
    /// Unit of times; if `None`, a unit that fits the figures.
    pub unit: Option<TimeUnit>,
}

impl ReportLook {
    fn paint(self, text: &str, style: &str) -> String {
        if self.colours { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Formats the line above the figures of a command. `number` is the index of the command.
pub fn format_heading(number: usize, title: &str, look: ReportLook) -> String {
    let number = (number + 1).to_string();
    let [word, number] = ["Benchmark ", number.as_str()].map(|text| look.paint(text, BOLD));
    format!("{word}{number}: {title}\n")
}

/// Formats the figures of a command.
pub fn format_paragraph(figures: &CommandFigures, look: ReportLook) -> String {
    let unit = look.unit.unwrap_or_else(|| TimeUnit::for_seconds(figures.mean));
    let padded_time =
        |seconds: f64, style: &str| look.paint(&format!("{:>8}", unit.format_time(seconds)), style);
    let mean = padded_time(figures.mean, BOLD_GREEN);
    let user = look.paint(&unit.format_time(figures.user), BLUE);
    let system = look.paint(&unit.format_time(figures.system), BLUE);
    let Some(deviation) = figures.deviation else {
        let word = look.paint("abs", BOLD_GREEN);
        let times = format!("[User: {user}, System: {system}]");
        return format!("  Time ({word} ≡):        {mean}               {times}\n");
    };
    let (word, sigma) = (look.paint("mean", BOLD_GREEN), look.paint("σ", GREEN));
    let deviation = padded_time(deviation, GREEN);
    let (low, high) = (look.paint("min", CYAN), look.paint("max", PURPLE));
    let (min, max) = (padded_time(figures.min, CYAN), padded_time(figures.max, PURPLE));
    let count = look.paint(&format!("{} runs", figures.runs.len()), DIMMED);
    format!(
        "  Time ({word} ± {sigma}):     {mean} ± {deviation}    [User: {user}, System: {system}]\n  \
         Range ({low} … {high}):   {min} … {max}    {count}\n"
    )
}

/// Returns warnings about the figures of a command, in complete sentences.
pub fn warnings(figures: &CommandFigures, request: &HyperfineRequest, shell_s: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |in_strict_mode: String, otherwise: String| {
        warnings.push(if request.options.strict { in_strict_mode } else { otherwise });
    };
    let in_shell = matches!(request.executor, CommandExecutor::Shell(_));
    if in_shell && figures.wall_times().any(|time| time < SHORT_TIME_S) {
        let shell = TimeUnit::for_seconds(shell_s).format_time(shell_s);
        let warning = format!(
            "Some runs took less than {:.0} ms after the shell's own time was subtracted. This \
             time ({shell}) varies from run to run. Use '-N' to start commands without a shell.",
            SHORT_TIME_S * 1e3
        );
        warn(strict_message("short"), warning);
    }
    if figures.runs.iter().any(|run| run.ended != ProcessEnd::Exit(0)) {
        let warning = "Some runs exited with a non-zero status, which was ignored.";
        warn(strict_message("status"), warning.to_owned());
    }
    let times: Vec<f64> = figures.wall_times().collect();
    let scores = outlier_scores(&times);
    let (warms, prepares) = (request.options.warmup > 0, !request.options.prepare.is_empty());
    if scores[0] > OUTLIER_SCORE {
        let first_time = TimeUnit::for_seconds(times[0]).format_time(times[0]);
        let hint = if warms { "a higher '--warmup' count" } else { "'--warmup 3'" };
        let warning = format!(
            "The first run took {first_time}, much longer than the others: a cache was probably \
             cold. Use {hint} to warm it first, or '--prepare' to clear it before each run."
        );
        warn(strict_slow_first(&first_time, warms, prepares), warning);
    } else if scores.iter().any(|score| score.abs() > OUTLIER_SCORE) {
        let key = if warms && prepares { "outliers, both options" } else { "outliers" };
        let count = scores.iter().filter(|score| score.abs() > OUTLIER_SCORE).count();
        let warning = format!(
            "{count} of {} runs took far longer or shorter than the others: the machine was \
             probably busy with other work.",
            times.len()
        );
        warn(strict_message(key), warning);
    }
    warnings
}

pub fn format_warning(text: &str, look: ReportLook) -> String {
    format!("  {}: {text}\n", look.paint("Warning", YELLOW))
}

/// Compares the commands. If the user named a reference, it is the first command; otherwise the
/// fastest command is the reference. With `--strict-compat`, returns hyperfine's note as an error
/// if a mean is 0.
pub fn format_comparison(
    figures: &[CommandFigures],
    request: &HyperfineRequest,
    look: ReportLook,
) -> Result<String, String> {
    if figures.len() < 2 {
        return Ok(String::new());
    }
    let has_reference = request.options.reference.is_some();
    let reference = if has_reference { 0 } else { fastest_index(figures) };
    let by_time = request.options.sort != ResultOrder::Command;
    if request.options.strict {
        if [reference, fastest_index(figures)].iter().any(|index| figures[*index].mean == 0.0) {
            let note = look.paint("Note", BOLD);
            return Err(format!("{note}: {}", strict_message("zero")));
        }
        return Ok(compare_by_means(&relative_to(figures, reference, by_time), by_time, look));
    }
    Ok(compare_by_test(figures, reference, by_time, look))
}

/// Formats hyperfine's comparison.
fn compare_by_means(rows: &[RelativeFigures<'_>], by_time: bool, look: ReportLook) -> String {
    let format_deviation = |row: &RelativeFigures<'_>, width: usize| {
        let deviation = row.deviation.map(|deviation| format!("{deviation:width$.2}"));
        deviation.map(|deviation| format!(" ± {}", look.paint(&deviation, GREEN)))
    };
    let format_ratio = |row: &RelativeFigures<'_>, width: usize| {
        look.paint(&format!("{:width$.2}", row.ratio), BOLD_GREEN)
    };
    if !by_time {
        let format_row = |row: &RelativeFigures<'_>| {
            let deviation = format_deviation(row, 5)
                .filter(|_| !row.is_reference)
                .unwrap_or_else(|| " ".repeat(8));
            format!("  {}{deviation}  {}\n", format_ratio(row, 10), row.figures.title)
        };
        let lines: String = rows.iter().map(format_row).collect();
        return format!("{}\n{lines}", look.paint("Relative speed comparison", BOLD));
    }
    let best = rows.iter().find(|row| row.is_reference).map_or("", |row| &row.figures.title);
    let best = look.paint(best, CYAN);
    let mut text = format!("{}\n  {best} ran\n", look.paint("Summary", BOLD));
    for row in rows.iter().filter(|row| !row.is_reference) {
        let deviation = format_deviation(row, 0).unwrap_or_default();
        let title = look.paint(&row.figures.title, PURPLE);
        let (begin, width, end) = match row.order {
            Ordering::Less => ("", 8, " times slower than"),
            Ordering::Greater => ("", 8, " times faster than"),
            Ordering::Equal => ("    As fast (", 0, ") as"),
        };
        let ratio = format_ratio(row, width);
        text.push_str(&format!("{begin}{ratio}{deviation}{end} {title}\n"));
    }
    text
}

fn compare_by_test(
    figures: &[CommandFigures],
    reference: usize,
    by_time: bool,
    look: ReportLook,
) -> String {
    let base = &figures[reference];
    let others = figures.iter().enumerate().filter(|(index, _)| *index != reference);
    let mut others: Vec<&CommandFigures> = others.map(|(_, other)| other).collect();
    if by_time {
        others.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    }
    let tests: Vec<_> = others.iter().map(|other| test_commands(base, other)).collect();
    let p_values: Vec<f64> = tests.iter().flat_map(|(test, _)| test).map(|test| test.p).collect();
    // Holm's correction tests each p value against a limit of its own. The intervals all use the
    // strictest of these limits, so that an interval excludes a ratio of 1 only if its p value is
    // significant.
    let limit = ALPHA / p_values.len().max(1) as f64;
    let mut adjusted = adjust_holm(&p_values).into_iter();
    let title = look.paint(&base.title, CYAN);
    let mut text = format!("{}\n  {title} ran\n", look.paint("Summary", BOLD));
    for (other, (test, has_shell)) in others.iter().zip(&tests) {
        let other = look.paint(&other.title, PURPLE);
        let mark = if *has_shell { "*" } else { "" };
        text.push_str(&match test {
            Some(test) => {
                let p = adjusted.next().unwrap_or(1.0);
                format!("{} {other}\n", format_test(test, mark, p, limit, look))
            }
            None => format!(
                "    too few runs to compare with {other}: each command needs {MINIMUM_PER_SIDE} runs\n"
            ),
        });
    }
    if tests.iter().any(|(_, has_shell)| *has_shell) {
        text += "  *: including the shell, as some runs take no longer than the shell alone\n";
    }
    text
}

/// Tests one command against the reference; returns `None` with too few runs. If a run takes no
/// longer than the shell alone, subtracting the shell's time leaves 0. If any time is 0, the test
/// compares times that include the shell. Also returns whether it does.
fn test_commands(base: &CommandFigures, other: &CommandFigures) -> (Option<StratifiedRank>, bool) {
    let has_shell = base.wall_times().chain(other.wall_times()).any(|time| time <= 0.0);
    let value = |run: &RunTiming| {
        if has_shell { run.with_shell_s } else { run.real_s }
    };
    let base_runs = base.runs.iter().map(|run| BlockObservation::baseline(value(run), run.block));
    let other_runs =
        other.runs.iter().map(|run| BlockObservation::candidate(value(run), run.block));
    let observations: Vec<BlockObservation> = base_runs.chain(other_runs).collect();
    let has_enough_runs = base.runs.len().min(other.runs.len()) >= MINIMUM_PER_SIDE;
    let test = stratified_rank(&observations).ok();
    (test.filter(|test| has_enough_runs && test.n_per_side >= MINIMUM_PER_SIDE), has_shell)
}

/// Formats the result of a test, up to the name of the other command.
fn format_test(test: &StratifiedRank, mark: &str, p: f64, limit: f64, look: ReportLook) -> String {
    let interval = test.interval_at(limit);
    let (ratio, low, high) = (test.ratio(), interval.low, interval.high);
    let (word, ratio, low, high) = if ratio >= 1.0 {
        ("faster", ratio, low, high)
    } else {
        ("slower", 1.0 / ratio, 1.0 / high, 1.0 / low)
    };
    let verdict = if p <= ALPHA {
        " than"
    } else if low > 1.0 / (1.0 + SAME_RATIO_TOLERANCE) && high < 1.0 + SAME_RATIO_TOLERANCE {
        ", the same as"
    } else {
        ", indistinguishable from"
    };
    let shown_ratio = look.paint(&format!("{ratio:8.2}"), BOLD_GREEN);
    format!("{shown_ratio} [{low:.2}, {high:.2}]{mark} times {word}{verdict}")
}

/// Messages worded exactly as in hyperfine, because scripts may search for them. Each line is a key, a
/// colon and a message.
const STRICT_MESSAGES: &str = include_str!("../usage/hyperfine.strict.txt");

fn strict_message(key: &str) -> String {
    let mut messages = STRICT_MESSAGES.lines().filter_map(|line| line.split_once(": "));
    messages.find(|(known, _)| *known == key).map_or("", |(_, message)| message).to_owned()
}

fn strict_slow_first(first_time: &str, warms: bool, prepares: bool) -> String {
    let hint = match (warms, prepares) {
        (true, true) => "first run, both options",
        (true, false) => "first run, --warmup",
        (false, true) => "first run, --prepare",
        (false, false) => "first run, no option",
    };
    let message = strict_message("first run").replace("{time}", first_time);
    format!("{message} {}", strict_message(hint))
}

/// Formats an export. Tables state times in `unit`; by default, in the unit that fits the mean of
/// the first command. If `by_time` is set, the rows of tables are sorted by mean.
///
/// # Errors
/// Fails if a figure cannot be represented in JSON.
pub fn format_export(
    export: ExportKind,
    commands: &[CommandFigures],
    unit: Option<TimeUnit>,
    by_time: bool,
) -> anyhow::Result<String> {
    match export {
        ExportKind::Json => return format_json(commands),
        ExportKind::Csv => return Ok(format_csv(commands)),
        _ => {}
    }
    let natural_unit =
        commands.first().map_or(TimeUnit::Second, |first| TimeUnit::for_seconds(first.mean));
    let rows = relative_to(commands, fastest_index(commands), by_time);
    Ok(export.format_table(&rows, unit.unwrap_or(natural_unit)))
}

/// Writes a file. An existing regular file is replaced atomically if its folder permits new files:
/// if the process is killed, the file has the old content or the new content, never a part of it.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn replace_file(file: &str, text: &str) -> io::Result<()> {
    let path = Path::new(file);
    // Only a regular file is replaced. A link, a terminal or a pipe is opened and written to.
    let old_metadata = fs::symlink_metadata(path).ok().filter(Metadata::is_file);
    let Some((old_metadata, name)) = old_metadata.zip(path.file_name()) else {
        return fs::write(path, text);
    };
    let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let temporary = path.with_file_name(name);
    let written = fs::write(&temporary, text)
        .and_then(|()| fs::set_permissions(&temporary, old_metadata.permissions()))
        .and_then(|()| fs::rename(&temporary, path));
    written.or_else(|_| {
        // The folder may not permit new files. In this case, the existing file is overwritten.
        let _ = fs::remove_file(&temporary);
        fs::write(path, text)
    })
}

fn format_json(results: &[CommandFigures]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct ExportDocument<'a> {
        results: &'a [CommandFigures],
    }
    let mut bytes = Vec::new();
    let pretty = PrettyFormatter::new();
    ExportDocument { results }.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes)?)
}

fn format_csv(commands: &[CommandFigures]) -> String {
    let fixed_headers = "command,mean,stddev,median,user,system,min,max".to_owned();
    let names: BTreeSet<&str> =
        commands.iter().flat_map(|figures| figures.parameters.keys()).map(String::as_str).collect();
    let headers = names.iter().map(|name| quote_csv(&format!("parameter_{name}")));
    let headers: Vec<String> = [fixed_headers].into_iter().chain(headers).collect();
    let mut text = headers.join(",") + "\n";
    for figures in commands {
        let CommandFigures { mean, median, user, system, min, max, .. } = *figures;
        let numbers = [mean, figures.deviation.unwrap_or(0.0), median, user, system, min, max];
        let mut cells = vec![quote_csv(&figures.name)];
        cells.extend(numbers.map(|number| number.to_string()));
        // The reference command has no parameters, even if the other commands do.
        let value = |name: &&str| {
            figures.parameters.get(*name).map_or(String::new(), |value| quote_csv(value))
        };
        cells.extend(names.iter().map(value));
        text.push_str(&(cells.join(",") + "\n"));
    }
    text
}

/// Quotes a cell if it is empty, or if RFC 4180 requires quotes.
fn quote_csv(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { quote_field(text) }
}

/// Formats tables in Markdown, AsciiDoc and Org.
impl ExportKind {
    fn format_table(self, rows: &[RelativeFigures<'_>], unit: TimeUnit) -> String {
        let symbol = unit.symbol();
        let [mean, min, max] = ["Mean", "Min", "Max"].map(|name| format!("{name} [{symbol}]"));
        let header = ["Command".to_owned(), mean, min, max, "Relative".to_owned()];
        let (before, below, after) = match self {
            ExportKind::AsciiDoc => ("[cols=\"<,>,>,>,>\"]\n|===", "", "|===\n"),
            ExportKind::Org => ("", "|--+--+--+--+--|\n", ""),
            _ => ("", "|:---|---:|---:|---:|---:|\n", ""),
        };
        let rows: String =
            rows.iter().map(|row| self.format_row(&self.format_cells(row, unit))).collect();
        format!("{before}{}{below}{rows}{after}", self.format_row(&header))
    }

    fn format_cells(self, row: &RelativeFigures<'_>, unit: TimeUnit) -> [String; 5] {
        let figures = row.figures;
        let spread =
            figures.deviation.map(|deviation| format!(" ± {}", unit.format_digits(deviation)));
        let ratio_deviation = row.deviation.filter(|_| !row.is_reference);
        let ratio_spread = ratio_deviation.map(|deviation| format!(" ± {deviation:.2}"));
        let command = figures.title.replace('|', "\\|");
        let mark = if self == ExportKind::Org { '=' } else { '`' };
        [
            format!("{mark}{command}{mark}"),
            format!("{}{}", unit.format_digits(figures.mean), spread.unwrap_or_default()),
            unit.format_digits(figures.min),
            unit.format_digits(figures.max),
            format!("{:.2}{}", row.ratio, ratio_spread.unwrap_or_default()),
        ]
    }

    fn format_row(self, cells: &[String; 5]) -> String {
        match self {
            ExportKind::AsciiDoc => format!("\n| {} \n", cells.join(" \n| ")),
            ExportKind::Org => format!("| {}  |  {} |\n", cells[0], cells[1..].join(" |  ")),
            _ => format!("| {} |\n", cells.join(" | ")),
        }
    }
}
