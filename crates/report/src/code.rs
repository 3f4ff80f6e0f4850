//! What pieces of code showed: the comparison if there are several, and the figures of each; or where throughput stops
//! growing as workers are added.
//!
//! Decides what is said where; what the figures mean is decided in `analysis`. Start at [`document`].

use super::output::{Output, Verbosity};
use super::{Uncertainty, failures};
use crate::document::{Block, Document};
use crate::figure::{quantity, uncertainty_of};
use crate::scaling;
use crate::table::{Cell, Column, Field, Kind, Table, keys, table_of};
use speedwell_analysis::Findings;
use speedwell_analysis::code::{CodeFigures, CodeLevels, MOST_DISTURBANCE};
use speedwell_analysis::scaling::Standing;

/// Said below the table of figures.
const EXPLANATION: &str = "median, p5: time of an iteration and worker in the median batch and in the one that a \
    twentieth is quicker than; mean: the same over all of the time; disturbance: mean divided by median.";

/// Added where commands were executed by a shell.
const SHELL: &str = " shell: what the shell takes to do nothing, which is part of all times, user and system included.";

/// Said below a search.
const SEARCHED: &str = "The answer is the lowest concurrency whose throughput is statistically indistinguishable from the highest. ± and [ ] \
    are 95 % intervals from the visits of all levels together, which were made in one process.";

/// The report of codes that were measured one by one or compared. `compared` is the document of the comparison.
pub fn document(
    figures: &[CodeFigures],
    warnings: &[String],
    findings: &Findings,
    compared: Option<Document>,
    output: &Output,
) -> Document {
    let mut document = Document::new("code");
    let is_quiet = output.verbosity == Verbosity::Quiet;
    let mut warned: Vec<Block> = warnings.iter().cloned().map(Block::Warning).collect();
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
            document.blocks.extend(sentences);
        }
    }
    document.blocks.extend(aside(figures_alone, is_quiet));
    if !is_quiet {
        document.push(Block::Note(explanation(figures)));
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
fn explanation(figures: &[CodeFigures]) -> String {
    let in_shell = figures.iter().any(|one| one.shell_ns.is_some());
    let shell = if in_shell { SHELL } else { "" };
    format!("{EXPLANATION}{shell}")
}

/// The report of codes at several numbers of workers.
pub fn search(levels: &[CodeLevels], findings: &Findings, output: &Output) -> Document {
    let mut document = Document::new("code");
    for one in levels {
        let noise = one.scaling.as_ref();
        let noise = noise.and_then(|known| scaling::noise_warning(&one.label, known, "visits"));
        document.blocks.extend(noise.map(Block::Warning));
    }
    for warning in &findings.warnings {
        document.push(Block::Warning(warning.clone()));
    }
    for one in levels {
        if let Some(known) = &one.scaling {
            document.push(Block::Headline(scaling::headline(&one.label, known, None)));
        }
        document.push(Block::Table(levels_table(one)));
        if output.verbosity != Verbosity::Quiet {
            let law = one.scaling.as_ref().map(scaling::sentence);
            document.blocks.extend(law.map(Block::Note));
        }
    }
    if output.verbosity != Verbosity::Quiet {
        document.push(Block::Note(SEARCHED.into()));
    }
    document.append(failures(&findings.failures, output.verbosity));
    for one in levels {
        if let Some(known) = &one.scaling {
            let chart = scaling::throughput_chart(&one.label, known, "iterations per second");
            document.push(Block::Chart(Box::new(chart)));
        }
    }
    let machines = levels
        .iter()
        .map(|one| scaling::for_machines("code", &one.label, one.scaling.as_ref()));
    document.attach("scaling", machines.collect());
    document
}

/// `sum(range(10)): 231 ns an iteration, 4.3 M/s (6 runs).`
fn sentence(one: &CodeFigures) -> String {
    let label = &one.label;
    let runs = crate::figure::count(one.runs, "run", "runs");
    let workers = match one.concurrency {
        Some(count) if count > 1 => format!(" with {count} workers"),
        _ => String::new(),
    };
    let rate = one
        .per_s
        .map(|per_s| quantity(per_s, "1/s", Uncertainty::Unknown));
    let rate = rate.map_or(String::new(), |rate| format!(", {rate}"));
    match one.time_median_ns {
        Some(time) => {
            let time = quantity(time.value, "ns", uncertainty_of(&time));
            format!("{label}: {time} an iteration{workers}{rate} ({runs}).")
        }
        None => format!("{label}: too few iterations for a median{rate} ({runs})."),
    }
}

fn time_cell(ns: Option<f64>, uncertainty: Uncertainty) -> Cell {
    let words = ns.map(|ns| quantity(ns, "ns", uncertainty));
    Cell::figure(ns).shown(words.unwrap_or_default())
}

fn table(figures: &[CodeFigures]) -> Table {
    let with_workers = figures.iter().any(|one| one.concurrency.is_some());
    let mut fields: Vec<Field<CodeFigures>> = vec![Field::new(
        Column::new("code", "code", Kind::Label),
        |one: &CodeFigures| Cell::words(one.label.clone()),
    )];
    if with_workers {
        fields.push(Field::new(
            Column::new("concurrency", "workers", Kind::Figure),
            |one: &CodeFigures| {
                let count = one.concurrency.unwrap_or(1);
                Cell::value(count).shown(count.to_string())
            },
        ));
    }
    fields.extend(figure_fields());
    if figures.iter().any(|one| one.cpu_ns.is_some()) {
        fields.extend(cpu_fields());
    }
    fields.push(Field::new(
        Column::new("is_folded", "", Kind::Words),
        |one: &CodeFigures| {
            let words = if one.is_folded { "folded away?" } else { "" };
            Cell::value(one.is_folded).shown(words)
        },
    ));
    table_of("codes", fields, figures)
}

/// What the tables can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    let mut all = vec!["code", "concurrency", "is_folded"];
    all.extend(keys(&figure_fields()));
    all.extend(keys(&cpu_fields()));
    all
}

fn figure_fields() -> Vec<Field<CodeFigures>> {
    let unknown = Uncertainty::Unknown;
    vec![
        Field::new(
            Column::new("time_median_ns", "median", Kind::Figure),
            |one: &CodeFigures| {
                let time = one.time_median_ns;
                let known = time.map_or(Uncertainty::Unknown, |time| uncertainty_of(&time));
                time_cell(time.map(|time| time.value), known)
            },
        ),
        Field::machine("time_median_low_ns", |one: &CodeFigures| {
            Cell::figure(one.time_median_ns.map(|time| time.low))
        }),
        Field::machine("time_median_high_ns", |one: &CodeFigures| {
            Cell::figure(one.time_median_ns.map(|time| time.high))
        }),
        Field::new(
            Column::new("time_p5_ns", "p5", Kind::Figure).expendable(2),
            move |one: &CodeFigures| time_cell(one.time_p5_ns, unknown),
        ),
        Field::new(
            Column::new("time_ns", "mean", Kind::Figure),
            move |one: &CodeFigures| time_cell(one.time_ns, unknown),
        ),
        Field::new(
            Column::new("throughput", "throughput", Kind::Figure),
            move |one: &CodeFigures| {
                let words = one.per_s.map(|per_s| quantity(per_s, "1/s", unknown));
                Cell::figure(one.per_s).shown(words.unwrap_or_default())
            },
        ),
        Field::new(
            Column::new("disturbance", "disturbance", Kind::Figure).expendable(1),
            |one: &CodeFigures| {
                let mark = |ratio: f64| if ratio > MOST_DISTURBANCE { " !" } else { "" };
                let words = one
                    .disturbance
                    .map(|ratio| format!("{ratio:.2}x{}", mark(ratio)));
                Cell::figure(one.disturbance).shown(words.unwrap_or_default())
            },
        ),
        Field::new(
            Column::new("runs", "runs", Kind::Figure).expendable(3),
            |one: &CodeFigures| Cell::value(one.runs).shown(one.runs.to_string()),
        ),
    ]
}

fn cpu_fields() -> [Field<CodeFigures>; 3] {
    let unknown = Uncertainty::Unknown;
    [
        Field::new(
            Column::new("user_ns", "user", Kind::Figure).expendable(4),
            move |one: &CodeFigures| time_cell(one.cpu_ns.map(|cpu| cpu.0), unknown),
        ),
        Field::new(
            Column::new("system_ns", "system", Kind::Figure).expendable(4),
            move |one: &CodeFigures| time_cell(one.cpu_ns.map(|cpu| cpu.1), unknown),
        ),
        Field::new(
            Column::new("shell_ns", "shell", Kind::Figure).expendable(4),
            move |one: &CodeFigures| time_cell(one.shell_ns, unknown),
        ),
    ]
}

/// A level and how it stands.
type Row = (CodeFigures, Option<Standing>, bool);

fn levels_table(levels: &CodeLevels) -> Table {
    let answer = levels.scaling.as_ref().map(|known| &known.answer);
    let knee = answer.map(|answer| answer.at_knee().concurrency);
    let row = |one: &CodeFigures| -> Row {
        let same = |standing: &&Standing| Some(standing.concurrency) == one.concurrency;
        let standing = answer.and_then(|answer| answer.standings.iter().find(same));
        (one.clone(), standing.copied(), one.concurrency == knee)
    };
    let rows: Vec<Row> = levels.figures.iter().map(row).collect();
    table_of("levels", level_fields(), &rows)
}

/// What the table of a search can be sorted by.
pub fn search_sort_keys() -> Vec<&'static str> {
    keys(&level_fields())
}

fn level_fields() -> Vec<Field<Row>> {
    let unknown = Uncertainty::Unknown;
    vec![
        Field::new(
            Column::new("concurrency", "workers", Kind::Figure),
            |(one, ..): &Row| {
                let count = one.concurrency.unwrap_or(1);
                Cell::value(count).shown(count.to_string())
            },
        ),
        Field::new(
            Column::new("visits", "visits", Kind::Figure).expendable(2),
            |(one, ..): &Row| Cell::value(one.runs).shown(one.runs.to_string()),
        ),
        Field::new(
            Column::new("throughput", "throughput", Kind::Figure),
            |(one, standing, _): &Row| {
                let words = standing.as_ref().map(scaling::throughput_with_error);
                Cell::figure(one.per_s).shown(words.unwrap_or_default())
            },
        ),
        Field::new(
            Column::new("change", "to the best before", Kind::Figure),
            |(_, standing, _): &Row| scaling::change_cell(standing.as_ref()),
        ),
        Field::new(
            Column::new("time_ns", "mean", Kind::Figure).expendable(1),
            move |(one, ..): &Row| time_cell(one.time_ns, unknown),
        ),
        Field::new(
            Column::new("time_median_ns", "median", Kind::Figure),
            move |(one, ..): &Row| time_cell(one.time_median_ns.map(|time| time.value), unknown),
        ),
        Field::new(
            Column::new("standing", "", Kind::Words),
            |(_, standing, is_knee): &Row| scaling::standing_cell(standing.as_ref(), *is_knee),
        ),
    ]
}
