//! What snippets showed: the comparison if there are several, and the figures of each; or where throughput stops
//! growing as workers are added.
//!
//! Decides what is said where; what the figures mean is decided in `analysis`. Start at [`document`].

use super::output::{Output, Verbosity};
use super::{Uncertainty, failures};
use crate::document::{Block, Document};
use crate::figure::{quantity, uncertainty_of};
use crate::scaling;
use crate::table::{Cell, Column, Columns, Kind, Table};
use crate::unit::Scale;
use speedwell_analysis::scaling::{Scaling, Standing};
use speedwell_analysis::snippet::{MOST_DISTURBANCE, SnippetFigures, SnippetLevels};
use speedwell_analysis::{Findings, LayoutSpread};
use speedwell_model::Estimate;

/// Said below the table of figures.
const EXPLANATION: &str = "median, p5: time of an iteration and worker in the median batch and in the one that a \
    twentieth is quicker than; mean: the same over all of the time; disturbance: mean divided by median.";

/// Added where commands were executed by a shell.
const SHELL: &str = " shell: what the shell takes to do nothing, which is part of all times, user and system included; own cpu: user and system together without \
    the shell's, where that is more than noise.";

/// Said below a search.
const SEARCHED: &str = "The answer is the lowest concurrency whose throughput is statistically indistinguishable from the highest. ± and [ ] \
    are 95 % intervals from the visits of all levels together, which were made in one process.";

/// The report of snippets that were measured one by one or compared. `compared` is the document of the comparison.
pub fn document(
    figures: &[SnippetFigures],
    warnings: &[String],
    findings: &Findings,
    compared: Option<Document>,
    output: &Output,
) -> Document {
    let mut document = Document::new("code");
    let is_quiet = output.verbosity == Verbosity::Quiet;
    let mut warned: Vec<Block> = warnings.iter().cloned().map(Block::Warning).collect();
    // Pairs that share a processor have no times of their own.
    let has_times = figures.iter().any(|one| one.time_ns.is_some());
    let mut figures_alone = vec![Block::Table(table(figures))];
    match compared {
        Some(mut compared) => {
            let is_warning = |block: &Block| matches!(block, Block::Warning(_));
            warned.extend(compared.blocks.extract_if(.., |block| is_warning(block)));
            document.blocks = aside(warned, is_quiet);
            document.append(compared);
            figures_alone.insert(0, heading("Each snippet by itself"));
        }
        None => {
            warned.extend(findings.warnings.iter().cloned().map(Block::Warning));
            document.blocks = aside(warned, is_quiet);
            let sentences = figures.iter().map(sentence).map(Block::Headline);
            document.extend(sentences);
            let layout = findings.layout.iter().map(LayoutSpread::sentence);
            document.extend(aside(layout.map(Block::Note).collect(), is_quiet));
        }
    }
    if has_times || findings.comparisons.is_empty() {
        document.extend(aside(figures_alone, is_quiet));
    }
    if has_times {
        output.add_detail(&mut document, |_, document| {
            document.push(Block::Note(explanation(figures)));
        });
    }
    if findings.comparisons.is_empty() {
        document.append(failures(&findings.failures, output.verbosity));
    }
    document
}

/// What is not the answer itself: where that alone is wanted, people look it up elsewhere, and files have it.
fn aside(blocks: Vec<Block>, is_quiet: bool) -> Vec<Block> {
    if is_quiet && !blocks.is_empty() {
        vec![Block::Appendix {
            title: "Figures and warnings".into(),
            instead: None,
            blocks,
        }]
    } else {
        blocks
    }
}

fn heading(text: &str) -> Block {
    Block::Heading {
        level: 2,
        text: text.into(),
    }
}

/// What the columns of the figures are.
fn explanation(figures: &[SnippetFigures]) -> String {
    let in_shell = figures.iter().any(|one| one.shell_ns.is_some());
    let shell = if in_shell { SHELL } else { "" };
    format!("{EXPLANATION}{shell}")
}

/// The report of snippets at several numbers of workers.
pub fn search(levels: &[SnippetLevels], findings: &Findings, output: &Output) -> Document {
    let mut document = Document::new("code");
    for one in levels {
        let noise = one.scaling.as_ref();
        let noise = noise.and_then(|known| scaling::noise_warning(&one.label, known, "visits"));
        document.extend(noise.map(Block::Warning));
    }
    document.push_warnings(&findings.warnings);
    for one in levels {
        if let Some(known) = &one.scaling {
            document.push(Block::Headline(scaling::headline(&one.label, known, None)));
        }
        document.push(Block::Table(levels_table(one)));
        output.add_detail(&mut document, |_, document| {
            let law = one.scaling.as_ref().map(scaling::sentence);
            document.extend(law.map(Block::Note));
            let scaling = one.scaling.as_ref();
            let hindrance = scaling.and_then(|scaling| hindrance(&one.language, scaling));
            document.extend(hindrance.map(Block::Note));
        });
    }
    output.add_detail(&mut document, |_, document| {
        document.push(Block::Note(SEARCHED.into()));
    });
    document.append(failures(&findings.failures, output.verbosity));
    for one in levels {
        if let Some(known) = &one.scaling {
            let chart = scaling::throughput_chart(&one.label, known, "iterations per second");
            document.push_charts([chart]);
        }
    }
    let machines = levels
        .iter()
        .map(|one| scaling::for_machines("code", &one.label, one.scaling.as_ref()));
    document.attach("scaling", machines.collect());
    document
}

/// What names the locks that processes of Erlang wait for.
pub const ERLANG_LOCKS: &str = "lcnt names the lock that they wait for (an emulator that counts: erl -emu_type lcnt, then \
                                lcnt:collect() and lcnt:conflicts())";

/// A sentence where several workers give less than one: which tool finds what they wait for.
pub fn hindrance(language: &str, scaling: &Scaling) -> Option<String> {
    let hindered = scaling.hindered()?;
    let tool = match language {
        "erlang" | "elixir" => ERLANG_LOCKS,
        _ => {
            "perf lock contention names the lock that they wait for, and perf c2c the cache line that they share"
        }
    };
    Some(format!(
        "Workers hinder each other: {} of them give less than one alone. {tool}.",
        hindered.concurrency
    ))
}

/// `sum(range(10)): 231 ns [228, 236] an iteration (6 runs).` The throughput in the table is that of the mean, so it is no
/// other spelling of this time.
fn sentence(one: &SnippetFigures) -> String {
    let label = &one.label;
    let runs = crate::figure::count(one.runs, "run", "runs");
    let workers = match one.concurrency {
        Some(count) if count > 1 => format!(" with {count} workers"),
        _ => String::new(),
    };
    if let Some(time) = one.time_median_ns {
        let time = with_interval(&time);
        return format!("{label}: {time} an iteration{workers} ({runs}).");
    }
    let rate = one
        .per_s
        .map_or(String::new(), |per_s| format!(", {}", rate(per_s)));
    format!("{label}: too few iterations for a median{rate} ({runs}).")
}

/// `231 ns [228, 236]`; without an interval where there is none.
fn with_interval(time_ns: &Estimate) -> String {
    let scale = Scale::fitting("ns", &[time_ns.value], None);
    let place = scale.place(time_ns.value, uncertainty_of(time_ns));
    let value = scale.full(time_ns.value, place);
    if time_ns.low >= time_ns.high {
        return value;
    }
    let [low, high] = [time_ns.low, time_ns.high].map(|end| scale.bare(end, place));
    format!("{value} [{low}, {high}]")
}

fn time_cell(ns: Option<f64>) -> Cell {
    Cell::shown_figure(ns, |ns| quantity(ns, "ns", Uncertainty::Unknown))
}

fn rate(per_s: f64) -> String {
    quantity(per_s, "1/s", Uncertainty::Unknown)
}

fn table(figures: &[SnippetFigures]) -> Table {
    let with_workers = figures.iter().any(|one| one.concurrency.is_some());
    let with_cpu = figures.iter().any(|one| one.cpu_ns.is_some());
    columns(with_workers, with_cpu).table("codes", figures)
}

/// What the tables can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns(true, true).sort_keys()
}

fn columns(with_workers: bool, with_cpu: bool) -> Columns<SnippetFigures> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("code", "code", Kind::Label),
        |one: &SnippetFigures| Cell::words(one.label.clone()),
    );
    if with_workers {
        columns.add(Column::figure("concurrency", "workers"), |one| {
            Cell::count(one.concurrency.unwrap_or(1))
        });
    }
    add_figures(&mut columns);
    if with_cpu {
        columns.add(Column::figure("user_ns", "user").expendable(4), |one| {
            time_cell(one.cpu_ns.map(|cpu| cpu.0))
        });
        columns.add(Column::figure("system_ns", "system").expendable(4), |one| {
            time_cell(one.cpu_ns.map(|cpu| cpu.1))
        });
        columns.add(
            Column::figure("own_cpu_ns", "own cpu").expendable(4),
            |one| time_cell(one.own_cpu_ns),
        );
        columns.add(Column::figure("shell_ns", "shell").expendable(4), |one| {
            time_cell(one.shell_ns)
        });
    }
    columns.add(Column::words("is_folded", ""), |one| {
        let words = if one.is_folded { "folded away?" } else { "" };
        Cell::value(one.is_folded).shown(words)
    });
    columns
}

fn add_figures(columns: &mut Columns<SnippetFigures>) {
    columns.add(Column::figure("time_median_ns", "median"), |one| {
        let words = one
            .time_median_ns
            .map(|time| quantity(time.value, "ns", uncertainty_of(&time)));
        time_cell(one.time_median_ns.map(|time| time.value)).shown(words.unwrap_or_default())
    });
    columns.add_figure("time_median_low_ns", |one| Some(one.time_median_ns?.low));
    columns.add_figure("time_median_high_ns", |one| Some(one.time_median_ns?.high));
    columns.add(Column::figure("time_p5_ns", "p5").expendable(2), |one| {
        time_cell(one.time_p5_ns)
    });
    columns.add(Column::figure("time_ns", "mean"), |one| {
        time_cell(one.time_ns)
    });
    columns.add(Column::figure("throughput", "throughput"), |one| {
        Cell::shown_figure(one.per_s, rate)
    });
    columns.add(
        Column::figure("disturbance", "disturbance").expendable(1),
        |one| {
            Cell::shown_figure(one.disturbance, |ratio| {
                let mark = if ratio > MOST_DISTURBANCE { " !" } else { "" };
                format!("{ratio:.2}x{mark}")
            })
        },
    );
    columns.add(Column::figure("runs", "runs").expendable(3), |one| {
        Cell::count(one.runs as u64)
    });
}

/// A level and how it stands.
type Row = (SnippetFigures, Option<Standing>, bool);

fn levels_table(levels: &SnippetLevels) -> Table {
    let answer = levels.scaling.as_ref().map(|known| &known.answer);
    let knee = answer.map(|answer| answer.at_knee().concurrency);
    let row = |one: &SnippetFigures| -> Row {
        let same = |standing: &&Standing| Some(standing.concurrency) == one.concurrency;
        let standing = answer.and_then(|answer| answer.standings.iter().find(same));
        (one.clone(), standing.copied(), one.concurrency == knee)
    };
    let rows: Vec<Row> = levels.figures.iter().map(row).collect();
    level_columns().table("levels", &rows)
}

/// What the table of a search can be sorted by.
pub fn search_sort_keys() -> Vec<&'static str> {
    level_columns().sort_keys()
}

fn level_columns() -> Columns<Row> {
    let mut columns = Columns::new();
    columns.add(
        Column::figure("concurrency", "workers"),
        |(one, ..): &Row| Cell::count(one.concurrency.unwrap_or(1)),
    );
    columns.add(
        Column::figure("visits", "visits").expendable(2),
        |(one, ..)| Cell::count(one.runs as u64),
    );
    columns.add(
        Column::figure("throughput", "throughput"),
        |(one, standing, _)| {
            let words = standing.as_ref().map(scaling::throughput_with_error);
            Cell::figure(one.per_s).shown(words.unwrap_or_default())
        },
    );
    columns.add(
        Column::figure("change", "to the best before"),
        |(_, standing, _)| scaling::change_cell(standing.as_ref()),
    );
    columns.add(
        Column::figure("time_ns", "mean").expendable(1),
        |(one, ..)| time_cell(one.time_ns),
    );
    columns.add(Column::figure("time_median_ns", "median"), |(one, ..)| {
        time_cell(one.time_median_ns.map(|time| time.value))
    });
    columns.add(Column::words("standing", ""), |(_, standing, is_knee)| {
        scaling::standing_cell(standing.as_ref(), *is_knee)
    });
    columns
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
            time_median_ns: Some(Estimate {
                value: 5.4,
                low: 5.31,
                high: 5.52,
            }),
            time_p5_ns: None,
            // The mean says 8.26 ns, or 121 M/s of each worker: another estimate.
            time_ns: Some(8.26),
            per_s: Some(242e6),
            disturbance: Some(1.53),
            cpu_ns: None,
            own_cpu_ns: None,
            shell_ns: None,
            is_folded: false,
        };
        let expected = "f(x): 5.40 ns [5.31, 5.52] an iteration with 2 workers (6 runs).";
        assert_eq!(sentence(&one), expected);
        one.time_median_ns = None;
        let expected = "f(x): too few iterations for a median, 242 M/s (6 runs).";
        assert_eq!(sentence(&one), expected);
    }
}
